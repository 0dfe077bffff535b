"""`frontier`: exact trade-off curves of retrievers over alpha."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.analysis.best_policy import best_for_scores, bound_values, has_bound
from fairtk.analysis.off_policy import off_policy_utility
from fairtk.display import Points, Table, draw_trade_off, new_figure, series_style, write_figure
from fairtk.display.figures import GRAY, name_parts
from fairtk.display.tables import fitted_lines, html_text, interval_text, number_text, shorten
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.experiment.clusters import clusters_of
from fairtk.experiment.compare_runs import evaluate_runs
from fairtk.experiment.inputs import (
    GivenGroups,
    complete_measure,
    parse_with,
    prepare_labels,
    prepare_run,
    run_names,
)
from fairtk.frames import QID, SAMPLE, BoolArray, FloatArray, ObjectArray, Qrels
from fairtk.frames.accepted import FileOrFrame
from fairtk.frames.columns import ALPHA
from fairtk.frames.schema import check_samples
from fairtk.measures import format_measure
from fairtk.measures.awrf import AttentionWeightedRankFairness
from fairtk.measures.base import value_bounds
from fairtk.measures.expected_exposure import ExpectedExposure
from fairtk.measures.info import MeasureInfo
from fairtk.plugins import as_position_model
from fairtk.remarks import emit
from fairtk.report.page import Section, write_analysis
from fairtk.report.tables import LIMITS, axis_text, reading
from fairtk.statistics.bootstrap import bootstrap_counts
from fairtk.statistics.curves import area_under
from fairtk.statistics.intervals import mean_intervals, no_interval, percentile_interval
from fairtk.transformers import DeterministicExposure, PlackettLuceExposure
from fairtk.wording import count_text, printable

CURVE = [
    *("system", "alpha", "x", "x_low", "x_high", "y", "y_low", "y_high"),
    *("bound", "by_scores", "note", "dominated"),
]
_NEAR = 0.06
_CUTOFF = 5  # documents that a generator reads
_NAME = 40  # characters of a name in a summary or legend
AREAS = ["system", "area", "low", "high", "note"]
PAIRS = ["one", "other", "difference", "low", "high", "note"]
EQUAL = ["level", "one", "other", "x_one", "x_other", "difference", "low", "high", "note"]


@dataclass
class Frontier:
    """The trade-off of two measures.

    Attributes:
        curve: one row per system and alpha (infinity for the deterministic ranking, NaN for a
            sampled run): the means ``x`` and ``y`` with their intervals (Student's t); for EE_D and
            EE_R, ``bound``, the mean over queries of the largest y of any policy with the same x in
            each query, and ``by_scores``, that of the policy that is best for the run's scores
            (otherwise NaN); and ``dominated``, whether another row is at least as good in both and
            better in one.
        areas: ``system``, ``area``, ``low``, ``high``: the mean of y over x in [0, 1], with its
            bootstrap interval.
        area_differences: ``one``, ``other``, ``difference`` (area of other - area of one) and its
            interval ``low`` to ``high``, from the same bootstrap samples.
        equal: pairs of retrievers at equal y: ``level`` (of y), ``one``, ``other``, the best
            ``x_one`` and ``x_other`` at this level, ``difference`` (other - one) and its interval
            ``low`` to ``high``; NaN if the level is not reached.
        measures: the two measures, a `fairtk.measures.MeasureInfo` each, equal to its label.
        lower: for each measure, whether lower is better.
        n: the number of queries for which both measures are defined in all systems.
        confidence: the level of the intervals over queries.

    The column ``note`` of each frame has the reason for an interval that is NaN.
    """

    curve: pd.DataFrame
    areas: pd.DataFrame
    area_differences: pd.DataFrame
    equal: pd.DataFrame
    measures: list[MeasureInfo]
    lower: list[bool]
    n: int
    confidence: float

    @property
    def best(self) -> pd.DataFrame:
        """The rows of `curve` that are not dominated."""
        return self.curve[~self.curve["dominated"]].reset_index(drop=True)

    @property
    def summary(self) -> str:
        """The areas and the comparisons at equal y, in words."""
        x, y = self.measures
        short = {name: shorten(printable(name), _NAME) for name in self.curve["system"]}
        lines = [
            f"{short[row.system]}: area {number_text(row.area)} {_interval(row, signs=False)}"
            for row in self.areas.itertuples()
        ]
        lines += [
            f"area of {short[row.other]} minus area of {short[row.one]}: "
            f"{number_text(row.difference, sign='+')} {_interval(row)}"
            for row in self.area_differences.itertuples()
        ]
        for row in self.equal.itertuples():
            lines.append(
                f"at {y} = {number_text(row.level)}, {x} is {number_text(row.x_one)} for "
                f"{short[row.one]} and {number_text(row.x_other)} for {short[row.other]}: "
                f"{number_text(row.difference, sign='+')} {_interval(row)}"
            )
        compared = set(zip(self.equal["one"], self.equal["other"], strict=True))
        lines += [
            f"the curves of {short[one]} and {short[other]} reach no common value of {y}"
            for one, other in combinations(self.areas["system"], 2)
            if (one, other) not in compared
        ]
        parts = self.curve.groupby("system", sort=False)["dominated"]
        lines += [f"{short[name]} is dominated everywhere" for name, marks in parts if marks.all()]
        return "\n".join(lines)

    def _table(self) -> Table:
        """Return the curve as a table with the summary as caption."""
        none = "(all equal)" if self.n > 1 else "(one query)"  # the reasons of `no_interval`
        bounded = self._has_bound
        rows = [
            [printable(row.system), "" if row.alpha != row.alpha else f"{row.alpha:g}",
             number_text(row.x), _ends(row.x_low, row.x_high, 4) or none,
             number_text(row.y), _ends(row.y_low, row.y_high, 4) or none,
             *(_bounds(row, 4) if bounded else []), "dominated" if row.dominated else ""]
            for row in self.curve.itertuples()
        ]  # fmt: skip
        x, y = self.measures
        columns = ["system", "alpha", x, "interval", y, "interval", *_BOUNDS * bounded, ""]
        notes = _BOUND_TEXT * bounded
        n = count_text(self.n, "query", "queries")
        return Table(columns, rows, "\n".join([n, self.summary, *notes]))

    @property
    def _has_bound(self) -> bool:
        return bool(self.curve["bound"].notna().any())

    def __repr__(self) -> str:
        table = self._table()
        numbers = range(1, len(table.columns) - 1)
        return "\n".join([*fitted_lines(table, numbers, keys=2), "", table.caption])

    def _repr_html_(self) -> str:
        return html_text(self._table())

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw the curves with their bands; dominated points are hollow.

        Args:
            path: an .svg, .pdf or .png file to write; `None` to write no file.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        figure = new_figure((5.5, 4.0), "a frontier")
        axes, every = figure.subplots(), []
        for index, (name, part) in enumerate(self.curve.groupby("system", sort=False)):
            look = series_style(index)
            x, y = part["x"].to_numpy(), part["y"].to_numpy()
            lines = []
            if len(part) > 1:
                order = np.argsort(x)
                ends = part["y_low"].to_numpy()[order], part["y_high"].to_numpy()[order]
                band = axes.fill_between(x[order], *ends, color=look.color, alpha=0.15, linewidth=0)
                lines.append(band)
            for column, dash in (("bound", ":"), ("by_scores", "--")):
                y_best = part[column].to_numpy()[np.argsort(x)]
                lines += axes.plot(
                    np.sort(x), y_best, dash, color=look.color, linewidth=1, alpha=0.7
                )
            name_parts(index, "lines", lines)
            labels = [""] * len(part)
            for point in _distant_points(x, y):
                alpha = part["alpha"].iloc[point]
                labels[point] = "deterministic" if np.isinf(alpha) else f"alpha {alpha:g}"
            hollow = part["dominated"].to_numpy()
            label = shorten(str(name), _NAME)
            every.append(
                Points(x, y, look, label, hollow=hollow, joined=True, labels=labels, system=index)
            )
        if self._has_bound:
            axes.plot([], [], ":", color=GRAY, linewidth=1, label="bound over the labels")
            axes.plot([], [], "--", color=GRAY, linewidth=1, label="best for the scores")
        x_measure, y_measure = self.measures
        better = x_measure.better, y_measure.better
        draw_trade_off(axes, every, *map(axis_text, self.measures), better=better)
        n = count_text(self.n, "query", "queries")
        axes.set_title(
            f"{n}, {self.confidence:.0%} bands, hollow: dominated",
            fontsize=8, loc="left", pad=16,
        )  # fmt: skip
        for text in axes.legend(fontsize=7, frameon=False).get_texts():
            text.set_parse_math(False)
        if path is not None:
            write_figure(figure, Path(path))
        return figure

    def report(self, path: str | PathLike[str], *, command: str | None = None) -> None:
        """Write one HTML file with the figure, the means and the comparisons.

        Args:
            path: the file; its folder must exist.
            command: the command that writes this page again; `None` if unknown.

        Raises:
            MissingExtraError: Jinja2 or matplotlib is not installed.
        """
        x, y = self.measures
        retrievers, alphas = len(self.areas), self.curve["alpha"].nunique()
        single = self.curve["system"].nunique() - retrievers
        overview = [
            f"{count_text(retrievers, 'retriever')} at {count_text(alphas, 'value')} of alpha"
        ]
        overview += [count_text(single, "sampled run")] if single else []
        values = self._table()
        bounded = self._has_bound
        means = [
            [*row[:2], number_text(mean.x, 3), number_text(mean.y, 3),
             *(_bounds(mean, 3) if bounded else []), row[-1]]
            for row, mean in zip(values.rows, self.curve.itertuples(), strict=True)
        ]  # fmt: skip
        confidence = f"{self.confidence:.0%}"
        write_analysis(
            path,
            title=f"Trade-off of {x} and {y}",
            overview=f"{' and '.join(overview)} on {count_text(self.n, 'query', 'queries')}. "
            "Rankings are sampled with exponent alpha: 0 is uniform, and the larger alpha, the "
            "closer the rankings are to the retriever's own.",
            figure=self.plot(),
            caption=f"Means over queries with {confidence} bands (Student's t). Hollow points are "
            "dominated: another point is at least as good in both measures and better in one."
            + (f" {_BOUND_LINES}" if bounded else ""),
            table=Table(
                ["system", "alpha", x, y, *_BOUNDS * bounded, "note"],
                means,
                " ".join(["Means over queries.", *(f"{text}." for text in _BOUND_TEXT * bounded)]),
            ),
            systems=pd.factorize(self.curve["system"])[0].tolist(),
            readings={measure: reading(measure) for measure in self.measures},
            comparisons=Section(
                "Comparison of retrievers" if retrievers > 1 else "Area under the curve",
                (f"The area is the mean of {y} over {x}. Intervals ({confidence}) of areas and "
                 "comparisons are bootstrap intervals over queries, not corrected for the number "
                 "of comparisons.",),
                self._comparisons(),
            ),
            sections=[
                Section(
                    "Means and intervals",
                    table=Table([*values.columns[:-1], "note"], values.rows),
                ),
                Section("Limits", LIMITS),
            ],
            command=command,
        )  # fmt: skip

    def _comparisons(self) -> Table:
        """Return the areas, their differences, and the differences of x at equal y."""
        x, y = self.measures
        rows = [
            [row.system, "", "area", number_text(row.area, 3), _interval(row, 3, signs=False)]
            for row in self.areas.itertuples()
        ]
        rows += [
            [row.other, row.one, f"difference in {what}", number_text(row.difference, 3, sign="+"),
             _interval(row, 3)]
            for frame in (self.area_differences.assign(level=math.nan), self.equal)
            for row in frame.itertuples()
            for level in [number_text(row.level, 3)]
            for what in ["area" if math.isnan(row.level) else f"{x} at {y} = {level}"]
        ]  # fmt: skip
        return Table(["retriever", "compared with", "quantity", "value", "interval"], rows)


_BOUNDS = ["bound", "gap", "by scores"]
_BOUND_TEXT = [
    "bound: largest EE_R of any policy with this EE_D in each query, by the labels",
    "gap: bound minus EE_R",
    "by scores: EE_R of the best policy for the run's scores; no bound of EE_R",
]
_BOUND_LINES = (
    "Dotted lines are the bounds over the labels: no policy with the same disparity in each query "
    "is higher. Dashed lines are the policies that are best for the run's scores. They are "
    "no bound: another policy with these scores can be higher, because scores are not labels."
)


def _bounds(row: Any, digits: int) -> list[str]:
    """Return the cells of the bound, the distance from it, and the best policy for the scores."""
    numbers = row.bound, row.bound - row.y, row.by_scores
    return ["" if math.isnan(number) else number_text(number, digits) for number in numbers]


def _interval(row: Any, digits: int = 4, *, signs: bool = True) -> str:
    if math.isnan(row.low):
        return f"(no interval: {row.note})"
    return interval_text(row.low, row.high, digits, sign="+" if signs else "")


def _ends(low: float, high: float, digits: int) -> str:
    return "" if math.isnan(low) else interval_text(low, high, digits)


def _distant_points(x: FloatArray, y: FloatArray) -> list[int]:
    """Return the indices of points that are far enough apart to label, ends first."""
    if len(x) < 2:
        return []
    width, height = (max(float(np.ptp(values)), 1e-9) for values in (x, y))
    labeled: list[int] = []
    for point in [0, len(x) - 1, *range(1, len(x) - 1)]:
        gaps = [np.hypot((x[point] - x[i]) / width, (y[point] - y[i]) / height) for i in labeled]
        if min(gaps, default=1.0) > _NEAR:
            labeled.append(point)
    return labeled


_ROUNDING = 1e-9
"""Smaller gaps are rounding errors."""


def dominated(x: FloatArray, y: FloatArray, lower: Sequence[bool]) -> BoolArray:
    """Return whether each point is dominated: another is as good in both values, better in one.

    Args:
        x: first values, shape (n_points,). A point with NaN neither dominates nor is dominated.
        y: second values, shape (n_points,).
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
    """Return the best x at which y is at least as good as a level, with linear interpolation.

    Args:
        x: the points of each curve in order, shape (n_curves, n_points).
        y: their second values, same shape.
        level: the level of y.
        lower: whether lower is better in x, and in y.

    Returns:
        Shape (n_curves,); NaN for a curve that never reaches the level.
    """
    away = (level - y) if lower[1] else (y - level)  # 0 or more is good enough
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


def _mean_intervals(
    values: FloatArray, measures: list[Any], confidence: float, clusters: ObjectArray | None
) -> tuple[list[tuple[FloatArray, FloatArray]], list[str]]:
    """Return the intervals of both means, and the reasons for missing ones, by alpha.

    Args:
        values: shape (2, n_alphas, n_queries).
        measures: the two measures.
        confidence: the level of the intervals.
        clusters: the cluster of each query; `None` if queries are independent.
    """
    ends = [
        mean_intervals(
            table, confidence=confidence, bounds=value_bounds(measure), clusters=clusters
        )
        for table, measure in zip(values, measures, strict=True)
    ]
    notes = [
        "; ".join(
            f"no interval of {name}: {no_interval(table[i], clusters)}"
            for name, table, (low, _) in zip("xy", values, ends, strict=True)
            if math.isnan(low[i])
        )
        for i in range(values.shape[1])
    ]
    return ends, notes


ALPHAS = (0, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16)
DETERMINISTIC = math.inf
"""The alpha of the deterministic ranking."""


def frontier(
    qrels: FileOrFrame,
    runs: Sequence[FileOrFrame] | Mapping[str, FileOrFrame],
    x: Any = "EE_D@5",
    y: Any = "EE_R@5",
    *,
    alphas: Iterable[float] = ALPHAS,
    answers: Mapping[str, Mapping[float, pd.DataFrame]] | None = None,
    cutoff: int | None = None,
    groups: Sequence[Any] = (),
    target: Any = (),
    gold: FileOrFrame | None = None,
    order: str = "auto",
    levels: Sequence[float] | None = None,
    cluster: Any = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 42,
) -> Frontier:
    """Compute the trade-off of two measures over the alpha of `FairSampler`, without sampling.

    EE_D, EE_R, EE_L, their forms for groups, AWRF and E(nDCG@k) are computed exactly
    (`PlackettLuceExposure`). EU is estimated from existing answers (`off_policy_utility`). Bands
    are Student's t intervals over the queries; areas, and x at equal y, have bootstrap intervals.

    Args:
        qrels: see `fairtk.evaluate`.
        runs: runs R of retrievers give one curve each. Sampled runs S are single points; their
            EE_D and EE_L are unbiased estimates, because the curves are exact.
        x: a measure, e.g. of disparity.
        y: a measure of relevance or utility.
        alphas: the exponents of the sampler; the deterministic ranking is added unless a measure
            is EU.
        answers: for EU, rankings S with ``qanswer``, by retriever and alpha.
        cutoff: for EU, the number of documents that the generator read; `None` for 5.
        groups: see `fairtk.evaluate`.
        target: see `fairtk.evaluate`.
        gold: gold answers for EU, if missing from the qrels.
        order: see `fairtk.evaluate`.
        levels: levels of y at which x is compared between retrievers; `None` for three that both
            retrievers reach.
        cluster: see `fairtk.evaluate`; the bootstrap draws clusters.
        confidence: the level of the intervals.
        resamples: the number of bootstrap samples of the queries.
        seed: the seed of the bootstrap.

    Raises:
        InputError: a file, frame or measure is invalid, or answers are missing.
    """
    checks.open_interval("confidence", confidence, "frontier")
    checks.integer("resamples", resamples, "frontier")
    checks.integer("seed", seed, "frontier", least=0)
    checks.cutoff(cutoff, "frontier")
    files, data = run_names(runs)
    given_groups = GivenGroups.read(groups, target)
    parsed = [parse_with(given_groups, measure) for measure in (x, y)]
    given_groups.labels = file_labels = prepare_labels(qrels, gold, parsed)
    labels = file_labels.with_text_ids()
    measures = [complete_measure(given_groups, measure) for measure in parsed]
    exact = [m for m in measures if not _is_utility(m)]
    if cutoff is not None and len(exact) == 2 and {_model(m)[1] for m in exact} != {cutoff}:
        raise ParameterError(
            f"frontier: `cutoff` is only valid for EU; write it in the measures, EE_D@{cutoff}"
        )
    n_read = _CUTOFF if cutoff is None else cutoff
    frames = {
        name: prepare_run(run, file or name, order, None, exact, file_labels).with_text_ids()
        for (name, file), run in zip(files.items(), data, strict=True)
    }
    swept = {name: run for name, run in frames.items() if SAMPLE not in run.columns}
    grid = sorted(
        float(alpha) if alpha == DETERMINISTIC else float(checks.exponent(alpha, "frontier"))
        for alpha in dict.fromkeys(checks.listed("alphas", alphas, "frontier"))
    )
    if not grid:
        raise ParameterError("frontier: `alphas` is empty; give the exponents to sweep")
    if len(exact) == 2:
        grid.append(DETERMINISTIC)
    bounded = has_bound(*measures)
    values, bests = {}, {}
    for name, run in frames.items():
        if name not in swept:
            if len(exact) < 2:
                raise InputError(f"frontier: EU is not supported for sampled runs, got {name!r}")
            used = [_unbiased(m, run) for m in measures]
            values[name] = np.stack([_measured([run], labels, m) for m in used])
            bests[name] = np.full_like(values[name], np.nan)
            if bounded:
                bests[name][0] = bound_values(labels, run, *used)
            continue
        exposures = cache(partial(_exposures, run, grid))
        values[name] = np.stack(
            [
                _utilities(name, run, labels, m, grid, answers, n_read)
                if _is_utility(m)
                else _measured(exposures(*_model(m)), labels, m)
                for m in measures
            ]
        )
        bests[name] = np.full_like(values[name], np.nan)
        if bounded:
            x_of, y_of = measures
            parts = exposures(*_model(y_of))
            bests[name][0] = [bound_values(labels, part, x_of, y_of) for part in parts]
            best = [best_for_scores(run, part, y_of) for part in parts]
            bests[name][1] = _measured(best, labels, y_of)
    if exact:
        emit(evaluate_runs(labels, frames, exact).remarks)
    clusters = None
    if cluster is not None:
        qids = Qrels(labels, "frontier").qids.text
        of_query = clusters_of(cluster, [labels, *frames.values()], qids.tolist(), "frontier")
        clusters = of_query.loc[qids].to_numpy(dtype=object)
    return _outcome(
        *(values, bests, grid, list(swept), measures, levels, confidence),
        drawn=(resamples, seed),
        clusters=clusters,
    )


def _is_utility(measure: Any) -> bool:
    return getattr(measure, "NAME", "") == "EU"


def _model(measure: Any) -> tuple[Any, int | None]:
    """Return the browsing model and the cutoff of a measure of exact exposure."""
    name = getattr(measure, "NAME", "")
    inner = getattr(measure, "inner", None)
    if name == "E" and getattr(inner, "NAME", "") == "nDCG":
        return "DCG", getattr(inner, "params", {}).get("cutoff")
    if isinstance(measure, ExpectedExposure | AttentionWeightedRankFairness):
        model = as_position_model(measure["browsing"], name)
        if model.needs_cutoff and measure["cutoff"] is None:
            raise ParameterError(
                f"{format_measure(measure)}: a cutoff is required with browsing={str(model)!r}, "
                f"e.g. {name}@5"
            )
        return model, measure["cutoff"]
    raise NotFoundError(
        "measure of exact exposure", format_measure(measure),
        ["EE_D@5", "EE_R@5", "EE_L@5", "GroupEE_L@20", "AWRF@20", "E(nDCG@5)",
         "EU(utility='rougeL')"],
    )  # fmt: skip


def _exposures(
    run: pd.DataFrame, grid: Sequence[float], browsing: Any, cutoff: int | None
) -> list[pd.DataFrame]:
    """Return the exact exposure of a run, a frame X per alpha."""
    finite = [alpha for alpha in grid if alpha != DETERMINISTIC]
    frame = PlackettLuceExposure(finite, cutoff=cutoff, browsing=browsing).transform(run)
    nothing = frame.iloc[:0].drop(columns=ALPHA)  # a run without rows
    parts = dict.fromkeys(finite, nothing)
    parts |= {alpha: rows.drop(columns=ALPHA) for alpha, rows in frame.groupby(ALPHA)}
    if DETERMINISTIC in grid:
        parts[DETERMINISTIC] = DeterministicExposure(cutoff=cutoff, browsing=browsing).transform(
            run
        )
    return [parts[alpha] for alpha in grid]


def _unbiased(measure: Any, run: pd.DataFrame) -> Any:
    """Return the estimate that compares with exact values, if a query has samples for it."""
    check_samples(run, "frontier")
    plain = "estimator" in measure.SUPPORTED_PARAMS and "estimator" not in measure.params
    several = run.groupby(QID)[SAMPLE].nunique().min() > 1
    return measure(estimator="unbiased") if plain and several else measure


def _measured(runs: Sequence[pd.DataFrame], labels: pd.DataFrame, measure: Any) -> FloatArray:
    """Return the value of each run and query; shape (n_runs, n_queries)."""
    values = [evaluate_runs(labels, run, measure).per_query["value"] for run in runs]
    return np.stack([np.asarray(value, dtype=np.float64) for value in values])


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
            f"frontier: {format_measure(measure)} requires answers for {name!r}: a dict from alpha "
            "to rankings with qanswer"
        )
    estimates = off_policy_utility(labels, answers[name], run, grid, measure, cutoff)
    table = estimates.per_query.pivot(index="alpha", columns="qid", values="value")
    return np.asarray(table.loc[list(grid), Qrels(labels, "frontier").qids.text], dtype=np.float64)


