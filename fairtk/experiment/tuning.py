"""`tune` and `cross_fit`: choose settings of a pipeline for each fold on the other folds."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display import number_text
from fairtk.display.tables import frame_html, frames_text
from fairtk.errors import DataWarning, FairtkError, InputError, NotFoundError, ParameterError
from fairtk.experiment.results import Results
from fairtk.experiment.run import Experiment
from fairtk.experiment.values import aggregates
from fairtk.experiment.work import error_line
from fairtk.frames import LABEL, QID, SAMPLE, digest, require_columns
from fairtk.frames.accepted import as_frame, frame_of
from fairtk.frames.ids import as_strings
from fairtk.transformers import Fitted
from fairtk.transformers.fitted import is_trained
from fairtk.wording import format_list, short

Settings = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]

_PLAIN = str | int | float | bool
DEFAULT = "default"  # the name of the system with the default settings


def folds(qids: Iterable[str], count: int = 4, seed: int = 42) -> dict[str, int]:
    """Assign each topic to a random fold; the sizes of folds differ by at most one.

    The folds depend on the seed and the qids, but not on the order of the qids. Each qid counts
    once. An integer qid becomes text.
    """
    checks.integer("count", count, "folds")
    checks.integer("seed", seed, "folds", least=None)
    distinct = dict.fromkeys(map(str, checks.listed("qids", qids)))
    shuffled = sorted(distinct, key=lambda qid: digest([seed, qid], 16))
    return {qid: index % count for index, qid in enumerate(shuffled)}


def as_folds(
    qids: Sequence[str], split: int | Mapping[str, int], seed: int, where: str
) -> dict[str, int]:
    """Return the fold of each topic; `split` is a number of folds or a mapping."""
    if isinstance(split, Mapping):
        given = {str(qid): fold for qid, fold in split.items()}
        if missing := [qid for qid in qids if qid not in given]:
            raise InputError(f"{where}: missing topics in `folds`: {format_list(missing)}")
        for qid in qids:
            checks.integer(f"folds[{qid!r}]", given[qid], where, least=None)
        if len({given[qid] for qid in qids}) < 2:
            raise ParameterError(f"{where}: `folds` must have at least two folds")
        return {qid: given[qid] for qid in qids}
    if checks.integer("folds", split, where, least=2) > len(qids):
        raise ParameterError(
            f"{where}: `folds` must be at most the number of topics ({len(qids)}), got {split}"
        )
    return folds(qids, split, seed)


@dataclass(frozen=True, eq=False)
class Tuned:
    """The result of `cross_fit`.

    Attributes:
        rows: the rows of each topic with a fold, from the system chosen for its fold.
        choices: a row per fold: ``fold``, ``system`` (the chosen one), ``value`` (its mean over
            topics of the other folds), ``topics`` (the number of these).
    """

    rows: pd.DataFrame
    choices: pd.DataFrame

    def __repr__(self) -> str:
        return f"{frames_text(self.choices)}\n\n{len(self.rows)} rows of the chosen systems"

    def _repr_html_(self) -> str:
        return frame_html(self.choices, f"{len(self.rows)} rows of the chosen systems")


def cross_fit(
    results: Results,
    measure: Any,
    folds: int | Mapping[str, int] = 4,
    *,
    seed: int = 42,
    systems: Collection[str] | Mapping[int, Collection[str]] | None = None,
) -> Tuned:
    """Choose a system for each fold on the other folds, and return its rows for the fold.

    No label of a fold has an influence on the system chosen for it. The systems are usually one
    pipeline with different settings. The best has the best mean over the topics of the other folds,
    of those where the value of every system is defined. Of equally good systems, the first in the
    order of `systems` is chosen. Not chosen is a system whose values are all undefined, or that
    failed for all topics. For example::

        grid = {f"k1={k1}": BM25(k1=k1) for k1 in (0.5, 0.9, 1.5)}
        results = fairtk.Experiment(grid, topics, qrels, ["nDCG@10"], save_dir="grid")
        tuned = fairtk.cross_fit(results, "nDCG@10", folds=4)
        fairtk.Experiment({"bm25": bm25, "tuned": tuned.rows}, topics, qrels, ["nDCG@10"])

    For trained systems, whose rows also depend on labels, see `fairtk.Fitted.leave_out`.

    Args:
        results: the results of all systems.
        measure: a measure of the results.
        folds: the number of random folds of the topics with labels, or the fold of each qid.
        seed: the seed of random folds.
        systems: the names of the systems to choose from, for all folds or by fold; `None` for all.

    Raises:
        NotFoundError: a system or the measure is not in the results.
        ParameterError: the number of folds is invalid, or a fold has no systems.
        InputError: `folds` has no fold for a topic; or the measure is undefined, or all systems
            failed, for all topics outside a fold.
    """
    if not isinstance(results, Results):
        raise ParameterError(
            f"cross_fit: results must be those of fairtk.Experiment, got {short(results)}"
        )
    info = results.info(measure)
    per_query = results.values.per_query
    of_measure = per_query[per_query["measure"] == info.label]
    # sorted by qid, because sums must not depend on the order of the topics
    values = of_measure.pivot(index=QID, columns="system", values="value")
    given = map(str, folds) if isinstance(folds, Mapping) else ()  # also topics without labels
    fold_of = as_folds(list(dict.fromkeys([*given, *values.index])), folds, seed, "cross_fit")
    failed = results.failures.groupby("system")[QID].agg(set).to_dict()
    choices, parts = [], []
    for fold in sorted(set(fold_of.values())):
        names = _names(results, systems, fold)
        others = values.loc[[fold_of[qid] != fold for qid in values.index], names]
        usable = [
            name
            for name in names
            if others[name].notna().any() and not failed.get(name, set()).issuperset(others.index)
        ]
        others = others[usable].dropna()
        means = _means(results, info, others).dropna()
        if means.empty:
            raise InputError(
                f"cross_fit: no system to choose for fold {fold} from {format_list(names, 3)}: on "
                f"the topics of the other folds, they failed or have no common values of {info}"
            )
        best = means.idxmin() if info.better == "lower" else means.idxmax()
        choices.append((fold, best, means[best], len(others)))
        rows = results.rankings(best)
        parts.append(rows[rows[QID].map(fold_of.get) == fold])
    rows = pd.concat(_equally_sampled(parts)).sort_values(
        QID, key=lambda qids: qids.map({q: i for i, q in enumerate(fold_of)}), kind="stable"
    )
    columns = ["fold", "system", "value", "topics"]
    return Tuned(rows.reset_index(drop=True), pd.DataFrame(choices, columns=columns))


def _equally_sampled(parts: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return rows of systems; if some are sampled, the single rankings of others are repeated."""
    n_samples = max((rows[SAMPLE].nunique() for rows in parts if SAMPLE in rows.columns), default=0)
    return [
        pd.concat([rows.assign(**{SAMPLE: number}) for number in range(n_samples)])
        if n_samples and SAMPLE not in rows.columns
        else rows
        for rows in parts
    ]


