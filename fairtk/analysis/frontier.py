"""`frontier`: what a retriever can be made to give, for every alpha, without sampling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fairtk.certainty import off_policy_utility
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.evaluation import evaluate
from fairtk.evaluation.given_groups import GivenGroups, completed, parse_with
from fairtk.evaluation.reading import as_labels, as_run, run_names
from fairtk.frames.arrays import FloatArray
from fairtk.frames.columns import ALPHA, SAMPLE
from fairtk.frames.qrels import Qrels
from fairtk.measures import written
from fairtk.robustness.pareto import dominated, drawn_queries, interval, price
from fairtk.robustness.tradeoffs import AREAS, CURVE, EQUAL, PAIRS, Frontier
from fairtk.statistics import area_under
from fairtk.transformers import FixedExposure, PlackettLuceExposure

Data: TypeAlias = str | PathLike[str] | pd.DataFrame
ALPHAS = (0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16)
FIXED = math.inf
"""The alpha of the fixed ranking."""


def frontier(
    qrels: Data,
    runs: Sequence[Data] | Mapping[str, Data],
    x: Any = "EE_D@5",
    y: Any = "EE_R@5",
    *,
    alphas: Iterable[float] = ALPHAS,
    answers: Mapping[str, Mapping[float, pd.DataFrame]] | None = None,
    cutoff: int = 5,
    groups: Sequence[Any] = (),
    targets: Sequence[Any] = (),
    gold: Data | None = None,
    order: str = "auto",
    levels: Sequence[float] | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 42,
) -> Frontier:
    """Sweep the alpha of `FairSampler` over the runs of retrievers, on exact values.

    EE_D, EE_R, EE_L, AWRF and E(nDCG@k) are those of `PlackettLuceExposure`, without sampling; EU
    is estimated from answers that are there (`off_policy_utility`). Bands are bootstrap intervals
    over the queries.

    Args:
        qrels: see `fairtk.evaluate`.
        runs: runs R of retrievers, which are swept; sampled runs S are single points.
        x: a measure, e.g. of disparity.
        y: a measure of relevance or utility.
        alphas: the exponents; the fixed ranking is added unless a measure is EU.
        answers: for EU: for each retriever, by alpha, rankings S with ``qanswer``.
        cutoff: for EU: how many documents the generator read.
        groups: for measures that need some.
        targets: for measures that need one.
        gold: gold answers for EU, if the qrels have none.
        order: what orders the runs of files.
        levels: heights of y at which retrievers are compared in x; None: three that all reach.
        confidence: of the intervals.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        InputError: a file, frame or measure cannot be used, or answers are missing.
    """
    if not 0 < confidence < 1 or resamples < 1:
        raise ParameterError(
            f"frontier: confidence must lie in (0, 1) and resamples be at least 1; found "
            f"{confidence!r} and {resamples!r}"
        )
    files, data = run_names(runs)
    given = GivenGroups.read(tuple(groups), tuple(targets))
    parsed = [parse_with(given, measure) for measure in (x, y)]
    given.labels = labels = as_labels(qrels, gold, parsed)
    measures = [completed(given, measure) for measure in parsed]
    exact = [m for m in measures if not _is_utility(m)]
    known = Qrels(labels, "frontier")
    frames = {
        name: as_run(run, file or name, order, None, exact, known)
        for (name, file), run in zip(files.items(), data, strict=True)
    }
    swept = {name: run for name, run in frames.items() if SAMPLE not in run.columns}
    grid = sorted({float(alpha) for alpha in alphas})
    if not grid:
        raise ParameterError("frontier: alphas is empty; give the exponents to sweep")
    if len(exact) == 2:
        grid.append(FIXED)
    values = {
        name: np.stack(
            [
                _utilities(name, run, labels, m, grid, answers, cutoff)
                if _is_utility(m)
                else _exact(run, labels, m, grid)
                for m in measures
            ]
        )
        for name, run in swept.items()
    }
    for name, run in frames.items():
        if name not in values:
            if len(exact) < 2:
                raise InputError(f"frontier: {name} is sampled; EU is estimated for retrievers")
            values[name] = np.stack([_measured(run, labels, m) for m in measures])
    found = _outcome(
        values, grid, list(swept), measures, levels, confidence, drawn=(resamples, seed)
    )
    for place, measure in enumerate((x, y)):
        if isinstance(measure, str):  # as it was asked for, without digests of groups
            found.measures[place] = measure.strip()
    return found


def _is_utility(measure: Any) -> bool:
    return getattr(measure, "NAME", "") == "EU"


def _model(measure: Any) -> tuple[Any, int | None]:
    """Return the browsing model and the cutoff of a measure that exact exposure gives."""
    name = getattr(measure, "NAME", "")
    inner = getattr(measure, "inner", None)
    if name == "E" and getattr(inner, "NAME", "") == "nDCG":
        return "DCG", getattr(inner, "params", {}).get("cutoff")
    if name in ("EE_D", "EE_R", "EE_L", "AWRF"):
        return measure["browsing"], measure["cutoff"]
    raise NotFoundError(
        "measure of exact exposure", written(measure),
        ["EE_D@5", "EE_R@5", "EE_L@5", "AWRF@20", "E(nDCG@5)", "EU(utility='rougeL')"],
    )  # fmt: skip


def _exact(
    run: pd.DataFrame, labels: pd.DataFrame, measure: Any, grid: Sequence[float]
) -> FloatArray:
    """Return the exact value of each alpha and query; shape (n_alphas, n_queries)."""
    browsing, cutoff = _model(measure)
    finite = [alpha for alpha in grid if alpha != FIXED]
    frame = PlackettLuceExposure(finite, cutoff=cutoff, browsing=browsing).transform(run)
    parts = {alpha: rows.drop(columns=ALPHA) for alpha, rows in frame.groupby(ALPHA)}
    if FIXED in grid:
        parts[FIXED] = FixedExposure(cutoff=cutoff, browsing=browsing).transform(run)
    return np.concatenate([_measured(parts[alpha], labels, measure) for alpha in grid])


def _measured(run: pd.DataFrame, labels: pd.DataFrame, measure: Any) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once, of the run
        found = evaluate(labels, run, measure)
    (values,) = found.runs
    return np.array([[values.values[m][qid] for qid in found.qids] for m in found.measures])


def _utilities(
    name: str,
    run: pd.DataFrame,
    labels: pd.DataFrame,
    measure: Any,
    grid: Sequence[float],
    answers: Mapping[str, Mapping[float, pd.DataFrame]] | None,
    cutoff: int,
) -> FloatArray:
    if not answers or name not in answers:
        raise InputError(
            f"frontier: {written(measure)} needs the answers of {name!r}: a dict of alpha to "
            "rankings with qanswer"
        )
    found = off_policy_utility(answers[name], run, labels, grid, measure, cutoff)
    table = found.per_query.pivot(index="alpha", columns="qid", values="value")
    return np.asarray(table.loc[list(grid), Qrels(labels, "frontier").qids], dtype=np.float64)


def _outcome(
    values: dict[str, FloatArray],
    grid: list[float],
    swept: list[str],
    measures: list[Any],
    levels: Sequence[float] | None,
    confidence: float,
    drawn: tuple[int, int],
) -> Frontier:
    """Return the result; values by system have the shape (2, n_alphas, n_queries)."""
    defined = np.logical_and.reduce([~np.isnan(v).any(axis=(0, 1)) for v in values.values()])
    n = int(defined.sum())
    if not n:
        raise InputError("frontier: no query has a value of both measures in all systems")
    values = {name: of[:, :, defined] for name, of in values.items()}
    weights = drawn_queries(n, *drawn)
    lower = [getattr(m, "better", "higher") == "lower" for m in measures]
    means = {name: np.einsum("maq,rq->mra", of, weights) for name, of in values.items()}
    rows = []
    for name, of in means.items():
        for place, alpha in enumerate(grid if name in swept else [math.nan]):
            ends = [interval(of[m, 1:, place], confidence) for m in (0, 1)]
            rows.append([name, alpha, of[0, 0, place], *ends[0], of[1, 0, place], *ends[1]])
    curve = pd.DataFrame(rows, columns=CURVE[:-1])
    curve["dominated"] = dominated(curve["x"].to_numpy(), curve["y"].to_numpy(), lower)
    areas = {
        name: np.array([area_under(x, y) for x, y in zip(*means[name], strict=True)])
        for name in swept
    }
    pairs = [
        [one, other, gap[0], *interval(gap[1:], confidence)]
        for one, other in combinations(swept, 2)
        for gap in [areas[other] - areas[one]]
    ]
    equal = _at_equal(means, swept, lower, levels, confidence)
    return Frontier(
        curve,
        pd.DataFrame(
            [[name, area[0], *interval(area[1:], confidence)] for name, area in areas.items()],
            columns=AREAS,
        ),
        pd.DataFrame(pairs, columns=PAIRS),
        equal,
        [written(measure) for measure in measures],
        lower,
        n,
        confidence,
    )


def _at_equal(
    means: dict[str, FloatArray],
    swept: list[str],
    lower: list[bool],
    levels: Sequence[float] | None,
    confidence: float,
) -> pd.DataFrame:
    """Return what each pair of retrievers has in x where y is the same."""
    rows: list[list[Any]] = []
    for one, other in combinations(swept, 2):
        heights = _levels(means[one][1, 0], means[other][1, 0]) if levels is None else levels
        for level in heights:
            first, second = (
                price(means[name][0], means[name][1], level, lower) for name in (one, other)
            )
            ends = interval((second - first)[1:], confidence)
            rows.append([level, one, other, first[0], second[0], second[0] - first[0], *ends])
    return pd.DataFrame(rows, columns=EQUAL)


def _levels(one: FloatArray, other: FloatArray) -> list[float]:
    """Return three heights that both curves reach; none if there are none."""
    low, high = max(one.min(), other.min()), min(one.max(), other.max())
    return [low + part * (high - low) for part in (0.25, 0.5, 0.75)] if low < high else []
