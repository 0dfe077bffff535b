"""The study: every system for every attribute, each query's result kept as soon as it is there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from fairtk.errors import FairtkError, InputError, ParameterError, StageError
from fairtk.experiment.store import Store
from fairtk.llm import Ledger
from fairtk.studies.fair_qr.axes import Pair, named, pairs, side_settings
from fairtk.studies.fair_qr.cells import BM25, Cell
from fairtk.studies.fair_qr.estimates import Plan, plan
from fairtk.studies.fair_qr.layout import LEDGER, Layout
from fairtk.studies.fair_qr.results import StudyResults
from fairtk.studies.fair_qr.search import CollectionBM25
from fairtk.studies.fair_qr.tuned import tuned_ranking
from fairtk.studies.kept import StudyStage, gathered

Progress = Callable[[str], None]


class Study(Layout):
    """FAIR-QR against its baselines, as in the paper's Table 1, and its settings one by one.

        data = from_trec_fair("my/folder")
        study = Study(data, "study", KeywordRefiner())
        results = study.run()

    Answers of the model are in the ledger before they are used, and each query's ranking is in the
    store of the engine (``experiment.sqlite``) as soon as it is there: a run that was stopped goes
    on where it was, and gives what an uninterrupted one gives. A result is used again only if
    data, settings, model and the versions of what made it are the same.

    Args:
        data: topics, judgments, documents and attributes.
        folder: where results are kept; made when it is not there.
        llm: the model: a `fairtk.llm.ChatModel`, or what `fairtk.llm.as_chat_model` takes; or
            several by name: see `fairtk.studies.fair_qr.axes`.
        settings: how the study is done.
        ledger: where answers are kept; None: ``ledger.sqlite`` in the folder.
        retriever: Q -> R, deep; None: BM25 by PISA; or several by name.

    Attributes:
        sides: the studies of other pairs of model and retriever, whose cells are in the tables.

    Raises:
        NotFoundError: there is no such system or setting.
        ParameterError: a setting of BM25 or FAIR-QR is out of its range, or a name of a retriever
            is that of a system.
    """

    def _lay_out(self, llm: Any, retriever: Any) -> None:
        """Make the cells of the first model and retriever, and studies of all other pairs."""
        models, retrievers = named(llm, "model"), named(retriever, "retriever")
        first, base = next(iter(models.values())), next(iter(retrievers.values()))
        super()._lay_out(first, base)
        self.models, self.retrievers = list(models), list(retrievers)
        taken = {cell.system for cell in self.cells}
        for name in self.retrievers[1:]:
            if name in taken:
                raise ParameterError(f"a retriever must not be named like the system {name!r}")
        self.sides: dict[Pair, Study] = {}
        for pair in pairs(self.models, self.retrievers):
            own = (models.get(pair.model, first), retrievers.get(pair.retriever, base))
            settings = side_settings(self.settings)
            side = Study(self.data, self.folder, own[0], settings, self.ledger, own[1])
            side.__dict__["told"] = self.told
            self.sides[pair] = side

    @cached_property
    def told(self) -> dict[str, None]:
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
        with self._answers() as ledger:
            llm = ledger.wrap(self.llm)  # says that a budget needs a price
            pending = [cell for cell in self.cells if len(self.pending(cell))]
            if any(cell.refines for cell in pending):
                llm.check()
            for cell in pending:
                if not cell.refines and cell.base != BM25:
                    with _named(cell):  # wrong settings are said before anything is done
                        for tried in cell.grid or ({},):
                            self.build(cell.at(tried))
            for side in self.sides.values():
                other = ledger.wrap(side.llm)
                if any(cell.refines and len(side.pending(cell)) for cell in side.cells):
                    other.check()
            beside = {pair.shown: [s.llm, s.retriever] for pair, s in self.sides.items()}
            self.describe({"others": {k: list(map(repr, v)) for k, v in beside.items()}})
            with self.opened(make=True) as store:
                shown = [(self, cell, cell) for cell in self.cells]
                shown += [(side, cell, named_so) for side, cell, named_so in self._side_cells()]
                distinct: dict[str, tuple[Study, Cell, Cell]] = {}  # equal cells are done once
                for one in shown:
                    if not one[0].pending(one[1]).empty:
                        distinct.setdefault(one[0].key(one[1]), one)
                # nothing waits for a model
                left = sorted(distinct.values(), key=lambda one: one[1].refines)
                for number, (study, cell, named_so) in enumerate(left, 1):
                    if progress is not None:
                        progress(f"{number}/{len(left)} {cell.attribute}: {named_so.label}")
                    study._complete(cell, named_so, store, ledger)
                return self._results(ledger)

    def _side_cells(self) -> Iterator[tuple[Study, Cell, Cell]]:
        """Yield the cells of other pairs, and what the study calls them."""
        for pair, side in self.sides.items():
            for cell in side.cells:
                named_so = pair.renamed(cell)
                if named_so is not None:
                    yield side, cell, named_so

    @contextmanager
    def opened(self, make: bool = False) -> Iterator[Store]:
        """Open the store within the block, for the studies of other pairs, too."""
        with super().opened(make) as store:
            outer = [side for side in self.sides.values() if side._store is None]
            for side in outer:
                side._store = store
            try:
                yield store
            finally:
                for side in outer:
                    side._store = None

    def results(self) -> StudyResults:
        """Return the results so far; systems that are not begun are left out."""
        with self._answers() as ledger:
            return self._results(ledger)

    def plan(self) -> Plan:
        """Return what the study takes at most, and what of it is done, without any call."""
        return plan(self, {f" [{pair.shown}]": side for pair, side in self.sides.items()})

    @contextmanager
    def _answers(self) -> Iterator[Ledger]:
        """Give the ledger; one of our own is closed at the end."""
        if self.ledger is not None:  # an empty one is false, too
            yield self.ledger
            return
        with Ledger(self.folder / LEDGER) as ledger:
            yield ledger

    def _complete(self, cell: Cell, named_so: Cell, store: Store, ledger: Ledger) -> None:
        """Run a cell; what its system warned of is shown afterwards, when results are kept."""
        with _named(named_so):
            if isinstance(self.retriever, CollectionBM25) and cell.base != BM25:
                self.retriever.prepare()  # not in the time of whoever searches first
            if cell.grid:
                stage = self.stage(cell, tuned_ranking(self, cell, ledger))
            else:
                stage = self.refining(cell, ledger) if cell.refines else self.ranking(cell)
            try:
                self.engine(cell, store, stage).run()
            except StageError as error:
                raise (error.__cause__ or error) from None
        self._tell(stage)

    def _tell(self, stage: StudyStage) -> None:
        heard = {str(warning.message): warning for _, warning in reversed(stage.heard)}
        for text in gathered((qids, str(warning.message)) for qids, warning in stage.heard):
            if text not in self.told:
                self.told[text] = None
                first = next(w for said, w in heard.items() if text.startswith(said))
                warnings.warn_explicit(text, first.category, first.filename, first.lineno)

    def _results(self, ledger: Ledger) -> StudyResults:
        with self.opened():
            found = {cell: self.kept(cell) for cell in self.cells}
            models = dict.fromkeys(self.cells, self.llm)
            for side, cell, named_so in self._side_cells():
                found[named_so], models[named_so] = side.kept(cell), side.llm
        found = {cell: kept for cell, kept in found.items() if kept.records}
        if not found:
            raise InputError(f"the study in {self.folder} has no results yet: run it first")
        results = StudyResults(self.data, self.settings, found, self.llm, ledger.prices)
        results.models, results.store = models, self.folder
        results.own = [name for name in (self.models[0], self.retrievers[0]) if name]
        return results


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