def _means(results: Results, measure: Any, values: pd.DataFrame) -> pd.Series:
    """Return the mean, or other aggregate, of each column of values of a measure."""
    info = results.info(measure)
    table = values.to_numpy().T[:, np.newaxis, :]
    measures = {info.label: results._measure(info)}
    return aggregates(list(values), measures, list(values.index), table)[info.label]


def _names(
    results: Results, systems: Collection[str] | Mapping[int, Collection[str]] | None, fold: int
) -> list[str]:
    """Return the names of the systems to choose from for a fold."""
    if systems is None:
        return results.systems
    given = systems.get(fold, ()) if isinstance(systems, Mapping) else systems
    names = checks.listed("systems", given, "cross_fit")
    for name in names:
        if name not in results.systems:
            raise NotFoundError("system", name, results.systems)
    if not names:
        raise ParameterError(f"cross_fit: `systems` must have at least one system for fold {fold}")
    return names


def combinations(grid: Grid, where: str = "combinations") -> list[Settings]:
    """Return the distinct combinations of values of one or several grids.

    For example, the systems of an experiment::

        fairtk.experiment.combinations({"k1": [0.9, 1.2], "b": [0.4]})
        # [{"k1": 0.9, "b": 0.4}, {"k1": 1.2, "b": 0.4}]

    Args:
        grid: the values by setting, in all combinations; or several such grids.
        where: the caller, for messages.

    Raises:
        ParameterError: a grid is empty or no mapping, or its values are not a list.
    """
    distinct: list[Settings] = []
    for part in grid if isinstance(grid, list | tuple) else [grid]:
        if not isinstance(part, Mapping):
            raise ParameterError(
                f"{where}: a grid must be a dict from setting to list of values, got {short(part)}"
            )
        for name, values in part.items():
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise ParameterError(
                    f"{where}: the values of {name!r} must be a list, got {short(values)}"
                )
        for row in itertools.product(*part.values()):
            settings = dict(zip(part, row, strict=True))
            if settings and not any(_are_equal(settings, other) for other in distinct):
                distinct.append(settings)
    if not distinct:
        raise ParameterError(f"{where}: a grid must not be empty; pass e.g. {{'alpha': [1, 2, 4]}}")
    return distinct


