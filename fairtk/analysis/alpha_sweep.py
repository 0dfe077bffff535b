"""`frontier`: what a retriever can be made to give, for every alpha, without sampling."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.analysis.off_policy import off_policy_utility
from fairtk.display import Points, Table, draw_trade_off, new_figure, series_style, write_figure
from fairtk.display.tables import aligned_lines, html_text
from fairtk.errors import InputError, NotFoundError, ParameterError, printable, warn
from fairtk.experiment.compare_runs import evaluate_runs
from fairtk.experiment.evaluate_runs import (
    GivenGroups,
    as_labels,
    as_run,
    completed,
    parse_with,
    run_names,
)
from fairtk.frames import DOCNO, QID, SAMPLE, BoolArray, FloatArray, Qrels
from fairtk.frames.accepted import accepts_dataframes
from fairtk.frames.columns import ALPHA
from fairtk.measures import format_measure
from fairtk.plugins import as_position_model
from fairtk.report.curves import area_under
from fairtk.transformers import DeterministicExposure, PlackettLuceExposure

CURVE = ["system", "alpha", "x", "x_low", "x_high", "y", "y_low", "y_high", "dominated"]
_NEAR = 0.06
AREAS = ["system", "area", "low", "high"]
PAIRS = ["one", "other", "difference", "low", "high"]
EQUAL = ["level", "one", "other", "x_one", "x_other", "difference", "low", "high"]


@dataclass
class Frontier:
    """The trade-off of two measures.

    Attributes:
        curve: one row per system and alpha (infinity: the fixed ranking; NaN: a sampled run): the
            mean values ``x`` and ``y`` with their intervals, and ``dominated``: whether another row
            is at least as good in both and better in one.
        areas: ``system``, ``area``, ``low``, ``high``: the mean height of y over x in [0, 1].
        area_differences: the areas of two retrievers: ``one``, ``other``, ``difference`` (other -
            one), with the interval ``low`` to ``high`` of the same draws of queries.
        equal: two retrievers where y is the same: ``level`` (of y), ``one``, ``other``, the best
            ``x_one`` and ``x_other`` at which the level is reached, ``difference`` (other - one)
            with its interval ``low`` to ``high``. NaN: not reached.
        measures: the two measures.
        lower: whether lower is better, of each.
        n: queries for which both are defined in all systems.
        confidence: of the intervals, which are of bootstraps over queries.
    """

    curve: pd.DataFrame
    areas: pd.DataFrame
    area_differences: pd.DataFrame
    equal: pd.DataFrame
    measures: list[str]
    lower: list[bool]
    n: int
    confidence: float

    @property
    def best(self) -> pd.DataFrame:
        """The rows of `curve` that nothing dominates."""
        return self.curve[~self.curve["dominated"]].reset_index(drop=True)

    @property
    def summary(self) -> str:
        """The areas, and who has what at equal utility, in words."""
        x, y = self.measures
        lines = [
            f"{row.system}: area {row.area:.4f} [{row.low:.4f}, {row.high:.4f}]"
            for row in self.areas.itertuples()
        ]
        lines += [
            f"area of {row.other} less that of {row.one}: {row.difference:+.4f} "
            f"[{row.low:+.4f}, {row.high:+.4f}]"
            for row in self.area_differences.itertuples()
        ]
        for row in self.equal.itertuples():
            line = f"where {y} is {row.level:.4f}, {x} of {row.one} is {row.x_one:.4f}, of "
            line += f"{row.other} {row.x_other:.4f}: {row.difference:+.4f} "
            lines.append(f"{line}[{row.low:+.4f}, {row.high:+.4f}]")
        compared = set(zip(self.equal["one"], self.equal["other"], strict=True))
        lines += [
            f"no {y} is reached by both {one} and {other}"
            for one, other in combinations(self.areas["system"], 2)
            if (one, other) not in compared
        ]
        parts = self.curve.groupby("system", sort=False)["dominated"]
        behind = [name for name, marks in parts if marks.all()]
        lines += [f"{name} is dominated everywhere" for name in behind]
        return "\n".join(lines)

    def _table(self) -> Table:
        """Return the curve as a table for people; what is below it is its caption."""
        rows = [
            [printable(row.system), "" if row.alpha != row.alpha else f"{row.alpha:g}",
             f"{row.x:.4f}", f"[{row.x_low:.4f}, {row.x_high:.4f}]",
             f"{row.y:.4f}", f"[{row.y_low:.4f}, {row.y_high:.4f}]",
             "dominated" if row.dominated else ""]
            for row in self.curve.itertuples()
        ]  # fmt: skip
        x, y = self.measures
        columns = ["system", "alpha", x, "interval", y, "interval", ""]
        return Table(columns, rows, f"{self.n} queries\n{self.summary}")

    def __repr__(self) -> str:
        table = self._table()
        return "\n".join([*aligned_lines(table, range(1, 6)), "", table.caption])

    def _repr_html_(self) -> str:
        return html_text(self._table())

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Return the curves with their bands; what is dominated is hollow.

        Args:
            path: a file (.svg, .pdf or .png) to write to, if any.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        figure = new_figure((5.5, 4.0), "a frontier")
        axes, every = figure.subplots(), []
        for place, (name, part) in enumerate(self.curve.groupby("system", sort=False)):
            look = series_style(place)
            x, y = part["x"].to_numpy(), part["y"].to_numpy()
            if len(part) > 1:
                order = np.argsort(x)
                ends = part["y_low"].to_numpy()[order], part["y_high"].to_numpy()[order]
                axes.fill_between(x[order], *ends, color=look.color, alpha=0.15, linewidth=0)
            labels = [""] * len(part)
            for at in _apart(x, y):
                alpha = part["alpha"].iloc[at]
                labels[at] = "fixed" if np.isinf(alpha) else f"alpha {alpha:g}"
            hollow = part["dominated"].to_numpy()
            every.append(Points(x, y, look, name, hollow=hollow, joined=True, labels=labels))
        better = ["lower" if low else "higher" for low in self.lower]
        sides = zip(self.measures, better, strict=True)
        draw_trade_off(axes, every, *(f"{m} ({side} is better)" for m, side in sides))
        axes.set_title(
            f"{self.n} queries, {self.confidence:.0%} bands, hollow: dominated",
            fontsize=8, loc="left",
        )  # fmt: skip
        axes.legend(fontsize=7, frameon=False)
        if path is not None:
            write_figure(figure, Path(path))
        return figure


def _apart(x: FloatArray, y: FloatArray) -> list[int]:
    """Return points of a sweep that are far enough from each other to be named, ends first."""
    if len(x) < 2:
        return []
    width, height = (max(float(np.ptp(values)), 1e-9) for values in (x, y))
    named: list[int] = []
    for at in [0, len(x) - 1, *range(1, len(x) - 1)]:
        gaps = [np.hypot((x[at] - x[i]) / width, (y[at] - y[i]) / height) for i in named]
        if min(gaps, default=1.0) > _NEAR:
            named.append(at)
    return named


_ROUNDING = 1e-9
"""A gap that is none."""


def dominated(x: FloatArray, y: FloatArray, lower: Sequence[bool]) -> BoolArray:
    """Return which points another one is at least as good as in both values, and better in one.

    Args:
        x: first values; shape (n_points,). A point with NaN neither dominates nor is dominated.
        y: second values.
        lower: whether lower is better in x, and in y.
    """
    gaps = []
    for values, low in zip((x, y), lower, strict=True):
        signed = -values if low else values
        gaps.append(signed[:, None] - signed)
    as_good = (gaps[0] >= -_ROUNDING) & (gaps[1] >= -_ROUNDING)
    better = (gaps[0] > _ROUNDING) | (gaps[1] > _ROUNDING)
    return np.asarray((as_good & better).any(axis=0), dtype=bool)


def price(x: FloatArray, y: FloatArray, level: float, lower: Sequence[bool]) -> FloatArray:
    """Return the best x at which y is at least as good as a level, along curves of straight lines.

    Args:
        x: places of the points of each curve, in their order; shape (n_curves, n_points).
        y: their heights.
        level: the height.
        lower: whether lower is better in x, and in y.

    Returns:
        Shape (n_curves,); NaN where a curve never reaches the level.
    """
    away = (level - y) if lower[1] else (y - level)  # at least 0: good enough
    good_points = np.where(away >= 0, x, np.nan)
    start, end = away[:, :-1], away[:, 1:]
    crosses = (start < 0) != (end < 0)
    part = np.divide(start, start - end, out=np.zeros_like(start), where=crosses)
    between = np.where(crosses, x[:, :-1] + part * (x[:, 1:] - x[:, :-1]), np.nan)
    every = np.concatenate([good_points, between], axis=1)
    worst = np.inf if lower[0] else -np.inf
    filled = np.where(np.isnan(every), worst, every)
    best = filled.min(axis=1) if lower[0] else filled.max(axis=1)
    return np.where(np.isinf(best), np.nan, best)


def drawn_queries(n: int, resamples: int, seed: int) -> FloatArray:
    """Return how often each of n queries is in each resample, divided by n; shape (resamples, n).

    The first row stands for the queries as they are.
    """
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=resamples)
    return np.concatenate([np.ones((1, n)), drawn]) / n


def interval(values: FloatArray, confidence: float) -> tuple[float, float]:
    """Return the percentile interval of resampled values; NaN if under half are defined."""
    defined = values[~np.isnan(values)]
    if 2 * len(defined) < len(values) or len(defined) < 2:
        return np.nan, np.nan
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


Data: TypeAlias = str | PathLike[str] | pd.DataFrame
ALPHAS = (0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16)
FIXED = math.inf
"""The alpha of the fixed ranking."""


@accepts_dataframes
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
    target: Any = (),
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
        runs: runs R of retrievers, which are swept; sampled runs S are single points, by the
            unbiased estimate of EE_D and EE_L, as the curves are exact.
        x: a measure, e.g. of disparity.
        y: a measure of relevance or utility.
        alphas: the exponents of the sampler; the fixed ranking is added unless a measure is EU.
        answers: for EU: for each retriever, by alpha, rankings S with ``qanswer``.
        cutoff: for EU, how many documents the generator read.
        groups: for measures that need some.
        target: for measures that need one.
        gold: gold answers for EU, if the qrels have none.
        order: what orders the runs of files.
        levels: heights of y at which retrievers are compared in x. None: three that all reach.
        confidence: the level of the intervals.
        resamples: bootstrap samples of the queries.
        seed: the seed of the bootstrap.

    Raises:
        InputError: a file, frame or measure cannot be used, or answers are missing.
    """
    checks.open_interval("confidence", confidence, "frontier")
    checks.integer("resamples", resamples, "frontier")
    files, data = run_names(runs)
    given_groups = GivenGroups.read(groups, target)
    parsed = [parse_with(given_groups, measure) for measure in (x, y)]
    given_groups.labels = judged = as_labels(qrels, gold, parsed)
    labels = judged.with_text_ids()
    measures = [completed(given_groups, measure) for measure in parsed]
    exact = [m for m in measures if not _is_utility(m)]
    frames = {
        name: as_run(run, file or name, order, None, exact, judged).with_text_ids()
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
            values[name] = np.stack([_measured(run, labels, _unbiased(m, run)) for m in measures])
    _warn_of_documents(frames, labels, measures)
    outcome = _outcome(
        values, grid, list(swept), measures, levels, confidence, drawn=(resamples, seed)
    )
    for place, measure in enumerate((x, y)):
        if isinstance(measure, str):  # as it was asked for, without digests of groups
            outcome.measures[place] = measure.strip()
    return outcome


def _is_utility(measure: Any) -> bool:
    return getattr(measure, "NAME", "") == "EU"


def _model(measure: Any) -> tuple[Any, int | None]:
    """Return the browsing model and the cutoff of a measure that exact exposure gives."""
    name = getattr(measure, "NAME", "")
    inner = getattr(measure, "inner", None)
    if name == "E" and getattr(inner, "NAME", "") == "nDCG":
        return "DCG", getattr(inner, "params", {}).get("cutoff")
    if name in ("EE_D", "EE_R", "EE_L", "AWRF"):
        model = as_position_model(measure["browsing"], name)
        if model.needs_cutoff and measure["cutoff"] is None:
            raise ParameterError(
                f"{format_measure(measure)}: browsing={str(model)!r} needs a cutoff, the number of "
                f"documents that the user reads: write {name}@5"
            )
        return model, measure["cutoff"]
    raise NotFoundError(
        "measure of exact exposure", format_measure(measure),
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
        parts[FIXED] = DeterministicExposure(cutoff=cutoff, browsing=browsing).transform(run)
    return np.concatenate([_measured(parts[alpha], labels, measure) for alpha in grid])


def _unbiased(measure: Any, run: pd.DataFrame) -> Any:
    """Return the estimate that compares with exact values, if a query has samples for it."""
    plain = "estimator" in measure.SUPPORTED_PARAMS and "estimator" not in measure.params
    several = run.groupby(QID)[SAMPLE].nunique().min() > 1
    return measure(estimator="unbiased") if plain and several else measure


def _warn_of_documents(
    frames: Mapping[str, pd.DataFrame], labels: pd.DataFrame, measures: Iterable[Any]
) -> None:
    """Warn if the targets of EE_R or EE_L differ because runs have different documents."""
    has_n = [
        format_measure(m)
        for m in measures
        if getattr(m, "PART", "disparity") != "disparity" and m["n"] == "judged+retrieved"
    ]
    pairs = [pd.concat([run, labels])[[QID, DOCNO]].drop_duplicates() for run in frames.values()]
    n = pd.concat([documents.groupby(QID).size() for documents in pairs], axis=1, keys=frames)
    differs = n[n.nunique(axis=1) > 1]
    if has_n and len(differs):
        sizes = ", ".join(f"{name}: {size:.0f}" for name, size in differs.iloc[0].items())
        warn(
            f"frontier: runs have different numbers of documents for {len(differs)} queries (qid "
            f"{differs.index[0]!r}: {sizes}), so their values of {has_n[0]} do not compare: give "
            "all one n, the number of documents that could be retrieved, such as n=1000"
        )


def _measured(run: pd.DataFrame, labels: pd.DataFrame, measure: Any) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said once, of the run
        per_query = evaluate_runs(labels, run, measure).per_query
    return np.asarray(per_query["value"], dtype=np.float64)[None, :]


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
            f"frontier: {format_measure(measure)} needs the answers of {name!r}: a dict of alpha "
            "to rankings with qanswer"
        )
    estimates = off_policy_utility(labels, answers[name], run, grid, measure, cutoff)
    table = estimates.per_query.pivot(index="alpha", columns="qid", values="value")
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
        [format_measure(measure) for measure in measures],
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
