"""`fairtk.Experiment`: systems, topics, labels and measures in; `Results` out, now or from a
folder. `fairtk.plan`: what is stored and what is missing.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.display import Table
from fairtk.display.tables import aligned_lines, html_text
from fairtk.errors import (
    DataWarning,
    InputError,
    NotFoundError,
    ParameterError,
    StageError,
    format_list,
)
from fairtk.experiment.engine import Engine, Topics, about_dataset, from_dataset
from fairtk.experiment.evaluate_runs import GivenGroups, as_labels, completed, parse_with
from fairtk.experiment.executors import Executor, SerialExecutor, as_executor
from fairtk.experiment.identity import Node, Tree, differences, environment
from fairtk.experiment.packing import unpack
from fairtk.experiment.results import Results, as_texts
from fairtk.experiment.saved import CONFIG, FACTS, MEANS, SETTINGS
from fairtk.experiment.store import FILE, Store, StoredCell, stored_systems
from fairtk.experiment.values import (
    Evaluation,
    directions,
    stored_notes,
    stored_rows,
)
from fairtk.frames import QID, require_columns
from fairtk.frames.accepted import accepts_dataframes
from fairtk.frames.ids import as_strings, uncoded
from fairtk.io.qrels import frame_of_qrels
from fairtk.llm import DeferredError
from fairtk.llm.ledger import collecting

CELLS = ["system", "queries", "stored", "failed", "missing"]
PROMPTS = ["model", "prompts", "stored", "missing", "unknown"]


@dataclass(frozen=True)
class Plan:
    """The result of `fairtk.plan`: the work of an experiment, stored and missing.

    Attributes:
        cells: one row per system: ``system``, ``queries``, ``stored`` (results in the store),
            ``failed`` (stored errors, which a run tries again), ``missing``.
        prompts: one row per model: ``model``, ``prompts`` (the distinct ones of stored rankings),
            ``stored`` (answered), ``missing``, ``unknown`` (queries whose rankings are missing, so
            that their prompts are not known yet).
    """

    cells: pd.DataFrame
    prompts: pd.DataFrame

    def __repr__(self) -> str:
        blocks = [aligned_lines(t, numbers=range(1, len(t.columns))) for t in self._tables]
        return "\n\n".join("\n".join(lines) for lines in blocks)

    def _repr_html_(self) -> str:
        return "".join(map(html_text, self._tables))

    @property
    def _tables(self) -> list[Table]:
        filled = [table for table in (self.cells, self.prompts) if len(table)]
        return [as_texts(table) for table in filled]


def _cells(engine: Engine) -> pd.DataFrame:
    rows = []
    total = len(engine.topics.qids)
    for system, node in engine.tree.ends.items():
        cells = engine.cells(node).values()
        failed = sum(cell.error is not None for cell in cells)
        stored = len(cells) - failed
        rows.append((system, total, stored, failed, total - stored - failed))
    return pd.DataFrame(rows, columns=CELLS)


def _prompts(engine: Engine) -> pd.DataFrame:
    engine.prepare()
    texts: dict[str, set[str]] = {}
    unknown: dict[str, int] = {}
    models = {}
    for node in engine.tree.nodes:
        generator = node.stage.generator
        if generator is None:
            continue
        model = engine.prompt_sets[node.number].model
        models[model.key] = model
        prompts = texts.setdefault(model.key, set())
        if node.parent is None:
            prompts.update(generator.build_prompts(engine.topics.frame).prompts)
            continue
        cells = [cell for cell in engine.cells(node.parent).values() if cell.error is None]
        lost = len(engine.topics.qids) - len(cells)
        unknown[model.key] = unknown.get(model.key, 0) + lost
        table = engine.store.read(cells)
        if table is not None:
            prompts.update(generator.build_prompts(unpack(table)).prompts)
    rows = []
    for key, model in models.items():
        stored = len(engine.store.answers.get(model, texts[key]))
        total = len(texts[key])
        rows.append((model.name, total, stored, total - stored, unknown.get(key, 0)))
    return pd.DataFrame(rows, columns=PROMPTS)


@accepts_dataframes
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
) -> Results:
    """Run systems over topics and measure them: `pt.Experiment` made durable.

    Stages that systems share run once; each distinct prompt is generated once for all systems.
    With `save_dir` every result is kept as soon as it is there: a run that was killed goes on
    where it stopped, and ends with the same bytes. See the tutorials for examples.

    Args:
        systems: pipelines, or frames of results, as a list or by name.
        topics: the queries; None: those of `dataset`, or of the qrels where all systems are frames.
        qrels: labels (and ``gold_answer``), or a file of them; None: those of `dataset`.
        measures: measures, or strings as ``"E(nDCG@5)"``.
        dataset: an id or dataset that gives topics and qrels where they are not given.
        names: names for a list of systems; None: how they print.
        baseline: name or place of the system that `Results.compare` compares with.
        filter_by_qrels: whether topics without labels are left out.
        save_dir: folder of the store; one for any number of experiments, also at the same time.
        executor: ``"serial"``, ``"processes"``, ``"dask"``, a client of Dask or an executor.
        workers: worker processes; None: one per core (or GPU, of ``"processes"``).
        scheduler: the running cluster of ``"dask"``; see `fairtk.experiment.DaskExecutor`.
        threads: of a model; None: all cores (or OMP_NUM_THREADS) when serial, else one.
        batch_size: queries that are done and kept together; None: 64.
        fail_fast: whether the first query that fails ends the run; else it is recorded.
    """
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
    )
    engine = prepared[0]
    for name, node in engine.tree.ends.items():
        _say_what_changed(engine.store, name, node)
    cells = engine.run()
    if engine.deferred:
        due = len(engine.tree.ends) * len(engine.topics.qids)
        raise DeferredError(
            f"Experiment: {due - sum(map(len, cells.values()))} of {due} results wait for answers "
            "from a batch of prompts; run again when these were read"
        )
    results = _results(*prepared, cells, executor)
    results.config |= {} if dataset is None else about_dataset(dataset)
    return results


@accepts_dataframes
def plan(
    systems: Sequence[Any] | Mapping[str, Any],
    topics: pd.DataFrame | None = None,
    qrels: pd.DataFrame | str | PathLike[str] | None = None,
    measures: Iterable[Any] = (),
    **options: Any,
) -> Plan:
    """Return what an experiment has stored and what is missing; run nothing.

    Args:
        systems: as for `Experiment`.
        topics: as for `Experiment`.
        qrels: as for `Experiment`.
        measures: as for `Experiment`.
        **options: the other arguments of `Experiment`. A `save_dir` without a store stays empty.
    """
    folder = options.get("save_dir")
    if folder is not None and not (Path(folder) / FILE).exists():
        options["save_dir"] = None
    engine, *_ = _prepare(systems, topics, qrels, measures, durable=folder is not None, **options)
    return Plan(_cells(engine), _prompts(engine))


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
    durable: bool | None = None,
) -> tuple[Engine, Evaluation, dict[str, pd.DataFrame], list[str], str | None]:
    """Return an experiment for the arguments of `Experiment`: its engine, its measures, the systems
    that are results, the names of all systems, and the baseline.

    `durable` says whether stages need an identity; `None` if `save_dir` decides.
    """
    named = _systems(systems, names)
    frames = {name: one for name, one in named.items() if isinstance(one, pd.DataFrame)}
    pipelines = {name: one for name, one in named.items() if name not in frames}
    order = list(named)
    chosen = _baseline(baseline, order)
    for name, value in (("threads", threads), ("batch_size", batch_size)):
        if value is not None:
            checks.integer(name, value, "Experiment", rule=checks.FROM_1)
    if isinstance(qrels, str | PathLike):
        qrels = uncoded(frame_of_qrels(qrels, "Experiment"))
    if dataset is not None:
        topics, qrels = from_dataset(dataset, topics, qrels)
    if topics is None:
        topics = _topics_of(qrels, pipelines)
    if filter_by_qrels:
        topics = _labeled(topics, qrels)
    durable = save_dir is not None if durable is None else durable
    queries = Topics(topics, durable)
    evaluation = Evaluation(measures, qrels, queries.qids)
    for name, frame in frames.items():
        evaluation.refuse_samples(name, frame)
    tree = Tree(pipelines, durable)
    chosen_executor = as_executor(executor, workers, scheduler)
    own_threads = threads or chosen_executor.default_threads
    if collecting.get() is not None:  # prompts are collected here
        chosen_executor = SerialExecutor()
    engine = Engine(
        tree,
        queries,
        Store(None if save_dir is None else Path(save_dir)),
        chosen_executor,
        own_threads,
        batch_size,
        fail_fast,
        evaluation.refuse_samples,
    )
    return engine, evaluation, frames, order, chosen


def _results(
    engine: Engine,
    evaluation: Evaluation,
    frames: Mapping[str, pd.DataFrame],
    order: Sequence[str],
    baseline: str | None,
    cells: Mapping[str, Mapping[str, StoredCell]],
    executor: Any,
) -> Results:
    lost = [
        (name, qid, cell.error)
        for name in order
        for qid, cell in cells.get(name, {}).items()
        if cell.error is not None
    ]
    failures = pd.DataFrame(lost, columns=["system", QID, "error"], dtype="str")
    _warn_of_failures(failures, len(order) * len(engine.topics.qids))
    topic_ids = set(engine.topics.qids)
    frame_rows = {n: f[f[QID].isin(topic_ids)].reset_index(drop=True) for n, f in frames.items()}
    rows = stored_rows(engine.store, cells, frame_rows)
    content = {
        n: frame_rows[n]
        if n in frame_rows
        else [engine.tree.ends[n].key, json.dumps(list(cells[n].items()))]
        for n in order
    }
    values = evaluation.values(
        content,
        lambda name, qids=None: rows(name, evaluation.inputs, codes=True, qids=qids),
        engine.store,
    )
    chains = {
        name: [(n.stage.name, engine.chains[n.number]) for n in node.chain if n.stage.leaves_notes]
        for name, node in engine.tree.ends.items()
    }
    return Results(
        rows=rows,
        values=values,
        measures=evaluation.measures,
        directions=directions(evaluation.measures),
        qrels=evaluation.qrels,
        notes=stored_notes(engine.store, chains, engine.topics.digests),
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
    elif isinstance(systems, list | tuple | pd.DataFrame):
        systems = [systems] if isinstance(systems, pd.DataFrame) else systems
        if names is not None and len(names) != len(systems):
            raise ParameterError(
                f"Experiment: {len(systems)} systems need as many names; found {len(names)}"
            )
        labels = [_shown(system) for system in systems] if names is None else map(str, names)
        pairs = list(zip(labels, systems, strict=True))
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
    by_name = dict(pairs)
    for name, system in pairs:
        if isinstance(system, pd.DataFrame):
            require_columns(system, [QID], f"Experiment (system {name!r})")
            by_name[name] = system.assign(**{QID: as_strings(system[QID])})
        elif not isinstance(system, pt.Transformer):
            raise ParameterError(
                f"Experiment: system {name!r} must be a PyTerrier pipeline or a frame; found a "
                f"{type(system).__name__}"
            )
    return by_name


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
    has_labels = pd.Series(as_strings(topics[QID])).isin(set(as_strings(qrels[QID]))).to_numpy()
    return topics[has_labels]


def _say_what_changed(store: Store, name: str, node: Node) -> None:
    """Warn when a system of a known name has another identity, and say in which part."""
    before = store.earlier(name, node.key)
    if before is None:
        return
    now = [stage.stage.description for stage in node.chain]
    changes = list(differences(before, now)) or ["the order of its settings"]
    more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
    warnings.warn(
        f"system {name!r} is not what is stored under this name ({'; '.join(changes[:5])}{more}); "
        "its results are computed anew, and the earlier ones are kept",
        DataWarning,
        stacklevel=3,
    )


def _warn_of_failures(failures: pd.DataFrame, total: int) -> None:
    if failures.empty:
        return
    lines = [f"{s}, {q}: {e}" for s, q, e in failures.head(5).itertuples(index=False)]
    summary = f"{len(failures)} of {total} results failed ({format_list(lines, 3)})"
    if len(failures) == total:
        raise StageError(f"Experiment: {summary}; nothing is left to measure")
    warnings.warn(
        f"Experiment: {summary}; they count with the worst value of each measure, and are tried "
        "again by the next run with the same save_dir",
        DataWarning,
        stacklevel=4,
    )


@accepts_dataframes
def open_results(
    folder: str | PathLike[str],
    qrels: Any = None,
    measures: Iterable[Any] = (),
    *,
    gold: Any = None,
    groups: Any = (),
    target: Any = (),
) -> Results:
    """Return the results in a folder of `Results.save`, or of ``Experiment(save_dir=...)``.

    A store holds what systems gave, and not what was measured: labels and measures are given here,
    or the results have rankings only. Two systems of one name are told apart by their key.

    Args:
        folder: the folder.
        qrels: labels, for the folder of a store. A frame, a file or the id of a dataset.
        measures: measures, for the folder of a store.
        gold: gold answers, if the qrels have none: a frame or a file.
        groups: groups for measures that need some, as for `fairtk.evaluate`.
        target: the target for measures that need one, likewise; one, or one per attribute.

    Raises:
        InputError: there are no results here, or saved results are to be measured anew.
        StoreError: the store is damaged.
    """
    place, given_groups = results_folder(folder), GivenGroups.read(groups, target)
    parsed_measures = [parse_with(given_groups, measure) for measure in measures]
    if (place / CONFIG).exists():
        if parsed_measures or qrels is not None:
            raise InputError(
                f"{place}: these saved results have measures and labels of their own; give "
                "measures and qrels with the folder of a store only"
            )
        return Results.load(place)
    frames, stages, failures = stored_systems(place)
    if not frames:
        raise InputError(f"{place / FILE}: no system has finished a query yet; run it again")
    qids = {qid for frame in frames.values() for qid in frame[QID]} | set(failures[QID])
    topics = pd.DataFrame({QID: sorted(qids, key=_as_numbered)})  # a store knows no order
    number = {qid: number for number, qid in enumerate(topics[QID])}
    frames = {
        name: frame.sort_values(
            QID, key=lambda ids: ids.map(number), kind="stable", ignore_index=True
        )
        for name, frame in frames.items()
    }
    frame = None
    if qrels is not None:
        given_groups.labels = as_labels(qrels, gold, parsed_measures)
        frame = given_groups.labels.with_text_ids()
    whole = [completed(given_groups, measure) for measure in parsed_measures]
    results: Results = Experiment(frames, topics, frame, whole)
    results.failures = failures
    config = {"stages": stages, "queries": len(topics), "store": FILE}
    results.config = config | {k: v for k, v in results.config.items() if k == "digests"}
    return results


def _as_numbered(qid: str) -> list[tuple[int, str]]:
    """Return what sorts ids by the numbers in them: 2 before 10."""
    parts = re.split(r"(\d+)", qid)
    return [(int(part), "") if place % 2 else (0, part) for place, part in enumerate(parts)]


def _of_setting(place: Path, setting: str | None) -> Path:
    """Return the folder of a study's setting; without one, the study's, if there are not two."""
    there = sorted(
        {path.relative_to(place).parts[1] for path in place.glob(f"{SETTINGS}/*/**/{MEANS}")}
    )
    if setting is None and len(there) > 1:
        raise InputError(
            f"{place}: there are results of {len(there)} settings; choose one with `setting`: "
            + ", ".join(there)
        )
    if setting is None:
        return place
    if setting not in there:
        raise NotFoundError("setting", setting, there)
    return place / SETTINGS / setting


def results_folders(folder: str | PathLike[str], setting: str | None = None) -> list[Path]:
    """Return the folders with results: this one, or those below, as of a study.

    Args:
        folder: of saved results, of a store, or of a study that saved its results below: of each
            attribute, or of each model.
        setting: the name of the study's settings, if it has results of several.

    Raises:
        InputError: there are none, or those of several settings, which are listed.
        NotFoundError: there are no results of that setting.
    """
    place = Path(folder)
    if place.is_file():
        raise InputError(
            f"{folder}: this is a file; expected a folder of results, a store, or the output "
            "folder of a study"
        )
    if not place.is_dir():
        raise InputError(f"{folder}: there is no such folder")
    place = _of_setting(place, setting)
    if (place / CONFIG).exists():
        return [place]
    below = sorted({path.parent for path in place.rglob(MEANS) if (path.parent / CONFIG).exists()})
    if below:
        return below
    if (place / FILE).exists():
        return [place]
    raise InputError(
        f"{folder}: neither saved results ({CONFIG} of Results.save) nor a store ({FILE} of "
        "Experiment(save_dir=...)) is in this folder"
    )


def results_folder(folder: str | PathLike[str], setting: str | None = None) -> Path:
    """Return the only one of `results_folders`.

    Raises:
        InputError: there are none, or several, which are listed.
        NotFoundError: there are no results of that setting.
    """
    places = results_folders(folder, setting)
    if len(places) == 1:
        return places[0]
    raise InputError(
        f"{folder}: there are results in {len(places)} folders; give one of them: "
        + ", ".join(map(str, places))
    )


Export = Literal["parquet", "trec"]
EXPORTS: tuple[Export, ...] = get_args(Export)


@accepts_dataframes
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
) -> list[Path]:
    """Write the results of a store, of a study, or saved ones, so that others read them.

    Args:
        source: a ``save_dir``, a study's folder, or one of `Results.save`.
        folder: new, or empty. The results of a study are in folders below, one for each attribute
            or model, with the study's own tables and ``study.json`` beside them.
        form: the files: ``"parquet"`` (tables and JSON) or ``"trec"`` (run files, each with its
            ir_metadata, and qrels). `Results.save` and `Results.to_trec` write them.
        qrels: labels, for the folder of a store. See `open_results`.
        measures: measures, for the folder of a store.
        gold: gold answers, if the qrels have none.
        groups: groups for measures, for the folder of a store.
        target: the target for measures, likewise; one, or one per attribute.
        setting: the name of a study's settings, if it has results of several.

    Returns:
        The folders with results, each of which `open_results` opens if the form is ``"parquet"``.

    Raises:
        InputError: there are no results, or the folder has other files.
        StoreError: a store is damaged, or the folder cannot be written.
    """
    checks.choice("form", form, EXPORTS, "export")
    places, out = results_folders(source, setting), Path(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{folder}: there are files here already; give a new or an empty folder")
    below = folder_names(places, source)
    single = places == [Path(source)]
    results_in = [out if single else out / name for name in below]
    for place, own in zip(places, results_in, strict=True):
        results = open_results(place, qrels, measures, gold=gold, groups=groups, target=target)
        if form == "parquet":
            results.save(own)
        else:
            results.to_trec(own)
    for file in _of_study(Path(source), setting) if form == "parquet" else ():
        shutil.copyfile(file, out / file.name)
    return results_in


def folder_names(places: Sequence[Path], source: str | PathLike[str]) -> list[str]:
    """Return a name for each of some `results_folders`: its own, or all below the source."""
    names = [place.name for place in places]
    if len(set(names)) < len(names):
        names = ["-".join(place.relative_to(source).parts) for place in places]
    return names


def _of_study(place: Path, setting: str | None) -> list[Path]:
    """Return the files that a study writes about itself: tidy tables, settings, environment."""
    several = [place / SETTINGS / setting] if setting else sorted(place.glob(f"{SETTINGS}/*"))
    for home in (place, *(several if len(several) == 1 else ())):
        if (home / FACTS).is_file() and not (home / CONFIG).exists():
            return [home / FACTS, *sorted(home.glob("[!.]*.parquet"))]
    return []
