"""`tune`: settings of a pipeline, chosen on topics that they are not shown on."""

from __future__ import annotations

import inspect
import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
from tqdm import tqdm

from fairtk import checks
from fairtk.errors import (
    FairtkError,
    FairtkWarning,
    InputError,
    NotFoundError,
    ParameterError,
    format_list,
)
from fairtk.experiment.run import Experiment
from fairtk.experiment.work import said
from fairtk.frames import QID, digest, require_columns
from fairtk.frames.accepted import accepts_dataframes
from fairtk.llm import DeferredError
from fairtk.measures import parse

Settings = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class Choice:
    """What was chosen for the topics of one fold, by those of the others."""

    fold: int
    settings: Settings
    value: float  # the mean over the topics of the other folds
    topics: int  # how many these are
    seconds: float


@dataclass
class Tuner:
    """Chooses the best of some settings for each fold, by the topics of the other folds.

    A system that is trained is fitted on the topics of all folds but two, and judged on one of
    these: the other is the fold that is chosen for, whose labels so decide nothing.
    """

    build: Callable[..., Any]  # makes a system (Q -> R) of settings
    settings: Sequence[Settings]  # in order: of equal ones the first is chosen
    topics: pd.DataFrame
    qrels: pd.DataFrame
    measure: Any
    folds: Mapping[str, int]  # by topic
    trained: bool | None = None  # whether there is a fit(topics, qrels); None: estimators have
    name: str = "tune"
    _values: dict[tuple[int, frozenset[int]], pd.Series] = field(default_factory=dict)

    def choose(self, fold: int) -> Choice:
        """Return the best settings for a fold; an `InputError` if a system fails with some."""
        begin = time.perf_counter()
        lower = getattr(self.judge, "BETTER", "higher") == "lower"
        means, deferred = [], None
        for number in tqdm(
            range(len(self.settings)),
            f"tuning for fold {fold}",
            unit=" settings",
            delay=2,
            disable=None,
            leave=False,
        ):
            try:
                means.append(self._on_others(number, fold).mean())
            except DeferredError as error:  # the others' prompts can be known as well
                deferred = error
        if deferred is not None:
            raise deferred
        if np.isnan(means).all():
            raise InputError(
                f"{self.name}: {self.measure} is undefined for every topic outside fold {fold} "
                "with any settings"
            )
        best = int(np.nanargmin(means) if lower else np.nanargmax(means))
        seconds = time.perf_counter() - begin
        counted = sum(own != fold for own in self._own)
        return Choice(fold, self.settings[best], float(means[best]), counted, seconds)

    def made(self, settings: Settings, fold: int) -> Any:
        """Return the system of some settings, fitted on the other folds if it is trained."""
        system = self._built(settings)
        if self._is_trained(system):
            self._fit(system, {fold})
        return system

    def part(self, fold: int) -> pd.DataFrame:
        """Return the topics of a fold."""
        return self.topics[[own == fold for own in self._own]].reset_index(drop=True)

    # Parts -------------------------------------------------------------------------------------

    @cached_property
    def _own(self) -> list[int]:
        return [self.folds[qid] for qid in self.topics[QID].astype(str)]

    @cached_property
    def judge(self) -> Any:
        """The measure as an object."""
        return parse(self.measure)

    def _on_others(self, number: int, fold: int) -> pd.Series:
        """Return the values of settings on all topics but a fold's, by qid."""
        trained = self.trained
        if trained is None:
            trained = self._is_trained(self._built(self.settings[number]))
        if not trained:
            every = self._valued(number, frozenset())
            return every[[own != fold for own in self._own]]
        others = sorted(set(self._own) - {fold})
        if len(others) < 2:
            raise ParameterError(
                f"{self.name}: a system that is trained needs three folds at least: one that is "
                "chosen for, one that settings are judged on, and one to train on"
            )
        parts = []
        for other in others:
            values = self._valued(number, frozenset({fold, other}))
            parts.append(values[values.index.isin(self.part(other)[QID].astype(str))])
        return pd.concat(parts)

    def _valued(self, number: int, left_out: frozenset[int]) -> pd.Series:
        """Return the values of settings on topics that were left out of training (none: on all)."""
        if (number, left_out) not in self._values:
            with warnings.catch_warnings(), self._named(self.settings[number]):
                # said of the runs that are returned, not of all that is tried
                warnings.simplefilter("ignore", FairtkWarning)
                self._values[number, left_out] = self._measured(self.settings[number], left_out)
        return self._values[number, left_out]

    def _measured(self, settings: Settings, left_out: frozenset[int]) -> pd.Series:
        system, asked = self._make(settings), self.topics
        if left_out:
            asked = asked[[own in left_out for own in self._own]].reset_index(drop=True)
            self._fit(system, left_out)
        runs = {"system": system.transform(asked)}
        values = Experiment(runs, asked, self.qrels, [self.judge]).per_query
        return values.set_index(QID)["value"].reindex(asked[QID].astype(str))

    def _fit(self, system: Any, left_out: set[int] | frozenset[int]) -> None:
        train = self.topics[[own not in left_out for own in self._own]]
        train = train.sort_values(QID, ignore_index=True)
        system.fit(train, self.qrels[self.qrels[QID].astype(str).isin(train[QID].astype(str))])

    def _is_trained(self, system: Any) -> bool:
        return _has_estimator(system) if self.trained is None else self.trained

    def _built(self, settings: Settings) -> Any:
        with self._named(settings):
            return self._make(settings)

    def _make(self, settings: Settings) -> Any:
        system = self.build(**settings)
        if not hasattr(system, "transform"):
            raise ParameterError(f"build must return a transformer Q -> R; found {system!r:.80}")
        return system

    def _named(self, settings: Settings) -> AbstractContextManager[None]:
        return _named(f"{self.name}: with {_shown(settings)}")


