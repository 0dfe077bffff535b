"""Run and plan experiments; open and export their results."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks, stage_context
from fairtk.display import Table
from fairtk.display.tables import aligned_lines, as_texts, html_text
from fairtk.errors import ChangedWarning, InputError, NotFoundError, ParameterError, StageError
from fairtk.experiment.clusters import clusters_of
from fairtk.experiment.costs import StageNotes, costs_of, rows_with_costs, with_costs
from fairtk.experiment.engine import Engine, Topics, about_dataset, from_dataset
from fairtk.experiment.executors import Executor, SerialExecutor, as_executor
from fairtk.experiment.identity import Node, Tree, differences, environment, has_model
from fairtk.experiment.inputs import (
    GivenGroups,
    complete_measure,
    measure_list,
    parse_with,
    prepare_labels,
)
from fairtk.experiment.packing import unpack
from fairtk.experiment.results import Results
from fairtk.experiment.saved import CONFIG, FACTS, MEANS, SETTINGS
from fairtk.experiment.store import (
    FILE,
    ModelKey,
    Store,
    StoredCell,
    remarks_of_system,
    stage_name,
    stored_systems,
)
from fairtk.experiment.values import (
    Evaluation,
    no_rows,
    rows_with_parents,
    stored_notes,
    stored_rows,
)
from fairtk.frames import DOCNO, LABEL, QID, RANK, SAMPLE, SCORE, TEXT, require_columns
from fairtk.frames.accepted import as_frame, frame_of, is_one_run
from fairtk.frames.ids import as_strings
from fairtk.io.qrels import as_qrels
from fairtk.llm import DeferredError
from fairtk.llm.chat import Prompt
from fairtk.measures.costs import COSTS
from fairtk.remarks import FAILED, MISSING, Remark, emit, make_remark
from fairtk.wording import format_list

_OF_DOCUMENTS = [DOCNO, "docid", SCORE, RANK, SAMPLE, TEXT]
"""The columns of topics that results do not need."""

CELLS = ["system", "queries", "stored", "failed", "missing"]
PROMPTS = ["model", "prompts", "stored", "missing", "unknown"]


@dataclass(frozen=True)
class Plan:
    """The stored and the missing work of an experiment; see `fairtk.plan`.

    Attributes:
        cells: one row per system: ``system``, ``queries``, ``stored`` (results in the store),
            ``failed`` (stored errors, which a run retries), ``missing``.
        pending: one row per result that a run computes: ``system``, ``qid``, ``error`` (the stored
            error of a failed query).
        prompts: one row per model: ``model``, ``prompts`` (distinct prompts of stored rankings),
            ``stored`` (answered), ``missing``, ``unknown`` (queries without stored rankings).
        seconds: the mean time of a stored answer by model; NaN for a model without answers.
    """

    cells: pd.DataFrame
    pending: pd.DataFrame
    prompts: pd.DataFrame
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        blocks = [aligned_lines(t, numbers=range(1, len(t.columns))) for t in self._tables]
        return "\n\n".join("\n".join(lines) for lines in blocks)

    def _repr_html_(self) -> str:
        return "".join(map(html_text, self._tables))

    @property
    def _tables(self) -> list[Table]:
        filled = [table for table in (self.cells, self.prompts) if len(table)]
        return [as_texts(table) for table in filled]


def _cells(engine: Engine) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables `Plan.cells` and `Plan.pending`."""
    rows, pending = [], []
    qids = engine.topics.qids
    for system, node in engine.tree.ends.items():
        cells = engine.cells(node)
        failed = {qid: cell.error for qid, cell in cells.items() if cell.error is not None}
        missing = len(qids) - len(cells)
        rows.append((system, len(qids), len(cells) - len(failed), len(failed), missing))
        pending += [
            (system, qid, failed.get(qid)) for qid in qids if qid in failed or qid not in cells
        ]
    columns = ["system", QID, "error"]
    return pd.DataFrame(rows, columns=CELLS), pd.DataFrame(pending, columns=columns, dtype="str")