def _outcome(
    values: dict[str, FloatArray],
    bests: dict[str, FloatArray],
    grid: list[float],
    swept: list[str],
    measures: list[Any],
    levels: Sequence[float] | None,
    confidence: float,
    drawn: tuple[int, int],
    clusters: ObjectArray | None,
) -> Frontier:
    """Return the frontier of values by system, each of shape (2, n_alphas, n_queries).

    `bests` has the bound of y and y of the best policy for the scores, in the same shape.
    """
    defined = np.logical_and.reduce([~np.isnan(v).any(axis=(0, 1)) for v in values.values()])
    n = int(defined.sum())
    if not n:
        raise InputError("frontier: no query has values of both measures for all systems")
    values = {name: table[:, :, defined] for name, table in values.items()}
    clusters = None if clusters is None else clusters[defined]
    counts = bootstrap_counts(n, *drawn, clusters)
    weights = counts / counts.sum(axis=1, keepdims=True)
    lower = [getattr(m, "better", "higher") == "lower" for m in measures]
    means = {name: np.einsum("maq,rq->mra", table, weights) for name, table in values.items()}
    rows = []
    for name, table in means.items():
        ends, notes = _mean_intervals(values[name], measures, confidence, clusters)
        for i, alpha in enumerate(grid if name in swept else [math.nan]):
            x, y = ([table[m, 0, i], ends[m][0][i], ends[m][1][i]] for m in (0, 1))
            best = bests[name][:, i, defined].mean(axis=1)
            rows.append([name, alpha, *x, *y, *best, notes[i]])
    curve = pd.DataFrame(rows, columns=CURVE[:-1])
    curve["dominated"] = dominated(curve["x"].to_numpy(), curve["y"].to_numpy(), lower)
    areas = {
        name: np.array([area_under(x, y) for x, y in zip(*means[name], strict=True)])
        for name in swept
    }
    pairs = [
        [one, other, gap[0], *percentile_interval(gap[0], gap[1:], confidence)]
        for one, other in combinations(swept, 2)
        for gap in [areas[other] - areas[one]]
    ]
    equal = _at_equal(means, swept, lower, levels, confidence)
    return Frontier(
        curve,
        pd.DataFrame(
            [
                [name, area[0], *percentile_interval(area[0], area[1:], confidence)]
                for name, area in areas.items()
            ],
            columns=AREAS,
        ),
        pd.DataFrame(pairs, columns=PAIRS),
        equal,
        [MeasureInfo.of(measure) for measure in measures],
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
    """Return the best x of each pair of retrievers at equal y."""
    rows: list[list[Any]] = []
    for one, other in combinations(swept, 2):
        for level in _common_levels(means[one][1, 0], means[other][1, 0], levels):
            first, second = (
                price(means[name][0], means[name][1], level, lower) for name in (one, other)
            )
            gap = second - first
            ends = percentile_interval(gap[0], gap[1:], confidence)
            rows.append([level, one, other, first[0], second[0], gap[0], *ends])
    return pd.DataFrame(rows, columns=EQUAL)


def _common_levels(
    one: FloatArray, other: FloatArray, levels: Sequence[float] | None
) -> Sequence[float]:
    """Return `levels`, or three levels in the range of both curves."""
    if levels is not None:
        return levels
    low, high = max(one.min(), other.min()), min(one.max(), other.max())
    return [low + part * (high - low) for part in (0.25, 0.5, 0.75)] if low < high else []
