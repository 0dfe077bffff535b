"""The study: what it takes, what is done, and its results."""

from __future__ import annotations

import contextlib
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import (
    FairtkWarning,
    InputError,
    ParameterError,
    StageError,
    format_list,
)
from fairtk.experiment import Experiment, describe_stage, folds, plan
from fairtk.experiment.engine import Topics
from fairtk.experiment.store import Store
from fairtk.frames import QID, digest
from fairtk.llm import ChatModel, DeferredError, Ledger, as_chat_model
from fairtk.llm.refinement import as_refinement_prompt
from fairtk.plugins import registry
from fairtk.transformers import CollectionBM25, FairQR
from fairtk_papers.fair_qr.results import QrResults
from fairtk_papers.fair_qr.settings import (
    OF_BM25,
    QrConfiguration,
    QrData,
    QrSettings,
    from_trec_fair,
)
from fairtk_papers.fair_qr.stages import (
    StudySystem,
    done,
    gathered,
    naming,
    stored_results,
)
from fairtk_papers.fair_qr.systems import (
    BM25,
    FAIR_QR,
    FIXED,
    OWN,
    RANDOM,
    Cell,
    Pair,
    all_cells,
    configured_models,
    configured_retrievers,
    make_bm25,
    make_system,
    named,
    names_of,
    pairs,
    random_terms,
    refuse_runs,
    side_settings,
    systems,
)
from fairtk_papers.studies import (
    COUNTS,
    FACTS,
    STORE,
    GivenRun,
    StudyPlan,
    names_repeat,
    plain,
    write_json,
)

STATUS = ["attribute", "system", "queries", "done", "failed", "missing"]
_SERIAL = 1
"""Queries that a system without a model ranks and keeps at a time."""
_SIDE_BY_SIDE = 8
"""Queries of a worker at a time, whose loops go side by side."""
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
_AT_MOST = (
    "Calls at most: every topic refined as often as allowed. Tokens and price are rough: answers "
    "as long as allowed, prompts as long as the first ones. "
)


def _loop(cell: Cell) -> str:
    asked = {k: v for k, v in cell.options.items() if k not in _AFTER_THE_LOOP}
    return digest([cell.attribute, asked])


def _rows(
    study: QrStudy, suffix: str, pending: Mapping[Cell, pd.DataFrame], ledger: Ledger | None
) -> Iterator[list[Any]]:
    """Yield a row per loop, of cells that make the same calls, some of them more of these.

    The loops that tuning alone goes through are one row of an attribute.

    Args:
        study: the study.
        suffix: of the systems' names.
        pending: the topics of each cell that are not done.
        ledger: what has answers and prices.
    """
    loops: dict[str, list[tuple[Cell, Cell]]] = {}
    for cell, topics in pending.items():
        if len(topics) and cell.refines and cell.base != RANDOM:
            for tried in [cell.at(one) for one in cell.grid] or [cell]:
                loops.setdefault(_loop(tried), []).append((cell, tried))
    parts: dict[str, list[list[tuple[Cell, Cell]]]] = {}
    for loop, same in loops.items():
        is_shared = any(not cell.grid for cell, _ in same)
        parts.setdefault(loop if is_shared else same[0][0].attribute, []).append(same)
    # each cell is named once: where it comes last, which for what is tuned is its own row
    last = {cell: key for key, part in parts.items() for same in part for cell, _ in same}
    llm = study.llm if ledger is None else ledger.wrap(study.llm)
    for key, part in parts.items():
        counts = [_most_calls(study, same, pending, llm) for same in part]
        named = [cell for cell in last if last[cell] == key]
        names = "; ".join(cell.label + suffix for cell in named)
        topics = max(n for n, *_ in counts)
        sums = [sum(numbers) for numbers in zip(*(rest for _, *rest in counts), strict=True)]
        yield [named[0].attribute, topics, *sums, names]


