"""What a system of a study makes of topics."""

from __future__ import annotations

import json
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import FairtkWarning, InputError, NotFoundError
from fairtk.experiment import (
    FILE,
    Choice,
    Engine,
    SerialExecutor,
    Store,
    Topics,
    Tree,
    Tuner,
    describe_stage,
    folds,
)
from fairtk.frames import QID, QUERY, digest
from fairtk.llm import Ledger, as_chat_model, as_refinement_prompt
from fairtk.plugins import registry
from fairtk.studies.configuration import file_name, plain, write_json
from fairtk.studies.fair_qr.cells import (
    BM25,
    FAIR_QR,
    OF_BM25,
    OWN,
    RANDOM,
    Cell,
    all_cells,
    random_terms,
)
from fairtk.studies.fair_qr.data import Setting, StudyData
from fairtk.studies.fair_qr.settings import Settings
from fairtk.studies.fair_qr.values import PRODUCT, measures
from fairtk.studies.kept import KeptCell, Ranked, StudyStage, read_cell
from fairtk.transformers import CollectionBM25, FairQR

_ALONE = 3  # topics that are timed one by one
_COUNTS = ["retrieved", "prompt_tokens", "completion_tokens", "seconds"]


class Prepared:
    """Ranks with a system that is not trained; what has ``prepare()``, an index, is made before.

    Args:
        system: Q -> R.
    """

    def __init__(self, system: Any) -> None:
        self.system = system
        self._prepare = getattr(system, "prepare", None)

    def __call__(self, topics: pd.DataFrame) -> Ranked:
        """Return rankings, and the seconds of preparing as those of training."""
        begin = time.perf_counter()
        if self._prepare is not None:
            self._prepare()
            self._prepare = None
        seconds = time.perf_counter() - begin
        return Ranked(self.system.transform(topics), training=seconds)


def ranked(system: Any, topics: pd.DataFrame) -> Ranked:
    """Return what a system makes of topics, with a trace and what is missing if it refines."""
    if not isinstance(system, FairQR):
        return Ranked(system.transform(topics))
    found = system.refine(topics)
    # counts are integers only where no other query of the same call lacks one
    numbers = found.trace[_COUNTS].apply(pd.to_numeric).astype(float)
    trace = found.trace.assign(**dict(numbers.items()))
    return Ranked(found.run, trace, found.missing, found.waited)


def ranked_and_timed(system: FairQR, topics: pd.DataFrame) -> Ranked:
    """Return what FAIR-QR makes of topics, and how long one of them takes by itself.

    Side by side, queries share retrievals. A few that were answered are done again one by one,
    with the recorded answers: what a user who asks one query waits for beside the model.
    """
    found = ranked(system, topics)
    trace = found.trace
    if trace is None:
        return found
    refined = trace[trace["iteration"] > 0]
    answered = set(refined[QID]) - set(refined.loc[refined[QUERY] == "", QID])
    sample = topics[topics[QID].isin(answered)].head(_ALONE)
    begin, own = time.perf_counter(), 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said before
        for place in range(len(sample)):
            start = time.perf_counter()
            waited = system.refine(sample.iloc[[place]]).waited
            own += time.perf_counter() - start - waited
    measuring = time.perf_counter() - begin
    alone = own / len(sample) if len(sample) else found.alone
    return replace(found, alone=alone, measuring=measuring)


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


_CHOSEN = ["fold", "settings", "value", "topics", "seconds", "calls"]


def tuned_ranking(study: Layout, cell: Cell, ledger: Ledger) -> Callable[[pd.DataFrame], Ranked]:
    """Return what ranks topics with the settings that are best on the folds without them."""
    data, settings = study.data, study.settings
    least = 3 if study.trained(cell) else 2
    if len(set(study.folds.values())) < least:
        raise InputError(
            f"tuning needs {least} folds and topics at least: some to choose settings on, others "
            f"to show{', others to train on' * (least > 2)}; leave it out by --no-tuning "
            "(Settings(tuning={}))"
        )
    groups, target = data.attributes[cell.attribute]
    llm = ledger.wrap(study.llm)

    def build(**chosen: Any) -> Any:
        own = cell.at(chosen)
        return study.refiner(own, llm) if cell.refines else study.build(own)

    tuner = Tuner(
        build,
        cell.grid,
        data.topics,
        data.qrels,
        measures(groups, target, settings.cutoff, settings.ndcg)[PRODUCT],
        study.folds,
        study.trained(cell),
        cell.system,
    )
    made: dict[int, Any] = {}  # the last fold's

    def rank(topics: pd.DataFrame) -> Ranked:
        parts, chosen, seconds = [], {}, 0.0
        for number, part in topics.groupby(topics[QID].map(tuner.folds), sort=False):
            if number not in made:
                begin, recorded = time.perf_counter(), len(ledger)
                choice = tuner.choose(int(number))
                made.clear()
                made[int(number)] = tuner.made(choice.settings, int(number))
                seconds += time.perf_counter() - begin
                chosen[part[QID].iloc[0]] = _row(choice, len(ledger) - recorded)
            parts.append(ranked(made[int(number)], part))
        return Ranked.stacked(parts, seconds, chosen)

    return rank


def _row(choice: Choice, calls: int) -> dict[str, Any]:
    settings = json.dumps({name: plain(value) for name, value in choice.settings.items()})
    return dict(
        zip(
            _CHOSEN,
            (choice.fold, settings, choice.value, choice.topics, choice.seconds, calls),
            strict=True,
        )
    )


def choices(kept: KeptCell) -> pd.DataFrame:
    """Return what was chosen for each fold: `_CHOSEN`; ``calls`` are answers newly recorded."""
    rows: list[Mapping[str, Any]] = [r["chosen"] for r in kept.records.values() if r.get("chosen")]
    return pd.DataFrame(rows, columns=_CHOSEN).sort_values("fold", ignore_index=True)