def _are_equal(one: Settings, other: Settings) -> bool:
    """Return whether settings are equal; objects are equal to themselves only."""
    return one.keys() == other.keys() and all(
        value is other[name]
        or (isinstance(value, _PLAIN) and type(value) is type(other[name]) and value == other[name])
        for name, value in one.items()
    )


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """The result of `tune`.

    Attributes:
        run: the ranking of each topic with the settings chosen on the other folds.
        default: the ranking of each topic with ``build()``; `None` if `build` requires settings.
        chosen: a row per fold: the settings, their mean over topics of the other folds
            (``value``), ``topics`` (the number of these).
        table: ``system`` (``"default"``, ``"tuned"``), ``value`` (the mean over all topics),
            ``topics`` (the number with a defined value).
        values: the value of each topic: ``system``, ``qid``, ``value``.
        grid: the results of all settings, and of ``"default"``.
    """

    run: pd.DataFrame
    default: pd.DataFrame | None
    chosen: pd.DataFrame
    table: pd.DataFrame
    values: pd.DataFrame
    grid: Results

    def __repr__(self) -> str:
        rows = [f"{row.system} {number_text(row.value)}" for row in self.table.itertuples()]
        return f"<tuning: {', '.join(rows)}: .run, .default, .chosen, .table, .values, .grid>"


