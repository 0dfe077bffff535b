"""Mutations of files and frames: those that keep the meaning, and those that change it."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from campaign_case import MEANINGFUL, NEUTRAL
from campaign_reader import ALIASES
from campaign_world import FORMS, NAMED, Table, joined, pack, write

TEXT = ("trec", "task", "tsv", "csv", "jsonl", "wide")
SPACED = ("trec", "task")
DELIMITED = ("tsv", "csv", "wide")
TABLES = ("trec", "tsv", "csv", "jsonl", "parquet", "wide", "frame")
EVERY = (*TEXT, "parquet", "frame")
RENAMED = {v: k for k, v in reversed(ALIASES.items())}
CHARACTERS = "0123456789abdqQx.,;:-+_\"'{}[]()<>|/\\#@%&*=~!? \t\n"


@dataclass
class Mutated:
    """Mutated input.

    Attributes:
        raw: the bytes of a file, or a frame.
        line: the only wrong line of a file, if there is only one.
        columns: the wrong columns of a frame; who does not read them need not refuse it.
        ids: the ids of the wrong row of a frame; a message must name one of them.
    """

    raw: Any
    line: int | None = None
    columns: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass
class Draft:
    """A file or frame before it is written."""

    kind: str
    form: str
    table: Table
    rng: random.Random

    def raw(self) -> Any:
        """Return the file's bytes, not packed, or the frame."""
        if self.form == "frame":
            return pd.DataFrame(self.table.rows, columns=self.table.columns)
        return write(self.kind, self.form, self.table)

    def done(self, row: int | None = None, *columns: str) -> Mutated:
        """Return the written input; `row` is the index of the only wrong row."""
        if self.form == "frame":
            return Mutated(self.raw(), None, columns, self.ids_of(row))
        is_known = row is not None and self.form != "parquet"
        return Mutated(self.raw(), row + self.first + 1 if is_known else None)

    def ids_of(self, row: int | None) -> tuple[str, ...]:
        """Return the ids of a row."""
        columns = self.columns("qid", "docno")
        return () if row is None else tuple(str(self.table.rows[row][c]) for c in columns)

    def lines(self) -> list[str]:
        """Return the lines of a text file, without their ends."""
        return self.raw().decode("utf-8").split("\n")[:-1]

    @property
    def first(self) -> int:
        """The index of the first line with a row."""
        return 1 if self.form in (*DELIMITED, "task") else 0

    def a_line(self, lines: list[str]) -> int:
        """Return the index of a random line with a row."""
        return self.rng.randrange(self.first, len(lines))

    def a_row(self) -> int:
        """Return the index of a random row."""
        return self.rng.randrange(len(self.table.rows))

    def columns(self, *names: str) -> list[int]:
        """Return the indices of the columns that the table has."""
        return [i for i, name in enumerate(self.table.columns) if name in names]

    @property
    def separator(self) -> str:
        """The separator of fields."""
        return {"csv": ",", "trec": " "}.get(self.form, "\t")


Change = Callable[[Draft], Mutated | None]


@dataclass(frozen=True)
class Mutation:
    """A mutation.

    Attributes:
        name: its name.
        kind: neutral, fatal or meaningful.
        change: returns the mutated file; `None` if the file does not allow the mutation.
        forms: the formats that it is for.
        files: the kinds of files that it is for.
        is_final: whether the bytes are written as they are, never packed.
    """

    name: str
    kind: str
    change: Change
    forms: tuple[str, ...] = EVERY
    files: tuple[str, ...] = tuple(FORMS)
    is_final: bool = False


MUTATIONS: list[Mutation] = []


def add(
    kind: str, forms: tuple[str, ...] = EVERY, *files: str, is_final: bool = False
) -> Callable[[Change], Change]:
    """Return a decorator that adds a mutation with the name of the function."""

    def decorate(change: Change) -> Change:
        name = change.__name__.replace("_", " ")
        MUTATIONS.append(Mutation(name, kind, change, forms, files or tuple(FORMS), is_final))
        return change

    return decorate


