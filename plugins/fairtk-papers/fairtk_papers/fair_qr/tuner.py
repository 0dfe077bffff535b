"""Tuning of the systems of a study: choose settings for each fold on the other folds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from fairtk import stage_context
from fairtk.errors import FairtkError, InputError, ParameterError
from fairtk.frames import QID
from fairtk.llm import DeferredError
from fairtk.measures import LabeledRun, evaluate, parse

Settings = Mapping[str, Any]


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
    trained: bool  # whether systems have fit(topics, qrels)
    name: str
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
        if self.trained:
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
        if not self.trained:
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
        judged = LabeledRun.of(labels, system.transform(topics), self.name)
        values = evaluate([self.judge], judged)[self.judge].values
        return pd.Series(values, judged.qids).reindex(qids)

    def _fit(self, system: Any, left_out: set[int] | frozenset[int]) -> None:
        train = self.topics[[f not in left_out for f in self._fold_of_topic]]
        train = train.sort_values(QID, ignore_index=True)
        system.fit(train, self.qrels[self.qrels[QID].astype(str).isin(train[QID].astype(str))])

    def _built(self, settings: Settings) -> Any:
        with self._named(settings):
            return self._make(settings)

    def _make(self, settings: Settings) -> Any:
        system = self.build(**settings)
        if not hasattr(system, "transform"):
            raise ParameterError(f"`build` must return a transformer, got {system!r:.80}")
        return system

    def _named(self, settings: Settings) -> Any:
        return _named(f"{self.name}: with {_settings_text(settings)}")


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
        raise FairtkError(f"{what}: {type(error).__name__}: {error}") from error


def _settings_text(settings: Settings) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "no settings"
