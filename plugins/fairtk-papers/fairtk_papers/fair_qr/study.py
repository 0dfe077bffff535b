"""The FAIR-QR study: its cost, progress and results."""

from __future__ import annotations

import contextlib
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import InputError, ParameterError, StageError
from fairtk.experiment import Experiment, Results, cross_fit, describe_stage, folds, plan
from fairtk.frames import QID, QUERY, digest
from fairtk.llm import ChatModel, DeferredError, Ledger, as_chat_model
from fairtk.plugins import registry
from fairtk.transformers import CollectionBM25, FairQR, Fitted, QueryRefiner
from fairtk.wording import format_list
from fairtk_papers.fair_qr.results import QrResults
from fairtk_papers.fair_qr.settings import (
    BM25_SETTINGS,
    QrConfiguration,
    QrData,
    QrSettings,
    from_trec_fair,
)
from fairtk_papers.fair_qr.stored import SystemResults
from fairtk_papers.fair_qr.systems import (
    BM25,
    BUILT_IN,
    FAIR_QR,
    FIXED,
    RANDOM,
    Cell,
    Pair,
    all_cells,
    by_name,
    configured_models,
    configured_retrievers,
    make_bm25,
    make_system,
    name_errors,
    pairs,
    random_terms,
    refuse_runs,
    side_settings,
    systems,
    table_names,
)
from fairtk_papers.fair_qr.values import PRODUCT, measures
from fairtk_papers.studies import (
    COUNTS,
    FACTS,
    STORE,
    RunRetriever,
    StudyPlan,
    plain,
    write_json,
)

