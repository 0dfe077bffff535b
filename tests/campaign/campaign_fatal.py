"""Mutations of files, and of both files and frames, that must be refused."""

from __future__ import annotations

import json

from campaign_case import FATAL
from campaign_mutations import DELIMITED, EVERY, TEXT, Draft, Mutated, add
from campaign_reader import NEEDED
from campaign_world import NAMED, joined, pack

WITH_IDS = ("run", "qrels", "groups")
WITH_NUMBERS = ("run", "qrels", "groups", "target")
NOT_NUMBERS = (
    "abc", "1_000", "\u0661\u0662", "\uff11", "0x10", "1,5", "1e", "--1", "nan", "inf", "1e999",
)  # fmt: skip
NOT_INTEGERS = ("1.5", "abc", "1_0", "\u0663", "nan", "1e400", "9" * 30)


def _of_lines(lines: list[str], index: int | None) -> Mutated:
    """Return mutated lines; a fault of the first one may be noticed in the second."""
    return Mutated(joined(lines), index + 1 if index else None)


@add(FATAL, ("trec", "task", *DELIMITED))
def a_missing_field(draft: Draft) -> Mutated:
    lines = draft.lines()
    index = draft.a_line(lines)
    n_missing = 2 if draft.form == "trec" else 1  # one may be left out in every line
    fields = lines[index].split(draft.separator)[:-n_missing]
    lines[index] = draft.separator.join(fields) or "x"
    return _of_lines(lines, index if len(lines) - draft.first > 1 else None)


@add(FATAL, ("trec", "task", *DELIMITED))
def another_field(draft: Draft) -> Mutated:
    lines = draft.lines()
    index = draft.a_line(lines)
    lines[index] += draft.separator + "more"
    return _of_lines(lines, index)


@add(FATAL, DELIMITED)
def a_second_header(draft: Draft) -> Mutated:
    lines = draft.lines()
    index = draft.a_line(lines)
    return _of_lines([*lines[:index], lines[0], *lines[index:]], index)


@add(FATAL, (*DELIMITED, "frame"))
def a_duplicate_column(draft: Draft) -> Mutated:
    columns = draft.table.columns
    name = draft.rng.choice(columns)
    draft.table = draft.table.select([*columns, name])
    return draft.done(None, name)


@add(FATAL, (*NAMED, "frame"))
def a_missing_column(draft: Draft) -> Mutated:
    name = draft.rng.choice(NEEDED[draft.kind])
    draft.table = draft.table.without(name)
    return draft.done(None, name)


@add(FATAL, TEXT)
def not_utf_8(draft: Draft) -> Mutated:
    lines = draft.lines()
    index = draft.a_line(lines)
    lines[index] = lines[index][:1] + "@@@" + lines[index][1:]
    return Mutated(joined(lines).replace(b"@@@", b"\xe9"), index + 1)


@add(FATAL, TEXT)
def utf_16(draft: Draft) -> Mutated:
    return Mutated(draft.raw().decode().encode("utf-16"))


@add(FATAL, TEXT)
def a_byte_order_mark_inside(draft: Draft) -> Mutated:
    """As in files that were joined."""
    lines = draft.lines()
    lines += lines[draft.first :]
    index = draft.rng.randrange(1, len(lines))
    lines[index] = "\ufeff" + lines[index]
    return Mutated(joined(lines), index + 1)


@add(FATAL, (*TEXT, "parquet"), is_final=True)
def a_broken_download(draft: Draft) -> Mutated:
    raw = draft.raw() if draft.form == "parquet" else pack(draft.raw())
    return Mutated(raw[: draft.rng.randrange(4, len(raw) - 1)])


# Values -------------------------------------------------------------------------------------------


def _with_value(draft: Draft, names: tuple[str, ...], values: tuple[object, ...]) -> Mutated | None:
    columns = draft.columns(*names)
    if not columns:
        return None
    index, column = draft.a_row(), draft.rng.choice(columns)
    draft.table.rows[index][column] = draft.rng.choice(values)
    if draft.form == "parquet":
        for row in draft.table.rows:  # a column has one type
            row[column] = None if row[column] is None else str(row[column])
    return draft.done(index)


@add(FATAL, ("trec", "tsv", "csv", "jsonl", "wide"), *WITH_NUMBERS)
def not_a_number(draft: Draft) -> Mutated | None:
    return _with_value(draft, ("score", "label", "weight"), NOT_NUMBERS)


@add(FATAL, ("trec", "tsv", "csv", "jsonl"), "run")
def not_a_rank(draft: Draft) -> Mutated | None:
    return _with_value(draft, ("rank",), NOT_INTEGERS)


@add(FATAL, NAMED, *WITH_IDS)
def an_empty_id(draft: Draft) -> Mutated | None:
    return _with_value(draft, ("qid", "docno"), ("", " x", "x "))


@add(FATAL, ("jsonl", "parquet"), *WITH_IDS)
def not_an_id(draft: Draft) -> Mutated | None:
    values = (None,) if draft.form == "parquet" else (None, True, ["q1"], {"a": 1}, 1.5)
    return _with_value(draft, ("qid", "docno"), values)


@add(FATAL, ("tsv", "csv", "parquet", "frame"), "groups", "target")
def a_negative_weight(draft: Draft) -> Mutated | None:
    if "weight" not in draft.table.columns:
        return None
    index = draft.a_row()
    draft.table.rows[index][draft.table.columns.index("weight")] = -0.5
    return draft.done(index, "weight")


@add(FATAL, ("tsv", "csv", "wide"), "target")
def shares_that_do_not_sum_to_1(draft: Draft) -> Mutated:
    draft.table.rows[draft.a_row()][-1] += 0.25
    return draft.done()


@add(FATAL, EVERY, "run", "groups", "topics")  # of labels, one is dropped
def a_row_twice(draft: Draft) -> Mutated:
    rows = draft.table.rows
    rows.append(list(rows[draft.a_row()]))
    return draft.done(len(rows) - 1, *NEEDED[draft.kind][:2])


@add(FATAL, ("trec", "tsv", "csv"), "run")
def samples_and_a_word(draft: Draft) -> Mutated | None:
    columns = draft.columns("sample")
    if not columns:
        return None
    index = draft.rng.randrange(1, len(draft.table.rows))
    draft.table.rows[index][columns[0]] = draft.rng.choice(["Q0", "x", "-1", "1.5"])
    return draft.done(index)


# JSON ---------------------------------------------------------------------------------------------


@add(FATAL, ("jsonl",))
def broken_json(draft: Draft) -> Mutated:
    lines = draft.lines()
    index = draft.a_line(lines)
    line = lines[index]
    lines[index] = draft.rng.choice([
        line[:-1], line[1:], line.replace(":", "", 1), f"[{line}]", "7", line[:-1] + ",}",
        line.replace('"', "'"), line + line,
    ])  # fmt: skip
    return _of_lines(lines, index)


@add(FATAL, ("jsonl",))
def other_keys(draft: Draft) -> Mutated | None:
    lines = draft.lines()
    index = draft.a_line(lines)
    if index == 0:
        return None
    record = json.loads(lines[index])
    if draft.rng.random() < 0.5:
        record["more"] = 1
    else:
        del record[draft.rng.choice(list(record))]
    lines[index] = json.dumps(record)
    return _of_lines(lines, index)


@add(FATAL, ("jsonl",))
def a_duplicate_key(draft: Draft) -> Mutated:
    lines = draft.lines()
    index = draft.a_line(lines)
    lines[index] = lines[index][:-1] + f', "{draft.rng.choice(draft.table.columns)}": 1}}'
    return _of_lines(lines, index)
