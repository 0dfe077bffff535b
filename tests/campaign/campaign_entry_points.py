"""The entry points of frames: measures, transformers, and functions that take frames."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
from ir_measures import nDCG

import fairtk.io
from fairtk import (
    AWRF,
    EE_D,
    EE_L,
    EE_R,
    EU,
    BM25Scorer,
    E,
    FairSampler,
    Generator,
    GroupEE_L,
    Groups,
    OracleSampler,
    QueryRefiner,
    Target,
    coverage,
    explain,
    nDCG_AWRF,
    nDCG_TREC,
    prompts,
)
from fairtk.credit import AE_R, CreditGap
from fairtk.llm import KeywordRefiner
from fairtk.measures import ByGroup, drop_undefined

IR_NAMES = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}
RUN = ("qid", "docno", "score", "rank", "sample")
LABELS = ("qid", "docno", "label")
MEMBERS = ("docno", "group", "weight")
Frames = dict[str, pd.DataFrame]
Values = dict[Any, Any]


@dataclass(frozen=True)
class EntryPoint:
    """Anything that takes frames and gives values.

    Attributes:
        name: its name.
        says: an error message has one of these words.
        reads: the columns that it reads of each frame; others may be checked or not.
        call: takes the frames and a cutoff; returns values by key.
        takes_samples: whether a run may have samples.
    """

    name: str
    says: tuple[str, ...]
    reads: dict[str, tuple[str, ...]]
    call: Callable[[Frames, int], Values]
    takes_samples: bool = True


def groups_of(frames: Frames) -> Groups:
    """Return the groups of a frame."""
    return Groups.from_frame(frames["groups"], name="kind")


# Measures -----------------------------------------------------------------------------------------

MEASURES: dict[str, Callable[[int], Any]] = {
    "EE_D": lambda k: EE_D @ k,
    "EE_R": lambda k: EE_R @ k,
    "EE_L": lambda k: EE_L @ k,
    "E": lambda k: E(nDCG @ k),
    "nDCG_TREC": lambda k: nDCG_TREC @ k,
    "EU": lambda k: EU(utility="accuracy"),
    "AE_R": lambda k: AE_R @ k,
    "CreditGap": lambda k: CreditGap @ k,
}
MEASURES_OF_GROUPS: dict[str, Callable[[Groups, int], Any]] = {
    "GroupEE_L": lambda groups, k: GroupEE_L(groups=groups, target=Target.uniform(groups)) @ k,
    "AWRF": lambda groups, k: AWRF(groups=groups, target=Target.uniform(groups)) @ k,
    "nDCG_AWRF": lambda groups, k: nDCG_AWRF(groups=groups, target=Target.uniform(groups)) @ k,
    "ByGroup": lambda groups, k: ByGroup(measure=E(nDCG @ k), groups=groups),
    "Product": lambda groups, k: E(nDCG @ k) * MEASURES_OF_GROUPS["AWRF"](groups, k),
}


def _measures() -> list[EntryPoint]:
    plain = [
        _measure(name, make(1), lambda frames, k, make=make: make(k))
        for name, make in MEASURES.items()
    ]
    groups = Groups.from_frame(pd.DataFrame({"docno": ["d1", "d2"], "group": ["a", "b"]}))
    return plain + [
        _measure(
            f"{name} of groups",
            make(groups, 1),
            lambda frames, k, make=make: make(groups_of(frames), k),
            groups=MEMBERS,
        )
        for name, make in MEASURES_OF_GROUPS.items()
    ]


def _measure(name: str, measure: Any, make: Any, **more: Any) -> EntryPoint:
    run, labels = (*measure.RUN_COLUMNS, "rank", "sample"), measure.QREL_COLUMNS
    says = (measure.NAME, "Groups 'kind'", "nDCG@", "AWRF")
    reads = {"run": run, "qrels": labels, **more}
    return EntryPoint(name, says, reads, lambda frames, k: measured(make(frames, k), frames))


def measured(measure: Any, frames: Frames) -> dict[str, float]:
    """Return a measure's value by qid, computed through ir_measures."""
    run = frames["run"]
    if "credit" in measure.RUN_COLUMNS and "docno" in run and run.columns.is_unique:
        run = run.assign(credit=[sum(map(ord, str(docno))) % 5 / 4 for docno in run["docno"]])
    qrels, run = (
        frame.set_axis([IR_NAMES.get(c, c) for c in frame.columns], axis=1)
        for frame in (frames["qrels"], run)
    )
    metrics = list(ir_measures.iter_calc([measure], qrels, run))
    values = {str(metric.query_id): float(metric.value) for metric in metrics}
    assert len(values) == len(metrics), "two values of a query"
    return values


# Transformers -------------------------------------------------------------------------------------


class Echo:
    """A model whose answers are its prompts."""

    name = "echo"
    tokenizer = None

    def generate(self, prompts: list[str]) -> list[str]:
        """Return the prompts."""
        return list(prompts)


