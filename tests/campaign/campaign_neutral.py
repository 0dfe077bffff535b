"""Mutations of files that change nothing of what they say, and some that change it on purpose."""

from __future__ import annotations

import gzip
import io
import json
import re

from campaign_case import MEANINGFUL, NEUTRAL, Mutated
from campaign_mutation import DELIMITED, EVERY, MUTATIONS, SPACED, TEXT, Draft, joined, of_lines
from campaign_reader import ALIASES
from campaign_writer import pack, write

add = MUTATIONS.add
TABLES = ("trec", "tsv", "csv", "jsonl", "parquet", "wide")
RENAMED = {v: k for k, v in reversed(ALIASES.items())}


@add(NEUTRAL)
def nothing(draft: Draft) -> Mutated:
    return Mutated(draft.raw())


@add(NEUTRAL, TABLES)
def rows_in_another_order(draft: Draft) -> Mutated:
    draft.rng.shuffle(draft.table.rows)
    return Mutated(draft.raw())


@add(NEUTRAL, TEXT)
def windows_line_ends(draft: Draft) -> Mutated:
    return Mutated(joined(draft.lines(), "\r\n"))


@add(NEUTRAL, TEXT)
def no_last_line_end(draft: Draft) -> Mutated:
    return Mutated(draft.raw().rstrip(b"\n"))


@add(NEUTRAL, TEXT)
def blank_lines(draft: Draft) -> Mutated:
    lines = draft.lines()
    for _ in range(draft.rng.randint(1, 3)):
        lines.insert(draft.rng.randint(0, len(lines)), "")
    return of_lines(lines)


@add(NEUTRAL, TEXT)
def byte_order_mark_first(draft: Draft) -> Mutated:
    return Mutated(b"\xef\xbb\xbf" + draft.raw())


@add(NEUTRAL, SPACED)
def other_blanks(draft: Draft) -> Mutated:
    blank = draft.rng.choice(["\t", "  ", " \t ", "\t\t"])
    return of_lines([re.sub("[ \t]+", blank, line) for line in draft.lines()])


@add(NEUTRAL, SPACED)
def blanks_around_lines(draft: Draft) -> Mutated:
    return of_lines([f"{draft.rng.choice(['', ' ', chr(9)])}{line} " for line in draft.lines()])


@add(NEUTRAL, TEXT, packs=True)
def packed_in_parts(draft: Draft) -> Mutated:
    raw = draft.raw()
    cut = draft.rng.randrange(len(raw))
    return Mutated(pack(raw[:cut]) + pack(raw[cut:]))


@add(NEUTRAL, TEXT, packs=True)
def packed_with_a_name(draft: Draft) -> Mutated:
    sink = io.BytesIO()
    with gzip.GzipFile("other.txt", "wb", fileobj=sink, mtime=1) as stream:
        stream.write(draft.raw())
    return Mutated(sink.getvalue())


@add(NEUTRAL, ("tsv", "csv", "jsonl", "parquet", "wide"))
def columns_in_another_order(draft: Draft) -> Mutated:
    order = draft.rng.sample(range(len(draft.table.columns)), len(draft.table.columns))
    draft.table.rows = [[row[i] for i in order] for row in draft.table.rows]
    draft.table.columns = [draft.table.columns[i] for i in order]
    return Mutated(draft.raw())


@add(NEUTRAL, ("tsv", "csv", "jsonl", "parquet"), ("run", "qrels", "groups", "answers"))
def a_further_column(draft: Draft) -> Mutated:
    draft.table.columns.append("note")
    for row in draft.table.rows:
        row.append(draft.rng.choice(["x", "", "1", "a b"]))
    return Mutated(draft.raw())


@add(NEUTRAL, ("tsv", "csv", "jsonl", "parquet"), ("run", "qrels"))
def names_of_other_tools(draft: Draft) -> Mutated:
    draft.table.columns = [RENAMED.get(name, name) for name in draft.table.columns]
    return Mutated(draft.raw())


@add(NEUTRAL, DELIMITED)
def every_field_quoted(draft: Draft) -> Mutated:
    rows = [draft.table.columns, *draft.table.rows]
    quoted = [['"' + str(v).replace('"', '""') + '"' for v in row] for row in rows]
    return of_lines([draft.separator().join(row) for row in quoted])


@add(NEUTRAL, ("jsonl",))
def keys_in_another_order(draft: Draft) -> Mutated:
    lines = []
    for line in draft.lines():
        items = list(json.loads(line).items())
        draft.rng.shuffle(items)
        spaced = draft.rng.choice([(",", ":"), (", ", ": "), (" ,\t", " : ")])
        lines.append(json.dumps(dict(items), separators=spaced))
    return of_lines(lines)


@add(NEUTRAL, ("trec",), ("run",))
def without_the_tag(draft: Draft) -> Mutated:
    return of_lines([line.rpartition(" ")[0] for line in draft.lines()])


@add(NEUTRAL, ("trec",), ("qrels",))
def without_the_iteration(draft: Draft) -> Mutated:
    return of_lines([line.replace(" 0 ", " ", 1) for line in draft.lines()])


@add(NEUTRAL, ("trec", "tsv", "csv"), ("run", "qrels"))
def numbers_written_otherwise(draft: Draft) -> Mutated:
    at = [i for i, name in enumerate(draft.table.columns) if name in ("score", "label")]
    for row in draft.table.rows:
        for i in at:
            form = draft.rng.choice(["{}0", "{}e0", "{}", "{}0E+00"])
            row[i] = form.format(float(row[i]))
    return Mutated(draft.raw())


