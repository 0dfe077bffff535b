"""A system of the study as a stage of an experiment, and its stored results."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
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
"""The columns of a fold's tuning; ``calls`` is the number of new answers."""
_COUNTS = ["retrieved", "prompt_tokens", "completion_tokens", "seconds"]


class StudySystem(FairTransformer):
    """A system of the study for one attribute: Q -> R, with a note for each query.

    A note has the ``seconds`` of the query, and ``waited``, the part of them spent waiting for the
    model; the rows of the ``trace`` of FAIR-QR; and ``chosen``, the tuned settings of its fold. The
    note of the first query after training or indexing also has ``training``, the seconds it took.

    Args:
        study: the `QrStudy`.
        cell: the system, which is built on first use.
        llm: the model behind a ledger, for systems that call a model.
        without: a fold that a trained system is neither trained on nor ranks; `None` for no fold.
        choices: for a tuned cell: the rows `CHOSEN` by fold.

    Attributes:
        missing: the queries of the last call without a result: ``qid``, ``reason``.
    """

    identity_name = "fairtk.StudySystem"
    output_version = 2
    leaves_notes = True

    def __init__(
        self,
        study: Any,
        cell: Cell,
        llm: Any = None,
        without: int | None = None,
        choices: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self.study = study
        self.cell = cell
        self.llm = llm
        self.without = without
        self.choices = choices
        self.missing: pd.DataFrame | None = None
        self._systems: dict[str, Any] = {}  # by tuned settings

    def settings(self) -> dict[str, Any]:
        """Return the inputs that determine the results."""
        facts = self.study.identity(self.cell)
        return facts if self.without is None else {**facts, "without fold": self.without}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query; none in the fold that is left out, which nobody reads."""
        if self.without is not None:
            inp = inp[inp[QID].map(self.study.folds) != self.without]
            if inp.empty:
                return inp[[QID]].assign(docno="", score=0.0, rank=0)
        runs: list[pd.DataFrame] = []
        missing: list[pd.DataFrame] = []
        notes: dict[str, dict[str, Any]] = {}
        with name_errors(self.cell):
            for choice, topics in self._parts(inp):
                system, training = self._prepared(choice, topics)
                begin, waited, traces = time.perf_counter(), 0.0, {}
                if isinstance(system, FairQR):
                    outcome = system.refine(topics)
                    run, waited, traces = outcome.run, outcome.waited, _traces(outcome.trace)
                    missing.append(outcome.missing)
                else:
                    run = system.transform(topics)
                note = {
                    "seconds": (time.perf_counter() - begin) / len(topics),
                    "waited": waited / len(topics),
                    "chosen": choice,
                }
                for qid in topics[QID]:
                    trace = traces.get(qid, [])
                    notes[qid] = {**note, "training": training, "trace": trace}
                    training = 0.0
                runs.append(run)
            run = pd.concat(runs, ignore_index=True)
            require_columns(run, RUN, "the study")
            Run(run.drop(columns=RANK), "the study").checked()  # invalid rankings are not stored
        self.missing = pd.concat(missing, ignore_index=True) if missing else None
        leave_notes(self, notes)
        names = {name: run[name].map(str).astype(object) for name in (QID, DOCNO)}
        return run[RUN].assign(**names)

    def _parts(self, topics: pd.DataFrame) -> Iterator[tuple[Mapping[str, Any] | None, Any]]:
        """Yield topics with the tuned settings of their fold."""
        if self.choices is None:
            yield None, topics
            return
        for fold, part in topics.groupby(topics[QID].map(self.study.folds), sort=False):
            yield self.choices[int(str(fold))], part

    def _prepared(
        self, choice: Mapping[str, Any] | None, topics: pd.DataFrame
    ) -> tuple[Any, float]:
        """Return the system, trained to rank topics, and the seconds of building and training."""
        begin = time.perf_counter()
        cell, key = self.cell, ""
        if choice is not None:
            key = choice["settings"]
            cell = cell.at(json.loads(key))
        is_new = key not in self._systems
        if is_new:
            self._systems[key] = self.study.system(cell, self.llm, self.without)
            begin = time.perf_counter() if cell.refines else begin
        system = self._systems[key]
        if isinstance(system, Fitted):
            system.prepare(topics)
        elif is_new and hasattr(system, "prepare"):  # an index
            system.prepare()
        return system, 0.0 if cell.refines else time.perf_counter() - begin


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
        remarks: the remarks of the system on its queries.
    """

    rankings: pd.DataFrame
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[Remark] = ()

    @classmethod
    def of(cls, results: Results, name: str, qids: Sequence[str]) -> SystemResults:
        """Return the results of a system in an experiment, in the order of `qids`."""
        number = {qid: number for number, qid in enumerate(qids)}
        rankings = results.rankings(name).reindex(columns=RUN)
        rankings = rankings.sort_values(QID, key=lambda q: q.map(number), kind="stable")
        notes = results.notes(name)
        by_qid = dict(zip(notes[QID], notes["note"], strict=True))
        failures = results.failures[results.failures["system"] == name]
        return cls(
            rankings.reset_index(drop=True),
            {qid: by_qid[qid] for qid in qids if qid in by_qid},
            dict(zip(failures[QID], failures["error"], strict=True)),
            [replace(r, system="") for r in results.remarks if r.system == name and r.stage],
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
    def choices(self) -> pd.DataFrame:
        """The tuned settings of each fold."""
        rows = [note["chosen"] for note in self.notes.values() if note["chosen"]]
        frame = pd.DataFrame(rows, columns=CHOSEN).drop_duplicates("fold")
        return frame.sort_values("fold", ignore_index=True)

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
