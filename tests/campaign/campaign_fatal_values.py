"""Mutations of values, and of JSON, that no reader may take."""

from __future__ import annotations

import json

from campaign_case import FATAL, Mutated
from campaign_mutation import EVERY, MUTATIONS, TEXT, Draft, of_lines

add = MUTATIONS.add
WITH_IDS = ("run", "qrels", "groups", "answers", "gold")
NUMBERED = ("run", "qrels", "groups", "target")
NO_NUMBER = (
    "abc", "1_000", "\u0661\u0662", "\uff11", "0x10", "1,5", "1e", "--1", "nan", "inf", "-Infinity",
    "1e999", "\u00bd", "1 000", "True",
)  # fmt: skip
NO_INTEGER = ("1.5", "abc", "1_0", "\u0663", "\uff12", "nan", "1e400", "", "9" * 30)
NESTED = 200_000


def _with_value(draft: Draft, names: tuple[str, ...], values: tuple[object, ...]) -> Mutated | None:
    at = [i for i, name in enumerate(draft.table.columns) if name in names]
    if not at:
        return None
    row, column = draft.rng.randrange(len(draft.table.rows)), draft.rng.choice(at)
    value = draft.rng.choice(values)
    if value == "" and draft.form == "trec":
        value = "abc"
    if draft.form == "trec" and " " in str(value):
        value = "1_000"
    draft.table.rows[row][column] = value
    if draft.form == "parquet":
        for other in draft.table.rows:  # a column has one type
            other[column] = None if other[column] is None else str(other[column])
    text = draft.form in TEXT
    return Mutated(draft.raw(), row + draft.first + 1 if text else None)


@add(FATAL, ("trec", "tsv", "csv", "jsonl", "wide"), NUMBERED)
def what_is_no_number(draft: Draft) -> Mutated | None:
    return _with_value(draft, ("score", "label", "weight"), NO_NUMBER)


@add(FATAL, ("trec", "tsv", "csv", "jsonl"), ("run",))
def what_is_no_rank(draft: Draft) -> Mutated | None:
    return _with_value(draft, ("rank",), NO_INTEGER)


@add(FATAL, ("tsv", "csv", "jsonl", "parquet"), WITH_IDS)
def an_empty_id(draft: Draft) -> Mutated | None:
    return _with_value(draft, ("qid", "docno"), ("",))


@add(FATAL, ("tsv", "csv", "jsonl", "parquet"), WITH_IDS)
def spaces_around_an_id(draft: Draft) -> Mutated | None:
    names = [n for n in ("qid", "docno") if n in draft.table.columns]
    old = str(draft.table.rows[0][draft.table.columns.index(names[0])])
    return _with_value(draft, (names[0],), (f" {old}", f"{old} "))


@add(FATAL, ("jsonl", "parquet"), WITH_IDS)
def an_id_that_is_none(draft: Draft) -> Mutated | None:
    if draft.form == "parquet":
        return _with_value(draft, ("qid", "docno"), (None,))
    return _with_value(draft, ("qid", "docno"), (None, True, ["q1"], {"a": 1}, 1.5))


@add(FATAL, EVERY, ("run", "qrels", "groups", "answers"))
def a_row_twice(draft: Draft) -> Mutated:
    rows = draft.table.rows
    rows.append(list(draft.rng.choice(rows)))
    text = draft.form in TEXT
    return Mutated(draft.raw(), len(rows) + draft.first if text else None)


@add(FATAL, ("trec", "tsv", "csv"), ("run",))
def samples_and_a_word(draft: Draft) -> Mutated | None:
    if "sample" not in draft.table.columns:
        return None
    at = draft.table.columns.index("sample")
    row = draft.rng.randrange(1, len(draft.table.rows))
    draft.table.rows[row][at] = draft.rng.choice(["Q0", "x", "-1", "1.5"])
    return Mutated(draft.raw(), row + draft.first + 1)


@add(FATAL, ("jsonl",))
def broken_json(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.rng.randrange(1, len(lines)) if len(lines) > 1 else 0
    whole = lines[at]
    broken = [
        whole[:-1], whole[1:], whole + "}", whole.replace(":", "", 1), f"[{whole}]", "7", "null",
        '"text"', whole[:-1] + ",}", whole.replace('"', "'"), whole + whole,
    ]  # fmt: skip
    lines[at] = draft.rng.choice(broken)
    return of_lines(lines, at if at else None)


@add(FATAL, ("jsonl",))
def json_with_another_key(draft: Draft) -> Mutated | None:
    lines = draft.lines()
    if len(lines) < 2:
        return None
    at = draft.rng.randrange(1, len(lines))
    record = json.loads(lines[at])
    if draft.rng.random() < 0.5:
        record["more"] = 1
    else:
        del record[draft.rng.choice(list(record))]
    lines[at] = json.dumps(record)
    return of_lines(lines, at)


@add(FATAL, ("jsonl",))
def json_with_a_key_twice(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    name = draft.rng.choice(draft.table.columns)
    lines[at] = lines[at][:-1] + f', "{name}": 1}}'
    return of_lines(lines, at)


@add(FATAL, ("jsonl",))
def json_nested_deep(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    deep = draft.rng.choice(["[" * NESTED + "]" * NESTED, '{"a":' * NESTED + "1" + "}" * NESTED])
    lines[at] = lines[at][:-1] + f', "more": {deep}}}'
    return of_lines(lines, at if len(lines) == 1 else None)


@add(FATAL, ("jsonl",), NUMBERED)
def an_integer_of_5000_digits(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    record = json.loads(lines[at])
    name = draft.rng.choice([n for n in record if n in ("score", "label", "weight", "rank")] or
                            ["docno" if "docno" in record else "group"])  # fmt: skip
    record[name] = "@"
    lines[at] = json.dumps(record).replace('"@"', "1" * 5000)
    return of_lines(lines, at)


@add(FATAL, ("jsonl",), ("run", "qrels", "groups"))
def a_lone_surrogate(draft: Draft) -> Mutated:
    row = draft.rng.randrange(len(draft.table.rows))
    draft.table.rows[row][draft.table.columns.index("docno")] = "@"
    return Mutated(draft.raw().replace(b'"@"', b'"\\ud800x"'), row + 1)


@add(FATAL, ("jsonl",), ("run", "qrels", "groups"))
def an_escaped_nul(draft: Draft) -> Mutated:
    row = draft.rng.randrange(len(draft.table.rows))
    draft.table.rows[row][draft.table.columns.index("docno")] = "@"
    return Mutated(draft.raw().replace(b'"@"', b'"d\\u0000"'), row + 1)


@add(FATAL, ("tsv", "csv", "parquet"), ("groups", "target"))
def a_weight_below_zero(draft: Draft) -> Mutated | None:
    if "weight" not in draft.table.columns:
        return None
    row = draft.rng.randrange(len(draft.table.rows))
    draft.table.rows[row][draft.table.columns.index("weight")] = -0.5
    return Mutated(draft.raw(), None if draft.form == "parquet" else row + 2)


@add(FATAL, ("tsv", "csv", "wide"), ("target",))
def shares_that_do_not_sum_to_1(draft: Draft) -> Mutated:
    row = draft.rng.randrange(len(draft.table.rows))
    draft.table.rows[row][-1] += 0.25
    return Mutated(draft.raw())