def _prompts(engine: Engine) -> pd.DataFrame:
    engine.prepare()
    texts: dict[str, set[Prompt]] = {}
    unknown: dict[str, int] = {}
    models: dict[str, ModelKey] = {}
    for node in engine.tree.nodes:
        generator = node.stage.generator
        if generator is None:
            continue
        of_node = [prompt_set.model for prompt_set in engine.prompt_sets[node.number]]
        models |= {model.key: model for model in of_node}
        prompts: Sequence[Prompt] = ()
        missing = 0
        if node.parent is None:
            prompts = generator.build_prompts(engine.topics.frame).prompts
        else:
            cells = [cell for cell in engine.cells(node.parent).values() if cell.error is None]
            missing = len(engine.topics.qids) - len(cells)
            table = engine.store.read(cells)
            if table is not None:
                prompts = generator.build_prompts(unpack(table)).prompts
        for model in of_node:
            texts.setdefault(model.key, set()).update(prompts)
            unknown[model.key] = unknown.get(model.key, 0) + missing
    rows = []
    for key, model in models.items():
        total, stored = len(texts[key]), engine.store.answers.get(model, texts[key])
        missing_texts = texts[key] - stored.keys()
        if not engine.retry_failed:  # refused prompts are not requested
            missing_texts -= engine.store.answers.failures(model, missing_texts).keys()
        rows.append((model.name, total, len(stored), len(missing_texts), unknown.get(key, 0)))
    return pd.DataFrame(rows, columns=PROMPTS)


def Experiment(
    systems: Sequence[Any] | Mapping[str, Any],
    topics: pd.DataFrame | None = None,
    qrels: pd.DataFrame | str | PathLike[str] | None = None,
    measures: Iterable[Any] = (),
    *,
    dataset: Any = None,
    names: Sequence[str] | None = None,
    baseline: str | int | None = None,
    filter_by_qrels: bool = False,
    save_dir: str | PathLike[str] | None = None,
    executor: str | Executor = "serial",
    workers: int | None = None,
    scheduler: Any = None,
    threads: int | None = None,
    batch_size: int | None = None,
    fail_fast: bool = False,
    retry_failed: bool = False,
    parent: str | None = None,
    cluster: Any = None,
    warn: bool = True,
) -> Results:
    """Run systems over topics and measure them, like `pt.Experiment` but durable.

    Shared stages run once, and each distinct prompt is generated once for all systems. With
    `save_dir`, each batch of results is saved at once: an interrupted run continues where it
    stopped, with identical results.

    Args:
        systems: pipelines, or frames of results, as a list or by name.
        topics: the queries (``qid``, ``query``) or candidates; `None` for those of `dataset`, or of
            the qrels if all systems are frames.
        qrels: labels (``qid``, ``docno``, ``label``, for some measures ``gold_answer``), or a file;
            `None` for those of `dataset`.
        measures: measures, or strings like ``"E(nDCG@5)"``.
        dataset: a dataset or its id, for missing topics and qrels.
        names: names for a list of systems; `None` for their text forms.
        baseline: the name or index of the system that `Results.compare` compares with.
        filter_by_qrels: whether to ignore topics without labels.
        save_dir: the folder of the store. Several experiments may use it at the same time.
        executor: ``"serial"``, ``"processes"``, ``"dask"``, a Dask client or an executor.
        workers: the number of worker processes of ``"processes"``; `None` for one per GPU, or per
            core without GPUs.
        scheduler: the running cluster, required with ``"dask"``; see
            `fairtk.experiment.DaskExecutor`.
        threads: threads per model; `None` for all cores (or OMP_NUM_THREADS) with ``"serial"``,
            otherwise one.
        batch_size: the number of queries to run and save together; `None` for a sixteenth of the
            topics, at most 64. A kill loses the batches in progress.
        fail_fast: whether to raise if a query fails, instead of recording the failure.
        retry_failed: whether to request prompts once more whose calls failed in a way that cannot
            pass, e.g. because the model refuses the prompt. Queries that failed for other reasons
            are always tried again.
        parent: the separator of document and passage in docnos, e.g. ``"%p"``: ``d1%p3`` is a
            passage of ``d1``, and a docno without it is its own document. Labels and groups are
            then of documents. `None` for the column ``parent`` of results, if any.
        cluster: clusters of queries that are not independent, such as the questions of one user,
            which intervals and tests take into account: a column of the topics or the qrels, or
            another form of `Results.with_clusters`.
        warn: whether to issue the remarks (`Results.remarks`) as warnings, and to warn of systems
            that differ from the stored ones of the same name.

    Raises:
        InputError: topics, labels, measures or clusters are missing or invalid.
        IdentityError: a stage has no identity (only with `save_dir`); see `fairtk.identified`.
        StageError: all queries failed, or one query with `fail_fast`.
        StoreError: the store cannot be read or written.
    """
    with stage_context.reading() as of_input:
        prepared = _prepare(
            systems,
            topics,
            qrels,
            measures,
            dataset=dataset,
            names=names,
            baseline=baseline,
            filter_by_qrels=filter_by_qrels,
            save_dir=save_dir,
            executor=executor,
            workers=workers,
            scheduler=scheduler,
            threads=threads,
            batch_size=batch_size,
            fail_fast=fail_fast,
            retry_failed=retry_failed,
            parent=parent,
            cluster=cluster,
        )
    checks.boolean("warn", warn, "Experiment")
    if warn:
        emit(of_input)
    engine = prepared[0]
    for name, node in engine.tree.ends.items() if warn else ():
        _warn_of_changes(engine.store, name, node)
    cells = engine.run()
    engine.return_turns()
    if engine.deferred:
        due = len(engine.tree.ends) * len(engine.topics.qids)
        raise DeferredError(
            f"Experiment: {due - sum(map(len, cells.values()))} of {due} results wait for answers "
            "of a batch; run again after reading them"
        )
    results = _results(*prepared, cells, executor, warn=warn)
    of_dataset = {} if dataset is None else about_dataset(dataset)
    return replace(
        results,
        remarks=(*of_input, *results.remarks),
        config={**results.config, **of_dataset},
    )