def folds(qids: Sequence[str], count: int = 4, seed: int = 42) -> dict[str, int]:
    """Return the fold of each topic: equally large ones (to a topic), in an order made by chance.

    The order comes from (seed, qid): the order in which topics are given does not matter.
    """
    shuffled = sorted(qids, key=lambda qid: digest([seed, str(qid)], 16))
    return {qid: place % count for place, qid in enumerate(shuffled)}


def as_folds(
    qids: Sequence[str], split: int | Mapping[str, int], seed: int, where: str
) -> dict[str, int]:
    """Return the fold of each topic, whether folds are counted or given."""
    if isinstance(split, Mapping):
        lost = [qid for qid in qids if qid not in split]
        if lost:
            raise InputError(f"{where}: folds lack the topics {format_list(lost)}")
        fold_of = {qid: int(split[qid]) for qid in qids}
        if len(set(fold_of.values())) < 2:
            raise ParameterError(f"{where}: the topics must be in two folds at least")
        return fold_of
    if checks.integer("folds", split, where, least=2) > len(qids):
        raise ParameterError(
            f"{where}: {len(qids)} topics cannot be split into {split} folds; ask for at most "
            f"{len(qids)}"
        )
    return folds(qids, split, seed)


def combinations(grid: Grid, where: str) -> list[Settings]:
    """Return all combinations of values of one grid or several, without repetition."""
    settings_by_repr: dict[str, Settings] = {}
    for one in grid if isinstance(grid, list | tuple) else [grid]:
        if not isinstance(one, Mapping):
            raise ParameterError(
                f"{where}: a grid names settings, each with a list of values; found {one!r}"
            )
        for name, values in one.items():
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise ParameterError(
                    f"{where}: the values of {name!r} must be a list; found {values!r}"
                )
        for row in itertools.product(*one.values()):
            settings = dict(zip(one, row, strict=True))
            if settings:
                settings_by_repr.setdefault(repr(sorted(settings.items(), key=str)), settings)
    if not settings_by_repr:
        raise ParameterError(f"{where}: the grid has no settings; e.g. {{'alpha': [1, 2, 4]}}")
    return list(settings_by_repr.values())


def _has_estimator(system: Any) -> bool:
    stages = list(system) if isinstance(system, pt.Compose) else [system]
    return any(isinstance(stage, pt.Estimator) for stage in stages)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Put the settings before the message of what is wrong with a system."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
    except FairtkError:
        raise
    except Exception as error:
        raise FairtkError(f"{what}: {said(error)}") from error


def _shown(settings: Settings) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "no settings"


