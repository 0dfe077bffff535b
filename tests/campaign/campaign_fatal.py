"""Mutations of files that no reader may take."""

from __future__ import annotations

import gzip
import io

from campaign_case import FATAL, Mutated
from campaign_mutation import DELIMITED, MUTATIONS, TEXT, Draft, of_lines
from campaign_writer import pack

add = MUTATIONS.add
WITH_IDS = ("run", "qrels", "groups", "answers", "gold")
NUMBERED = ("run", "qrels", "groups", "target")


@add(FATAL, ("trec", "task", "tsv", "csv", "wide"))
def a_line_without_a_field(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    least = {"run": 2, "qrels": 2}.get(draft.kind, 1) if draft.form == "trec" else 1
    lines[at] = draft.separator().join(lines[at].split(draft.separator())[:-least])
    if not lines[at]:
        lines[at] = "x"
    only = len(lines) - draft.first > 1 and at > 0
    return of_lines(lines, at if only else None)


@add(FATAL, ("trec", "task", "tsv", "csv", "wide"))
def a_line_with_a_further_field(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    lines[at] += draft.separator() + "more"
    return of_lines(lines, at if at > 0 else None)


@add(FATAL, ("trec", "tsv", "csv", "wide"))
def a_further_field_in_every_line(draft: Draft) -> Mutated:
    lines = draft.lines()
    for at in range(draft.first, len(lines)):
        lines[at] += draft.separator() + "0.5"
    return of_lines(lines)


@add(FATAL, DELIMITED)
def a_second_header(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    lines.insert(at, lines[0])
    return of_lines(lines, at)


@add(FATAL, DELIMITED)
def a_column_twice(draft: Draft) -> Mutated:
    name = draft.rng.choice(draft.table.columns)
    draft.table.columns.append(name)
    for row in draft.table.rows:
        row.append(row[draft.table.columns.index(name)])
    return Mutated(draft.raw())


@add(FATAL, ("tsv", "csv", "jsonl", "parquet"))
def a_needed_column_is_gone(draft: Draft) -> Mutated:
    needed = {
        "run": ("qid", "docno", "score"), "qrels": ("qid", "docno", "label"),
        "groups": ("docno", "group"), "target": ("group", "weight"),
        "answers": ("qid", "qanswer"), "gold": ("qid", "gold_answer"),
    }[draft.kind]  # fmt: skip
    draft.table = draft.table.without(draft.rng.choice(needed))
    return Mutated(draft.raw())


@add(FATAL, TEXT)
def a_byte_that_is_no_text(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    place = draft.rng.randint(1, max(1, len(lines[at]) - 1))
    raw = [line.encode() for line in lines]
    one = lines[at]
    raw[at] = (
        one[:place].encode()
        + draft.rng.choice([b"\xff", b"\xc3", b"\xed\xa0\x80"])
        + (one[place:].encode())
    )
    return Mutated(b"".join(line + b"\n" for line in raw), at + 1)


@add(FATAL, TEXT)
def utf_16(draft: Draft) -> Mutated:
    return Mutated(draft.raw().decode().encode("utf-16"))


@add(FATAL, TEXT)
def a_nul(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    place = draft.rng.randint(1, max(1, len(lines[at]) - 1))
    lines[at] = lines[at][:place] + "\0" + lines[at][place:]
    return of_lines(lines, at)


@add(FATAL, TEXT)
def a_byte_order_mark_inside(draft: Draft) -> Mutated:
    """As in files that were joined."""
    lines = draft.lines()
    if len(lines) - draft.first < 2:
        lines *= 2
    at = draft.rng.randrange(max(draft.first, 1), len(lines))
    lines[at] = "\ufeff" + lines[at]
    return of_lines(lines, at)


@add(FATAL, DELIMITED)
def a_stray_quote(draft: Draft) -> Mutated:
    lines = draft.lines()
    at = draft.a_line(lines)
    fields = lines[at].split(draft.separator())
    place = draft.rng.randrange(len(fields))
    if fields[place].startswith('"'):
        return of_lines([*lines, '"'])
    fields[place] = '"' + fields[place]
    lines[at] = draft.separator().join(fields)
    return of_lines(lines)


@add(FATAL, DELIMITED, WITH_IDS)
def two_quotes_that_swallow_rows(draft: Draft) -> Mutated | None:
    lines = draft.lines()
    if len(lines) - draft.first < 3:
        return None
    at = draft.rng.randrange(draft.first, len(lines) - 1)
    until = draft.rng.randrange(at + 1, len(lines))
    one, two = (lines[i].split(draft.separator()) for i in (at, until))
    if any('"' in line for line in lines):
        return None
    place = draft.table.columns.index("docno" if "docno" in draft.table.columns else "qid")
    one[place], two[place] = '"' + one[place], two[place] + '"'
    lines[at], lines[until] = draft.separator().join(one), draft.separator().join(two)
    return of_lines(lines)


@add(FATAL, TEXT, packs=True)
def damaged_gzip(draft: Draft) -> Mutated:
    raw = bytearray(pack(draft.raw()))
    how = draft.rng.randrange(5)
    if how == 0:
        return Mutated(bytes(raw[: draft.rng.randrange(3, len(raw) - 1)]))
    if how == 1:
        raw[-draft.rng.randint(1, 8)] ^= 0xFF  # checksum or length
    elif how == 2:
        return Mutated(bytes(raw) + b"more")
    elif how == 3:
        raw[2] = 7  # no such method
    else:
        raw[-6] ^= 0x10
    return Mutated(bytes(raw))


@add(FATAL, ("parquet",))
def damaged_parquet(draft: Draft) -> Mutated:
    raw = bytearray(draft.raw())
    how = draft.rng.randrange(6)
    if how == 0:
        return Mutated(bytes(raw[: draft.rng.randrange(4, len(raw) - 1)]))
    if how == 1:
        return Mutated(b"PAR1")
    if how == 2:
        return Mutated(b"PAR1" + draft.rng.randbytes(200) + b"PAR1")
    if how == 3:
        raw[-8:-4] = (2**31 - 1).to_bytes(4, "little")
    elif how == 4:
        raw[-8:-4] = (0).to_bytes(4, "little")
    else:
        raw[-4:] = b"XXXX"
    return Mutated(bytes(raw))


@add(FATAL, ("parquet",), ("run", "qrels", "groups", "target"))
def parquet_columns_of_other_types(draft: Draft) -> Mutated:
    import pyarrow
    import pyarrow.parquet

    name = draft.rng.choice([n for n in draft.table.columns if n not in ("sample", "rank")])
    n = len(draft.table.rows)
    other = draft.rng.choice([
        [[1.0]] * n, [{"a": 1}] * n, [b"\xff\xfe"] * n, [None] * n, [["x", "y"]] * n,
    ])  # fmt: skip
    if name == "group" and other[0] is None:
        other = [[1.0]] * n
    columns = {c: pyarrow.array(draft.table.column(c)) for c in draft.table.columns}
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({**columns, name: pyarrow.array(other)}), sink)
    return Mutated(sink.getvalue())


@add(FATAL, ("tsv", "csv", "jsonl", "trec"), packs=True)
def a_bomb(draft: Draft) -> Mutated | None:
    """48 MiB without a line break: stands for gigabytes, which take the time of many cases."""
    if draft.rng.random() > 0.15:
        return None
    sink = io.BytesIO()
    with gzip.GzipFile("", "wb", 1, sink, 0) as stream:
        stream.write(draft.raw())
        for _ in range(48):
            stream.write(b"x" * (1 << 20))
    return Mutated(sink.getvalue())