def plan(
    systems: Sequence[Any] | Mapping[str, Any],
    topics: pd.DataFrame | None = None,
    qrels: pd.DataFrame | str | PathLike[str] | None = None,
    measures: Iterable[Any] = (),
    **options: Any,
) -> Plan:
    """Return the stored and the missing work of an experiment without running it.

    The arguments are those of `Experiment`. No store is created in `save_dir`.
    """
    checks.parameters(options, "plan", Experiment)
    options.pop("warn", None)
    folder = options.get("save_dir")
    if folder is not None and not (Path(folder) / FILE).exists():
        options["save_dir"] = None
    engine, *_ = _prepare(systems, topics, qrels, measures, durable=folder is not None, **options)
    prompts = _prompts(engine)
    seconds = {name: engine.store.answers.seconds_per_answer(name) for name in prompts["model"]}
    return Plan(*_cells(engine), prompts, seconds)


def _prepare(
    systems: Sequence[Any] | Mapping[str, Any],
    topics: pd.DataFrame | None,
    qrels: pd.DataFrame | str | PathLike[str] | None,
    measures: Iterable[Any],
    *,
    dataset: Any = None,
    names: Sequence[str] | None = None,
    baseline: str | int | None = None,
    filter_by_qrels: bool = False,
    save_dir: str | PathLike[str] | None = None,
    executor: str | Executor = "serial",
    workers: int | None = None,
    scheduler: Any = None,
    threads: int | None = None,
    batch_size: int | None = None,
    fail_fast: bool = False,
    retry_failed: bool = False,
    parent: str | None = None,
    cluster: Any = None,
    durable: bool | None = None,
) -> tuple[Engine, Evaluation, dict[str, pd.DataFrame], list[str], str | None, pd.Series | None]:
    """Return engine, evaluation, frames of results, names of all systems, baseline, and clusters.

    With `durable`, stages require an identity; `None` means only with a `save_dir`.
    """
    by_name = _systems(systems, names)
    frames = {name: s for name, s in by_name.items() if isinstance(s, pd.DataFrame)}
    pipelines = {name: system for name, system in by_name.items() if name not in frames}
    order = list(by_name)
    chosen = _baseline(baseline, order)
    for name, value in (("threads", threads), ("batch_size", batch_size), ("workers", workers)):
        if value is not None:
            checks.integer(name, value, "Experiment")
    flags = {"filter_by_qrels": filter_by_qrels, "fail_fast": fail_fast}
    for name, value in {**flags, "retry_failed": retry_failed}.items():
        checks.boolean(name, value, "Experiment")
    if isinstance(qrels, str | PathLike):
        qrels = as_qrels(qrels, "Experiment").with_text_ids()
    elif qrels is not None:
        qrels = as_frame(qrels, LABEL, "Experiment: qrels")
    topics = frame_of(topics)
    if dataset is not None:
        topics, qrels = from_dataset(dataset, topics, qrels)
    if topics is None:
        topics = _topics_of(qrels, pipelines)
    if filter_by_qrels:
        topics = _labeled(topics, qrels)
    durable = save_dir is not None if durable is None else durable
    queries = Topics(topics, durable)
    evaluation = Evaluation(measures, qrels, queries.qids, parent)
    for name, frame in frames.items():
        evaluation.refuse_samples(name, frame)
    clusters = None
    if cluster is not None:
        tables = [queries.frame, *([] if qrels is None else [qrels]), *frames.values()]
        clusters = clusters_of(cluster, tables, evaluation.qids or queries.qids, "Experiment")
    tree = Tree(pipelines, durable)
    chosen_executor = as_executor(executor, workers, scheduler)
    n_threads = threads or chosen_executor.default_threads
    if stage_context.current().collector is not None:  # prompts are collected in this process
        chosen_executor = SerialExecutor()
    engine = Engine(
        tree,
        queries,
        Store(None if save_dir is None else checks.path("save_dir", save_dir, "Experiment")),
        chosen_executor,
        n_threads,
        batch_size,
        fail_fast,
        evaluation.refuse_samples,
        retry_failed,
    )
    return engine, evaluation, frames, order, chosen, clusters