STATUS = ["attribute", "system", "queries", "done", "failed", "missing"]
_SERIAL = 1
"""Queries per batch for systems without a model."""
_LOOPS = 64
"""Queries per batch that are refined at a time; the ledger stores each answer at once."""
_PARALLEL_LOOPS = 8
"""Queries per batch of a worker, which refines them in parallel."""
_OUTSIDE_PROMPTS = (
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
"""Settings that do not change the prompts, only how many are sent."""
_UPPER_BOUND = (
    "Calls are an upper bound: the maximum number of refinements for each topic. Tokens and price "
    "are estimates: answers of the maximum length, prompts as long as the first. "
)


def _prompts_key(cell: Cell) -> str:
    """Return a digest that is equal for cells with the same prompts."""
    options = {k: v for k, v in cell.options.items() if k not in _OUTSIDE_PROMPTS}
    return digest([cell.attribute, options])


GridCell = tuple[Cell, Cell]
"""A cell, and one of its `Cell.grid_cells`."""


def _plan_rows(
    study: QrStudy, suffix: str, pending: Mapping[Cell, pd.DataFrame], ledger: Ledger | None
) -> Iterator[list[Any]]:
    """Yield a row for each group of cells that share their calls.

    The calls that only tuning makes are one row per attribute.

    Args:
        study: the study.
        suffix: a suffix for the names of systems.
        pending: the pending topics of each cell.
        ledger: the ledger with recorded answers and prices.
    """
    sharing: dict[str, list[GridCell]] = {}
    for cell, topics in pending.items():
        if len(topics) and cell.refines and cell.base != RANDOM:
            for candidate in cell.grid_cells:
                sharing.setdefault(_prompts_key(candidate), []).append((cell, candidate))
    rows: dict[str, list[list[GridCell]]] = {}
    for key, runs in sharing.items():
        is_tuning = all(cell.grid for cell, _ in runs)
        rows.setdefault(runs[0][0].attribute if is_tuning else key, []).append(runs)
    # each cell is named once, in its last row
    last_row = {cell: key for key, row in rows.items() for runs in row for cell, _ in runs}
    llm = study.llm if ledger is None else ledger.wrap(study.llm)
    for key, row in rows.items():
        counts = [_most_calls(study, runs, pending, llm) for runs in row]
        cells = [cell for cell in last_row if last_row[cell] == key]
        names = "; ".join(cell.label + suffix for cell in cells)
        topics = max(n for n, *_ in counts)
        sums = [sum(numbers) for numbers in zip(*(rest for _, *rest in counts), strict=True)]
        yield [cells[0].attribute, topics, *sums, names]


def _most_calls(
    study: QrStudy, runs: list[GridCell], pending: Mapping[Cell, pd.DataFrame], llm: ChatModel
) -> list[Any]:
    """Return the number of topics and `COUNTS` of cells with the same prompts.

    Args:
        study: the study.
        runs: the cells, each with one of its `Cell.grid_cells`.
        pending: the pending topics of each cell.
        llm: the model, behind the ledger if there is one.
    """
    # tuning ranks all topics
    rows = pd.concat([study.data.topics if cell.grid else pending[cell] for cell, _ in runs])
    topics = study.data.topics[study.data.topics[QID].isin(rows[QID])]
    # the cells can differ in the maximum number of iterations
    longest = max((cell for _, cell in runs), key=lambda cell: cell.options["max_iterations"])
    estimate = study.refiner(longest, llm).estimate(topics)
    return [
        len(topics),
        estimate.calls,
        estimate.prompt_tokens,
        estimate.completion_tokens,
        estimate.price,
    ]


StudyCell = tuple["QrStudy", Cell, Cell]
"""The study that runs a cell, the cell, and the cell under its name in tables."""


def _name(item: StudyCell) -> str:
    """Return the name of a cell in experiments."""
    _, cell, alias = item
    return f"{cell.attribute}: {alias.label}"


class QrStudy:
    """The comparison of FAIR-QR with its baselines in the paper's Table 1, and of its settings.

        data = from_trec_fair("my/folder")
        study = QrStudy(data, "study", KeywordRefiner())
        results = study.run()

    The answers of the model and the rankings of queries are stored in ``experiment.sqlite`` as soon
    as they exist. A stopped run continues where it stopped and gives the results of an
    uninterrupted run. Stored results are reused only if data, settings, model and versions are the
    same.

    Args:
        data: topics, qrels, documents and attributes.
        folder: the folder for results, created if missing.
        llm: the model: a `fairtk.llm.ChatModel`, an argument for `fairtk.llm.as_chat_model`, or
            several models by name.
        settings: the settings of the study.
        ledger: stores the answers and limits their cost; `None` to store them in the folder,
            without a limit.
        retriever: a retriever of many documents, Q -> R; `None` for BM25 by PISA; or several
            retrievers by name, where all but the first can be a
            `fairtk_papers.studies.RunRetriever`.
        **engine: arguments of `fairtk.Experiment`: ``executor``, ``workers``, ``scheduler``,
            ``threads``, ``batch_size``.

    Attributes:
        sides: a study for each other pair of model and retriever, whose cells are in the tables.
        issued_warnings: the texts of the warnings that were issued.

    Raises:
        NotFoundError: a system or setting is unknown.
        ParameterError: a setting is out of range, a retriever has the name of a system, or a
            system requires that a run can retrieve.
        InputError: a run has topics or documents that are not in the data.
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
        if len(data.topics) < self.settings.folds != QrSettings.folds:  # the default can shrink
            raise ParameterError(
                f"the study: folds must be at most the number of topics, {len(data.topics)}, got "
                f"{self.settings.folds}"
            )
        models, retrievers = by_name(llm, "model"), by_name(retriever, "retriever")
        first, base = next(iter(models.values())), next(iter(retrievers.values()))
        runs = [name for name, value in retrievers.items() if isinstance(value, RunRetriever)]
        refuse_runs(self.settings, runs)
        # a study of a run alone is a side, which has only BM25
        if isinstance(base, RunRetriever) and self.settings.systems != (BM25,):
            raise ParameterError(f"the first retriever must not be a run: {FIXED}")
        self.models, self.retrievers = list(models), list(retrievers)
        self.llm: ChatModel = as_chat_model(first)
        self.retriever = self._bm25() if base is None else base
        # the settings of other retrievers are unknown
        self.cells = list(all_cells(self.settings, data.attributes, tune_bm25=base is None))
        for cell in self.cells:
            for candidate in cell.grid_cells:  # checks all settings first
                if cell.refines:
                    self.refiner(candidate, self.llm)
                elif cell.base == BM25:
                    self.build(candidate)
        self.issued_warnings: dict[str, None] = {}
        self._fitted: dict[str, Fitted] = {}  # by key, for cells that run
        systems = {cell.system for cell in self.cells}
        for name in self.retrievers[1:]:
            if name in systems:
                raise ParameterError(f"duplicate name {name!r} of a retriever and a system")
        self.sides: dict[Pair, QrStudy] = {}
        for pair in pairs(self.models, retrievers):
            model, other = models.get(pair.model, first), retrievers.get(pair.retriever, base)
            if isinstance(other, RunRetriever):
                data.check_run(other)
            side = QrStudy(
                data, folder, model, side_settings(self.settings, other), ledger, other, **engine
            )
            side.issued_warnings = self.issued_warnings
            self.sides[pair] = side

    @classmethod
    def from_configuration(cls, configuration: QrConfiguration) -> QrStudy:
        """Return the study of a configuration, without a limit on cost.

        Raises:
            InputError: the data are invalid, or a setting is only valid for folders.
            NotFoundError, ParameterError: a name is unknown, or a setting is out of range.
        """
        options = dict(configuration.data)
        folder, dataset = options.pop("folder", None), options.pop("dataset", None)
        models, settings = configured_models(configuration)
        tables = configuration.retrievers
        names = table_names(tables, "retriever", "kind")
        refuse_runs(settings, [n for n, table in zip(names, tables, strict=True) if "run" in table])
        systems(settings)  # fails before downloads if a plugin is missing
        for name in ("split", "keywords"):
            if name in options and dataset is not None:
                raise InputError(
                    f"{name!r} is only valid for a folder; the dataset id {dataset!r} names its "
                    "topics"
                )
        data = from_trec_fair(folder or dataset, target=options.pop("targets", None), **options)
        retrievers, settings = configured_retrievers(configuration, data, settings)
        return cls(
            data,
            configuration.output,
            models,
            settings,
            retriever=retrievers,
            **configuration.engine,
        )

    def run(self, on_progress: Callable[[str], None] = lambda text: None) -> QrResults:
        """Run the missing parts of the study and return the results.

        Args:
            on_progress: called with a line of text at the start of each system.

        Raises:
            LLMError, BudgetError, OfflineError: a call failed. Finished results are stored.
            DeferredError: answers of a batch are missing. Finished results are stored.
            ParameterError: the API key of the model is missing from the environment.
            InputError: BM25 retrieves no document for any topic.
            FairtkError: a system failed; the message names it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._answers() as ledger:
            distinct: dict[str, StudyCell] = {}  # equal cells run once
            for study, cell, alias in self._all_cells():
                distinct.setdefault(study.key(cell), (study, cell, alias))
            waiting = self._pending(distinct.values())
            # cells that call a model come last
            cells = sorted(distinct.values(), key=lambda item: item[1].refines)
            pending = [item for item in cells if _name(item) in waiting]
            for study in (self, *self.sides.values()):
                llm = ledger.wrap(study.llm)  # fails if a price for the budget is missing
                if any(cell.refines and owner is study for owner, cell, _ in pending):
                    llm.check()
            for study, cell, _ in pending:
                if not cell.refines and cell.base != BM25:
                    with name_errors(cell):  # checks all settings first
                        for candidate in cell.grid_cells:
                            study.build(candidate)
            self._write_facts()
            numbers = {item: f"{i}/{len(pending)}" for i, item in enumerate(pending, 1)}
            found = self._finished([item for item in cells if item not in numbers])
            self._refuse_empty_rankings(found)
            deferred: list[str] = []
            for batch in self._batches(pending):
                if deferred and any(cell.base == RANDOM for _, cell, _ in batch):
                    deferred += [cell.label for _, cell, _ in batch]
                    continue  # the placebo depends on the number of the model's words
                for item in batch:
                    on_progress(f"{numbers[item]} {_name(item)}")
                try:
                    found |= self._run_cells(batch, ledger, found)
                except DeferredError:
                    deferred += [cell.label for _, cell, _ in batch]
                self._refuse_empty_rankings(found)  # before other systems cost time and money
            if deferred:
                raise DeferredError(
                    f"{len(deferred)} of {len(pending)} systems wait for answers of a batch "
                    f"({format_list(deferred, 3)}); run again after reading them"
                )
            return self._results(found, ledger)

    def plan(self) -> StudyPlan:
        """Return an upper bound on the remaining cost, without calls.

        Systems that share answers are one row, and so are the calls that only tuning makes:
        ``attribute``, ``topics`` (pending), ``calls``, ``prompt_tokens``, ``completion_tokens``,
        ``price`` (NaN if unknown), and ``systems``. The bound assumes the maximum number of
        refinements and answers of the maximum length. It does not hold for prompt tokens, because
        refined queries are longer than the original. `StudyPlan.total` has the sums, the number of
        ``systems``, how many are ``done``, and the number of ``recorded`` answers, whose calls are
        included.
        """
        path = self.folder / STORE
        ledger = self.ledger
        rows: list[list[Any]] = []
        complete: dict[str, bool] = {}  # equal cells run once
        with contextlib.ExitStack() as stack:
            if ledger is None and path.exists():
                ledger = stack.enter_context(Ledger(path))
            sides = {f" [{pair.label}]": side for pair, side in self.sides.items()}
            for suffix, study in {"": self, **sides}.items():
                waiting = study._pending((study, cell, cell) for cell in study.cells)
                pending = {}
                for cell in study.cells:
                    if (key := study.key(cell)) not in complete:
                        qids = waiting.get(_name((study, cell, cell)), ())
                        pending[cell] = self.data.topics[self.data.topics[QID].isin(qids)]
                        complete[key] = pending[cell].empty
                rows += _plan_rows(study, suffix, pending, ledger)
            recorded = 0 if ledger is None else len(ledger)
        frame = pd.DataFrame(rows, columns=["attribute", "topics", *COUNTS, "systems"])
        total = {name: float(frame[name].sum(skipna=False)) for name in COUNTS}
        n_done = sum(complete.values())
        note = (
            f"{_UPPER_BOUND if rows else ''}{n_done} of {len(complete)} systems are done; "
            f"{recorded} answers are recorded and cost nothing."
        )
        total |= {"systems": len(complete), "done": n_done, "recorded": recorded}
        return StudyPlan(frame, total, note)

    def status(self) -> pd.DataFrame:
        """Return the progress of each system, without calls.

        The columns are ``attribute``, ``system``, ``queries``, ``done``, ``failed`` (the next run
        retries these) and ``missing``.
        """
        cells = list(self._all_cells())
        stages = {_name(item): item[0].stage(item[1]) for item in cells}
        work = plan(stages, self.data.topics, save_dir=self.folder)
        counts = work.cells[["queries", "stored", "failed", "missing"]].to_numpy().tolist()
        rows = [[c.attribute, c.label, *n] for (*_, c), n in zip(cells, counts, strict=True)]
        return pd.DataFrame(rows, columns=STATUS)

    def pending(self, cell: Cell) -> pd.DataFrame:
        """Return the pending topics of a cell."""
        qids = self._pending([(self, cell, cell)]).get(_name((self, cell, cell)), [])
        return self.data.topics[self.data.topics[QID].isin(qids)]

    def _pending(self, cells: Iterable[StudyCell]) -> dict[str, list[str]]:
        """Return the pending topics by the name of a cell, without finished cells."""
        stages = {_name(item): item[0].stage(item[1]) for item in cells}
        rows = plan(stages, self.data.topics, save_dir=self.folder).pending
        pending: dict[str, list[str]] = rows.groupby("system", sort=False)[QID].agg(list).to_dict()
        return pending

    # Systems ----------------------------------------------------------------------------------

    def stage(self, cell: Cell, llm: Any = None, **options: Any) -> Any:
        """Return a cell as a stage of an experiment, a `StudySystem`."""
        from fairtk_papers.fair_qr.stages import StudySystem

        return StudySystem(self, cell, llm, **options)

    def system(self, cell: Cell, llm: Any, without: int | None = None) -> Any:
        """Return the system of a cell; a trained one is fitted on the other folds of a topic.

        Args:
            cell: the cell, without tuning.
            llm: the model, for systems that refine queries.
            without: a fold that a trained system is not trained on; `None` for no fold.
        """
        if cell.refines:
            return self.refiner(cell, llm)
        if not self.is_trained(cell):
            return self.build(cell)
        key = self.key(cell)
        if key not in self._fitted:
            system, data = self.build(cell), self.data
            self._fitted[key] = Fitted(system, data.topics, data.qrels, self.folds)
        fitted = self._fitted[key]
        return fitted if without is None else fitted.leave_out(without)

    def refiner(self, cell: Cell, llm: Any) -> FairQR:
        """Return the transformer of a cell that refines queries."""
        groups, target = self.data.attributes[cell.attribute]
        options = {"qrels": self.data.qrels, **cell.options}
        bm25 = {name: options.pop(name) for name in BM25_SETTINGS if name in options}
        retriever = self._bm25(**bm25) if bm25 else self.retriever
        return FairQR(retriever, groups, target, llm, **options)

    def build(self, cell: Cell) -> Any:
        """Build the system of a cell that does not refine queries, without fitting it."""
        if cell.base == BM25:
            return self._bm25(**cell.options) if cell.options else self.retriever
        inputs = (self.data, self.folder, self.settings)
        return make_system(cell.base, *inputs, cell.attribute, cell.options, self.retriever)

    def _bm25(self, **options: Any) -> CollectionBM25:
        return make_bm25(self.data, self.folder, {**self.settings.bm25, **options})

    def is_trained(self, cell: Cell) -> bool:
        """Return whether the system of a cell is fitted on topics."""
        return cell.base not in BUILT_IN and registry.study_systems.get(cell.base).trained

    def has_folds(self, cell: Cell) -> bool:
        """Return whether a cell is trained or tuned, so that it differs by fold."""
        return bool(cell.grid) or self.is_trained(cell)

    @cached_property
    def folds(self) -> dict[str, int]:
        """The fold of each topic. No fold is empty."""
        qids = self.data.topics[QID].tolist()
        return folds(qids, min(self.settings.folds, len(qids)), self.settings.seed)

    # Identity ---------------------------------------------------------------------------------

    def key(self, cell: Cell) -> str:
        """Return a digest of a cell's inputs."""
        return digest(self.identity(cell))

    def identity(self, cell: Cell) -> dict[str, Any]:
        """Return a cell's inputs as JSON values."""
        groups, target = self.data.attributes[cell.attribute]
        owners = {e.name: e.owner for e in registry.study_systems.entries()}
        facts: dict[str, Any] = {
            "system": cell.system,
            "given by": "" if cell.base in BUILT_IN else owners[cell.base],
            "options": {k: plain(v) for k, v in sorted(cell.options.items())},
            **self.data.key,
            "groups": groups.key,
            "target": target.key,
            "retriever": self._retriever_identity,
        }
        if cell.grid:
            facts |= {
                "tried": [{k: plain(v) for k, v in sorted(s.items())} for s in cell.grid],
                "judged by": [self.settings.ndcg, self.settings.cutoff],
                "folds": [self.settings.folds, self.settings.seed],
            }
        if cell.base == RANDOM:
            facts["seed"] = self.settings.seed
        if cell.refines:
            prompt: Any = QueryRefiner(self.llm, prompt=cell.options["prompt"]).prompt
            if hasattr(prompt, "digest"):  # covers its options and a plugin's content
                facts["prompt"] = prompt.digest()
            return facts | {"model": [self.llm.name, plain(self.llm.parameters())]}
        facts["cutoff"] = self.settings.cutoff
        if cell.base != BM25:
            facts |= {"candidates": self.settings.candidates, "seed": self.settings.seed}
        return facts | ({"folds": self.settings.folds} if self.is_trained(cell) else {})

    @cached_property
    def _retriever_identity(self) -> Any:
        bm25 = self.retriever
        if isinstance(bm25, CollectionBM25):  # does not depend on the folder of the index
            return f"CollectionBM25({bm25.num_results}, k1={bm25.k1}, b={bm25.b})"
        return describe_stage(bm25)

    def _write_facts(self) -> None:
        """Write ``study.json``: data, settings, models, retrievers and versions."""
        retriever = self._retriever_identity
        facts = {
            "data": self.data.name,
            "topics": len(self.data.topics),
            "attributes": list(self.data.attributes),
            "settings": asdict(self.settings),
            "model": repr(self.llm),
            "retriever": retriever if isinstance(retriever, str) else repr(self.retriever),
            "others": {p.label: [repr(s.llm), repr(s.retriever)] for p, s in self.sides.items()},
            "versions": {
                "fairtk": f"fairtk {version('fairtk')}",
                "python": platform.python_version(),
                "pyterrier": version("pyterrier"),
                "systems": sorted({e.owner for e in registry.study_systems.entries()}),
            },
        }
        write_json(self.folder / FACTS, facts)

    # Running ----------------------------------------------------------------------------------

    def _all_cells(self) -> Iterator[StudyCell]:
        """Yield each cell of this study and of its sides."""
        yield from ((self, cell, cell) for cell in self.cells)
        for pair, side in self.sides.items():
            for cell in side.cells:
                alias = pair.renamed(cell)
                if alias is not None:
                    yield side, cell, alias

    @contextmanager
    def _answers(self) -> Iterator[Ledger]:
        """Open the ledger, unless the user passed one."""
        if self.ledger is not None:  # an empty ledger is falsy
            yield self.ledger
            return
        with Ledger(self.folder / STORE) as ledger:
            yield ledger

    def _batches(self, cells: Sequence[StudyCell]) -> Iterator[Sequence[StudyCell]]:
        """Yield the cells of each experiment: one, or with workers all cells of a kind."""
        if not self._parallel:
            yield from ([item] for item in cells)
            return
        kinds: dict[Any, list[StudyCell]] = {}
        for item in cells:
            study, cell, _ = item
            kind = (cell.refines, study.has_folds(cell), cell.base == RANDOM)
            kinds.setdefault(kind, []).append(item)
        yield from kinds.values()

    @property
    def _parallel(self) -> bool:
        return bool(self.engine.get("executor", "serial") != "serial")

    def _finished(self, cells: Sequence[StudyCell]) -> dict[str, SystemResults]:
        """Return the results of finished cells by key."""
        if not cells:
            return {}
        stages = {_name(item): item[0].stage(item[1]) for item in cells}
        results = Experiment(stages, self.data.topics, save_dir=self.folder, warn=False)
        return {item[0].key(item[1]): self._system(results, item) for item in cells}

    def _system(self, results: Results, item: StudyCell) -> SystemResults:
        return SystemResults.of(results, _name(item), self.data.topics[QID].tolist())

    def _run_cells(
        self, cells: Sequence[StudyCell], ledger: Ledger, found: Mapping[str, SystemResults]
    ) -> dict[str, SystemResults]:
        """Run cells of a kind, issue the warnings of their systems, and return their results.

        Args:
            cells: the cells.
            ledger: records the answers of models.
            found: the results of earlier cells by key.
        """
        stages = {}
        for item in cells:
            study, cell, alias = item
            if isinstance(study.retriever, CollectionBM25) and cell.base != BM25:
                study.retriever.prepare()  # its time is not part of a query's
            llm = self._model(study, cell, ledger, found)
            choices = study._choices(item, llm) if cell.grid else None
            stages[_name(item)] = study.stage(cell, llm, alias=alias, choices=choices)
        # with the baseline, which does not fail, the experiment has results if all queries fail
        baseline = self._baseline
        name = _name((self, baseline, baseline))
        results = self._experiment({name: self.stage(baseline), **stages}, cells[0][1])
        # the study shows that pool="union" has no effect
        remarks = [r for r in results.remarks if r.system in stages and r.kind != "no effect"]
        for warning in replace(results, remarks=tuple(remarks)).warnings:
            warnings.warn(warning, stacklevel=2)
        systems = {item[0].key(item[1]): self._system(results, item) for item in cells}
        for study, *_ in cells:
            study._fitted.clear()
        for system in systems.values():
            self.issued_warnings.update(dict.fromkeys(system.warnings))
        return systems

    def _experiment(self, stages: Mapping[str, Any], cell: Cell, **options: Any) -> Results:
        """Return the results of stages of the kind of a cell."""
        topics = self.data.topics
        size = _LOOPS if cell.refines and not cell.grid else _SERIAL
        if self._parallel and self.has_folds(cell):  # a worker gets about one fold
            topics = topics.iloc[topics[QID].map(self.folds).argsort(kind="stable")]
            size = -(-len(topics) // len(set(self.folds.values())))
        elif self._parallel and cell.refines:
            size = _PARALLEL_LOOPS
        engine = {"batch_size": size, "fail_fast": True, **self.engine, **options}
        try:
            # names are unique only for the same data, models and settings
            return Experiment(stages, topics, save_dir=self.folder, warn=False, **engine)
        except StageError as error:
            reason = getattr(error.__cause__, "reason", error.__cause__)
            raise reason or error from (error if self._parallel else None)

    def _choices(self, item: StudyCell, llm: Any) -> dict[int, dict[str, Any]]:
        """Return the settings of each fold, which are the best on the other folds.

        Raises:
            InputError: there are too few folds, or the measure is undefined for all topics.
        """
        begin = time.perf_counter()
        _, cell, alias = item
        trained = self.is_trained(cell)
        fold_of = {qid: self.folds[qid] for qid in self.data.topics[QID]}
        by_fold: dict[int, dict[str, Any]] = {fold: {} for fold in sorted(set(fold_of.values()))}
        least = 3 if trained else 2
        if len(by_fold) < least:
            raise InputError(
                f"tuning requires at least {least} folds and topics, for tuning, testing"
                f"{' and training' * trained}; use `tuning={{}}` for no tuning"
            )
        stages = {}
        for settings in cell.grid:
            text = ", ".join(f"{name}={value!r}" for name, value in settings.items())
            for fold in by_fold:
                without = fold if trained else None
                name = f"{_name(item)}, {text}" + (f", without fold {fold}" if trained else "")
                by_fold[fold][name] = settings
                stages[name] = self.stage(cell.at(settings), llm, alias=alias, without=without)
        attribute = self.data.attributes[cell.attribute]
        measure = measures(*attribute, self.settings.cutoff, self.settings.ndcg)[PRODUCT]
        calls = len(llm.ledger)
        options = {"qrels": self.data.qrels, "measures": [measure], "fail_fast": False}
        results = self._experiment(stages, cell.grid_cells[0], **options)
        best = cross_fit(results, measure, fold_of, systems=by_fold).choices
        choices = {}
        seconds, calls = time.perf_counter() - begin, len(llm.ledger) - calls
        for row in best.to_dict("records"):
            fold, chosen = row["fold"], by_fold[row["fold"]][row.pop("system")]
            text = json.dumps(plain(dict(chosen)))
            choices[fold] = {**row, "settings": text, "seconds": seconds, "calls": calls}
            seconds, calls = 0.0, 0  # all folds share the grid
        return choices

    @property
    def _baseline(self) -> Cell:
        return next(cell for cell in self.cells if cell.system == BM25)

    def _refuse_empty_rankings(self, found: Mapping[str, SystemResults]) -> None:
        """Raise an `InputError` if BM25, the baseline, has no document for any topic."""
        results = found.get(self.key(self._baseline))
        if results is not None and len(results.empty_qids) == len(self.data.topics):
            raise InputError(
                f"{BM25} retrieves no document for any of the {len(self.data.topics)} topics "
                f"(e.g. {self.data.topics[QUERY].iloc[0]!r}), so there is nothing to compare; "
                "check the queries and their language"
            )

    @staticmethod
    def _model(
        study: QrStudy, cell: Cell, ledger: Ledger, found: Mapping[str, SystemResults]
    ) -> Any:
        """Return the model of a cell behind the ledger, or the placebo."""
        if cell.base != RANDOM or cell.grid:
            return ledger.wrap(study.llm)
        keys = {other: study.key(other) for other in study.cells if other.system == FAIR_QR}
        traces = {other: found[key].traces for other, key in keys.items() if key in found}
        return random_terms(study.data, study.retriever, traces, cell, study.settings.seed)

    def _results(self, found: Mapping[str, SystemResults], ledger: Ledger) -> QrResults:
        results, models = {}, {}
        for study, cell, alias in self._all_cells():
            results[alias] = found[study.key(cell)]
            models[alias] = study.llm
        has_brackets = any("[" in alias.system for alias in results)
        names = [name for name in (self.models[0], self.retrievers[0]) if name and has_brackets]
        return QrResults(
            self.data, self.settings, results, self.llm, ledger.prices, models, names, self.folder
        )

    def __getstate__(self) -> dict[str, Any]:
        # workers get the model separately, behind the ledger
        return {**vars(self), "ledger": None, "sides": {}, "_fitted": {}}
