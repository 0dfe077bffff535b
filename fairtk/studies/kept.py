"""Systems of a study as stages of the engine, and what its store has of each.

Beside the rankings of a query the store keeps a record: what they took, what was warned of, and the
trace of systems that have one. It is one row more, without a document, so that both are there or
neither.
"""

from __future__ import annotations

import json
import math
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from fairtk.errors import FairtkWarning, listed
from fairtk.experiment import Engine, unpack
from fairtk.frames import DOCNO, QID, RANK, SCORE, as_strings, encode_run, require
from fairtk.transformers import FairTransformer

RUN = [QID, DOCNO, SCORE, RANK]
_RECORD = "record"
_VARYING = re.compile(r"'[^']*'|\d+")


@dataclass(frozen=True)
class Ranked:
    """What a system made of some queries.

    Attributes:
        run: the rankings (R).
        trace: what it did, rows by ``qid``; None: it does not say.
        missing: the queries without a result: ``qid``, ``reason``; None: there are none.
        waited: seconds of waiting for a model.
        training: seconds of training, of indexing, or of choosing settings.
        alone: seconds that one query takes by itself, without waits for a model, and `measuring`
            that took; NaN: not measured.
        chosen: what was chosen before a query was ranked, by qid, as JSON values; None: nothing.
    """

    run: pd.DataFrame
    trace: pd.DataFrame | None = None
    missing: pd.DataFrame | None = None
    waited: float = 0.0
    training: float = 0.0
    chosen: Mapping[str, Mapping[str, Any]] | None = None
    alone: float = math.nan
    measuring: float = 0.0

    @classmethod
    def stacked(
        cls, parts: Sequence[Ranked], training: float, chosen: Mapping[str, Mapping[str, Any]]
    ) -> Ranked:
        """Return what a system made of several parts of the queries."""
        traces = [part.trace for part in parts if part.trace is not None]
        missing = [part.missing for part in parts if part.missing is not None]
        return cls(
            pd.concat([part.run for part in parts], ignore_index=True),
            pd.concat(traces, ignore_index=True) if traces else None,
            pd.concat(missing, ignore_index=True) if missing else None,
            sum(part.waited for part in parts),
            training,
            chosen,
        )


class StudyStage(FairTransformer):
    """A whole system of a study: Q -> R, and a row with the record of each query.

    Its identity, JSON values, decides the results. `missing` has the queries without one, as the
    engine wants to know them; `heard` the warnings so far, with the queries ranked meanwhile.
    """

    def __init__(self, identity: Mapping[str, Any], rank: Callable[[pd.DataFrame], Ranked]) -> None:
        super().__init__()
        self.identity = identity
        self.rank = rank
        self.missing: pd.DataFrame | None = None
        self.heard: list[tuple[list[str], warnings.WarningMessage]] = []

    def settings(self) -> dict[str, Any]:
        """Return the identity: what the engine knows results by."""
        return dict(self.identity)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return rankings and records."""
        qids = inp[QID].tolist()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            begin = time.perf_counter()
            found = self.rank(inp)
            seconds = time.perf_counter() - begin - found.training - found.measuring
        require(found.run, RUN, "the study")
        encode_run(found.run, "the study", use_rank=False)  # broken rankings are not kept
        self.heard += [(qids, warning) for warning in heard]
        self.missing = found.missing
        said = [str(w.message) for w in heard if issubclass(w.category, FairtkWarning)]
        # what is missing now may be there after the next run, and is kept by name
        said = [text for text in said if "have no result" not in text]
        traces = {} if found.trace is None else dict(iter(found.trace.groupby(QID, sort=False)))
        records = []
        for place, qid in enumerate(qids):
            record = {
                "seconds": seconds / len(qids),
                "waited": found.waited / len(qids),
                "alone": None if math.isnan(found.alone) else found.alone,
                "training": 0.0 if place else found.training,
                "warnings": said,
                "chosen": (found.chosen or {}).get(qid),
                "trace": traces[qid].to_dict("records") if qid in traces else [],
            }
            records.append(json.dumps(record, ensure_ascii=False))
        rows = pd.DataFrame({QID: qids, DOCNO: "", SCORE: 0.0, RANK: -1, _RECORD: records})
        run = found.run[RUN].assign(
            **{QID: as_strings(found.run[QID]), DOCNO: as_strings(found.run[DOCNO]), _RECORD: None}
        )
        return pd.concat([rows, run], ignore_index=True) if len(run) else rows


@dataclass(frozen=True)
class KeptCell:
    """What the store has of one system: rankings in the order of the topics, and by qid what
    `StudyStage` noted (of queries that failed, too), and why queries have no result.
    """

    rankings: pd.DataFrame
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> set[str]:
        """The queries with a result."""
        return self.records.keys() - self.errors.keys()

    @cached_property
    def traces(self) -> pd.DataFrame:
        """The rows of all traces."""
        rows = [row for record in self.records.values() for row in record["trace"]]
        return pd.DataFrame(rows) if rows else pd.DataFrame(columns=[QID])

    @property
    def warnings(self) -> list[str]:
        """What was warned of; see `gathered`."""
        return gathered(((q,), text) for q, r in self.records.items() for text in r["warnings"])

    @property
    def alone(self) -> float:
        """Seconds that one query takes by itself, without waits; NaN: not measured."""
        found = [record.get("alone") for record in self.records.values()]
        known = [seconds for seconds in found if seconds is not None]
        return sum(known) / len(known) if known else math.nan

    def total(self, name: str) -> float:
        """Return the sum of a number over all records."""
        return float(sum(record[name] for record in self.records.values()))


def read_cell(engine: Engine, qids: Sequence[str]) -> KeptCell:
    """Return what a store has of the one system of an engine, queries in the order wanted."""
    [node] = engine.tree.ends.values()
    cells = engine.cells(node)
    # failed queries have a record, too
    there = [cells[qid]._replace(error=None) for qid in qids if qid in cells]
    table = engine.store.read(there)
    if table is None:
        return KeptCell(pd.DataFrame(columns=RUN))
    rows = unpack(table)
    is_record = rows[_RECORD].notna().to_numpy()
    records = rows.loc[is_record, [QID, _RECORD]].itertuples(index=False)
    return KeptCell(
        rows.loc[~is_record, RUN].reset_index(drop=True),
        {qid: json.loads(text) for qid, text in records},
        {qid: cells[qid].error or "" for qid in qids if qid in cells and cells[qid].error},
    )


def gathered(said: Iterable[tuple[Sequence[str], str]]) -> list[str]:
    """Return warnings, each once; those that differ in ids and numbers alone become one.

    Systems rank query by query, and warn so: each text comes with the queries ranked meanwhile.
    """
    alike: dict[str, tuple[str, dict[str, None]]] = {}
    several: set[str] = set()
    for qids, text in said:
        shape = _VARYING.sub("#", text)
        first, known = alike.setdefault(shape, (text, {}))
        known.update(dict.fromkeys(qids))
        if text != first:
            several.add(shape)
    return [
        f"{first} (alike for {len(qids)} topics: {listed(list(qids))})"
        if shape in several
        else first
        for shape, (first, qids) in alike.items()
    ]


@contextmanager
def hearing() -> Iterator[list[str]]:
    """Give a list that has, after the block, what fairtk warned of in it; each text once.

    The warnings themselves are given when the block ends.
    """
    said: list[str] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield said
    once = {(warning.category, str(warning.message)): warning for warning in reversed(heard)}
    for (category, text), warning in reversed(once.items()):
        if issubclass(category, FairtkWarning):
            said.append(text)
        warnings.warn_explicit(warning.message, category, warning.filename, warning.lineno)
