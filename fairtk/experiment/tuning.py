"""`tune`: choose settings of a pipeline by cross-fitting."""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
from tqdm import tqdm

from fairtk import checks, stage_context
from fairtk.errors import FairtkError, InputError, NotFoundError, ParameterError
from fairtk.experiment.run import Experiment
from fairtk.experiment.work import error_line
from fairtk.frames import LABEL, QID, digest, require_columns
from fairtk.frames.accepted import as_frame, frame_of
from fairtk.llm import DeferredError
from fairtk.measures import parse
from fairtk.measures.evaluator import Evaluator
from fairtk.wording import format_list

Settings = Mapping[str, Any]
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class Choice:
    """The settings for the topics of a fold, chosen on the other folds."""

    fold: int
    settings: Settings
    value: float  # the mean over the topics of the other folds
    topics: int  # the number of these topics
    seconds: float


@dataclass
class Tuner:
    """Chooses the best settings for each fold on the topics of the other folds.

    A trained system is fitted on all folds but two, and measured on one of these; the other is the
    fold to choose for, whose labels are not used.
    """

    build: Callable[..., Any]  # returns a system (Q -> R) for settings
    settings: Sequence[Settings]  # of equally good ones, the first is chosen
    topics: pd.DataFrame
    qrels: pd.DataFrame
    measure: Any
    folds: Mapping[str, int]  # by topic
    trained: bool | None = None  # whether systems have fit(topics, qrels); None if estimators do
    name: str = "tune"
    _values: dict[tuple[int, frozenset[int]], pd.Series] = field(default_factory=dict)

    def choose(self, fold: int) -> Choice:
        """Return the best settings for a fold.

        Raises:
            InputError: a system fails, or the measure is undefined for all topics.
        """
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
            except DeferredError as error:  # also collect the prompts of other settings
                deferred = error
        if deferred is not None:
            raise deferred
        if np.isnan(means).all():
            raise InputError(
                f"{self.name}: {self.measure} is undefined for all topics outside fold {fold}, "
                "with all settings"
            )
        best = int(np.nanargmin(means) if lower else np.nanargmax(means))
        seconds = time.perf_counter() - begin
        n_topics = sum(f != fold for f in self._fold_of_topic)
        return Choice(fold, self.settings[best], float(means[best]), n_topics, seconds)

    def make_system(self, settings: Settings, fold: int) -> Any:
        """Return the system for settings, fitted on the other folds if it is trained."""
        system = self._built(settings)
        if self._is_trained(system):
            self._fit(system, {fold})
        return system

    def part(self, fold: int) -> pd.DataFrame:
        """Return the topics of a fold."""
        return self.topics[[f == fold for f in self._fold_of_topic]].reset_index(drop=True)

    # Parts -------------------------------------------------------------------------------------

    @cached_property
    def _fold_of_topic(self) -> list[int]:
        return [self.folds[qid] for qid in self.topics[QID].astype(str)]

    @cached_property
    def judge(self) -> Any:
        """The measure as an object."""
        return parse(self.measure)

    def _on_others(self, number: int, fold: int) -> pd.Series:
        """Return the values of settings on the topics of the other folds, by qid."""
        trained = self.trained
        if trained is None:
            trained = self._is_trained(self._built(self.settings[number]))
        if not trained:
            values = self._cached_values(number, frozenset())
            return values[[f != fold for f in self._fold_of_topic]]
        others = sorted(set(self._fold_of_topic) - {fold})
        if len(others) < 2:
            raise ParameterError(
                f"{self.name}: a trained system requires at least three folds, to choose for, to "
                "measure settings on and to train on"
            )
        parts = []
        for other in others:
            values = self._cached_values(number, frozenset({fold, other}))
            parts.append(values[values.index.isin(self.part(other)[QID].astype(str))])
        return pd.concat(parts)

    def _cached_values(self, number: int, left_out: frozenset[int]) -> pd.Series:
        """Return the values of settings on held-out folds, by default on all topics."""
        if (number, left_out) not in self._values:
            # the final runs make the same remarks
            with stage_context.changed(remarks={}), self._named(self.settings[number]):
                self._values[number, left_out] = self._measured(self.settings[number], left_out)
        return self._values[number, left_out]

    def _measured(self, settings: Settings, left_out: frozenset[int]) -> pd.Series:
        system, topics = self._make(settings), self.topics
        if left_out:
            topics = topics[[f in left_out for f in self._fold_of_topic]].reset_index(drop=True)
            self._fit(system, left_out)
        qids = topics[QID].astype(str)
        labels = self.qrels[self.qrels[QID].astype(str).isin(qids)]
        evaluator = Evaluator([self.judge], labels)
        scores, _ = evaluator.evaluate(evaluator.checked(system.transform(topics)))
        return pd.Series(scores[self.judge].values, evaluator.qrels.qids).reindex(qids)

    def _fit(self, system: Any, left_out: set[int] | frozenset[int]) -> None:
        train = self.topics[[f not in left_out for f in self._fold_of_topic]]
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
            raise ParameterError(f"`build` must return a transformer, got {system!r:.80}")
        return system

    def _named(self, settings: Settings) -> AbstractContextManager[None]:
        return _named(f"{self.name}: with {_settings_text(settings)}")


def folds(qids: Sequence[str], count: int = 4, seed: int = 42) -> dict[str, int]:
    """Assign each topic to a random fold; the sizes of folds differ by at most one.

    The folds depend on the seed and the qids, but not on the order of the qids.
    """
    checks.integer("count", count, "folds")
    checks.integer("seed", seed, "folds", least=None)
    shuffled = sorted(checks.listed("qids", qids), key=lambda qid: digest([seed, str(qid)], 16))
    return {qid: index % count for index, qid in enumerate(shuffled)}