@add(NEUTRAL, TABLES, ("run",))
def ranks_with_gaps(draft: Draft) -> Mutated:
    at = draft.table.columns.index("rank")
    factor, start = draft.rng.randint(2, 9), draft.rng.randint(0, 50)
    for row in draft.table.rows:
        row[at] = row[at] * factor + start
    return Mutated(draft.raw())


@add(NEUTRAL, TABLES, ("run",))
def scores_on_another_scale(draft: Draft) -> Mutated:
    at = draft.table.columns.index("score")
    factor, shift = draft.rng.choice([0.5, 2.0, 64.0]), draft.rng.choice([0.0, -16.0, 8.0])
    for row in draft.table.rows:
        row[at] = row[at] * factor + shift
    return Mutated(draft.raw())


@add(NEUTRAL, TABLES, ("run",))
def samples_renumbered(draft: Draft) -> Mutated | None:
    if "sample" not in draft.table.columns:
        return None
    at = draft.table.columns.index("sample")
    names = {s: s * 7 + 3 for s in {row[at] for row in draft.table.rows}}
    words = draft.form in ("trec", "tsv", "csv") and draft.rng.random() < 0.5
    for row in draft.table.rows:
        row[at] = f"Q{names[row[at]]}" if words else names[row[at]]
    return Mutated(draft.raw())


@add(NEUTRAL, ("task",), ("run",))
def a_task_file_without_header(draft: Draft) -> Mutated | None:
    ids = [str(row[i]) for row in draft.table.rows for i in (0, -1)]
    draft.header = False
    first = draft.lines()[0].split("\t")
    return Mutated(draft.raw()) if ids and all(f.isdigit() for f in first) else None


@add(NEUTRAL, ("parquet",))
def parquet_written_otherwise(draft: Draft) -> Mutated:
    import pyarrow
    import pyarrow.parquet

    columns = {}
    for name in draft.table.columns:
        array = pyarrow.array(draft.table.column(name))
        kinds = {"string": [pyarrow.large_string(), None], "int64": [pyarrow.int32()]}
        other = draft.rng.choice([*kinds.get(str(array.type), []), array.type])
        columns[name] = array.dictionary_encode() if other is None else array.cast(other)
    sink = io.BytesIO()
    packing = draft.rng.choice(["snappy", "gzip", "none", "zstd"])
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, sink, compression=packing, row_group_size=2)
    return Mutated(sink.getvalue())


@add(NEUTRAL, ("parquet",))
def parquet_with_an_index_of_pandas(draft: Draft) -> Mutated:
    import pandas as pd

    frame = pd.DataFrame(dict(enumerate(zip(*draft.table.rows, strict=True))))
    frame.columns = pd.Index(draft.table.columns)
    frame.index = frame.index[::-1] * 3
    sink = io.BytesIO()
    frame.to_parquet(sink)
    return Mutated(sink.getvalue())


# What changes the meaning -----------------------------------------------------------------------


@add(MEANINGFUL, EVERY)
def a_row_is_gone(draft: Draft) -> Mutated | None:
    if len(draft.table.rows) < 2:
        return None
    del draft.table.rows[draft.rng.randrange(len(draft.table.rows))]
    return Mutated(draft.raw())


@add(MEANINGFUL, EVERY)
def the_end_is_gone(draft: Draft) -> Mutated:
    del draft.table.rows[draft.rng.randrange(1, len(draft.table.rows) + 1) :]
    return Mutated(draft.raw())


@add(MEANINGFUL, EVERY)
def a_value_of_another_row(draft: Draft) -> Mutated:
    rows = draft.table.rows
    column = draft.rng.randrange(len(draft.table.columns))
    one, two = draft.rng.choice(rows), draft.rng.choice(rows)
    one[column] = two[column]
    return Mutated(draft.raw())


@add(MEANINGFUL, EVERY)
def two_values_change_places(draft: Draft) -> Mutated:
    rows = draft.table.rows
    column = draft.rng.randrange(len(draft.table.columns))
    one, two = draft.rng.choice(rows), draft.rng.choice(rows)
    one[column], two[column] = two[column], one[column]
    return Mutated(draft.raw())


@add(MEANINGFUL, EVERY)
def another_id(draft: Draft) -> Mutated | None:
    at = [i for i, name in enumerate(draft.table.columns) if name in ("qid", "docno", "group")]
    if not at:
        return None
    row, column = draft.rng.choice(draft.table.rows), draft.rng.choice(at)
    row[column] = draft.rng.choice([f"{row[column]}x", f"0{row[column]}", "other", "NULL"])
    return Mutated(draft.raw())


@add(MEANINGFUL, TABLES, ("run", "qrels", "groups", "target"))
def another_number(draft: Draft) -> Mutated | None:
    names = ("score", "label", "weight", "rank")
    at = [i for i, name in enumerate(draft.table.columns) if name in names]
    if not at:
        return None
    row, column = draft.rng.choice(draft.table.rows), draft.rng.choice(at)
    row[column] = type(row[column])(draft.rng.choice([0, 1, 2, 3, 7, 0.5, 0.25]))
    return Mutated(draft.raw())


@add(MEANINGFUL, TEXT)
def lines_change_places(draft: Draft) -> Mutated:
    lines = draft.lines()
    one, two = draft.a_line(lines), draft.a_line(lines)
    lines[one], lines[two] = lines[two], lines[one]
    return of_lines(lines)


@add(MEANINGFUL, EVERY, ("run", "answers"))
def samples_are_lost(draft: Draft) -> Mutated | None:
    if "sample" not in draft.table.columns:
        return None
    draft.table = draft.table.without("sample")
    return Mutated(draft.raw())


@add(MEANINGFUL, EVERY)
def no_rows(draft: Draft) -> Mutated | None:
    if draft.form == "parquet":
        return None
    draft.table.rows = []
    return Mutated(write(draft.kind, draft.form, draft.table))