def _results(
    engine: Engine,
    evaluation: Evaluation,
    frames: Mapping[str, pd.DataFrame],
    order: Sequence[str],
    baseline: str | None,
    clusters: pd.Series | None,
    cells: Mapping[str, Mapping[str, StoredCell]],
    executor: Any,
    stored_failures: Sequence[tuple[str, str, str]] = (),
    stored_remarks: Sequence[Remark] = (),
    warn: bool = True,
) -> Results:
    failed = [
        (name, qid, cell.error)
        for name in order
        for qid, cell in cells.get(name, {}).items()
        if cell.error is not None
    ]
    columns = ["system", QID, "error"]
    failures = pd.DataFrame([*failed, *stored_failures], columns=columns, dtype="str")
    remarks = (remarks_of_system(name, cells[name], len(engine.topics.qids)) for name in cells)
    of_stages = list(chain.from_iterable(remarks))
    if warn:
        emit([*of_stages, *stored_remarks], 3)  # also if all results failed
    of_failures = _remarks_on_failures(failures, engine.topics.qids)
    if failed and len(failed) == (total := len(order) * len(engine.topics.qids)):
        lines = [f"{s}, {q}: {e}" for s, q, e in failed]
        raise StageError(f"Experiment: {total} of {total} results failed ({format_list(lines, 3)})")
    if warn:
        emit(_remarks_on_failures(failures.iloc[: len(failed)], engine.topics.qids), 3)
    topic_ids = set(engine.topics.qids)
    frame_rows = {n: f[f[QID].isin(topic_ids)].reset_index(drop=True) for n, f in frames.items()}
    rows = rows_with_parents(stored_rows(engine.store, cells, frame_rows), evaluation.parent)
    rows = rows_with_costs(rows, lambda name: _costs(engine, name, frame_rows.get(name)))
    content = {
        n: frame_rows[n]
        if n in frame_rows
        else [engine.tree.ends[n].key, json.dumps([(q, c[:-1]) for q, c in cells[n].items()])]
        for n in order
    }
    values = evaluation.values(
        content,
        lambda name, qids=None: rows(name, evaluation.inputs, codes=True, qids=qids),
        engine.store,
    )
    # a failed query is reported as such, not as missing
    n_failed = failures.groupby("system").size()
    counted = [
        remark
        for remark in values.remarks
        if remark.kind != MISSING or remark.n_queries > n_failed.get(remark.system, 0)
    ]
    if warn:
        emit(counted, 3)
    values = replace(values, remarks=(*of_stages, *stored_remarks, *of_failures, *counted))
    chains = {
        name: [(n.stage.name, engine.chains[n.number]) for n in node.chain if n.stage.leaves_notes]
        for name, node in engine.tree.ends.items()
    }
    config = {
        "systems": {name: engine.tree.ends[name].label for name in cells},
        "stages": {
            name: [node.stage.description for node in engine.tree.ends[name].chain]
            for name in cells
        },
        "queries": len(engine.topics.qids),
        "batch_size": engine.batch_size,
        "executor": repr(executor),
        "threads": engine.threads,
    }
    return Results.of(
        values,
        evaluation.measures,
        config,
        _rows=rows,
        _labels=evaluation.qrels,
        _notes=stored_notes(engine.store, chains, engine.topics.digests),
        failures=failures,
        baseline=baseline,
        _topics=engine.topics.frame.drop(columns=_OF_DOCUMENTS, errors="ignore"),
        clusters=clusters,
        environment=environment(),
    )