@dataclass(frozen=True)
class Tuning:
    """What `tune` found.

    Attributes:
        run: each topic's ranking, by the settings that were chosen on the other folds.
        default: each topic's ranking by ``build()``; None: it needs settings.
        chosen: per fold the settings, their mean over the training topics (``value``), ``topics``
            (how many these are) and ``seconds``.
        table: per system (``"default"``, ``"tuned"``) the mean over all topics, and over how many
            it is defined.
        values: each topic's value: ``system``, ``qid``, ``value``.
    """

    run: pd.DataFrame
    default: pd.DataFrame | None
    chosen: pd.DataFrame
    table: pd.DataFrame
    values: pd.DataFrame

    def __repr__(self) -> str:
        rows = [f"{row.system} {row.value:.4f}" for row in self.table.itertuples()]
        return f"<tuning: {', '.join(rows)}: .run, .default, .chosen, .table, .values>"


@accepts_dataframes
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
) -> Tuning:
    """Choose settings of a pipeline by cross-fitting: never on the topics that they are shown on.

        def build(weight=1.0):
            return FairQR(bm25, gender, target, llm, rerank="exposure", weight=weight)

        measure = nDCG_AWRF(groups=gender, target=target) @ 20
        tuned = fairtk.tune(build, {"weight": [0.5, 1.0, 2.0]}, topics, qrels, measure)
        tuned.table, tuned.chosen

    The topics of each fold are ranked with the settings whose mean is best on the other folds. What
    is trained is fitted without the fold that is chosen for, and without the one it is judged on.

    Args:
        build: makes the pipeline (Q -> R) of settings; called without any for the default.
        grid: name to values, all combinations of which are tried; or several such grids.
        topics: ``qid``, ``query``.
        qrels: ``qid``, ``docno``, ``label``.
        measure: any measure, or its name; whether more is better is the measure's.
        folds: how many (at most one per topic), or the fold of each qid.
        seed: of the folds.
        trained: whether pipelines have ``fit``; None: if an estimator of PyTerrier's is in them.

    Raises:
        ParameterError: no setting is given, or folds do not fit the topics.
        NotFoundError: `build` does not take a setting.
        InputError: a pipeline fails by what it was given; names its settings.
        FairtkError: it fails otherwise; likewise.
    """
    require_columns(topics, [QID], "tune: topics")
    settings = combinations(grid, "tune")
    default = _taken(build, settings)
    parts = as_folds(topics[QID].astype(str).tolist(), folds, seed, "tune")
    tuner = Tuner(build, settings, topics, qrels, measure, parts, trained)
    choices = [tuner.choose(fold) for fold in sorted(set(parts.values()))]
    runs = {"tuned": _shown_on(tuner, {c.fold: c.settings for c in choices})}
    if default:
        runs = {"default": _shown_on(tuner, {c.fold: {} for c in choices}), **runs}
    with warnings.catch_warnings():
        warnings.filterwarnings("once", category=FairtkWarning)
        per_query = Experiment(runs, topics, qrels, [tuner.judge]).per_query
    values = per_query[["system", QID, "value"]]
    means = values.groupby("system", sort=False)["value"].agg(value="mean", topics="count")
    rows = [
        {"fold": c.fold, **c.settings, "value": c.value, "topics": c.topics, "seconds": c.seconds}
        for c in choices
    ]
    table = means.loc[list(runs)].reset_index()
    return Tuning(runs["tuned"], runs.get("default"), pd.DataFrame(rows), table, values)


def _taken(build: Callable[..., Any], settings: Sequence[Settings]) -> bool:
    """Return whether a function can be called without settings; check that it takes them."""
    signature = inspect.signature(build)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    for name in dict.fromkeys(name for one in settings for name in one):
        if name not in signature.parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise NotFoundError("setting of build", name, signature.parameters)
    try:
        signature.bind()
    except TypeError:
        return False
    return True


def _shown_on(tuner: Tuner, settings: Mapping[int, Settings]) -> pd.DataFrame:
    """Return each fold's topics, ranked with the fold's settings."""
    return pd.concat(
        [tuner.made(own, fold).transform(tuner.part(fold)) for fold, own in settings.items()],
        ignore_index=True,
    )