def as_folds(
    qids: Sequence[str], split: int | Mapping[str, int], seed: int, where: str
) -> dict[str, int]:
    """Return the fold of each topic; `split` is a number of folds or a mapping."""
    if isinstance(split, Mapping):
        missing = [qid for qid in qids if qid not in split]
        if missing:
            raise InputError(f"{where}: missing topics in `folds`: {format_list(missing)}")
        fold_of = {qid: int(split[qid]) for qid in qids}
        if len(set(fold_of.values())) < 2:
            raise ParameterError(f"{where}: `folds` must have at least two folds")
        return fold_of
    if checks.integer("folds", split, where, least=2) > len(qids):
        raise ParameterError(
            f"{where}: `folds` must be at most the number of topics ({len(qids)}), got {split}"
        )
    return folds(qids, split, seed)


def combinations(grid: Grid, where: str) -> list[Settings]:
    """Return the distinct combinations of values of one or several grids."""
    settings_by_repr: dict[str, Settings] = {}
    for part in grid if isinstance(grid, list | tuple) else [grid]:
        if not isinstance(part, Mapping):
            raise ParameterError(
                f"{where}: a grid must be a dict from setting to list of values, got {part!r}"
            )
        for name, values in part.items():
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise ParameterError(
                    f"{where}: the values of {name!r} must be a list, got {values!r}"
                )
        for row in itertools.product(*part.values()):
            settings = dict(zip(part, row, strict=True))
            if settings:
                settings_by_repr.setdefault(repr(sorted(settings.items(), key=str)), settings)
    if not settings_by_repr:
        raise ParameterError(f"{where}: a grid must not be empty; pass e.g. {{'alpha': [1, 2, 4]}}")
    return list(settings_by_repr.values())


def _has_estimator(system: Any) -> bool:
    stages = list(system) if isinstance(system, pt.Compose) else [system]
    return any(isinstance(stage, pt.Estimator) for stage in stages)


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Add the settings to the error of a system."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
    except FairtkError:
        raise
    except Exception as error:
        raise FairtkError(f"{what}: {error_line(error)}") from error


def _settings_text(settings: Settings) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "no settings"


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`.

    Attributes:
        run: the ranking of each topic with the settings chosen on the other folds.
        default: the ranking of each topic with ``build()``; `None` if `build` requires settings.
        chosen: a row per fold: the settings, their mean over the topics of the other folds
            (``value``), ``topics`` (the number of these) and ``seconds``.
        table: ``system`` (``"default"``, ``"tuned"``), ``value`` (the mean over all topics),
            ``topics`` (the number with a defined value).
        values: the value of each topic: ``system``, ``qid``, ``value``.
    """

    run: pd.DataFrame
    default: pd.DataFrame | None
    chosen: pd.DataFrame
    table: pd.DataFrame
    values: pd.DataFrame

    def __repr__(self) -> str:
        rows = [f"{row.system} {row.value:.4f}" for row in self.table.itertuples()]
        return f"<tuning: {', '.join(rows)}: .run, .default, .chosen, .table, .values>"


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
    """Choose the settings of a pipeline by cross-fitting.

    The topics of each fold are ranked with the settings whose mean is best on the other folds.
    Trained pipelines are fitted without the fold to choose for, and without the fold that they are
    measured on. For example::

        def build(weight=1.0):
            return FairQR(bm25, gender, target, llm, rerank="exposure", weight=weight)

        measure = nDCG_AWRF(groups=gender, target=target) @ 20
        tuned = fairtk.tune(build, {"weight": [0.5, 1.0, 2.0]}, topics, qrels, measure)
        tuned.table, tuned.chosen

    Args:
        build: returns the pipeline (Q -> R) for settings; called without settings for the default.
        grid: the values to try by setting, in all combinations; or several such grids.
        topics: ``qid``, ``query``.
        qrels: ``qid``, ``docno``, ``label``.
        measure: a measure or its name.
        folds: the number of folds (at most one per topic), or the fold of each qid.
        seed: the seed of the folds.
        trained: whether pipelines have ``fit``; `None` for yes if they have a PyTerrier estimator.

    Raises:
        ParameterError: the grid is empty, or the number of folds is invalid.
        NotFoundError: a setting is not a parameter of `build`.
        InputError: `folds` has no fold for a topic, or a pipeline rejects its input; the message
            has its settings.
        FairtkError: a pipeline fails; the message has its settings.
    """
    topics, qrels = frame_of(topics), as_frame(qrels, LABEL, "tune: qrels")
    require_columns(topics, [QID], "tune: topics")
    if trained is not None:
        checks.boolean("trained", trained, "tune")
    topics = topics.reset_index(drop=True)
    settings = combinations(grid, "tune")
    default = _taken(build, settings)
    parts = as_folds(topics[QID].astype(str).tolist(), folds, seed, "tune")
    tuner = Tuner(build, settings, topics, qrels, measure, parts, trained)
    choices = [tuner.choose(fold) for fold in sorted(set(parts.values()))]
    runs = {"tuned": _ranked(tuner, {c.fold: c.settings for c in choices})}
    if default:
        runs = {"default": _ranked(tuner, {c.fold: {} for c in choices}), **runs}
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


def _ranked(tuner: Tuner, settings: Mapping[int, Settings]) -> pd.DataFrame:
    """Return the topics of each fold, ranked with the settings of the fold."""
    return pd.concat(
        [tuner.make_system(of_fold, f).transform(tuner.part(f)) for f, of_fold in settings.items()],
        ignore_index=True,
    )