def _costs(engine: Engine, name: str, frame: pd.DataFrame | None) -> pd.DataFrame:
    """Return the costs of a system; those of a frame are unknown."""
    qids = engine.topics.qids
    if frame is not None:
        return costs_of([StageNotes("a frame of results", True, {})], qids)
    stages = [
        StageNotes(
            *(f"the stage {node.stage.name}", node.stage.calls_model),
            engine.store.notes(engine.chains[node.number], engine.topics.digests),
        )
        for node in engine.tree.ends[name].chain
        if node.stage.leaves_notes
    ]
    return costs_of(stages, qids)


def _systems(systems: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """Return pipelines, and runs as frames, by name."""
    systems = list(systems) if isinstance(systems, Iterator) else frame_of(systems)
    if isinstance(systems, Mapping | list | tuple) and is_one_run(systems):
        systems = as_frame(systems, SCORE, "Experiment: systems")
    if isinstance(systems, Mapping):
        if names is not None:
            raise ParameterError("Experiment: `names` is only valid with a list of systems")
        pairs = [
            (str(name), _system(system, f"Experiment: systems[{name!r}]"))
            for name, system in systems.items()
        ]
    elif isinstance(systems, list | tuple | pd.DataFrame):
        systems = [systems] if isinstance(systems, pd.DataFrame) else systems
        systems = [
            _system(system, f"Experiment: systems[{index}]") for index, system in enumerate(systems)
        ]
        names = None if names is None else checks.listed("names", names, "Experiment")
        if names is not None and len(names) != len(systems):
            raise ParameterError(
                f"Experiment: `names` must have one name per system ({len(systems)}), got "
                f"{len(names)}"
            )
        labels = _labels(systems) if names is None else map(str, names)
        pairs = list(zip(labels, systems, strict=True))
    else:
        raise ParameterError(
            "Experiment: `systems` must be a list, or a dict from name to pipeline or frame, got "
            f"{type(systems).__name__}"
        )
    if not pairs:
        raise ParameterError("Experiment: at least one system is required")
    duplicates = [name for i, (name, _) in enumerate(pairs) if name in [n for n, _ in pairs[:i]]]
    if duplicates:
        raise ParameterError(
            f"Experiment: duplicate system {duplicates[0]!r}; pass `names` or a dict"
        )
    by_name = dict(pairs)
    for name, system in pairs:
        if isinstance(system, pd.DataFrame):
            require_columns(system, [QID], f"Experiment (system {name!r})")
            by_name[name] = system.assign(**{QID: as_strings(system[QID])})
        elif not isinstance(system, pt.Transformer):
            raise ParameterError(
                f"Experiment: system {name!r} must be a PyTerrier pipeline or a frame, got "
                f"{type(system).__name__}"
            )
    return by_name


def _system(system: Any, where: str) -> Any:
    """Return a run in any form but a file as a frame; anything else unchanged."""
    system = list(system) if isinstance(system, Iterator) else frame_of(system)
    is_run = isinstance(system, pd.DataFrame | Mapping | list | tuple) and is_one_run(system)
    return as_frame(system, SCORE, where) if is_run else system


_ADDRESS = re.compile(r"<(?:\w+\.)*(\w+) object at 0x[0-9a-f]+>")


def _labels(systems: Sequence[Any]) -> list[str]:
    """Return names for systems without names.

    A transformer whose text has addresses, which differ in each process, is shown by its classes
    and, if another one has the same, its number.
    """
    labels: list[str] = []
    count: Counter[str] = Counter()
    for system in systems:
        is_frame = isinstance(system, pd.DataFrame)
        text = f"frame of {len(system)} rows" if is_frame else str(system)
        label, n_addresses = _ADDRESS.subn(r"\1", text)
        count[label] += 1
        is_numbered = n_addresses and count[label] > 1
        labels.append(f"{label} ({count[label]})" if is_numbered else label)
    return labels


def _baseline(baseline: Any, names: Sequence[str]) -> str | None:
    if isinstance(baseline, int) and not isinstance(baseline, bool):
        if not -len(names) <= baseline < len(names):
            raise ParameterError(
                f"Experiment: baseline index {baseline} is out of range ({len(names)} systems)"
            )
        return names[baseline]
    return None if baseline is None else checks.known("baseline", baseline, names)


def _topics_of(qrels: pd.DataFrame | None, pipelines: Mapping[str, Any]) -> pd.DataFrame:
    if pipelines or qrels is None:
        raise InputError("Experiment: `topics` (or a dataset) are required for pipelines")
    return qrels[[QID]].drop_duplicates()


def _labeled(topics: pd.DataFrame, qrels: pd.DataFrame | None) -> pd.DataFrame:
    if qrels is None:
        raise InputError("Experiment: `qrels` are required with filter_by_qrels=True")
    has_labels = pd.Series(as_strings(topics[QID])).isin(set(as_strings(qrels[QID]))).to_numpy()
    return topics[has_labels]


def _warn_of_changes(store: Store, name: str, node: Node) -> None:
    """Warn if a stored system with the same name has a different identity."""
    before = store.earlier(name, node.key)
    if before is None:
        return
    now = [stage.stage.description for stage in node.chain]
    changes = list(differences(before, now)) or ["the order of its settings"]
    more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
    warnings.warn(
        f"system {name!r} differs from the stored system of this name "
        f"({'; '.join(changes[:5])}{more}); it runs again, and the stored results are kept",
        ChangedWarning,
        stacklevel=3,
    )


def _remarks_on_failures(failures: pd.DataFrame, qids: Sequence[str]) -> list[Remark]:
    """Return the remarks on the failed queries of systems, each with its first errors."""
    all_qids = np.array(qids, dtype=object)
    remarks = []
    for name, of_system in failures.groupby("system", sort=False):
        detail = format_list(of_system["error"].drop_duplicates().tolist(), 3)
        is_failed = np.isin(all_qids, of_system[QID].to_numpy(object))
        remarks.append(make_remark(FAILED, "", str(name), is_failed, all_qids, detail))
    return [remark for remark in remarks if remark is not None]


def open_results(
    folder: str | PathLike[str],
    qrels: Any = None,
    measures: Iterable[Any] = (),
    *,
    gold: Any = None,
    groups: Any = (),
    target: Any = (),
    chains: Iterable[str] = (),
) -> Results:
    """Open the results in a folder of `Results.save` or of ``Experiment(save_dir=...)``.

    A save_dir has rankings and answers but no values, so give `qrels` and `measures` to measure
    them. The results of a system are those of the stages that it ran last, for each query with the
    topic that it was run over last. Earlier results are opened by their chain.

    Args:
        folder: the folder.
        qrels: labels for a save_dir. A frame, a file or the id of a dataset.
        measures: measures for a save_dir.
        gold: gold answers (a frame or a file), if missing from the qrels.
        groups: see `fairtk.evaluate`.
        target: see `fairtk.evaluate`.
        chains: the chains of a save_dir to open instead, as in `fairtk.experiment.stored_results`.
            If a system has several of them, the start of the key is added to its name.

    Raises:
        InputError: the folder has no results, or labels, measures or chains are given for a folder
            of `Results.save`.
        NotFoundError: a chain is unknown, or no system ends with it.
        StoreError: the store is damaged.
    """
    path = results_folder(folder)
    with stage_context.reading() as of_groups:
        given_groups = GivenGroups.read(groups, target)
    given_measures = measure_list(measures, may_be_empty=True)
    parsed_measures = [parse_with(given_groups, measure) for measure in given_measures]
    starts = checks.listed("chains", chains)
    if (path / CONFIG).exists():
        if parsed_measures or qrels is not None or starts:
            raise InputError(
                f"{path}: saved results have measures and labels; `measures`, `qrels` and `chains` "
                "are only valid for a save_dir"
            )
        return Results.load(path)
    systems = stored_systems(path, starts)
    qids = {qid for system in systems.values() for qid in system.cells}
    if not qids:
        raise InputError(f"{path / FILE}: no finished queries; run the experiment again")
    topics = pd.DataFrame({QID: sorted(qids, key=_as_numbered)})  # a store has no order
    number = {qid: number for number, qid in enumerate(topics[QID])}
    frames = {
        name: no_rows()
        if system.rows is None
        else system.rows.sort_values(
            QID, key=lambda ids: ids.map(number), kind="stable", ignore_index=True
        )
        for name, system in systems.items()
    }
    failures = [
        (name, qid, cell.error)
        for name, system in systems.items()
        for qid, cell in sorted(system.cells.items(), key=lambda item: number[item[0]])
        if cell.error is not None
    ]
    names = [measure.NAME for measure in parsed_measures if measure.NAME in COSTS]
    for name, system in systems.items() if names else ():
        of_system = [
            StageNotes(f"the stage {stage_name(stage)}", has_model(stage), notes)
            for stage, notes in zip(system.stages, system.notes, strict=True)
        ]
        frames[name] = with_costs(frames[name], names, costs_of(of_system, qids))
    frame = None
    with stage_context.reading() as of_labels:
        if qrels is not None:
            given_groups.labels = prepare_labels(qrels, gold, parsed_measures)
            frame = given_groups.labels.with_text_ids()
    complete = [complete_measure(given_groups, measure) for measure in parsed_measures]
    prepared = _prepare(frames, topics, frame, complete)
    of_systems = (
        remarks_of_system(
            name, {q: system.cells[q] for q in number if q in system.cells}, len(topics)
        )
        for name, system in systems.items()
    )
    remarks = [*of_groups, *of_labels, *chain.from_iterable(of_systems)]
    results = _results(*prepared, prepared[0].run(), "serial", failures, remarks)
    stages = {name: system.stages for name, system in systems.items()}
    config = {"stages": stages, "queries": len(topics), "store": FILE}
    digests = {k: v for k, v in results.config.items() if k == "digests"}
    return replace(results, config={**config, **digests})


def _as_numbered(qid: str) -> list[tuple[int, str]]:
    """Return the sort key of an id, so that 2 is before 10."""
    parts = re.split(r"(\d+)", qid)
    return [(int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts)]


def _setting_folder(folder: Path, setting: str | None) -> Path:
    """Return the folder of a study's setting, or of the study if it has only one."""
    known = sorted(
        {path.relative_to(folder).parts[1] for path in folder.glob(f"{SETTINGS}/*/**/{MEANS}")}
    )
    if setting is None and len(known) > 1:
        raise InputError(f"{folder}: `setting` is required, one of " + ", ".join(map(repr, known)))
    if setting is None:
        return folder
    if setting not in known:
        raise NotFoundError("setting", setting, known)
    return folder / SETTINGS / setting


def results_folders(folder: str | PathLike[str], setting: str | None = None) -> list[Path]:
    """Return the folders with results: this one, or those of a study below it.

    Args:
        folder: the folder of saved results, of a store, or of a study with results by attribute or
            model.
        setting: the name of a study's setting, required if there are several.

    Raises:
        InputError: there are no results, or several settings.
        NotFoundError: the setting is unknown.
    """
    path = checks.path("folder", folder)
    if path.is_file():
        raise InputError(
            f"{folder}: expected a folder of results, a save_dir, or the output folder of a study, "
            "got a file"
        )
    if not path.is_dir():
        raise InputError(f"{folder}: no such folder")
    path = _setting_folder(path, setting)
    if (path / CONFIG).exists():
        return [path]
    below = sorted({file.parent for file in path.rglob(MEANS) if (file.parent / CONFIG).exists()})
    if below:
        return below
    if (path / FILE).exists():
        return [path]
    raise InputError(
        f"{folder}: expected saved results ({CONFIG}) or a save_dir ({FILE}), got neither"
    )


def results_folder(folder: str | PathLike[str], setting: str | None = None) -> Path:
    """Return the single folder of `results_folders`.

    Raises:
        InputError: there are no results, or several folders.
        NotFoundError: the setting is unknown.
    """
    folders = results_folders(folder, setting)
    if len(folders) == 1:
        return folders[0]
    raise InputError(
        f"{folder}: expected one folder of results, got {len(folders)}; give one of "
        + ", ".join(map(str, folders))
    )


Export = Literal["parquet", "trec"]
EXPORTS: tuple[Export, ...] = get_args(Export)


def export(
    source: str | PathLike[str],
    folder: str | PathLike[str],
    *,
    form: Export = "parquet",
    qrels: Any = None,
    measures: Iterable[Any] = (),
    gold: Any = None,
    groups: Any = (),
    target: Any = (),
    setting: str | None = None,
    chains: Iterable[str] = (),
) -> list[Path]:
    """Export the results of a store or a study, or saved results, for other tools.

    Args:
        source: a ``save_dir``, the folder of a study, or a folder of `Results.save`.
        folder: a new or empty folder. The results of a study are in one subfolder per attribute or
            model, next to the tables of the study and ``study.json``.
        form: ``"parquet"`` (tables and JSON) or ``"trec"`` (run files with ir_metadata, and
            qrels). See `Results.save` and `Results.to_trec`.
        qrels: labels for a save_dir. See `open_results`.
        measures: see `open_results`.
        gold: see `open_results`.
        groups: see `open_results`.
        target: see `open_results`.
        setting: the name of a study's settings, required if the folder has results of several.
        chains: the chains of a save_dir to export instead, as in
            `fairtk.experiment.stored_results`.

    Returns:
        The folders that were written. `open_results` opens those in the form ``"parquet"``.

    Raises:
        InputError: there are no results, or the folder is not empty.
        StoreError: the store is damaged, or the folder is not writable.
    """
    checks.choice("form", form, EXPORTS, "export")
    sources = results_folders(checks.path("source", source, "export"), setting)
    output = checks.path("folder", folder, "export")
    # several folders are opened with the same values
    starts, measure_texts = (
        checks.listed("chains", chains),
        measure_list(measures, may_be_empty=True),
    )
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"{folder}: the folder is not empty; give a new or empty folder")
    outputs = [output]
    if sources != [Path(source)]:
        outputs = [output / name for name in folder_names(sources, source)]
    for path, destination in zip(sources, outputs, strict=True):
        results = open_results(
            path, qrels, measure_texts, gold=gold, groups=groups, target=target, chains=starts
        )
        if form == "parquet":
            results.save(destination)
        else:
            results.to_trec(destination)
    for file in _study_files(Path(source), setting) if form == "parquet" else ():
        shutil.copyfile(file, output / file.name)
    return outputs


def folder_names(folders: Sequence[Path], source: str | PathLike[str]) -> list[str]:
    """Return unique names for `results_folders`: folder names, or paths below the source."""
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        names = ["-".join(folder.relative_to(source).parts) for folder in folders]
    return names


def _study_files(folder: Path, setting: str | None) -> list[Path]:
    """Return the files of a study itself: tables, settings, environment."""
    settings = [folder / SETTINGS / setting] if setting else sorted(folder.glob(f"{SETTINGS}/*"))
    for home in (folder, *(settings if len(settings) == 1 else ())):
        if (home / FACTS).is_file() and not (home / CONFIG).exists():
            return [home / FACTS, *sorted(home.glob("[!.]*.parquet"))]
    return []
