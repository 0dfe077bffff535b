"""Small random worlds: labels, runs, groups, targets and answers, as tables of plain values."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

QIDS = ("q{}", "{}", "00{}", "topic-{}", "1e{}", "q:{}", "NA{}", "q{}/a", "Q{}", "é{}")
DOCNOS = ("d{}", "{}", "0{}", "doc/{}", "a_{}", "D-{}", "x{}y", "{}.0", "nan{}", "日{}", "d#{}")
LEVELS = ("a", "b", "c", "@UNKNOWN", "old", "young", "x y")


@dataclass
class Table:
    """Named columns and rows of plain values.

    Attributes:
        columns: the names.
        rows: one list of values per row, in the order of the columns.
    """

    columns: list[str]
    rows: list[list[Any]]

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def copy(self) -> Table:
        """Return a table that can be changed without changing this one."""
        return Table(list(self.columns), [list(row) for row in self.rows])

    def without(self, name: str) -> Table:
        """Return the table without a column."""
        at = self.columns.index(name)
        cut = [[v for i, v in enumerate(row) if i != at] for row in self.rows]
        return Table([c for c in self.columns if c != name], cut)


@dataclass
class World:
    """A tiny test collection.

    Attributes:
        tables: ``qrels``, ``run``, ``groups``, ``target``, ``answers`` and ``gold``.
        sampled: whether the run has the column ``sample``.
    """

    qids: list[str]
    docnos: list[str]
    sampled: bool
    tables: dict[str, Table] = field(default_factory=dict)


def make_world(rng: random.Random, sampled: bool | None = None) -> World:
    """Return a random world of 2 to 4 queries and 6 to 9 documents."""
    qids = _ids(rng, QIDS, rng.randint(2, 4))
    docnos = _ids(rng, DOCNOS, rng.randint(6, 9))
    world = World(qids, docnos, rng.random() < 0.5 if sampled is None else sampled)
    labels = [
        [qid, docno, rng.choice([0, 0, 1, 1, 2])]
        for qid in qids
        for docno in rng.sample(docnos, rng.randint(3, len(docnos)))
    ]
    for qid in qids:  # every query has something useful, but for one world in eight
        own = [row for row in labels if row[0] == qid]
        if rng.random() > 0.125 and not any(row[2] for row in own):
            own[0][2] = 1
    world.tables["qrels"] = Table(["qid", "docno", "label"], labels)
    world.tables["run"] = _run(rng, world)
    world.tables["groups"] = _groups(rng, docnos)
    world.tables["target"] = _target(rng, world)
    world.tables["answers"], world.tables["gold"] = _answers(rng, world)
    return world


def _ids(rng: random.Random, forms: tuple[str, ...], count: int) -> list[str]:
    form = rng.choice(forms)
    return [form.format(number) for number in rng.sample(range(1, 30), count)]


def _run(rng: random.Random, world: World) -> Table:
    rows: list[list[Any]] = []
    start = rng.choice([0, 1, 1])
    ties = rng.random() < 0.3
    for qid in world.qids:
        pool = rng.sample(world.docnos, rng.randint(3, len(world.docnos)))
        for sample in range(rng.randint(2, 3) if world.sampled else 1):
            order = rng.sample(pool, len(pool))
            score = float(rng.randint(5, 9))
            for place, docno in enumerate(order):
                rows.append([qid, sample, docno, place + start, score])
                if not (ties and rng.random() < 0.4):
                    score -= rng.choice([0.25, 0.5, 1.0])
    table = Table(["qid", "sample", "docno", "rank", "score"], rows)
    return table if world.sampled else table.without("sample")


def _groups(rng: random.Random, docnos: list[str]) -> Table:
    levels = rng.sample(LEVELS, rng.randint(2, 4))
    weighted = rng.random() < 0.5
    rows: list[list[Any]] = []
    for docno in docnos:
        if rows and rng.random() < 0.15:
            continue  # a document without a row
        for level in rng.sample(levels, rng.choice([1, 1, 1, 2])):
            rows.append([docno, level, rng.choice([0.25, 0.5, 1.0, 2.0])])
    table = Table(["docno", "group", "weight"], rows)
    return table if weighted else table.without("weight")


def _target(rng: random.Random, world: World) -> Table:
    levels = sorted({row[1] for row in world.tables["groups"].rows})
    by_query = rng.random() < 0.5
    rows: list[list[Any]] = []
    for qid in world.qids if by_query else [None]:
        parts = [rng.randint(1, 8) for _ in levels]
        weights = [part / sum(parts) for part in parts]
        rows += [[qid, level, weight] for level, weight in zip(levels, weights, strict=True)]
    table = Table(["qid", "group", "weight"], rows)
    return table if by_query else table.without("qid")


def _answers(rng: random.Random, world: World) -> tuple[Table, Table]:
    words = ["yes", "no", "[1]", "a b", "42", "né", 'say "x"', "tab\tin", ""]
    run = world.tables["run"]
    keys = [c for c in ("qid", "sample") if c in run.columns]
    rankings = list(dict.fromkeys(zip(*[run.column(k) for k in keys], strict=True)))
    answers = [[*key, rng.choice(words)] for key in rankings]
    gold = [[qid, rng.choice(words[:-1])] for qid in world.qids]
    return Table([*keys, "qanswer"], answers), Table(["qid", "gold_answer"], gold)
