"""Small random worlds (labels, runs, groups, targets, topics), written without fairtk."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from dataclasses import dataclass, field
from typing import Any

QIDS = ("q{}", "{}", "00{}", "topic-{}", "1e{}", "q:{}", "NA{}", "q{}/a", "Q{}", "é{}")
DOCNOS = ("d{}", "{}", "0{}", "doc/{}", "a_{}", "D-{}", "x{}y", "{}.0", "nan{}", "日{}", "d#{}")
WORDS = ["fox", "ship", "sea", "bread", "mice", "dawn", "forest", "lamp", "tide", "kettle"]
LEVELS = ("a", "b", "c", "@UNKNOWN", "old", "young", "x y")


@dataclass
class Table:
    """Named columns, and rows of plain values in the order of the columns."""

    columns: list[str]
    rows: list[list[Any]]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def records(self) -> list[dict[str, Any]]:
        """Return a dict for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def select(self, columns: list[str]) -> Table:
        """Return a copy with some of the columns, in this order."""
        return Table(columns, [[record[c] for c in columns] for record in self.records()])

    def without(self, name: str) -> Table:
        """Return a copy without a column."""
        return self.select([c for c in self.columns if c != name])


@dataclass
class World:
    """A tiny test collection.

    Attributes:
        is_sampled: whether the run has the column `sample`.
        tables: `qrels`, `run`, `groups`, `target` and `topics`.
    """

    qids: list[str]
    docnos: list[str]
    is_sampled: bool
    tables: dict[str, Table] = field(default_factory=dict)


def make_world(rng: random.Random) -> World:
    """Return a random world of 2 to 4 queries and 6 to 9 documents."""
    qids, docnos = _ids(rng, QIDS, rng.randint(2, 4)), _ids(rng, DOCNOS, rng.randint(6, 9))
    world = World(qids, docnos, rng.random() < 0.5)
    labels = [
        [qid, docno, rng.choice([0, 0, 1, 1, 2])]
        for qid in qids
        for docno in rng.sample(docnos, rng.randint(3, len(docnos)))
    ]
    for qid in qids:  # every query has a useful document, except in one world of eight
        rows = [row for row in labels if row[0] == qid]
        if rng.random() > 0.125 and not any(row[2] for row in rows):
            rows[0][2] = 1
    world.tables["qrels"] = Table(["qid", "docno", "label"], labels)
    world.tables["run"] = _run(rng, world)
    world.tables["groups"] = _groups(rng, docnos)
    world.tables["target"] = _target(rng, world)
    queries = [[qid, " ".join(rng.choices(WORDS, k=2))] for qid in qids]
    world.tables["topics"] = Table(["qid", "query"], queries)
    return world


def _ids(rng: random.Random, forms: tuple[str, ...], count: int) -> list[str]:
    form = rng.choice(forms)
    return [form.format(number) for number in rng.sample(range(1, 30), count)]


def _run(rng: random.Random, world: World) -> Table:
    rows: list[list[Any]] = []
    start = rng.choice([0, 1, 1])
    has_ties = rng.random() < 0.3
    for qid in world.qids:
        pool = rng.sample(world.docnos, rng.randint(3, len(world.docnos)))
        for sample in range(rng.randint(2, 3) if world.is_sampled else 1):
            score = float(rng.randint(5, 9))
            for rank, docno in enumerate(rng.sample(pool, len(pool)), start):
                rows.append([qid, sample, docno, rank, score])
                if not (has_ties and rng.random() < 0.4):
                    score -= rng.choice([0.25, 0.5, 1.0])
    table = Table(["qid", "sample", "docno", "rank", "score"], rows)
    return table if world.is_sampled else table.without("sample")


def _groups(rng: random.Random, docnos: list[str]) -> Table:
    levels = rng.sample(LEVELS, rng.randint(2, 4))
    is_weighted = rng.random() < 0.5
    rows: list[list[Any]] = []
    for docno in docnos:
        if rows and rng.random() < 0.15:
            continue  # a document without a row
        for level in rng.sample(levels, rng.choice([1, 1, 1, 2])):
            rows.append([docno, level, rng.choice([0.25, 0.5, 1.0, 2.0])])
    table = Table(["docno", "group", "weight"], rows)
    return table if is_weighted else table.without("weight")


def _target(rng: random.Random, world: World) -> Table:
    levels = sorted({row[1] for row in world.tables["groups"].rows})
    by_query = rng.random() < 0.5
    rows: list[list[Any]] = []
    for qid in world.qids if by_query else [None]:
        parts = [rng.randint(1, 8) for _ in levels]
        rows += [[qid, level, p / sum(parts)] for level, p in zip(levels, parts, strict=True)]
    table = Table(["qid", "group", "weight"], rows)
    return table if by_query else table.without("qid")


# Files --------------------------------------------------------------------------------------------

NAMED = ("tsv", "csv", "jsonl", "parquet")
FORMS = {
    "run": ("trec", "task", *NAMED, "frame"),
    "qrels": ("trec", *NAMED, "frame"),
    "groups": (*NAMED, "frame"),
    "target": (*NAMED, "wide"),
    "topics": ("frame",),
}
"""The formats of each kind of data. `task`: a run of TREC Fair Ranking 2022, for Task 1 or 2;
`wide`: a target whose levels are in a column with the name of the attribute; `frame`: no file."""

SUFFIX = {"trec": "txt", "task": "tsv", "wide": "tsv"}


def file_name(kind: str, form: str, is_packed: bool) -> str:
    """Return the name of a file of some kind and format."""
    return f"{kind}.{SUFFIX.get(form, form)}{'.gz' if is_packed else ''}"


def write(kind: str, form: str, table: Table) -> bytes:
    """Return a table as the bytes of a file."""
    if form == "parquet":
        return parquet({name: table.column(name) for name in table.columns})
    if form in ("tsv", "csv", "wide"):
        stream = io.StringIO()
        writer = csv.writer(stream, delimiter="," if form == "csv" else "\t", lineterminator="\n")
        writer.writerows([table.columns, *table.rows])
        return stream.getvalue().encode("utf-8")
    lines = []
    if form == "task":
        lines = ["id\tseq_no\tpage_id" if "sample" in table.columns else "id\tpage_id"]
    for row in table.records():
        sample = row.get("sample")
        if form == "jsonl":
            line = json.dumps(row, ensure_ascii=False)
        elif form == "task":
            number = "" if sample is None else f"{sample + 1}\t"
            line = f"{row['qid']}\t{number}{row['docno']}"
        elif kind == "run":
            iteration = "Q0" if sample is None else sample
            line = f"{row['qid']} {iteration} {row['docno']} {row['rank']} {row['score']} tag"
        else:
            line = f"{row['qid']} 0 {row['docno']} {row['label']}"
        lines.append(line)
    return joined(lines)


def joined(lines: list[str], end: str = "\n") -> bytes:
    """Return lines as bytes."""
    return "".join(line + end for line in lines).encode("utf-8")


def parquet(columns: dict[str, list[Any]]) -> bytes:
    """Return columns as a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue()


def pack(raw: bytes) -> bytes:
    """Return gzipped bytes, the same each time."""
    return gzip.compress(raw, mtime=0)