@add(NEUTRAL)
def nothing(draft: Draft) -> Mutated:
    return draft.done()


@add(NEUTRAL, TABLES)
def rows_in_another_order(draft: Draft) -> Mutated:
    draft.rng.shuffle(draft.table.rows)
    return draft.done()


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
    return Mutated(joined(lines))


@add(NEUTRAL, TEXT)
def byte_order_mark_first(draft: Draft) -> Mutated:
    return Mutated(b"\xef\xbb\xbf" + draft.raw())


@add(NEUTRAL, SPACED)
def other_spaces(draft: Draft) -> Mutated:
    space = draft.rng.choice(["\t", "  ", " \t "])
    return Mutated(joined([space + re.sub("[ \t]+", space, line) for line in draft.lines()], " \n"))


@add(NEUTRAL, TEXT, is_final=True)
def packed_in_parts(draft: Draft) -> Mutated:
    raw = draft.raw()
    middle = draft.rng.randrange(len(raw))
    return Mutated(pack(raw[:middle]) + pack(raw[middle:]))


@add(NEUTRAL, (*DELIMITED, "jsonl", "parquet", "frame"))
def columns_in_another_order(draft: Draft) -> Mutated:
    columns = draft.table.columns
    draft.table = draft.table.select(draft.rng.sample(columns, len(columns)))
    return draft.done()


@add(NEUTRAL, (*NAMED, "frame"), "run", "qrels", "groups")
def another_column(draft: Draft) -> Mutated:
    draft.table.columns.append("note")
    for row in draft.table.rows:
        row.append(draft.rng.choice(["x", "", "1", "a b"]))
    return draft.done()


@add(NEUTRAL, NAMED, "run", "qrels")
def names_of_other_tools(draft: Draft) -> Mutated:
    draft.table.columns = [RENAMED.get(name, name) for name in draft.table.columns]
    return draft.done()


@add(NEUTRAL, DELIMITED)
def every_field_quoted(draft: Draft) -> Mutated:
    rows = [draft.table.columns, *draft.table.rows]
    quoted = [['"' + str(v).replace('"', '""') + '"' for v in row] for row in rows]
    return Mutated(joined([draft.separator.join(row) for row in quoted]))


@add(NEUTRAL, ("jsonl",))
def keys_in_another_order(draft: Draft) -> Mutated:
    records = [list(json.loads(line).items()) for line in draft.lines()]
    for record in records:
        draft.rng.shuffle(record)
    return Mutated(joined([json.dumps(dict(r), separators=(" ,\t", " : ")) for r in records]))


@add(NEUTRAL, ("trec",), "run")
def without_the_tag(draft: Draft) -> Mutated:
    return Mutated(joined([line.rpartition(" ")[0] for line in draft.lines()]))


@add(NEUTRAL, ("trec", "tsv", "csv"), "run", "qrels")
def other_spellings_of_numbers(draft: Draft) -> Mutated:
    for row in draft.table.rows:
        for column in draft.columns("score", "label"):
            spelling = draft.rng.choice(["{}0", "{}e0", "{}", "{}0E+00"])
            row[column] = spelling.format(float(row[column]))
    return draft.done()


@add(NEUTRAL, TABLES, "run")
def ranks_with_gaps(draft: Draft) -> Mutated:
    [column] = draft.columns("rank")
    factor, start = draft.rng.randint(2, 9), draft.rng.randint(0, 50)
    for row in draft.table.rows:
        row[column] = row[column] * factor + start
    return draft.done()


@add(NEUTRAL, TABLES, "run")
def other_numbers_of_samples(draft: Draft) -> Mutated | None:
    columns = draft.columns("sample")
    prefix = "Q" if draft.form in ("trec", "tsv", "csv") and draft.rng.random() < 0.5 else ""
    for row in draft.table.rows:
        for column in columns:
            number = row[column] * 7 + 3
            row[column] = f"{prefix}{number}" if prefix else number
    return draft.done() if columns else None