def _generator(frames: Frames) -> Generator:
    prompt = prompts.get("template", template="{question}: {documents}", joiner=" ")
    return Generator(Echo(), prompt, cutoff=3)


def _transformers() -> list[EntryPoint]:
    texts = ("query", "text")
    refiner = QueryRefiner(KeywordRefiner({"a": ["word"]}), group="a")
    return [
        _transformer("FairSampler", {"run": RUN}, lambda _: FairSampler(2, 3, cutoff=5), False),
        _transformer("OracleSampler", {"run": RUN, "qrels": LABELS},
                     lambda frames: OracleSampler(frames["qrels"], n_samples=3), False),
        _transformer("BM25Scorer", {"run": ("qid", "docno", *texts)},
                     lambda _: BM25Scorer(), False),
        _transformer("Generator", {"run": (*RUN, *texts)}, _generator),
        _transformer("QueryRefiner", {"topics": ("qid", "query")}, lambda _: refiner),
    ]  # fmt: skip


def _transformer(
    name: str, reads: Any, make: Callable[[Frames], Any], takes_samples: bool = True
) -> EntryPoint:
    columns = ("qanswer",) if name == "Generator" else ("rank", "score", "query", "query_0")

    def call(frames: Frames, k: int) -> Values:
        return by_row(make(frames).transform(frames[next(iter(reads))]), columns)

    says = (name, "Groups 'kind'")
    return EntryPoint(name, says, reads, call, takes_samples=takes_samples)


def by_row(frame: pd.DataFrame, columns: tuple[str, ...]) -> Values:
    """Return the values of some columns by query, sample and document."""
    frame = frame.reset_index(drop=True)  # whose name may be that of a column
    if "sample" in frame.columns and len(frame):  # the numbers of samples have no meaning
        frame = frame.assign(sample=frame.groupby("qid")["sample"].rank("dense"))
    values: Values = {}
    for row in frame.to_dict("records"):
        key = tuple(str(row[c]) for c in ("qid", "sample", "docno") if c in row)
        while key in values:  # a duplicate document in a frame that may have one
            key = (*key, "again")
        values[key] = 0.0
        for column in columns:
            value = row.get(column)
            values[(*key, column)] = value if value is None else str(value)
    return values


# Functions ----------------------------------------------------------------------------------------


def _functions() -> list[EntryPoint]:
    return [
        _function("Groups.from_frame", _from_frame, groups=MEMBERS),
        _function("Target.from_qrels", _from_qrels, qrels=LABELS, groups=MEMBERS),
        _function("coverage", _coverage, run=("qid", "docno", "rank", "sample"), groups=MEMBERS),
        _function("explain", _explain, run=RUN, qrels=("qid",), groups=MEMBERS),
        _function("drop_undefined", _drop_undefined, qrels=LABELS),
        _function("write_run", _write_run, run=RUN),
        _function("write_qrels", _write_qrels, qrels=LABELS),
    ]


def _function(name: str, call: Callable[[Frames, int], Values], **reads: Any) -> EntryPoint:
    return EntryPoint(name, (name, "AWRF", "Groups 'kind'"), reads, call)


def _cells(frame: pd.DataFrame, value: str, *keys: str) -> Values:
    rows = frame.to_dict("records")
    return {(value, *(str(row[key]) for key in keys)): float(row[value]) for row in rows}


def _from_frame(frames: Frames, k: int) -> Values:
    return _cells(groups_of(frames).to_frame(), "weight", "docno", "group")


def _from_qrels(frames: Frames, k: int) -> Values:
    frame = Target.from_qrels(frames["qrels"], groups_of(frames)).to_frame()
    level = next(c for c in frame.columns if c not in ("qid", "weight"))
    return _cells(frame, "weight", "qid", level)


def _coverage(frames: Frames, k: int) -> Values:
    frame = coverage(groups_of(frames), frames["run"], k)
    return _cells(frame, "retrieved", "qid") | _cells(frame, "with_row", "qid")


def _explain(frames: Frames, k: int) -> Values:
    measure = MEASURES_OF_GROUPS["AWRF"](groups_of(frames), k)
    return {"total": float(explain(frames["qrels"], frames["run"], measure).total)}


def _drop_undefined(frames: Frames, k: int) -> Values:
    return _cells(drop_undefined(frames["qrels"]), "label", "qid", "docno")


def _write_run(frames: Frames, k: int) -> Values:
    lines = _written(fairtk.io.write_run, frames["run"])
    # the numbers of samples have no meaning
    return {(q, d, r): float(score) for q, _, d, r, score, _ in lines} | {"n": len(lines)}


def _write_qrels(frames: Frames, k: int) -> Values:
    qrels = frames["qrels"]
    lines = _written(fairtk.io.write_qrels, qrels[[c for c in qrels.columns if c in LABELS]])
    return {(q, d): float(label) for q, _, d, label in lines} | {"n": len(lines)}


def _written(write: Callable[..., Any], frame: pd.DataFrame) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.txt"
        write(frame, path)
        return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


ENTRY_POINTS = (*_measures(), *_transformers(), *_functions())