def tune(
    build: Callable[..., Any],
    grid: Grid,
    topics: pd.DataFrame,
    qrels: pd.DataFrame,
    measure: Any,
    folds: int | Mapping[str, int] = 4,
    *,
    seed: int = 42,
    trained: bool | None = None,
    **options: Any,
) -> Tuning:
    """Choose the settings of a pipeline by cross-fitting.

    The topics of each fold are ranked with the settings whose mean is best on the other folds; see
    `cross_fit`. All settings are the systems of one `fairtk.Experiment`, so equal stages run once,
    and with `save_dir` an interrupted run continues where it stopped. Trained pipelines are fitted
    without the fold to choose for, and without the fold that they are measured on; see
    `fairtk.Fitted`. For example::

        def build(weight=1.0):
            return FairQR(bm25, gender, target, llm, rerank="exposure", weight=weight)

        measure = nDCG_AWRF(groups=gender, target=target) @ 20
        tuned = fairtk.tune(build, {"weight": [0.5, 1.0, 2.0]}, topics, qrels, measure,
                            save_dir="tuning")
        tuned.table, tuned.chosen

    ``pt.GridSearch`` does none of this; the cookbook has a comparison (Tune settings).

    Args:
        build: returns the pipeline (Q -> R) for settings. It is called once per setting, and once
            without settings for the default.
        grid: the values to try by setting, in all combinations; or several such grids.
        topics: ``qid``, ``query``.
        qrels: ``qid``, ``docno``, ``label``.
        measure: a measure or its name.
        folds: the number of folds (at most one per topic), or the fold of each qid.
        seed: the seed of the folds.
        trained: whether pipelines have ``fit``; `None` for yes if they have a PyTerrier estimator.
        **options: further arguments of `fairtk.Experiment`, such as ``save_dir``, ``executor``,
            ``workers`` and ``batch_size``.

    Raises:
        ParameterError: the grid is empty, or the number of folds is invalid.
        NotFoundError: a setting is not a parameter of `build`.
        InputError: `folds` has no fold for a topic, or all pipelines reject their input.
        FairtkError: `build` fails for all settings, or all pipelines fail; the message has their
            settings. If only some fail, a warning names them, and the others are kept.
    """
    if not callable(build):
        raise ParameterError(
            "tune: build must be a function that returns a pipeline for settings, got "
            f"{short(build)}; to choose among systems, use fairtk.cross_fit"
        )
    checks.parameters(options, "tune", tune, Experiment)
    topics, qrels = frame_of(topics), as_frame(qrels, LABEL, "tune: qrels")
    require_columns(topics, [QID], "tune: topics")
    if trained is not None:
        checks.boolean("trained", trained, "tune")
    fold_of = as_folds(list(dict.fromkeys(as_strings(topics[QID]))), folds, seed, "tune")
    settings: dict[str, Settings] = {}
    for number, one in enumerate(combinations(grid, "tune"), 1):
        name = _name(one)  # objects may have equal texts
        settings[f"{name} (number {number})" if name in settings else name] = one
    built = _built(build, settings)
    systems: dict[str, Any] = {}
    by_fold: dict[int, dict[str, Settings]] = {fold: {} for fold in sorted(set(fold_of.values()))}
    for name, system in built.items():
        to_train = is_trained(system) if trained is None else trained
        fitted = Fitted(system, topics, qrels, fold_of) if to_train else None
        if name == DEFAULT:
            systems[name] = fitted or system
            continue
        if fitted and len(by_fold) < 3:
            raise ParameterError(
                "tune: a trained system requires at least three folds, to choose for, to measure "
                "settings on and to train on"
            )
        for fold, of_fold in by_fold.items():
            key = f"{name}, without fold {fold}" if fitted else name
            systems[key] = fitted.leave_out(fold) if fitted else system
            of_fold[key] = settings[name]
    results = Experiment(systems, topics, qrels, [measure], **options)
    tuned = cross_fit(results, measure, fold_of, systems=by_fold)
    choice = dict(zip(tuned.choices["fold"], tuned.choices["system"], strict=True))
    values = results.values.per_query.pivot(index=QID, columns="system", values="value")
    values["tuned"] = [values.at[qid, choice[fold_of[qid]]] for qid in values.index]
    names = [DEFAULT, "tuned"] if DEFAULT in systems else ["tuned"]
    means = _means(results, measure, values[names])
    return Tuning(
        tuned.rows,
        results.rankings(DEFAULT) if DEFAULT in systems else None,
        pd.DataFrame(
            {"fold": fold, **by_fold[fold][name], "value": value, "topics": n}
            for fold, name, value, n in tuned.choices.itertuples(index=False)
        ),
        pd.DataFrame({"value": means, "topics": values[names].count()}).reset_index(),
        values[names].reset_index().melt(QID, var_name="system")[["system", QID, "value"]],
        results,
    )


def _accepts(build: Callable[..., Any], settings: Iterable[Settings]) -> bool:
    """Check that a function accepts settings, and return whether it can be called without."""
    signature = inspect.signature(build)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    for name in dict.fromkeys(name for names in settings for name in names):
        if name not in signature.parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise NotFoundError("parameter of `build`:", name, signature.parameters)
    try:
        signature.bind()
    except TypeError:
        return False
    return True


def _built(build: Callable[..., Any], settings: Mapping[str, Settings]) -> dict[str, Any]:
    """Return the system for each setting and for none; warn of settings for which `build` fails."""
    has_default = _accepts(build, settings.values())
    systems, errors = {}, {}
    for name, one in {**({DEFAULT: {}} if has_default else {}), **settings}.items():
        try:
            systems[name] = build(**one)
        except Exception as error:
            errors[name] = error
            continue
        if not hasattr(systems[name], "transform"):
            text = f"`build` must return a transformer, got {systems.pop(name)!r:.80}"
            errors[name] = ParameterError(text)
    lines = [f"with {name}: {error_line(error)}" for name, error in errors.items()]
    if not systems.keys() & settings.keys():
        first = next(iter(errors.values()))
        kind = InputError if isinstance(first, InputError) else FairtkError
        raise kind(f"tune: {'; '.join(lines[:3])}") from first
    if errors:
        warnings.warn(
            f"tune: `build` failed {format_list(lines, 3)}; the other settings are kept",
            DataWarning,
            stacklevel=3,
        )
    return systems


def _name(settings: Settings) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())
