"""What a study takes, before any call is made."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from fairtk.errors import FairtkError, InputError, ParameterError, StageError
from fairtk.experiment import Store
from fairtk.frames import QID, digest
from fairtk.llm import Ledger
from fairtk.studies.fair_qr.cells import BM25, RANDOM, Cell
from fairtk.studies.fair_qr.layout import LEDGER, Layout, tuned_ranking
from fairtk.studies.fair_qr.report import StudyResults
from fairtk.studies.fair_qr.systems import Pair, named, pairs, side_settings
from fairtk.studies.kept import StudyStage, gathered
from fairtk.transformers import CollectionBM25

_AFTER_THE_LOOP = (
    "pool",
    "threshold",
    "k",
    "rerank",
    "reranker",
    "weight",
    "floor",
    "max_iterations",
    "qrels",
)
"""Settings that do not change which calls are made, or only how many of them."""


@dataclass(frozen=True)
class Plan:
    """What a study takes at most.

    Attributes:
        rows: one row per loop whose calls differ: ``attribute``, ``systems`` (that share its
            answers), ``topics`` (that are not done), ``calls``, ``prompt_tokens``,
            ``completion_tokens``, ``price`` (NaN: unknown): every topic refined as often as
            allowed, every answer as long as allowed. Only the tokens of prompts are no upper bound:
            refined keywords are longer than the original ones.
        recorded: answers that are in the ledger already; calls that they answer are counted.
        cells: how many cells the study has.
        done: how many of them are done.
    """

    rows: pd.DataFrame
    recorded: int
    cells: int
    done: int

    @property
    def total(self) -> Mapping[str, float]:
        """The sums: ``calls``, ``prompt_tokens``, ``completion_tokens``, ``price``."""
        names = ["calls", "prompt_tokens", "completion_tokens", "price"]
        return {name: float(self.rows[name].sum(skipna=False)) for name in names}


def plan(study: Layout, sides: Mapping[str, Layout]) -> Plan:
    """Return what a study takes at most, without any call and without a result.

    Args:
        study: the study.
        sides: the studies of other models and retrievers, by what their systems are called after.
    """
    path = study.folder / LEDGER
    ledger = study.ledger
    with contextlib.ExitStack() as stack:
        if ledger is None and path.exists():
            ledger = stack.enter_context(Ledger(path))
        stack.enter_context(study.opened())
        found = [_plan(study, ledger)]
        for name, side in sides.items():
            more = _plan(side, ledger)
            found.append(replace(more, rows=more.rows.assign(systems=more.rows["systems"] + name)))
    rows = [one.rows for one in found if len(one.rows)] or [found[0].rows]
    counts = {name: sum(getattr(one, name) for one in found) for name in ("cells", "done")}
    return replace(found[0], rows=pd.concat(rows, ignore_index=True), **counts)


def _plan(study: Layout, ledger: Ledger | None) -> Plan:
    loops: dict[str, list[tuple[Cell, Cell]]] = {}
    done = 0
    for cell in study.cells:
        if study.pending(cell).empty:
            done += 1
        elif cell.refines and cell.base != RANDOM:
            for tried in [cell.at(one) for one in cell.grid] or [cell]:
                loops.setdefault(_loop(tried), []).append((cell, tried))
    rows = [_row(study, same, ledger) for same in loops.values()]
    columns = ["attribute", "systems", "topics"]
    columns += ["calls", "prompt_tokens", "completion_tokens", "price"]
    return Plan(
        pd.DataFrame(rows, columns=columns),
        0 if ledger is None else len(ledger),
        len(study.cells),
        done,
    )


def _loop(cell: Cell) -> str:
    kept = {k: v for k, v in cell.options.items() if k not in _AFTER_THE_LOOP}
    return digest([cell.attribute, kept])


def _row(study: Layout, same: list[tuple[Cell, Cell]], ledger: Ledger | None) -> list[Any]:
    """Return the row of cells that make the same calls, some of them more of these.

    Args:
        study: the study.
        same: the cells, each with one that has the settings which are used, or tried in tuning.
        ledger: what has answers and prices.
    """
    llm = study.llm if ledger is None else ledger.wrap(study.llm)
    cells = list(dict.fromkeys(cell for cell, _ in same))
    # tuning ranks all topics, whatever is left of its own
    asked = [study.data.topics if cell.grid else study.pending(cell) for cell in cells]
    topics = study.data.topics[study.data.topics[QID].isin(pd.concat(asked)[QID])]
    # those of one loop differ in how often it goes round
    longest = {tried.options["max_iterations"]: tried for _, tried in same}
    estimates = [study.refiner(tried, llm).estimate(topics) for tried in longest.values()]
    found = max(estimates, key=lambda estimate: estimate.calls)
    price = math.nan if found.price is None else float(found.price)
    names = "; ".join(cell.label for cell in cells)
    counts = [found.calls, found.prompt_tokens, found.completion_tokens, price]
    return [cells[0].attribute, names, len(topics), *counts]


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
            several by name: see `fairtk.studies.fair_qr.systems`.
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