def _most_calls(
    study: QrStudy,
    same: list[tuple[Cell, Cell]],
    pending: Mapping[Cell, pd.DataFrame],
    llm: ChatModel,
) -> list[Any]:
    """Return the number of topics and `COUNTS` of a loop.

    Args:
        study: the study.
        same: the cells, each with one that has the settings which are used, or tried in tuning.
        pending: the topics of each cell that are not done.
        llm: the model, behind a ledger if there is one.
    """
    # tuning ranks all topics, whatever is left of its own
    rows = pd.concat([study.data.topics if cell.grid else pending[cell] for cell, _ in same])
    topics = study.data.topics[study.data.topics[QID].isin(rows[QID])]
    # those of one loop differ in how often it goes round
    longest = {tried.options["max_iterations"]: tried for _, tried in same}
    estimates = [study.refiner(tried, llm).estimate(topics) for tried in longest.values()]
    most = max(estimates, key=lambda estimate: estimate.calls)
    return [len(topics), most.calls, most.prompt_tokens, most.completion_tokens, most.price]


Progress = Callable[[str], None]
OwnCell = tuple["QrStudy", Cell, Cell]
"""A cell with the study that runs it, and as the tables call it."""


class QrStudy:
    """FAIR-QR against its baselines, as in the paper's Table 1, and its settings one by one.

        data = from_trec_fair("my/folder")
        study = QrStudy(data, "study", KeywordRefiner())
        results = study.run()

    Answers of the model are in the ledger before they are used, and each query's ranking is in the
    store of the experiment (``experiment.sqlite``) as soon as it is there: a run that was stopped
    goes on where it was, and gives what an uninterrupted one gives. A result is used again only if
    data, settings, model and the versions of what made it are the same.

    Args:
        data: topics, judgments, documents and attributes.
        folder: where results are kept; made when it is not there.
        llm: the model: a `fairtk.llm.ChatModel`, or what `fairtk.llm.as_chat_model` takes; or
            several by name: see `fairtk_papers.fair_qr.systems`.
        settings: how the study is done.
        ledger: where answers are kept; `None`: the store in the folder, ``experiment.sqlite``.
        retriever: Q -> R, deep; None: BM25 by PISA; or several by name, of which those after the
            first may be a `fairtk_papers.studies.GivenRun`.
        **engine: arguments of `fairtk.Experiment`: ``executor``, ``workers``, ``scheduler``,
            ``threads``, ``batch_size``.

    Attributes:
        sides: the studies of other pairs of model and retriever, whose cells are in the tables.
        told: warnings that were shown, in order: each is shown once.

    Raises:
        NotFoundError: there is no such system or setting.
        ParameterError: a setting of BM25 or FAIR-QR is out of its range, a name of a retriever is
            that of a system, or a system is to be built on a run.
        InputError: a run has topics or documents that the data do not have.
    """

    def __init__(
        self,
        data: QrData,
        folder: str | PathLike[str],
        llm: Any,
        settings: QrSettings | None = None,
        ledger: Ledger | None = None,
        retriever: Any = None,
        **engine: Any,
    ) -> None:
        self.data = data
        self.folder = Path(folder)
        self.settings = settings or QrSettings()
        self.ledger = ledger
        self.engine = engine
        self.settings.check_folds(len(data.topics))
        models, retrievers = named(llm, "model"), named(retriever, "retriever")
        first, base = next(iter(models.values())), next(iter(retrievers.values()))
        runs = [name for name, own in retrievers.items() if isinstance(own, GivenRun)]
        refuse_runs(self.settings, runs)
        if isinstance(base, GivenRun) and self.settings.systems != (BM25,):  # as in a side
            raise ParameterError(f"the first retriever must not be a run: {FIXED}")
        self.models, self.retrievers = list(models), list(retrievers)
        self.llm: ChatModel = as_chat_model(first)
        self.retriever = self._bm25() if base is None else base
        # another retriever's settings are not known
        self.cells = list(all_cells(self.settings, data.attributes, own_bm25=base is None))
        for cell in self.cells:
            for tried in cell.grid or ({},):  # wrong settings are said before anything is done
                if cell.refines:
                    self.refiner(cell.at(tried), self.llm)
                elif cell.base == BM25:
                    self.build(cell.at(tried))
        self.told: dict[str, None] = {}
        systems = {cell.system for cell in self.cells}
        for name in self.retrievers[1:]:
            if name in systems:
                raise ParameterError(f"a retriever must not be named like the system {name!r}")
        self.sides: dict[Pair, QrStudy] = {}
        for pair in pairs(self.models, retrievers):
            own = (models.get(pair.model, first), retrievers.get(pair.retriever, base))
            if isinstance(own[1], GivenRun):
                data.check_run(own[1])
            once = side_settings(self.settings, own[1])
            side = QrStudy(data, folder, own[0], once, ledger, own[1], **engine)
            side.told = self.told
            self.sides[pair] = side

    @classmethod
    def of(cls, configuration: QrConfiguration) -> QrStudy:
        """Return the study of a configuration, with a ledger of its own that has no budget.

        Raises:
            InputError: a setting is for folders, and the data are none; the data are wrong.
            NotFoundError, ParameterError: there is no such thing, or it is out of its range.
        """
        about = dict(configuration.data)
        folder, dataset = about.pop("folder", None), about.pop("dataset", None)
        models, settings = configured_models(configuration)
        tables = configuration.retrievers
        named_runs = dict(zip(names_of(tables, "retriever", "kind"), tables, strict=True))
        refuse_runs(settings, [name for name, table in named_runs.items() if "run" in table])
        systems(settings)  # that one is not installed is said before anything is downloaded
        for name in ("split", "keywords"):
            if name in about and dataset is not None:
                raise InputError(
                    f"{name!r} is for folders; the dataset {dataset!r} says by its id which "
                    "topics it has"
                )
        data = from_trec_fair(folder or dataset, target=about.pop("targets", None), **about)
        retrievers, settings = configured_retrievers(configuration, data, settings)
        return cls(
            data,
            configuration.output,
            models,
            settings,
            retriever=retrievers,
            **configuration.engine,
        )

    def run(self, progress: Progress | None = None) -> QrResults:
        """Do what is not done yet, and return the results.

        Args:
            progress: told which cell begins.

        Raises:
            LLMError, BudgetError, OfflineError: the model cannot be asked; all else is kept.
            DeferredError: answers are to come from a batch of prompts; likewise.
            ParameterError: the environment lacks the model's key.
            FairtkError: a system failed; the message names it. What was done is kept.
        """
        progress = progress or (lambda text: None)
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._answers() as ledger, names_repeat():
            distinct: dict[str, OwnCell] = {}  # equal cells are done once
            with self._store() as store:
                for study, cell, alias in self._all_cells():
                    if not study.pending(cell, store).empty:
                        distinct.setdefault(study.key(cell), (study, cell, alias))
            # nothing waits for a model
            left = sorted(distinct.values(), key=lambda one: one[1].refines)
            for study in (self, *self.sides.values()):
                llm = ledger.wrap(study.llm)  # says that a budget needs a price
                if any(cell.refines and owner is study for owner, cell, _ in left):
                    llm.check()
            for study, cell, _ in left:
                if not cell.refines and cell.base != BM25:
                    with naming(cell):  # wrong settings are said before anything is done
                        for tried in cell.grid or ({},):
                            study.build(cell.at(tried))
            beside = {pair.shown: [s.llm, s.retriever] for pair, s in self.sides.items()}
            self._describe({"others": {k: list(map(repr, v)) for k, v in beside.items()}})
            names = {one: f"{place}/{len(left)}" for place, one in enumerate(left, 1)}
            deferred: list[str] = []
            for together in self._together(left):
                if deferred and any(cell.base == RANDOM for _, cell, _ in together):
                    deferred += [cell.label for _, cell, _ in together]
                    continue  # its words are as many as the model's, which are not there
                for one in together:
                    progress(f"{names[one]} {one[1].attribute}: {one[2].label}")
                try:
                    self._complete(together, ledger)
                except DeferredError:
                    deferred += [cell.label for _, cell, _ in together]
            if deferred:
                raise DeferredError(
                    f"{len(deferred)} of {len(left)} systems wait for answers from a batch of "
                    f"prompts ({format_list(deferred, 3)}); run again when these were read"
                )
            return self._results(ledger)

    def results(self) -> QrResults:
        """Return the results so far; systems that are not begun are left out."""
        with self._answers() as ledger:
            return self._results(ledger)

    def plan(self) -> StudyPlan:
        """Return what the study takes at most, and what of it is done, without any call.

        One row per loop whose calls differ, and one for all that tuning adds: ``attribute``,
        ``topics`` (that are not done), ``calls``, ``prompt_tokens``, ``completion_tokens``,
        ``price`` (NaN: unknown), ``systems`` (that share its answers, each named once): every topic
        refined as often as allowed, every answer as long as allowed. Only the tokens of prompts are
        no upper bound: refined keywords are longer than the original ones. `StudyPlan.total` has
        the sums of these, and how many ``systems`` there are, how many are ``done``, and the
        answers that are ``recorded``, whose calls are counted.
        """
        path = self.folder / STORE
        ledger = self.ledger
        rows: list[list[Any]] = []
        complete: dict[str, bool] = {}  # equal cells are done once
        with contextlib.ExitStack() as stack:
            if ledger is None and path.exists():
                ledger = stack.enter_context(Ledger(path))
            store = stack.enter_context(self._store())
            sides = {f" [{pair.shown}]": side for pair, side in self.sides.items()}
            for name, own in {"": self, **sides}.items():
                pending = {}
                for cell in own.cells:
                    if (key := own.key(cell)) not in complete:
                        pending[cell] = own.pending(cell, store)
                        complete[key] = pending[cell].empty
                rows += _rows(own, name, pending, ledger)
            recorded = 0 if ledger is None else len(ledger)
        frame = pd.DataFrame(rows, columns=["attribute", "topics", *COUNTS, "systems"])
        total = {name: float(frame[name].sum(skipna=False)) for name in COUNTS}
        n_done = sum(complete.values())
        note = (
            f"{_AT_MOST if rows else ''}{n_done} of {len(complete)} systems are done; {recorded} "
            "answers are recorded and are not paid for again."
        )
        total |= {"systems": len(complete), "done": n_done, "recorded": recorded}
        return StudyPlan(frame, total, note)

    def status(self) -> pd.DataFrame:
        """Return what of each system is done, without a call: ``attribute``, ``system``,
        ``queries``, ``done``, ``failed`` (tried again by the next run), ``missing``.
        """
        cells = list(self._all_cells())
        stages = {f"{c.attribute}: {alias.label}": s.stage(c) for s, c, alias in cells}
        work = plan(stages, self.data.topics, save_dir=self.folder)
        counts = work.cells[["queries", "stored", "failed", "missing"]].to_numpy().tolist()
        rows = [[c.attribute, c.label, *n] for (*_, c), n in zip(cells, counts, strict=True)]
        return pd.DataFrame(rows, columns=STATUS)

    def pending(self, cell: Cell, store: Store | None = None) -> pd.DataFrame:
        """Return the topics of a cell that are not done.

        Args:
            cell: the cell.
            store: where results are; None: the study's is opened.
        """
        if store is None:
            with self._store() as opened:
                return self.pending(cell, opened)
        qids = done(store, self.stage(cell), self._topics)
        return self.data.topics[~self.data.topics[QID].isin(qids)]

    # Systems ----------------------------------------------------------------------------------

    def stage(self, cell: Cell, llm: Any = None, alias: Cell | None = None) -> StudySystem:
        """Return what ranks with the system of a cell.

        Args:
            cell: the cell.
            llm: the model, behind a ledger; None: nobody asks for results.
            alias: the cell as the tables call it; None: as it is.
        """
        return StudySystem(self, cell, llm, alias)

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
        where = (self.data, self.folder, self.settings)
        return make_system(cell.base, *where, cell.attribute, cell.options, self.retriever)

    def _bm25(self, **options: Any) -> CollectionBM25:
        return make_bm25(self.data, self.folder, {**self.settings.bm25, **options})

    def trained(self, cell: Cell) -> bool:
        """Return whether the system of a cell is fitted on topics."""
        return cell.base not in OWN and registry.study_systems.get(cell.base).trained

    def folded(self, cell: Cell) -> bool:
        """Return whether each fold's topics have a system of their own: trained, or tuned."""
        return bool(cell.grid) or self.trained(cell)

    @cached_property
    def folds(self) -> dict[str, int]:
        """The fold of each topic; one topic per fold at least."""
        qids = self.data.topics[QID].tolist()
        return folds(qids, min(self.settings.folds, len(qids)), self.settings.seed)

    # Identity ---------------------------------------------------------------------------------

    def key(self, cell: Cell) -> str:
        """Return a digest of what decides a cell's results; equal cells have one."""
        return digest(self.identity(cell))

    def identity(self, cell: Cell) -> dict[str, Any]:
        """Return what decides a cell's results, as JSON values."""
        if cell not in self._identities:
            self._identities[cell] = self._identity(cell)
        return self._identities[cell]

    @cached_property
    def _identities(self) -> dict[Cell, dict[str, Any]]:
        return {}

    def _identity(self, cell: Cell) -> dict[str, Any]:
        groups, target = self.data.attributes[cell.attribute]
        owners = {e.name: e.owner for e in registry.study_systems.entries()}
        facts: dict[str, Any] = {
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
            facts |= {"tried": tried, "judged by": judged, "folds": split}
        if cell.base == RANDOM:
            facts["seed"] = self.settings.seed
        if cell.refines:
            prompt = as_refinement_prompt(cell.options["prompt"], "FairQR")
            if hasattr(prompt, "digest"):  # its options, and what a plugin's says of itself
                facts["prompt"] = prompt.digest()
            return facts | {"model": [self.llm.name, plain(self.llm.parameters())]}
        facts["cutoff"] = self.settings.cutoff
        if cell.base != BM25:
            facts |= {"candidates": self.settings.candidates, "seed": self.settings.seed}
        return facts | ({"folds": self.settings.folds} if self.trained(cell) else {})

    @cached_property
    def _retriever(self) -> Any:
        own = self.retriever
        if isinstance(own, CollectionBM25):  # wherever its index is
            return f"CollectionBM25({own.num_results}, k1={own.k1}, b={own.b})"
        return describe_stage(own)

    def _describe(self, more: Mapping[str, Any]) -> None:
        """Write ``study.json``: settings, versions, and what more there is."""
        retriever = self._retriever
        facts = {
            "data": self.data.name,
            "topics": len(self.data.topics),
            "attributes": list(self.data.attributes),
            "settings": self.settings.as_json(),
            "model": repr(self.llm),
            "retriever": retriever if isinstance(retriever, str) else repr(self.retriever),
            **more,
            "versions": {
                "fairtk": f"fairtk {version('fairtk')}",
                "python": platform.python_version(),
                "pyterrier": version("pyterrier"),
                "systems": sorted({e.owner for e in registry.study_systems.entries()}),
            },
        }
        write_json(self.folder / FACTS, facts)

    # Running ----------------------------------------------------------------------------------

    def _all_cells(self) -> Iterator[OwnCell]:
        """Yield the study of each cell, the cell, and the cell as the tables call it."""
        yield from ((self, cell, cell) for cell in self.cells)
        for pair, side in self.sides.items():
            for cell in side.cells:
                alias = pair.renamed(cell)
                if alias is not None:
                    yield side, cell, alias

    @contextmanager
    def _store(self) -> Iterator[Store]:
        """Open the store within the block; one that is not there is empty."""
        with closing(Store(self.folder if (self.folder / STORE).exists() else None)) as store:
            yield store

    @contextmanager
    def _answers(self) -> Iterator[Ledger]:
        """Give the ledger; one of our own is closed at the end."""
        if self.ledger is not None:  # an empty one is false, too
            yield self.ledger
            return
        with Ledger(self.folder / STORE) as ledger:
            yield ledger

    @cached_property
    def _topics(self) -> Topics:
        return Topics(self.data.topics, durable=True)

    def _together(self, cells: Sequence[OwnCell]) -> Iterator[Sequence[OwnCell]]:
        """Yield the cells of each experiment: one by one here, so that what is stopped is stopped
        between systems; all of a kind where workers would start for each.
        """
        if not self._parallel:
            yield from ([one] for one in cells)
            return
        kinds: dict[Any, list[OwnCell]] = {}
        for one in cells:
            study, cell, _ = one
            kind = (cell.refines, study.folded(cell), cell.base == RANDOM)
            kinds.setdefault(kind, []).append(one)
        yield from kinds.values()

    @property
    def _parallel(self) -> bool:
        return bool(self.engine.get("executor", "serial") != "serial")

    def _complete(self, cells: Sequence[OwnCell], ledger: Ledger) -> None:
        """Run cells of a kind; what systems warned of is shown when their results are kept."""
        _, cell, _ = cells[0]
        topics = self.data.topics
        size: int | None = None if cell.refines and not cell.grid else _SERIAL
        if self.folded(cell):
            topics = topics.iloc[topics[QID].map(self.folds).argsort(kind="stable")]
        if self._parallel and self.folded(cell):  # a worker makes the system of a fold, or of two
            size = -(-len(topics) // len(set(self.folds.values())))
        elif self._parallel and cell.refines:
            size = _SIDE_BY_SIDE
        systems, pending = {}, {}
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            for study, cell, alias in cells:
                if isinstance(study.retriever, CollectionBM25) and cell.base != BM25:
                    study.retriever.prepare()  # not in the time of whoever searches first
                stage = study.stage(cell, study._model(cell, ledger), alias)
                systems[f"{cell.attribute}: {alias.label}"] = stage
                pending[stage] = study.pending(cell)[QID].tolist()
            engine = {"batch_size": size, **self.engine, "fail_fast": True}
            try:
                Experiment(systems, topics, save_dir=self.folder, **engine)
            except StageError as error:
                reason = getattr(error.__cause__, "reason", error.__cause__)
                if reason is not None:  # without one all queries are missing, as is kept
                    raise reason from (error if self._parallel else None)
        self._tell(pending, heard)

    def _model(self, cell: Cell, ledger: Ledger) -> Any:
        """Return the model of a cell behind the ledger; the placebo's draws its words."""
        if cell.base != RANDOM or cell.grid:
            return ledger.wrap(self.llm)
        with self._store() as store:
            traces = {
                own: stored_results(store, self.stage(own), self._topics).traces
                for own in self.cells
                if own.system == FAIR_QR
            }
        return random_terms(self.data, self.retriever, traces, cell, self.settings.seed)

    def _tell(
        self, ranked: Mapping[StudySystem, list[str]], heard: list[warnings.WarningMessage]
    ) -> None:
        """Show what was warned of while queries were ranked, each text once in the study."""
        noted: dict[str, list[str]] = {}
        with self._store() as store:
            for stage, qids in ranked.items():
                notes = stored_results(store, stage, self._topics).notes
                for qid in qids:
                    for text in notes[qid]["warnings"]:
                        noted.setdefault(text, []).append(qid)
        every = [qid for qids in ranked.values() for qid in qids]
        first = {str(warning.message): warning for warning in reversed(heard)}
        texts = dict.fromkeys(str(warning.message) for warning in heard)
        for text in gathered(
            (noted.get(text, every), text)
            for text in texts
            if not text.startswith("Experiment: ")  # the system says which queries are missing
        ):
            if text not in self.told:
                self.told[text] = None
                one = next(w for start, w in first.items() if text.startswith(start))
                warnings.warn_explicit(text, one.category, one.filename, one.lineno)

    def _results(self, ledger: Ledger) -> QrResults:
        results, models = {}, {}
        with self._store() as store:
            for study, cell, alias in self._all_cells():
                stored = stored_results(store, study.stage(cell), self._topics)
                if stored.notes:
                    results[alias], models[alias] = stored, study.llm
        if not results:
            raise InputError(f"the study in {self.folder} has no results yet: run it first")
        has_brackets = any("[" in alias.system for alias in results)
        own = [name for name in (self.models[0], self.retrievers[0]) if name and has_brackets]
        return QrResults(
            self.data, self.settings, results, self.llm, ledger.prices, models, own, self.folder
        )

    def __getstate__(self) -> dict[str, Any]:
        # a worker gets its model by itself, behind the ledger
        return {**vars(self), "ledger": None, "sides": {}}
