"""`tune`: settings of a pipeline, chosen on topics that they are not shown on."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairtk.errors import FairtkWarning, NotFoundError
from fairtk.experiment.entry import Experiment
from fairtk.experiment.tuner import Grid, Settings, Tuner, as_folds, combinations
from fairtk.frames.columns import QID, require


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
    require(topics, [QID], "tune: topics")
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
        found = Experiment(runs, topics, qrels, [tuner.judge]).per_query
    values = found[["system", QID, "value"]]
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
