"""A system of the study as a stage of an experiment, and its stored results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from fairtk import Remark
from fairtk.experiment import Results
from fairtk.frames import DOCNO, QID, RANK, SCORE, Run, require_columns
from fairtk.transformers import FairQR, FairTransformer, Fitted, leave_notes
from fairtk_papers.fair_qr.systems import Cell, name_errors

RUN = [QID, DOCNO, SCORE, RANK]
CHOSEN = ["fold", "settings", "value", "topics", "seconds", "calls"]
"""The columns of the tuning of folds; ``seconds`` and ``calls`` are those of all settings."""
_COUNTS = ["retrieved", "prompt_tokens", "completion_tokens", "seconds"]


class StudySystem(FairTransformer):
    """A system of the study for one attribute: Q -> R, with a note for each query.

    A note has the ``seconds`` of the query, and ``waited``, the part of them spent waiting for the
    model; and the rows of the ``trace`` of FAIR-QR. The note of the first query of a call also has
    ``training``, the seconds of training or indexing.

    Args:
        study: the `QrStudy`.
        cell: the system without tuning, which is built on first use.
        llm: the model behind a ledger, for systems that call a model.
        without: a fold that a trained system is not trained on; `None` for no fold.

    Attributes:
        missing: the queries of the last call without a result: ``qid``, ``reason``.
    """

    identity_name = "fairtk.StudySystem"
    output_version = 3
    leaves_notes = True

    def __init__(self, study: Any, cell: Cell, llm: Any = None, without: int | None = None) -> None:
        super().__init__()
        self.study = study
        self.cell = cell
        self.llm = llm
        self.without = without
        self.missing: pd.DataFrame | None = None
        self._system: Any = None

    def settings(self) -> dict[str, Any]:
        """Return the inputs that determine the results."""
        facts = self.study.identity(self.cell)
        return facts if self.without is None else {**facts, "without fold": self.without}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query."""
        with name_errors(self.cell):
            training = self._prepare(inp)
            begin, waited, traces = time.perf_counter(), 0.0, {}
            if isinstance(self._system, FairQR):
                outcome = self._system.refine(inp)
                run, waited, traces = outcome.run, outcome.waited, _traces(outcome.trace)
                self.missing = outcome.missing
            else:
                run = self._system.transform(inp)
            seconds = time.perf_counter() - begin
            require_columns(run, RUN, "the study")
            Run(run.drop(columns=RANK), "the study").checked()  # invalid rankings are not stored
        note = {"seconds": seconds / len(inp), "waited": waited / len(inp), "training": 0.0}
        notes = {qid: {**note, "trace": traces.get(qid, [])} for qid in inp[QID]}
        notes[inp[QID].iloc[0]]["training"] = training
        leave_notes(self, notes)
        names = {name: run[name].map(str).astype(object) for name in (QID, DOCNO)}
        return run[RUN].assign(**names)

    def _prepare(self, topics: pd.DataFrame) -> float:
        """Build the system, train it to rank topics, and return the seconds of both."""
        begin, is_new = time.perf_counter(), self._system is None
        if is_new:
            self._system = self.study.system(self.cell, self.llm, self.without)
        if isinstance(self._system, Fitted):
            self._system.prepare(topics)
        elif is_new and hasattr(self._system, "prepare"):  # an index
            self._system.prepare()
        return 0.0 if self.cell.refines else time.perf_counter() - begin


def _traces(trace: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the rows of a trace by qid."""
    # counts are floats whether or not a query of the same call has none
    numbers = trace[_COUNTS].apply(pd.to_numeric).astype(float)
    trace = trace.assign(**dict(numbers.items()))
    return {str(q): rows.to_dict("records") for q, rows in trace.groupby(QID, sort=False)}


@dataclass(frozen=True)
class SystemResults:
    """The results of one system.

    Attributes:
        rankings: R, in the order of the topics.
        notes: the notes of `StudySystem` by qid, also those of failed queries.
        errors: the reason for each missing result, by qid.
        remarks: the remarks of the system on its queries; of a tuned system, those of each chosen
            settings on all queries, with their name.
        choices: the tuned settings of each fold.
    """

    rankings: pd.DataFrame
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[Remark] = ()
    choices: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=CHOSEN))

    @classmethod
    def of(
        cls, results: Results, names: Mapping[str, str], choices: pd.DataFrame | None = None
    ) -> SystemResults:
        """Return the results of a system in an experiment.

        Args:
            results: the results of the experiment.
            names: the name in the experiment of the system that ranks each query, by qid, in the
                order of the topics; a tuned system has several.
            choices: the tuned settings of each fold; `None` without tuning.
        """
        systems = dict.fromkeys(names.values())
        number = {qid: number for number, qid in enumerate(names)}

        def of_all(read: Callable[[str], pd.DataFrame]) -> pd.DataFrame:
            parts = [(name, read(name)) for name in systems]
            return pd.concat([part[part[QID].map(names) == name] for name, part in parts])

        rankings = of_all(results.rankings).reindex(columns=RUN)
        rankings = rankings.sort_values(QID, key=lambda q: q.map(number), kind="stable")
        notes = of_all(results.notes).set_index(QID)["note"].to_dict()
        failures = of_all(lambda name: results.failures[results.failures["system"] == name])
        remarks = [r for r in results.remarks if r.system in systems and r.stage]
        return cls(
            rankings.reset_index(drop=True),
            {qid: notes[qid] for qid in names if qid in notes},
            dict(zip(failures[QID], failures["error"], strict=True)),
            [replace(r, system="") for r in remarks] if choices is None else remarks,
            pd.DataFrame(columns=CHOSEN) if choices is None else choices,
        )

    @property
    def finished_qids(self) -> set[str]:
        """The queries with a result."""
        return self.notes.keys() - self.errors.keys()

    @property
    def empty_qids(self) -> list[str]:
        """The queries with a result that has no document."""
        return sorted(self.finished_qids.difference(self.rankings[QID]))

    @cached_property
    def traces(self) -> pd.DataFrame:
        """The rows of all traces."""
        rows = [row for note in self.notes.values() for row in note["trace"]]
        return pd.DataFrame(rows) if rows else pd.DataFrame(columns=[QID])

    @property
    def warnings(self) -> list[str]:
        """The texts of the remarks.

        Left out are those on queries that could not be refined, which the next run may complete,
        and on ``pool="union"``, whose lack of an effect the study shows.
        """
        left_out = ("not refined", "no effect")
        return [remark.text for remark in self.remarks if remark.kind not in left_out]

    def total(self, name: str) -> float:
        """Return the sum of a number in the notes."""
        return float(sum(note[name] for note in self.notes.values()))
