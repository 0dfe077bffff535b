"""The study: every system for every attribute, each query's result kept as soon as it is there."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pandas as pd

from fairtk.errors import FairtkError, FairtkWarning, InputError
from fairtk.frames.columns import QID
from fairtk.llm import Ledger
from fairtk.studies.fair_qr.cells import BM25, Cell
from fairtk.studies.fair_qr.clock import Clocked
from fairtk.studies.fair_qr.estimates import Plan, plan
from fairtk.studies.fair_qr.layout import Layout
from fairtk.studies.fair_qr.results import StudyResults
from fairtk.studies.fair_qr.saved import SavedCell
from fairtk.studies.fair_qr.search import CollectionBM25
from fairtk.studies.fair_qr.splitting import folds

Progress = Callable[[str], None]


class Study(Layout):
    """FAIR-QR against its baselines, as in the paper's Table 1, and its settings one by one.

        data = from_trec_fair("my/folder")
        study = Study(data, "study", KeywordRefiner())
        results = study.run()

    Answers of the model are in the ledger before they are used, and each query's ranking is a file
    as soon as it is there: a run that was stopped goes on where it was, and gives what an
    uninterrupted one gives. A result is used again only if data, settings, model and the versions
    of what made it are the same.

    Args:
        data: topics, judgments, documents and attributes.
        folder: where results are kept; made when it is not there.
        llm: the model: a `fairtk.llm.ChatModel`, or what `fairtk.llm.as_chat_model` takes.
        settings: how the study is done.
        ledger: where answers are kept; None: ``ledger.sqlite`` in the folder.
        retriever: Q -> R, deep; None: BM25 by PISA.

    Raises:
        NotFoundError: there is no such system or setting.
        ParameterError: a setting of BM25 or FAIR-QR is out of its range.
    """

    @cached_property
    def _told(self) -> dict[str, None]:
        """Warnings that were shown, in order: each is shown once."""
        return {}

    def run(self, progress: Progress | None = None) -> StudyResults:
        """Do what is not done yet, and return the results.

        Args:
            progress: told which cell begins.

        Raises:
            LLMError, BudgetError, OfflineError: the model cannot be asked; all else is kept.
            ParameterError: the environment lacks the model's key.
            FairtkError: a system failed; the message names it. What was done is kept.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        ledger = self.ledger
        if ledger is None:  # an empty one is false, too
            ledger = Ledger(self.folder / "ledger.sqlite")
        try:
            llm = ledger.wrap(self.llm)  # says that a budget needs a price
            if any(cell.refines and len(self.pending(cell)) for cell in self.cells):
                llm.check()
            for cell in self.cells:
                if not cell.refines and cell.system != BM25 and len(self.pending(cell)):
                    with _named(cell):
                        self.build(cell)  # wrong settings are said before anything is done
            self.describe()
            for number, cell in enumerate(self.cells, 1):
                topics = self.pending(cell)
                if topics.empty:
                    continue
                if progress is not None:
                    progress(f"{number}/{len(self.cells)} {cell.attribute}: {cell.label}")
                self._complete(cell, topics, ledger)
            return self._results(ledger)
        finally:
            if self.ledger is None:
                ledger.close()

    def results(self) -> StudyResults:
        """Return the results so far; systems that are not begun are left out."""
        if self.ledger is not None:
            return self._results(self.ledger)
        with Ledger(self.folder / "ledger.sqlite") as ledger:
            return self._results(ledger)

    def plan(self) -> Plan:
        """Return what the study takes at most, and what of it is done, without any call."""
        return plan(self)

    # One cell ----------------------------------------------------------------------------------

    def _complete(self, cell: Cell, topics: pd.DataFrame, ledger: Ledger) -> None:
        saved = self.saved(cell)
        saved.note("cell", self.identity(cell))
        with _named(cell), warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            if isinstance(self.retriever, CollectionBM25):
                self.retriever.prepare()  # not in the time of whoever searches first
            if cell.refines:
                self._refine(cell, saved, topics, ledger)
            elif self.trained(cell):
                self._cross_fit(cell, saved, topics)
            else:
                self._keep(cell, saved, self.build(cell), topics)
        said = [str(w.message) for w in heard if issubclass(w.category, FairtkWarning)]
        # what is missing now may be there after the next run, and is kept by name
        said = [text for text in said if "have no result" not in text]
        saved.note("warnings", list(dict.fromkeys([*saved.noted("warnings", []), *said])))
        for warning in heard:
            if str(warning.message) not in self._told:
                self._told[str(warning.message)] = None
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )

    def _refine(self, cell: Cell, saved: SavedCell, topics: pd.DataFrame, ledger: Ledger) -> None:
        llm = Clocked(ledger.wrap(self.llm))
        refiner = self.refiner(cell, llm)
        begin = time.perf_counter()
        found = refiner.refine(topics)
        seconds = time.perf_counter() - begin
        self._time(saved, len(topics), seconds, llm.waited[0])  # before results: they are the end
        missing = dict(zip(found.missing[QID], found.missing["reason"], strict=True))
        traces = dict(iter(found.trace.groupby(QID, sort=False)))
        for qid in topics[QID]:
            if qid in missing:
                saved.save_trace(qid, traces[qid])
            else:
                saved.save(qid, found.run[found.run[QID] == qid], traces.get(qid))
        saved.note("missing", missing)

    def _cross_fit(self, cell: Cell, saved: SavedCell, topics: pd.DataFrame) -> None:
        every, qrels = self.data.topics, self.data.qrels
        if len(every) < 2:
            raise InputError("training and testing on different topics needs two topics at least")
        fold = folds(every[QID].tolist(), min(self.settings.folds, len(every)), self.settings.seed)
        place = every[QID].map(fold)
        for number in sorted(set(topics[QID].map(fold))):
            train = every[place != number].sort_values(QID, ignore_index=True)
            begin = time.perf_counter()
            system = self.build(cell)
            system.fit(train, qrels[qrels[QID].isin(train[QID])])
            seconds = time.perf_counter() - begin
            saved.note("training", saved.noted("training", 0.0) + seconds)
            self._keep(cell, saved, system, topics[topics[QID].map(fold) == number])

    def _keep(self, cell: Cell, saved: SavedCell, system: Any, topics: pd.DataFrame) -> None:
        """Run a system and keep what it found."""
        begin = time.perf_counter()
        run = system.transform(topics)
        seconds = time.perf_counter() - begin
        run = run.assign(**{QID: run[QID].astype(str)})
        parts = dict(iter(run.groupby(QID, sort=False)))
        self._time(saved, len(topics), seconds)
        for qid in topics[QID]:
            saved.save(qid, parts.get(qid, run[:0]))

    def _time(self, saved: SavedCell, queries: int, seconds: float, waited: float = 0.0) -> None:
        before = saved.noted("time", {"queries": 0, "seconds": 0.0, "waited": 0.0})
        now = {"queries": queries, "seconds": seconds, "waited": waited}
        saved.note("time", {name: before[name] + now[name] for name in now})

    def _results(self, ledger: Ledger) -> StudyResults:
        found = {}
        for cell in self.cells:
            saved = self.saved(cell)
            done = saved.done(self.data.topics[QID])
            if done or saved.noted("missing", {}):
                found[cell] = saved
        if not found:
            raise InputError(f"the study in {self.folder} has no results yet: run it first")
        return StudyResults(self.data, self.settings, found, self.llm, ledger.prices)


@contextmanager
def _named(cell: Cell) -> Iterator[None]:
    """Put the system's name before the errors of what plugins give."""
    try:
        yield
    except Exception as error:
        if cell.refines:
            raise
        kind = InputError if isinstance(error, InputError) else FairtkError
        what = str(error) if isinstance(error, FairtkError) else f"{type(error).__name__}: {error}"
        raise kind(f"system {cell.system!r} for {cell.attribute!r}: {what}") from error
