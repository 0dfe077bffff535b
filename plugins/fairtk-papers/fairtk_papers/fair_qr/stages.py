"""A system of the study as a stage of an experiment."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from fairtk.errors import FairtkWarning, InputError
from fairtk.frames import DOCNO, QID, RANK, Run, require_columns
from fairtk.transformers import FairQR, FairTransformer, leave_notes
from fairtk_papers.fair_qr.stored import RUN
from fairtk_papers.fair_qr.systems import Cell, name_errors
from fairtk_papers.fair_qr.tuner import Tuner
from fairtk_papers.fair_qr.values import PRODUCT, measures
from fairtk_papers.studies import plain

if TYPE_CHECKING:
    from fairtk_papers.fair_qr.study import QrStudy

_COUNTS = ["retrieved", "prompt_tokens", "completion_tokens", "seconds"]


class StudySystem(FairTransformer):
    """A system of the study for one attribute: Q -> R, with a note for each query.

    A note has the ``seconds`` of the query, and ``waited``, the part of them spent waiting for the
    model; ``warnings``, which the system issued instead of remarks; and the rows of the ``trace``.
    The note of the first query after training, indexing or tuning also has ``training``, the
    seconds it took, and ``chosen``, the tuned settings.

    A trained or tuned system is built for each fold on the topics of the other folds, and is used
    until a topic of another fold follows.

    Args:
        study: the study.
        cell: the system.
        llm: the model behind a ledger, for systems that call a model.
        alias: the cell with its name in tables and errors; `None` for `cell`.

    Attributes:
        missing: the queries of the last call without a result: ``qid``, ``reason``.
    """

    identity_name = "fairtk.StudySystem"
    output_version = 1
    leaves_notes = True

    def __init__(
        self, study: QrStudy, cell: Cell, llm: Any = None, alias: Cell | None = None
    ) -> None:
        super().__init__()
        self.study = study
        self.cell = cell
        self.alias = alias or cell
        self.llm = llm
        self.missing: pd.DataFrame | None = None
        self._system: Any = None
        self._fold: int | None = None

    def settings(self) -> dict[str, Any]:
        """Return the inputs that determine the results."""
        return self.study.identity(self.cell)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query."""
        runs: list[pd.DataFrame] = []
        notes: dict[str, dict[str, Any]] = {}
        missing: list[pd.DataFrame] = []
        with name_errors(self.alias), warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            for fold, topics in self._by_fold(inp):
                training, choice = self._prepare(fold)
                first = topics[QID].iloc[0]
                run, trace, failures, note = self._rank(topics)
                rows = dict(iter(trace.groupby(QID, sort=False)))
                for qid in topics[QID]:
                    notes[qid] = {
                        **note,
                        "training": training if qid == first else 0.0,
                        "chosen": choice if qid == first else None,
                        "trace": rows[qid].to_dict("records") if qid in rows else [],
                    }
                runs.append(run)
                missing += [] if failures is None else [failures]
            run = pd.concat(runs, ignore_index=True)
            require_columns(run, RUN, "the study")
            Run(run.drop(columns=RANK), "the study").checked()  # invalid rankings are not stored
        texts = []
        for record in records:  # the study issues those of fairtk
            if issubclass(record.category, FairtkWarning):
                texts.append(str(record.message))
            else:
                warnings.warn_explicit(
                    record.message, record.category, record.filename, record.lineno
                )
        for note in notes.values():
            note["warnings"] = texts
        self.missing = pd.concat(missing, ignore_index=True) if missing else None
        names = {name: run[name].map(str).astype(object) for name in (QID, DOCNO)}
        leave_notes(self, notes)
        return run[RUN].assign(**names)

    # Parts ------------------------------------------------------------------------------------

    def _by_fold(self, topics: pd.DataFrame) -> Iterator[tuple[int | None, pd.DataFrame]]:
        if not self.study.has_folds(self.cell):
            yield None, topics
            return
        for fold, part in topics.groupby(topics[QID].map(self.study.folds), sort=False):
            yield int(str(fold)), part

    def _prepare(self, fold: int | None) -> tuple[float, dict[str, Any] | None]:
        """Build the system for a fold if necessary; return the seconds and any tuned settings."""
        if self._system is not None and fold == self._fold:
            return 0.0, None
        study, cell, choice = self.study, self.cell, None
        begin = time.perf_counter()
        if cell.grid:
            assert fold is not None  # tuned systems have folds
            calls = len(self.llm.ledger)
            best = self._tuner.choose(fold)
            self._system = None  # frees the system of the last fold
            self._system = self._tuner.make_system(best.settings, fold)
            choice = {
                "fold": best.fold,
                "settings": json.dumps(plain(best.settings)),
                "value": best.value,
                "topics": best.topics,
                "seconds": best.seconds,
                "calls": len(self.llm.ledger) - calls,
            }
        elif cell.refines:
            self._system = study.refiner(cell, self.llm)
            begin = time.perf_counter()
        elif study.is_trained(cell):
            self._system = None
            self._system = self._fitted(fold)
        else:
            self._system = study.build(cell)
            begin = time.perf_counter()
            if hasattr(self._system, "prepare"):  # an index
                self._system.prepare()
        self._fold = fold
        return (0.0 if cell.refines and not cell.grid else time.perf_counter() - begin), choice

    def _fitted(self, fold: int | None) -> Any:
        topics, qrels = self.study.data.topics, self.study.data.qrels
        if len(topics) < 2:
            raise InputError(f"training requires at least two topics, got {len(topics)}")
        train = topics[topics[QID].map(self.study.folds) != fold]
        train = train.sort_values(QID, ignore_index=True)
        system = self.study.build(self.cell)
        system.fit(train, qrels[qrels[QID].isin(train[QID])])
        return system

    @cached_property
    def _tuner(self) -> Tuner:
        study, cell = self.study, self.cell
        trained = study.is_trained(cell)
        least = 3 if trained else 2
        if len(set(study.folds.values())) < least:
            raise InputError(
                f"tuning requires at least {least} folds and topics, for tuning, testing"
                f"{' and training' * trained}; use `tuning={{}}` for no tuning"
            )

        def build(**settings: Any) -> Any:
            candidate = cell.at(settings)
            return study.refiner(candidate, self.llm) if cell.refines else study.build(candidate)

        return Tuner(
            build,
            cell.grid,
            study.data.topics,
            study.data.qrels,
            measures(
                *study.data.attributes[cell.attribute], study.settings.cutoff, study.settings.ndcg
            )[PRODUCT],
            study.folds,
            trained,
            cell.system,
        )

    def _rank(
        self, topics: pd.DataFrame
    ) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame | None, dict[str, Any]]:
        """Return rankings, trace, failures, and the part of the note that is equal for all."""
        count = len(topics)
        begin = time.perf_counter()
        if not isinstance(self._system, FairQR):
            run = self._system.transform(topics)
            note = {"seconds": (time.perf_counter() - begin) / count, "waited": 0.0}
            return run, pd.DataFrame(columns=[QID]), None, note
        outcome = self._system.refine(topics)
        # counts are floats whether or not a query of the same call has none
        numbers = outcome.trace[_COUNTS].apply(pd.to_numeric).astype(float)
        trace = outcome.trace.assign(**dict(numbers.items()))
        note = {
            "seconds": (time.perf_counter() - begin) / count,
            "waited": outcome.waited / count,
        }
        return outcome.run, trace, outcome.missing, note
