"""The layout of a study: its cells, how the system of each is made, where its results are kept."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import FairtkWarning, InputError, NotFoundError
from fairtk.experiment.chains import Tree
from fairtk.experiment.database import FILE
from fairtk.experiment.engine import Engine
from fairtk.experiment.executors import SerialExecutor
from fairtk.experiment.identity import describe_stage
from fairtk.experiment.store import Store
from fairtk.experiment.topics import Topics
from fairtk.experiment.tuner import folds
from fairtk.fair_qr.transformer import FairQR
from fairtk.frames.columns import QID
from fairtk.frames.content import digest
from fairtk.llm import Ledger, as_chat_model
from fairtk.plugins import registry
from fairtk.prompts.refine import as_refinement_prompt
from fairtk.studies.fair_qr.cells import BM25, FAIR_QR, OF_BM25, OWN, RANDOM, Cell, all_cells
from fairtk.studies.fair_qr.data import StudyData
from fairtk.studies.fair_qr.placebo import random_terms
from fairtk.studies.fair_qr.refining import Prepared, ranked, ranked_and_timed
from fairtk.studies.fair_qr.search import CollectionBM25
from fairtk.studies.fair_qr.setting import Setting
from fairtk.studies.fair_qr.settings import Settings
from fairtk.studies.kept import KeptCell, Ranked, StudyStage, read_cell
from fairtk.studies.writing import file_name, plain, write_json

LEDGER = "ledger.sqlite"


class Layout:
    """What is to be done, without doing it: the base of `Study`, which documents the arguments."""

    def __init__(
        self,
        data: StudyData,
        folder: str | PathLike[str],
        llm: Any,
        settings: Settings | None = None,
        ledger: Ledger | None = None,
        retriever: Any = None,
    ) -> None:
        self.data = data
        self.folder = Path(folder)
        self.settings = settings or Settings()
        self.ledger = ledger
        self._lay_out(llm, retriever)

    def _lay_out(self, llm: Any, retriever: Any) -> None:
        """Make the cells, of one model and one retriever."""
        self.settings.check_folds(len(self.data.topics))
        self.llm = as_chat_model(llm)
        own = retriever is None  # another retriever's settings are not known
        self.retriever = self._bm25() if own else retriever
        self.cells = list(all_cells(self.settings, self.data.attributes, own))
        self._store: Store | None = None
        for cell in self.cells:
            for tried in cell.grid or ({},):  # wrong settings are said before anything is done
                if cell.refines:
                    self.refiner(cell.at(tried), self.llm)
                elif cell.base == BM25:
                    self.build(cell.at(tried))

    @contextmanager
    def opened(self, make: bool = False) -> Iterator[Store]:
        """Open the store within the block; one that is not there is empty, and made on demand."""
        if self._store is not None:
            yield self._store
            return
        there = make or (self.folder / FILE).exists()
        self._store = Store(self.folder if there else None)
        try:
            yield self._store
        finally:
            self._store.close()
            self._store = None

    def kept(self, cell: Cell) -> KeptCell:
        """Return what there is of a cell; equal cells have one place."""
        with self.opened() as store:
            return read_cell(self.engine(cell, store), self.data.topics[QID].tolist())

    def pending(self, cell: Cell) -> pd.DataFrame:
        """Return the topics of a cell that are not done."""
        with self.opened() as store:
            engine = self.engine(cell, store)
            [node] = engine.tree.ends.values()
            done = engine.done(node)
        return self.data.topics[~self.data.topics[QID].isin(done)]

    def engine(self, cell: Cell, store: Store, stage: StudyStage | None = None) -> Engine:
        """Return the engine that has the stage of a cell alone.

        A baseline's queries are kept one by one; the loops of FAIR-QR go side by side.

        Args:
            cell: the cell.
            store: where its results are.
            stage: what makes results; None: nobody asks for any.
        """
        stage = stage or self.stage(cell, lambda topics: Ranked(topics))
        executor = SerialExecutor()
        return Engine(
            Tree({f"{cell.attribute}: {cell.label}": stage}, durable=True),
            self._by_fold if cell.grid or self.trained(cell) else self._topics,
            store,
            executor,
            executor.default_threads,
            batch_size=None if cell.refines and not cell.grid else 1,
            fail_fast=True,
        )

    def stage(self, cell: Cell, rank: Callable[[pd.DataFrame], Ranked]) -> StudyStage:
        """Return the stage of a cell.

        Args:
            cell: the cell.
            rank: what ranks queries.
        """
        return StudyStage(self._identities[cell], rank)

    def refining(self, cell: Cell, ledger: Ledger) -> StudyStage:
        """Return the stage of a cell that refines."""
        llm: Any = ledger.wrap(self.llm)
        if cell.base == RANDOM:
            traces = {own: self.kept(own).traces for own in self.cells if own.system == FAIR_QR}
            llm = random_terms(self.data, self.retriever, traces, cell, self.settings.seed)
        refiner = self.refiner(cell, llm)
        rank = ranked if cell.variation else ranked_and_timed
        return self.stage(cell, lambda topics: rank(refiner, topics))

    def ranking(self, cell: Cell) -> StudyStage:
        """Return the stage of a cell that does not refine.

        A trained system is fitted on the topics of all folds but one, when the first topic of that
        fold is to be ranked: topics come fold by fold.
        """
        if not self.trained(cell):
            return self.stage(cell, Prepared(self.build(cell)))
        every, qrels = self.data.topics, self.data.qrels
        if len(every) < 2:
            raise InputError("training and testing on different topics needs two topics at least")
        fitted: dict[int, Any] = {}  # the last fold's

        def rank(topics: pd.DataFrame) -> Ranked:
            runs, seconds = [], 0.0
            for number, part in topics.groupby(topics[QID].map(self.folds), sort=False):
                if number not in fitted:
                    train = every[every[QID].map(self.folds) != number]
                    train = train.sort_values(QID, ignore_index=True)
                    begin = time.perf_counter()
                    system = self.build(cell)
                    system.fit(train, qrels[qrels[QID].isin(train[QID])])
                    seconds += time.perf_counter() - begin
                    fitted.clear()
                    fitted[int(number)] = system
                runs.append(fitted[int(number)].transform(part))
            return Ranked(pd.concat(runs, ignore_index=True), training=seconds)

        return self.stage(cell, rank)

    def refiner(self, cell: Cell, llm: Any) -> FairQR:
        """Return the transformer of a cell that refines."""
        groups, target = self.data.attributes[cell.attribute]
        options = {"qrels": self.data.qrels, **cell.options}
        searching = {name: options.pop(name) for name in OF_BM25 if name in options}
        retriever = self._bm25(**searching) if searching else self.retriever
        with warnings.catch_warnings():
            # the no-op of pool="union" is one of the things that the study shows
            warnings.filterwarnings("ignore", message=".*pool='union'", category=FairtkWarning)
            return FairQR(retriever, groups, target, llm, **options)

    def build(self, cell: Cell) -> Any:
        """Return the system of a cell that does not refine; a trained one is not fitted yet."""
        if cell.base == BM25:
            return self._bm25(**cell.options) if cell.options else self.retriever
        groups, target = self.data.attributes[cell.attribute]
        setting = Setting(
            attribute=cell.attribute,
            groups=groups,
            target=target,
            retriever=self.retriever,
            texts=self.data.texts,
            documents=self.data.documents,
            collection=self.data.collection,
            cutoff=self.settings.cutoff,
            candidates=self.settings.candidates,
            seed=self.settings.seed,
            folder=self.folder / "systems" / file_name(cell.base),
            options=cell.options,
        )
        return registry.study_systems.load(cell.base)(setting)

    def _bm25(self, **changed: Any) -> CollectionBM25:
        index = self.folder / f"index-{self.data.collection}"
        options = {**self.settings.bm25, **changed}
        for name in options:
            if name not in OF_BM25:
                raise NotFoundError("setting of [bm25]", name, OF_BM25)
        return CollectionBM25(index, self.data.documents, **options)

    def trained(self, cell: Cell) -> bool:
        """Return whether the system of a cell is fitted on topics."""
        return cell.base not in OWN and registry.study_systems.get(cell.base).trained

    @cached_property
    def folds(self) -> dict[str, int]:
        """The fold of each topic; one topic per fold at least."""
        qids = self.data.topics[QID].tolist()
        return folds(qids, min(self.settings.folds, len(qids)), self.settings.seed)

    @cached_property
    def _topics(self) -> Topics:
        return Topics(self.data.topics, durable=True)

    @cached_property
    def _by_fold(self) -> Topics:
        topics = self.data.topics
        order = topics[QID].map(self.folds).argsort(kind="stable")
        return Topics(topics.iloc[order], durable=True)

    def key(self, cell: Cell) -> str:
        """Return a digest of what decides a cell's results; equal cells have one."""
        return digest(self._identities[cell])

    @cached_property
    def _identities(self) -> dict[Cell, dict[str, Any]]:
        return {cell: self._identity(cell) for cell in self.cells}

    def _identity(self, cell: Cell) -> dict[str, Any]:
        """Return what decides a cell's results, as JSON values."""
        groups, target = self.data.attributes[cell.attribute]
        owners = {e.name: e.owner for e in registry.study_systems.entries()}
        made: dict[str, Any] = {
            "system": cell.system,
            "given by": "" if cell.base in OWN else owners[cell.base],
            "options": {k: plain(v) for k, v in sorted(cell.options.items())},
            **self.data.key,
            "groups": groups.key,
            "target": target.key,
            "retriever": self._retriever,
        }
        if cell.grid:
            tried = [{k: plain(v) for k, v in sorted(one.items())} for one in cell.grid]
            judged = [self.settings.ndcg, self.settings.cutoff]
            split = [self.settings.folds, self.settings.seed]
            made |= {"tried": tried, "judged by": judged, "folds": split}
        if cell.base == RANDOM:
            made["seed"] = self.settings.seed
        if cell.refines:
            prompt = as_refinement_prompt(cell.options["prompt"], "FairQR")
            if hasattr(prompt, "digest"):  # its options, and what a plugin's says of itself
                made["prompt"] = prompt.digest()
            return made | {"model": [self.llm.name, plain(self.llm.parameters())]}
        made["cutoff"] = self.settings.cutoff
        if cell.base != BM25:
            made |= {"candidates": self.settings.candidates, "seed": self.settings.seed}
        return made | ({"folds": self.settings.folds} if self.trained(cell) else {})

    @cached_property
    def _retriever(self) -> Any:
        shown = self.retriever
        if isinstance(shown, CollectionBM25):  # wherever its index is
            return f"CollectionBM25({shown.num_results}, k1={shown.k1}, b={shown.b})"
        return describe_stage(shown)

    def describe(self, more: Mapping[str, Any]) -> None:
        """Write ``study.json``: settings, versions, and what more there is."""
        shown = self._retriever
        found = {
            "data": self.data.name,
            "topics": len(self.data.topics),
            "attributes": list(self.data.attributes),
            "settings": self.settings.as_json(),
            "model": repr(self.llm),
            "retriever": shown if isinstance(shown, str) else repr(self.retriever),
            **more,
            "versions": {
                "fairtk": f"fairtk {version('fairtk')}",
                "python": platform.python_version(),
                "pyterrier": version("pyterrier"),
                "systems": sorted({e.owner for e in registry.study_systems.entries()}),
            },
        }
        write_json(self.folder / "study.json", found)
