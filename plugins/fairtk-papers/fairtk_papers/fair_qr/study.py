"""The FAIR-QR study: its cost, progress and results."""

from __future__ import annotations

import contextlib
import json
import platform
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, InputError, ParameterError, StageError
from fairtk.experiment import Experiment, Results, cross_fit, describe_stage, folds, plan
from fairtk.frames import QID, QUERY, digest
from fairtk.llm import ChatModel, DeferredError, Ledger, as_chat_model
from fairtk.plugins import registry
from fairtk.transformers import CollectionBM25, FairQR, Fitted
from fairtk.wording import format_list
from fairtk_papers.fair_qr.results import QrResults
from fairtk_papers.fair_qr.settings import (
    BM25_SETTINGS,
    QrConfiguration,
    QrData,
    QrSettings,
    from_trec_fair,
)
from fairtk_papers.fair_qr.stages import CHOSEN, StudySystem, SystemResults
from fairtk_papers.fair_qr.systems import (
    BM25,
    BUILT_IN,
    FAIR_QR,
    FIXED,
    RANDOM,
    Cell,
    all_cells,
    by_name,
    configured_models,
    configured_retrievers,
    make_bm25,
    make_system,
    name_errors,
    random_terms,
    refuse_runs,
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
_CALL = ("qid", "group", "query", "added", "dropped")
"""The columns of a trace that identify a call."""
_UPPER_BOUND = (
    "Calls are an upper bound: the maximum number of refinements for each topic. Tokens and price "
    "are estimates: answers of the maximum length, prompts as long as the first. "
)


def _prompts_key(cell: Cell) -> str:
    """Return a digest that is equal for cells with the same prompts."""
    options = {k: v for k, v in cell.options.items() if k not in _OUTSIDE_PROMPTS}
    return digest([cell.attribute, cell.retriever, cell.model, options])


def _retriever_identity(retriever: Any) -> Any:
    if isinstance(retriever, CollectionBM25):  # does not depend on the folder of the index
        return f"CollectionBM25({retriever.num_results}, k1={retriever.k1}, b={retriever.b})"
    return describe_stage(retriever)


GridCell = tuple[Cell, Cell]
"""A cell, and one of its `Cell.grid_cells`."""


def _plan_rows(
    study: QrStudy, pending: Mapping[Cell, Collection[str]], ledger: Ledger | None
) -> Iterator[list[Any]]:
    """Yield a row for each group of cells that share their calls.

    The calls that only tuning makes are one row per attribute.

    Args:
        study: the study.
        pending: the pending topics of each cell.
        ledger: the ledger with recorded answers and prices.
    """
    sharing: dict[str, list[GridCell]] = {}
    for cell, qids in pending.items():
        if qids and cell.refines and cell.kind != RANDOM:
            for candidate in cell.grid_cells:
                sharing.setdefault(_prompts_key(candidate), []).append((cell, candidate))
    rows: dict[str, list[list[GridCell]]] = {}
    for key, runs in sharing.items():
        is_tuning = all(cell.grid for cell, _ in runs)
        rows.setdefault(runs[0][0].attribute if is_tuning else key, []).append(runs)
    # each cell is named once, in its last row
    last_row = {cell: key for key, row in rows.items() for runs in row for cell, _ in runs}
    for key, row in rows.items():
        counts = [_most_calls(study, runs, pending, ledger) for runs in row]
        cells = [cell for cell in last_row if last_row[cell] == key]
        names = "; ".join(cell.label for cell in cells)
        topics = max(n for n, *_ in counts)
        sums = [sum(numbers) for numbers in zip(*(rest for _, *rest in counts), strict=True)]
        yield [cells[0].attribute, topics, *sums, names]


def _most_calls(
    study: QrStudy,
    runs: list[GridCell],
    pending: Mapping[Cell, Collection[str]],
    ledger: Ledger | None,
) -> list[Any]:
    """Return the number of topics and `COUNTS` of cells with the same prompts.

    Args:
        study: the study.
        runs: the cells, each with one of its `Cell.grid_cells`.
        pending: the pending topics of each cell.
        ledger: see `_plan_rows`.
    """
    topics = study.data.topics
    topics = topics[topics[QID].isin({qid for cell, _ in runs for qid in pending[cell]})]
    # the cells can differ in the maximum number of iterations
    longest = max((cell for _, cell in runs), key=lambda cell: cell.options["max_iterations"])
    llm = study.llm_of(longest)
    llm = llm if ledger is None else ledger.wrap(llm)
    estimate = study.refiner(longest, llm).estimate(topics)
    return [
        len(topics),
        estimate.calls,
        estimate.prompt_tokens,
        estimate.completion_tokens,
        estimate.price,
    ]


class QrStudy:
    """The comparison of FAIR-QR with its baselines in the paper's Table 1, and of its settings.

    For example::

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
        cells: the systems, each for one attribute.
        models: the models by name.
        retrievers: the retrievers by name.
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
        runs = {n: value for n, value in retrievers.items() if isinstance(value, RunRetriever)}
        refuse_runs(self.settings, runs)
        base = next(iter(retrievers.values()))
        if isinstance(base, RunRetriever):
            raise ParameterError(f"the first retriever must not be a run: {FIXED}")
        self.models: dict[str, ChatModel] = {n: as_chat_model(model) for n, model in models.items()}
        self.llm = next(iter(self.models.values()))
        self.retrievers = {n: self._bm25() if r is None else r for n, r in retrievers.items()}
        self.retriever = next(iter(self.retrievers.values()))
        # the settings of other retrievers are unknown
        own = base is None
        self.cells = [
            *all_cells(self.settings, data.attributes, own, [*self.models], self.retrievers)
        ]
        for cell in self.cells:
            for candidate in cell.grid_cells:  # checks all settings first
                if cell.refines:
                    self.refiner(candidate, self.llm_of(cell))
                elif cell.kind == BM25:
                    self.build(candidate)
        self._check_options()
        systems = {cell.system for cell in self.cells if not cell.retriever}
        for name in [*self.retrievers][1:]:
            if name in systems:
                raise ParameterError(f"duplicate name {name!r} of a retriever and a system")
        for run in runs.values():
            data.check_run(run)
        self.issued_warnings: dict[str, None] = {}
        self._fitted: dict[str, Fitted] = {}  # by key, for cells that run

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
            # those that call a model last
            cells = sorted(self._distinct_cells(), key=lambda cell: cell.refines)
            waiting = self._pending(cells)
            pending = [cell for cell in cells if cell in waiting]
            for model in self.models.values():
                llm = ledger.wrap(model)  # fails if a price for the budget is missing
                if any(cell.refines and self.llm_of(cell) is model for cell in pending):
                    llm.check()
            for cell in pending:
                if not cell.refines and cell.kind != BM25:
                    with name_errors(cell):  # checks all settings first
                        for candidate in cell.grid_cells:
                            self.build(candidate)
            self._write_facts()
            numbers = {cell: f"{i}/{len(pending)}" for i, cell in enumerate(pending, 1)}
            by_key: dict[str, SystemResults] = {}
            deferred: list[str] = []
            for batch in self._batches(cells):
                todo = [cell for cell in batch if cell in waiting]
                if deferred and any(cell.kind == RANDOM for cell in todo):
                    deferred += [cell.label for cell in todo]
                    continue  # the placebo depends on the number of the model's words
                for cell in todo:
                    on_progress(f"{numbers[cell]} {cell.full_name}")
                try:
                    by_key |= self._run_cells(batch, todo, ledger, by_key)
                except DeferredError:
                    deferred += [cell.label for cell in todo]
                self._refuse_empty_rankings(by_key)  # before other systems cost time and money
            if deferred:
                raise DeferredError(
                    f"{len(deferred)} of {len(pending)} systems wait for answers of a batch "
                    f"({format_list(deferred, 3)}); run again after reading them"
                )
            return self._results(by_key, ledger)

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
        cells = self._distinct_cells()
        pending = self._pending(cells)
        with contextlib.ExitStack() as stack:
            if ledger is None and path.exists():
                ledger = stack.enter_context(Ledger(path))
            rows = list(_plan_rows(self, pending, ledger))
            recorded = 0 if ledger is None else len(ledger)
        frame = pd.DataFrame(rows, columns=["attribute", "topics", *COUNTS, "systems"])
        total = {name: float(frame[name].sum(skipna=False)) for name in COUNTS}
        n_done = len(cells) - len(pending)
        note = (
            f"{_UPPER_BOUND if rows else ''}{n_done} of {len(cells)} systems are done; "
            f"{recorded} answers are recorded and cost nothing."
        )
        total |= {"systems": len(cells), "done": n_done, "recorded": recorded}
        return StudyPlan(frame, total, note)

    def status(self) -> pd.DataFrame:
        """Return the progress of each system, without calls.

        The columns are ``attribute``, ``system``, ``queries``, ``done``, ``failed`` (the next run
        retries these) and ``missing``. A query of a tuned system is done if it has results with all
        settings.
        """
        pending, n = self._pending(self.cells), len(self.data.topics)
        rows = []
        for cell in self.cells:
            of_cell = pending.get(cell, {})
            n_failed = sum(of_cell.values())
            n_missing = len(of_cell) - n_failed
            rows.append([cell.attribute, cell.label, n, n - len(of_cell), n_failed, n_missing])
        return pd.DataFrame(rows, columns=STATUS)

    def _check_options(self) -> None:
        """Build the systems of plugins that have options on toy documents, to check the options."""
        settings = self.settings
        with TemporaryDirectory() as folder:
            inputs = (self.data, Path(folder), settings)
            for cell in self.cells:
                tuned = (
                    cell.grid_cells if cell.grid and cell.kind in (settings.tuning or {}) else []
                )
                with name_errors(cell):
                    for one in tuned or [cell] * bool(cell.options):
                        if one.kind not in BUILT_IN:
                            more = (one.attribute, one.options, self.retriever)
                            make_system(one.kind, *inputs, *more, is_check=True)

    def _distinct_cells(self) -> list[Cell]:
        """Return one of each set of equal cells, which run once."""
        distinct: dict[str, Cell] = {}
        for cell in self.cells:
            distinct.setdefault(cell.key, cell)
        return list(distinct.values())

    def pending(self, cell: Cell) -> list[str]:
        """Return the pending topics of a cell."""
        return list(self._pending([cell]).get(cell, ()))

    def _pending(self, cells: Sequence[Cell]) -> dict[Cell, dict[str, bool]]:
        """Return whether each pending topic of a cell has failed, without finished cells."""
        parts = {cell: self.stages(cell) for cell in cells}
        cell_of = {name: cell for cell, stages in parts.items() for name in stages}
        stages = {name: stage for part in parts.values() for name, stage in part.items()}
        pending: dict[Cell, dict[str, bool]] = {}
        rows = plan(stages, self.data.topics, save_dir=self.folder).pending
        for name, qid, error in rows.itertuples(index=False):
            failed = pending.setdefault(cell_of[name], {})
            failed[qid] = failed.get(qid, True) and isinstance(error, str)
        return pending

    # Systems ----------------------------------------------------------------------------------

    def stages(self, cell: Cell, llm: Any = None) -> dict[str, StudySystem]:
        """Return the stages of a cell by name: one, or those that tuning chooses from."""
        if not cell.grid:
            return {cell.full_name: StudySystem(self, cell, llm)}
        trained = self.is_trained(cell)
        return {
            name: StudySystem(self, cell.at(settings), llm, fold if trained else None)
            for fold, of_fold in self._candidates(cell).items()
            for name, settings in of_fold.items()
        }

    def _candidates(self, cell: Cell) -> dict[int, dict[str, Mapping[str, Any]]]:
        """Return the settings to choose from for each fold, by the names of their stages.

        Raises:
            InputError: there are too few folds.
        """
        trained, all_folds = self.is_trained(cell), sorted(set(self.folds.values()))
        least = 3 if trained else 2
        if len(all_folds) < least:
            raise InputError(
                f"tuning requires at least {least} folds and topics, for tuning, testing"
                f"{' and training' * trained}; use `tuning={{}}` for no tuning"
            )
        end = ", without fold {}" * trained
        texts = {
            ", ".join(f"{name}={value!r}" for name, value in settings.items()): settings
            for settings in cell.grid
        }
        return {
            fold: {f"{cell.full_name}, {text}{end.format(fold)}": s for text, s in texts.items()}
            for fold in all_folds
        }

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
        key = cell.key
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
        retriever = self._bm25(**bm25) if bm25 else self.retriever_of(cell)
        return FairQR(retriever, groups, target, llm, **options)

    def build(self, cell: Cell) -> Any:
        """Build the system of a cell that does not refine queries, without fitting it."""
        if cell.kind == BM25:
            return self._bm25(**cell.options) if cell.options else self.retriever_of(cell)
        inputs = (self.data, self.folder, self.settings)
        return make_system(cell.kind, *inputs, cell.attribute, cell.options, self.retriever)

    def llm_of(self, cell: Cell) -> ChatModel:
        """Return the model of a cell."""
        return self.models.get(cell.model, self.llm)

    def retriever_of(self, cell: Cell) -> Any:
        """Return the retriever of a cell."""
        return self.retrievers.get(cell.retriever, self.retriever)

    def _bm25(self, **options: Any) -> CollectionBM25:
        return make_bm25(self.data, self.folder, {**self.settings.bm25, **options})

    def is_trained(self, cell: Cell) -> bool:
        """Return whether the system of a cell is fitted on topics."""
        return cell.kind not in BUILT_IN and registry.study_systems.get(cell.kind).trained

    @cached_property
    def folds(self) -> dict[str, int]:
        """The fold of each topic. No fold is empty."""
        qids = self.data.topics[QID].tolist()
        return folds(qids, min(self.settings.folds, len(qids)), self.settings.seed)

    # Identity ---------------------------------------------------------------------------------

    def identity(self, cell: Cell) -> dict[str, Any]:
        """Return a cell's inputs, which the engine describes."""
        settings = self.settings
        facts: dict[str, Any] = {"system": cell.kind}
        if cell.kind == RANDOM:
            facts["seed"] = settings.seed
        if cell.refines:
            refiner = self.refiner(cell.at({"qrels": None}), self.llm_of(cell))
            llm, prompt = refiner.llm, refiner.prompt
            return {
                **facts,
                **refiner.settings(),
                **self.data.key,
                "retriever": _retriever_identity(refiner.retriever),
                # functions and objects without a digest have names
                "llm": [llm.name, llm.parameters()],
                "prompt": prompt if hasattr(prompt, "digest") else prompt.name,
            }
        groups, target = self.data.attributes[cell.attribute]
        facts |= {
            **self.data.key,
            "options": cell.options,
            "groups": groups,
            "target": target,
            "retriever": _retriever_identity(self.retriever_of(cell)),
            "cutoff": settings.cutoff,
        }
        if cell.kind != BM25:
            owners = {e.name: e.owner for e in registry.study_systems.entries()}
            facts |= {"given by": owners[cell.kind], "candidates": settings.candidates}
            facts["seed"] = settings.seed
        return facts | ({"folds": settings.folds} if self.is_trained(cell) else {})

    def _write_facts(self) -> None:
        """Write ``study.json``: data, settings, models, retrievers and versions."""
        retriever = _retriever_identity(self.retriever)
        pairs = {cell.pair: cell for cell in self.cells if cell.pair}
        facts = {
            "data": self.data.name,
            "topics": len(self.data.topics),
            "attributes": list(self.data.attributes),
            "settings": asdict(self.settings),
            "model": repr(self.llm),
            "retriever": retriever if isinstance(retriever, str) else repr(self.retriever),
            "others": {
                name: [repr(self.llm_of(cell)), repr(self.retriever_of(cell))]
                for name, cell in pairs.items()
            },
            "versions": {
                "fairtk": f"fairtk {version('fairtk')}",
                "python": platform.python_version(),
                "pyterrier": version("pyterrier"),
                "systems": sorted({e.owner for e in registry.study_systems.entries()}),
            },
        }
        write_json(self.folder / FACTS, facts)

    # Running ----------------------------------------------------------------------------------

    @contextmanager
    def _answers(self) -> Iterator[Ledger]:
        """Open the ledger, unless the user passed one."""
        if self.ledger is not None:  # an empty ledger is falsy
            yield self.ledger
            return
        with Ledger(self.folder / STORE) as ledger:
            yield ledger

    def _batches(self, cells: Sequence[Cell]) -> Iterator[Sequence[Cell]]:
        """Yield the cells of each experiment: one, or with workers all untuned cells of a kind."""
        kinds: dict[Any, list[Cell]] = {}
        for cell in cells:
            kind = (cell.refines, self.is_trained(cell), cell.kind == RANDOM)
            kinds.setdefault(kind if self._parallel and not cell.grid else cell, []).append(cell)
        yield from kinds.values()

    @property
    def _parallel(self) -> bool:
        return bool(self.engine.get("executor", "serial") != "serial")

    def _run_cells(
        self,
        cells: Sequence[Cell],
        pending: Sequence[Cell],
        ledger: Ledger,
        by_key: Mapping[str, SystemResults],
    ) -> dict[str, SystemResults]:
        """Run the pending cells of an experiment, issue their warnings, and return all results.

        Args:
            cells: one tuned cell, or untuned cells.
            pending: the unfinished cells.
            ledger: records the answers of models.
            by_key: the results of earlier cells by key.
        """
        stages: dict[str, StudySystem] = {}
        for cell in cells:
            retriever = self.retriever_of(cell)
            if cell in pending and isinstance(retriever, CollectionBM25) and cell.kind != BM25:
                retriever.prepare()  # its time is not part of a query's
            llm = self._model(cell, ledger, by_key) if cell in pending else None
            stages |= self.stages(cell, llm)
        first, *_ = cells
        qids = self.data.topics[QID]
        if first.grid:
            attribute = self.data.attributes[first.attribute]
            measure = measures(*attribute, self.settings.cutoff, self.settings.ndcg)[PRODUCT]
            options = {"qrels": self.data.qrels, "measures": [measure], "fail_fast": False}
            results = self._experiment(stages, first, **options)
            systems = {first.key: self._tuned(first, results)}
        else:
            # with the baseline, which does not fail, there are results if all queries fail
            results = self._experiment({**self.stages(self._baseline), **stages}, first)
            systems = {
                cell.key: SystemResults.of(results, dict.fromkeys(qids, cell.full_name))
                for cell in cells
            }
        self._fitted.clear()
        remarks = [
            replace(remark, system=remark.system or cell.full_name)
            for cell in pending
            for remark in systems[cell.key].remarks
            if remark.kind != "no effect"  # which the study shows for pool="union"
        ]
        for warning in replace(results, remarks=tuple(remarks)).warnings:
            warnings.warn(warning, stacklevel=2)
        for cell in pending:
            self.issued_warnings.update(dict.fromkeys(systems[cell.key].warnings))
        return systems

    def _experiment(self, stages: Mapping[str, Any], cell: Cell, **options: Any) -> Results:
        """Return the results of stages of the kind of a cell."""
        topics = self.data.topics
        size = _LOOPS if cell.refines else _SERIAL
        if self._parallel and self.is_trained(cell):  # a worker gets about one fold
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

    def _tuned(self, cell: Cell, results: Results) -> SystemResults:
        """Return a tuned cell's rankings of each fold, with the best settings on the others.

        Raises:
            InputError: the measure is undefined for all topics.
        """
        candidates = self._candidates(cell)
        n_failed = results.failures["system"].value_counts()
        if lost := [n for n in results.systems if n_failed.get(n) == len(self.folds)]:
            reason = results.failures.query("system == @lost[0]")["error"].iloc[0]
            warnings.warn(
                f"no result of {format_list(lost)} ({reason}); the other settings are kept",
                DataWarning,
                stacklevel=2,
            )
        [measure] = results.measures
        choices = cross_fit(results, measure, self.folds, systems=candidates).choices
        chosen = choices.set_index("fold")["system"]
        settings = [candidates[fold][name] for fold, name in chosen.items()]
        notes = [note for name in results.systems for note in results.notes(name)["note"]]
        seconds = sum(note["seconds"] + note["training"] for note in notes)
        # settings share calls, but not with another prompt
        prompts = {
            name: digest([cell.at(row).options.get(option) for option in ("prompt", "temperature")])
            for of_fold in candidates.values()
            for name, row in of_fold.items()
        }
        calls = {
            (prompts[name], *(row[column] for column in _CALL))
            for name in results.systems
            for note in results.notes(name)["note"]
            for row in note["trace"]
            if row["iteration"] > 0 and cell.kind != RANDOM  # the placebo calls no model
        }
        is_first = choices["fold"] == choices["fold"].min()  # all folds share the settings
        choices = choices.assign(
            settings=[json.dumps(plain(dict(row))) for row in settings],
            seconds=np.where(is_first, seconds, 0.0),
            calls=np.where(is_first, len(calls), 0),
        )
        names = {qid: chosen[self.folds[qid]] for qid in self.data.topics[QID]}
        system = SystemResults.of(results, names, choices[CHOSEN])
        if system.errors and not cell.refines:  # refining has a remark
            warnings.warn(
                f"{len(system.errors)} of {len(names)} queries of {cell.full_name} failed with the "
                f"chosen settings ({format_list(dict.fromkeys(system.errors.values()))}) and get "
                "the worst value",
                DataWarning,
                stacklevel=2,
            )
        return system

    @property
    def _baseline(self) -> Cell:
        return next(cell for cell in self.cells if cell.system == BM25)

    def _refuse_empty_rankings(self, by_key: Mapping[str, SystemResults]) -> None:
        """Raise an `InputError` if BM25, the baseline, has no document for any topic."""
        results = by_key.get(self._baseline.key)
        if results is not None and len(results.empty_qids) == len(self.data.topics):
            raise InputError(
                f"{BM25} retrieves no document for any of the {len(self.data.topics)} topics "
                f"(e.g. {self.data.topics[QUERY].iloc[0]!r}), so there is nothing to compare; "
                "check the queries and their language"
            )

    def _model(self, cell: Cell, ledger: Ledger, by_key: Mapping[str, SystemResults]) -> Any:
        """Return the model of a cell behind the ledger, or the placebo."""
        if cell.kind != RANDOM:
            return ledger.wrap(self.llm_of(cell))
        same = [c for c in self.cells if c.kind == FAIR_QR and c.pair == cell.pair]
        traces = {c: by_key[c.key].traces for c in same if c.key in by_key and not c.grid}
        retriever = self.retriever_of(cell)
        return random_terms(self.data, retriever, traces, cell, self.settings.seed)

    def _results(self, by_key: Mapping[str, SystemResults], ledger: Ledger) -> QrResults:
        results = {
            cell: by_key[cell.key]
            for attribute in self.data.attributes
            for cell in self.cells
            if cell.attribute == attribute
        }
        models = {cell: self.llm_of(cell) for cell in self.cells}
        has_brackets = any("[" in cell.system for cell in self.cells)
        first = next(iter(self.models)), next(iter(self.retrievers))
        names = [name for name in first if name and has_brackets]
        return QrResults(
            self.data, self.settings, results, self.llm, ledger.prices, models, names, self.folder
        )

    def __getstate__(self) -> dict[str, Any]:
        # workers get the model separately, behind the ledger
        return {**vars(self), "ledger": None, "_fitted": {}}
