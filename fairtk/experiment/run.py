"""`fairtk.Experiment`: systems, topics, labels and measures in; `Results` out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
import pyterrier as pt

from fairtk.backends.model import optional
from fairtk.errors import DataWarning, InputError, NotFoundError, ParameterError, StageError, listed
from fairtk.experiment.chains import Node, Tree
from fairtk.experiment.database import FILE
from fairtk.experiment.dry_run import plan
from fairtk.experiment.engine import Engine
from fairtk.experiment.evaluation import COLUMNS, Evaluation
from fairtk.experiment.executors import Executor, as_executor
from fairtk.experiment.identity import differences, environment
from fairtk.experiment.results import Results
from fairtk.experiment.rows import stored_rows
from fairtk.experiment.store import Store
from fairtk.experiment.topics import Topics, about_dataset, from_dataset
from fairtk.frames import as_strings
from fairtk.frames.columns import QID, require


def Experiment(
    systems: Sequence[Any] | Mapping[str, Any],
    topics: pd.DataFrame | None = None,
    qrels: pd.DataFrame | None = None,
    measures: Iterable[Any] = (),
    *,
    dataset: Any = None,
    names: Sequence[str] | None = None,
    baseline: str | int | None = None,
    filter_by_qrels: bool = False,
    save_dir: str | PathLike[str] | None = None,
    executor: str | Executor = "serial",
    workers: int | None = None,
    threads: int | None = None,
    batch_size: int | None = None,
    fail_fast: bool = False,
    dry_run: bool = False,
) -> Any:
    """Run systems over topics and measure them: `pt.Experiment` made durable.

    Stages that systems share run once; each distinct prompt is generated once for all systems.
    With `save_dir` every result is kept as soon as it is there: a run that was killed goes on
    where it stopped, and ends with the same bytes. See the tutorials for examples.

    Args:
        systems: pipelines, or frames of results, as a list or by name.
        topics: the queries; None: those of `dataset`, or of the qrels where all systems are frames.
        qrels: labels (and ``gold_answer``); None: those of `dataset`.
        measures: measures, or strings as ``"E(nDCG@5)"``.
        dataset: an id or dataset that gives topics and qrels where they are not given.
        names: names for a list of systems; None: how they print.
        baseline: name or place of the system that `Results.compare` compares with.
        filter_by_qrels: whether topics without labels are left out.
        save_dir: folder of the store; one for any number of experiments, also at the same time.
        executor: ``"serial"``, ``"processes"``, ``"dask"`` or an executor.
        workers: worker processes; None: one per core (or GPU, of ``"processes"``).
        threads: of a model; None: all cores (or OMP_NUM_THREADS) when serial, else one.
        batch_size: queries that are done and kept together; None: 64.
        fail_fast: whether the first query that fails ends the run; else it is recorded.
        dry_run: whether to tell what is there and what is missing, and run nothing.

    Returns:
        `Results`; with `dry_run` a `DryRun`.
    """
    named = _systems(systems, names)
    frames = {name: one for name, one in named.items() if isinstance(one, pd.DataFrame)}
    pipelines = {name: one for name, one in named.items() if name not in frames}
    order = list(named)
    chosen = _baseline(baseline, order)
    threads = optional(threads, "threads", "Experiment")
    batch_size = optional(batch_size, "batch_size", "Experiment")
    if dataset is not None:
        topics, qrels = from_dataset(dataset, topics, qrels)
    if topics is None:
        topics = _topics_of(qrels, pipelines)
    if filter_by_qrels:
        topics = _labeled(topics, qrels)
    durable = save_dir is not None
    queries = Topics(topics, durable)
    evaluation = Evaluation(measures, qrels, queries.qids)
    for name, frame in frames.items():
        evaluation.refuse_samples(name, frame)
    tree = Tree(pipelines, durable)
    chosen_executor = as_executor(executor, workers)
    folder = None if save_dir is None else Path(save_dir)
    if folder is not None and dry_run and not (folder / FILE).exists():
        folder = None  # a look makes no file
    store = Store(folder)
    engine = Engine(
        tree,
        queries,
        store,
        chosen_executor,
        threads or chosen_executor.default_threads,
        batch_size,
        fail_fast,
        evaluation.refuse_samples,
    )
    if dry_run:
        return plan(engine)
    for name, node in tree.ends.items():
        _say_what_changed(store, name, node)
    engine.run()
    results = _results(engine, evaluation, frames, order, chosen, executor)
    results.config |= {} if dataset is None else about_dataset(dataset)
    return results


def _results(
    engine: Engine,
    evaluation: Evaluation,
    frames: Mapping[str, pd.DataFrame],
    order: Sequence[str],
    baseline: str | None,
    executor: Any,
) -> Results:
    cells = {name: engine.cells(node) for name, node in engine.tree.ends.items()}
    lost = [
        (name, qid, cell.error)
        for name in order
        for qid, cell in cells.get(name, {}).items()
        if cell.error is not None
    ]
    failures = pd.DataFrame(lost, columns=["system", QID, "error"], dtype="str")
    _warn_of_failures(failures, len(order) * len(engine.topics.qids))
    wanted = set(engine.topics.qids)
    given = {n: f[f[QID].isin(wanted)].reset_index(drop=True) for n, f in frames.items()}
    rows = stored_rows(engine.store, {n: list(c.values()) for n, c in cells.items()}, given)
    values = pd.DataFrame(columns=COLUMNS)
    means: dict[str, dict[str, float]] = {}
    if evaluation.measures:
        tree = engine.tree
        content = {
            n: given[n] if n in given else [tree.ends[n].key, list(cells[n].items())] for n in order
        }
        values, means = evaluation.all_values(
            content, lambda name: rows(name, evaluation.inputs, codes=True), engine.store
        )
    labels = list(evaluation.labels.values())
    index = pd.Index(order, name="system")
    return Results(
        rows=rows,
        evaluation=evaluation,
        per_query=values,
        means=pd.DataFrame.from_dict(means, orient="index", columns=labels).reindex(index),
        failures=failures,
        baseline=baseline,
        config={
            "systems": {name: engine.tree.ends[name].label for name in cells},
            "stages": {
                name: [node.stage.description for node in engine.tree.ends[name].chain]
                for name in cells
            },
            "queries": len(engine.topics.qids),
            "batch_size": engine.batch_size,
            "executor": repr(executor),
            "threads": engine.threads,
        },
        environment=environment(),
    )


def _systems(systems: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """Return pipelines and frames by name, in their order."""
    if isinstance(systems, Mapping):
        if names is not None:
            raise ParameterError("Experiment: names are given by the keys of systems; drop names")
        pairs = [(str(name), system) for name, system in systems.items()]
    elif isinstance(systems, list | tuple):
        if names is not None and len(names) != len(systems):
            raise ParameterError(
                f"Experiment: {len(systems)} systems need as many names; found {len(names)}"
            )
        shown = [_shown(system) for system in systems] if names is None else map(str, names)
        pairs = list(zip(shown, systems, strict=True))
    else:
        raise ParameterError(
            "Experiment: systems must be a list, or a dict of name to pipeline or frame; found a "
            f"{type(systems).__name__}"
        )
    if not pairs:
        raise ParameterError("Experiment: there are no systems")
    twice = [name for i, (name, _) in enumerate(pairs) if name in [n for n, _ in pairs[:i]]]
    if twice:
        raise ParameterError(
            f"Experiment: two systems are called {twice[0]!r}; give names=[...] or a dict"
        )
    found = dict(pairs)
    for name, system in pairs:
        if isinstance(system, pd.DataFrame):
            require(system, [QID], f"Experiment (system {name!r})")
            found[name] = system.assign(**{QID: as_strings(system[QID])})
        elif not isinstance(system, pt.Transformer):
            raise ParameterError(
                f"Experiment: system {name!r} must be a PyTerrier pipeline or a frame; found a "
                f"{type(system).__name__}"
            )
    return found


def _shown(system: Any) -> str:
    return f"frame of {len(system)} rows" if isinstance(system, pd.DataFrame) else str(system)


def _baseline(baseline: Any, names: Sequence[str]) -> str | None:
    if isinstance(baseline, int) and not isinstance(baseline, bool):
        if not -len(names) <= baseline < len(names):
            raise ParameterError(
                f"Experiment: baseline={baseline} is no place among {len(names)} systems"
            )
        return names[baseline]
    if baseline is not None and baseline not in names:
        raise NotFoundError("baseline", baseline, names)
    return None if baseline is None else str(baseline)


def _topics_of(qrels: pd.DataFrame | None, pipelines: Mapping[str, Any]) -> pd.DataFrame:
    if pipelines or qrels is None:
        raise InputError("Experiment: pipelines need topics (or a dataset that has them)")
    return qrels[[QID]].drop_duplicates()


def _labeled(topics: pd.DataFrame, qrels: pd.DataFrame | None) -> pd.DataFrame:
    if qrels is None:
        raise InputError("Experiment: filter_by_qrels needs qrels")
    kept = pd.Series(as_strings(topics[QID])).isin(set(as_strings(qrels[QID]))).to_numpy()
    return topics[kept]


def _say_what_changed(store: Store, name: str, node: Node) -> None:
    """Warn when a system of a known name has another identity, and say in which part."""
    before = store.earlier(name, node.key)
    if before is None:
        return
    now = [stage.stage.description for stage in node.chain]
    found = list(differences(before, now)) or ["the order of its settings"]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    warnings.warn(
        f"system {name!r} is not what is stored under this name ({'; '.join(found[:5])}{more}); "
        "its results are computed anew, and the earlier ones are kept",
        DataWarning,
        stacklevel=3,
    )


def _warn_of_failures(failures: pd.DataFrame, total: int) -> None:
    if failures.empty:
        return
    shown = [f"{s}, {q}: {e}" for s, q, e in failures.head(5).itertuples(index=False)]
    said = f"{len(failures)} of {total} results failed ({listed(shown, 3)})"
    if len(failures) == total:
        raise StageError(f"Experiment: {said}; nothing is left to measure")
    warnings.warn(
        f"Experiment: {said}; they count with the worst value of each measure, and are tried again "
        "by the next run with the same save_dir",
        DataWarning,
        stacklevel=4,
    )