@add(NEUTRAL, ("parquet",))
def parquet_written_by_pandas(draft: Draft) -> Mutated:
    frame = pd.DataFrame(draft.table.records())
    for name in frame.columns:
        types = ["category", frame[name].dtype] if name in ("qid", "docno", "group") else []
        frame[name] = frame[name].astype(draft.rng.choice(types or [frame[name].dtype]))
    sink = io.BytesIO()
    frame.set_axis(frame.index[::-1] * 3).to_parquet(sink, compression="gzip", row_group_size=2)
    return Mutated(sink.getvalue())


# The meaning changes ------------------------------------------------------------------------------


@add(MEANINGFUL)
def missing_rows(draft: Draft) -> Mutated:
    """At the end, or one anywhere; all of them in some cases."""
    start = draft.a_row()
    if draft.form == "parquet":
        start = max(start, 1)
    end = draft.rng.choice([start + 1, len(draft.table.rows)])
    del draft.table.rows[start:end]
    return draft.done()


@add(MEANINGFUL)
def two_values_swapped(draft: Draft) -> Mutated:
    column = draft.rng.randrange(len(draft.table.columns))
    one, two = draft.table.rows[draft.a_row()], draft.table.rows[draft.a_row()]
    one[column], two[column] = two[column], one[column]
    return draft.done()


@add(MEANINGFUL)
def another_id(draft: Draft) -> Mutated | None:
    columns = draft.columns("qid", "docno", "group")
    if not columns:
        return None
    row, column = draft.table.rows[draft.a_row()], draft.rng.choice(columns)
    row[column] = draft.rng.choice([f"{row[column]}x", f"0{row[column]}", "other", "NULL"])
    return draft.done()


@add(MEANINGFUL, TABLES, "run", "qrels", "groups", "target")
def another_number(draft: Draft) -> Mutated | None:
    columns = draft.columns("score", "label", "weight", "rank")
    if not columns:
        return None
    row, column = draft.table.rows[draft.a_row()], draft.rng.choice(columns)
    row[column] = type(row[column])(draft.rng.choice([0, 1, 2, 3, 7, 0.5, 0.25]))
    return draft.done()


@add(MEANINGFUL, EVERY, "run")
def no_samples(draft: Draft) -> Mutated | None:
    if "sample" not in draft.table.columns:
        return None
    draft.table = draft.table.without("sample")
    return draft.done()


@add(MEANINGFUL, TEXT)
def characters_replaced(draft: Draft) -> Mutated:
    text = draft.raw().decode()
    start, rng = draft.rng.randrange(len(text)), draft.rng
    added = "".join(rng.choices(CHARACTERS, k=rng.choice([0, 1, 1, 2, 9])))
    return Mutated((text[:start] + added + text[start + rng.choice([0, 1, 1, 3, 20]) :]).encode())


@add(MEANINGFUL, TEXT, "run", "groups", "topics")  # of labels, one is dropped
def a_line_twice(draft: Draft) -> Mutated:
    lines = draft.lines()
    lines.insert(draft.rng.randint(0, len(lines)), draft.rng.choice(lines))
    return Mutated(joined(lines))


@add(MEANINGFUL, TEXT)
def truncated(draft: Draft) -> Mutated:
    raw = draft.raw()
    return Mutated(raw[: draft.rng.randrange(1, len(raw))])


@add(MEANINGFUL, TEXT)
def two_fields_swapped(draft: Draft) -> Mutated:
    lines = draft.lines()
    index = draft.a_line(lines)
    fields = lines[index].split(draft.separator)
    one, two = draft.rng.randrange(len(fields)), draft.rng.randrange(len(fields))
    fields[one], fields[two] = fields[two], fields[one]
    lines[index] = draft.separator.join(fields)
    return Mutated(joined(lines))
