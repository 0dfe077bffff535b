"""The figures of *Towards Fair RAG*: trade-offs, distributions, single requests and credit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display import (
    Points,
    SeriesStyle,
    despine,
    draw_trade_off,
    interval_text,
    new_figure,
    number_text,
    series_style,
)
from fairtk.errors import FairtkError, InputError
from fairtk.frames import DOCNO, QID, RANK, SAMPLE, FloatArray, require_columns
from fairtk.measures import parse, value_bounds
from fairtk.statistics import bootstrap_counts, percentile_interval
from fairtk_papers.fair_rag.tables import (
    AE_D,
    AE_R,
    DETERMINISTIC,
    EE_D,
    EE_R,
    EXPOSURE_SUFFIX,
    MODEL,
    NORMALIZED_EU,
    credit_table,
    mean_with_interval,
    models,
    position_table,
    require_measures,
    select,
)
from fairtk_papers.studies import BLUE, GRAY, INK, LINE, VERMILION, add_legend, reach

AXES = {
    EE_D: "← more even exposure · disparity (EE-D)",
    EE_R: "ranking quality (EE-R) · more useful →",
    NORMALIZED_EU: "normalized EU · better answers →",
}
"""The axis labels of the measures, with the better direction."""
_COLUMNS = 4
_SMALL = 8
_TEXT: Any = {"fontsize": _SMALL, "color": INK}


def plot_trade_off(
    values: pd.DataFrame,
    x: str = EE_D,
    y: str = NORMALIZED_EU,
    by: str = "retriever",
    straight: bool = False,
) -> Any:
    """Plot the means of two measures at each alpha, one line per retriever or generator.

    These are the paper's Figures 4 (EE_D and EE_R) and 5 (EE_R and EU; EE_D and EU) and the figures
    of appendices F to H. There is one panel per task and generator. Bars are 95 % t intervals over
    the queries. The hollow mark is the deterministic run. The figure of EE_R and normalized EU (5a)
    also prints the correlation of each line with its interval (`correlation`), and whether the
    deterministic run is among the points.

    Args:
        values: a frame of values (see `fairtk_papers.fair_rag.tables`).
        x: the measure of the horizontal axis.
        y: the measure of the vertical axis.
        by: what the lines are: ``"retriever"`` or ``"generator"``. The other one has the panels.
        straight: whether to draw a dotted line between the uniform policy (alpha 0) and the
            deterministic run: the means of mixtures of both.

    Returns:
        A ``matplotlib.figure.Figure``, for `fairtk.display.write_figure`.

    Raises:
        ParameterError: `by` is unknown.
        NotFoundError: a measure is missing.
        MissingExtraError: matplotlib is not installed.
    """
    checks.choice("by", by, ("retriever", "generator"), "plot_trade_off")
    panels: dict[tuple[Any, Any], dict[Any, pd.DataFrame]] = {}
    for (task, retriever, generator), wide in models(values, "plot_trade_off"):
        require_measures(wide, (x, y), "plot_trade_off")
        line, other = (retriever, generator) if by == "retriever" else (generator, retriever)
        panels.setdefault((task, other), {})[line] = wide[[x, y]].dropna()
    lines = list(dict.fromkeys(line for panel in panels.values() for line in panel))
    figure, grid = _panels(len(panels), "plot_trade_off")
    for axes, (names, panel) in zip(grid, panels.items(), strict=False):
        looks = {line: series_style(lines.index(line)) for line in panel}
        points = [
            _trade_off_points(wide, x, y, str(line), looks[line]) for line, wide in panel.items()
        ]
        draw_trade_off(axes, points, AXES.get(x, x), AXES.get(y, y))
        for line, wide in panel.items() if straight else ():
            means = wide.groupby(level="alpha", sort=False)[[x, y]].mean()
            if {0.0, DETERMINISTIC} <= set(means.index):
                ends = means.loc[[0.0, DETERMINISTIC]]
                axes.plot(ends[x], ends[y], ":", color=looks[line].color, linewidth=1)
        if (x, y) == (EE_R, NORMALIZED_EU):
            texts = [f"{line}: {_correlation_text(wide, x, y)}" for line, wide in panel.items()]
            has_fixed = any(DETERMINISTIC in _by_alpha(wide) for wide in panel.values())
            end = f"{'with' if has_fixed else 'without'} the deterministic ranking"
            texts += ["r: queries at all points of a line,", end]
            axes.set_xlabel("\n".join([axes.get_xlabel(), *texts]), **_TEXT)
        axes.set_title(", ".join(map(str, names)), fontsize=_SMALL + 1, color=INK)
    add_legend(figure, 4)
    runs = {a: None for panel in panels.values() for w in panel.values() for a in _by_alpha(w)}
    alphas = ", ".join(_alpha_text(alpha) for alpha in runs if alpha != DETERMINISTIC)
    end = "; hollow: the deterministic ranking" if DETERMINISTIC in runs else ""
    heading = f"Points of a line: alpha {alphas}{end}" if runs else "No query has a value of both"
    title = fill(heading, 60 * min(len(panels), _COLUMNS))
    figure.suptitle(title, **_TEXT)
    return figure


def plot_spread(
    values: pd.DataFrame, measures: tuple[str, ...] = (EE_D, EE_R, NORMALIZED_EU), seed: int = 42
) -> Any:
    """Plot the distribution over queries at each alpha: a box plot with one dot per query.

    This is the paper's Figure 6; with ``measures=("EE_D",)`` it is Figure 3. There is one column
    per model and one row per measure. Whiskers reach up to 1.5 times the interquartile range. Dots
    have horizontal jitter.

    Args:
        values: a frame of values (see `fairtk_papers.fair_rag.tables`).
        measures: the measures, from top to bottom.
        seed: the seed of the jitter.

    Returns:
        A ``matplotlib.figure.Figure``.

    Raises:
        NotFoundError: a measure is missing.
        MissingExtraError: matplotlib is not installed.
    """
    panels = list(models(values, "plot_spread"))
    figure = new_figure((1.2 + 2.6 * len(panels), 0.6 + 2.2 * len(measures)), "plot_spread")
    grid = figure.subplots(len(measures), len(panels), squeeze=False, sharey="row", sharex="col")
    generator = np.random.default_rng(seed)
    for column, (model, wide) in enumerate(panels):
        require_measures(wide, measures, "plot_spread")
        policies = _by_alpha(wide)
        for row, measure in enumerate(measures):
            axes = grid[row, column]
            parts = [part[measure].dropna().to_numpy() for part in policies.values()]
            _boxes(axes, parts, [_alpha_text(alpha) for alpha in policies], generator)
            if column == 0:
                axes.set_ylabel(AXES.get(measure, measure).replace(" · ", "\n"), **_TEXT)
        grid[0, column].set_title("\n".join(map(str, model)), **_TEXT)
        grid[-1, column].set_xlabel("alpha · closer to the deterministic ranking →", **_TEXT)
    return figure


def plot_requests(
    run: pd.DataFrame,
    *,
    cutoff: int,
    candidates: int | None = None,
    useful: Iterable[Any] = (),
    requests: int = 30,
    documents: int = 20,
) -> Any:
    """Plot the documents that single requests for one query return.

    A request gets one sampled ranking. This is the paper's Figure 7 and appendix E, with one column
    per request and one row per document. Bars show the share of all samples that have the document,
    and rows are sorted by it. Each request shows ``cutoff`` documents at any alpha, so exposure can
    be even only over many requests.

    Args:
        run: a sampled run of one query, with ``sample`` and ``rank``.
        cutoff: the number of documents per request.
        candidates: the number of candidates, for a line at the equal share; `None` for no line.
        useful: the docnos of useful documents, whose marks are filled. If empty, all are filled.
        requests: the maximum number of columns.
        documents: the maximum number of rows.

    Returns:
        A ``matplotlib.figure.Figure``.

    Raises:
        InputError: the run has several queries.
        MissingExtraError: matplotlib is not installed.
    """
    require_columns(run, [QID, DOCNO, RANK, SAMPLE], "plot_requests")
    if run[QID].nunique() != 1:
        raise InputError(f"plot_requests: expected a run of one query, got {run[QID].nunique()}")
    samples = run[SAMPLE].nunique()
    top = run[run[RANK] < cutoff]
    share = top[DOCNO].value_counts() / samples
    share = share.sort_index().sort_values(ascending=False, kind="stable")
    names = list(share.index[:documents])
    first = sorted(run[SAMPLE].unique())[:requests]
    part = top[top[SAMPLE].isin(first) & top[DOCNO].isin(names)]
    x = part[SAMPLE].map({sample: i for i, sample in enumerate(first, 1)})
    y = part[DOCNO].map({docno: i for i, docno in enumerate(names)})
    useful_docnos = set(map(str, useful))
    filled = part[DOCNO].astype(str).isin(useful_docnos).to_numpy() | (not useful_docnos)
    figure = new_figure((2.6 + 0.16 * len(first) + 1.8, 1.3 + 0.22 * len(names)), "plot_requests")
    grid = figure.subplots(1, 2, sharey=True, width_ratios=(0.16 * len(first) + 0.6, 1.8))
    cells, bars = grid
    cells.plot(x[filled], y[filled], "s", color=BLUE, markersize=6)
    cells.plot(x[~filled], y[~filled], "s", color=GRAY, markersize=6, markerfacecolor="white")
    labels = [f"{name} (useful)" if str(name) in useful_docnos else str(name) for name in names]
    cells.set_yticks(range(len(names)), labels)
    cells.set_ylim(len(names) - 0.4, -0.6)
    cells.set_xlim(0.3, len(first) + 0.7)
    cells.set_xlabel(f"requests of {cutoff} documents", **_TEXT)
    cells.grid(axis="y", color=LINE, linewidth=0.5)
    cells.set_axisbelow(True)
    bars.barh(range(len(names)), share[names], 0.7, color=BLUE)
    bars.set_xlim(0, 1)
    bars.set_xlabel(f"share of all {samples} requests", **_TEXT)
    if candidates is not None:
        even = min(1.0, cutoff / candidates)
        bars.axvline(even, color=GRAY, linestyle="--", linewidth=1)
        bars.annotate(
            "equal share", (even, 1), xytext=(0, 2), ha="center", va="bottom",
            xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=_SMALL - 1,
            color=INK,
        )  # fmt: skip
    for axes in grid:
        despine(axes)
        axes.tick_params(labelsize=_SMALL - 1, labelcolor=INK)
    rest = len(share) - len(names)
    title = f"query {run[QID].iloc[0]}: {len(first)} of {samples} requests"
    if rest > 0:
        title += f"; {rest} less frequent documents are not shown"
    figure.suptitle(title, fontsize=_SMALL + 1, color=INK)
    return figure


def plot_credit(values: pd.DataFrame) -> Any:
    """Plot credit next to exposure: concentration, relevance and positions in the prompt.

    There is one row per model. Bars are 95 % t intervals over the queries. The dashed line is an
    equal share of the credit.

    Args:
        values: as in `credit_table`.

    Returns:
        A ``matplotlib.figure.Figure``.
    """
    table, positions = credit_table(values), position_table(values)
    panels = list(table.groupby(MODEL, sort=False))
    figure = new_figure((10.4, 0.6 + 2.9 * len(panels)), "plot_credit")
    grid = figure.subplots(len(panels), 3, squeeze=False, width_ratios=(1, 1, 1.25))
    for row, (model, part) in zip(grid, panels, strict=True):
        for axes, name, label in (
            (row[0], AE_D, "concentration (AE-D) · less even →"),
            (row[1], AE_R, "on useful documents (AE-R) →"),
        ):
            _draw_credit(axes, part[part["measure"] == name], values, model, label)
        _draw_positions(row[2], select(positions, model))
        row[0].set_title(", ".join(map(str, model)), fontsize=_SMALL + 1, color=INK, loc="left")
        for axes in row:
            _style(axes, grid_lines="y")
    return figure


def _draw_credit(
    axes: Any, part: pd.DataFrame, values: pd.DataFrame, model: Any, label: str
) -> None:
    """Plot a measure of exposure and of credit at each alpha, with intervals."""
    name = part["measure"].iloc[0]
    values = select(values, model)
    x = np.arange(len(part))
    kinds = ((EXPOSURE_SUFFIX, GRAY, "s", -0.08, "exposure"), ("", BLUE, "o", 0.08, "credit"))
    for suffix, color, marker, shift, kind_label in kinds:
        kind = values[values["measure"] == name + suffix]
        means, ends = _means(
            kind.loc[kind["alpha"] == alpha, "value"].to_numpy(float) for alpha in part["alpha"]
        )
        axes.errorbar(
            x + shift, means, yerr=ends, fmt=marker, color=color, markersize=4.5,
            elinewidth=0.9, linestyle="-", linewidth=1, label=kind_label,
        )  # fmt: skip
    axes.set_xticks(x, [_alpha_text(alpha) for alpha in part["alpha"]])
    axes.set_xlabel("alpha", **_TEXT)
    axes.set_ylabel(label, **_TEXT)
    _within_bounds(axes)
    axes.legend(frameon=False, fontsize=_SMALL - 1, labelcolor=INK)


def _draw_positions(axes: Any, positions: pd.DataFrame) -> None:
    alphas = list(dict.fromkeys(positions["alpha"]))
    for number, alpha in enumerate(alphas):
        part = positions[positions["alpha"] == alpha]
        look = series_style(number)
        ends = reach(part["value"], part["low"], part["high"])
        shift = 0.5 * ((number + 1) / (len(alphas) + 1) - 0.5)
        axes.errorbar(
            part["place"] + shift, part["value"], yerr=ends, fmt=look.marker, color=look.color,
            markersize=4, elinewidth=0.9, label=_alpha_text(alpha),
        )  # fmt: skip
    n_positions = positions["place"].max()
    axes.axhline(1 / n_positions, color=VERMILION, linestyle="--", linewidth=0.9)
    axes.set_xticks(range(1, n_positions + 1))
    axes.set_xlabel("position in the prompt", **_TEXT)
    axes.set_ylabel("share of the credit", **_TEXT)
    _within_bounds(axes)
    axes.legend(
        frameon=False, fontsize=_SMALL - 1, labelcolor=INK, title="alpha",
        title_fontsize=_SMALL - 1, ncols=2,
    )  # fmt: skip


def _within_bounds(axes: Any) -> None:
    """Limit an axis to the range of shares, which t intervals can exceed."""
    axes.set_ylim(0, min(1.03, 1.15 * axes.get_ylim()[1]))


def _panels(count: int, where: str) -> tuple[Any, list[Any]]:
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    figure = new_figure((0.4 + 3.4 * columns, 0.7 + 2.9 * rows), where)
    grid = list(np.ravel(figure.subplots(rows, columns, squeeze=False)))
    for axes in grid[count:]:
        axes.set_visible(False)
    for axes in grid[:count]:
        _style(axes, grid_lines="both")
    return figure, grid[:count]


def _style(axes: Any, grid_lines: str) -> None:
    despine(axes)
    axes.tick_params(labelsize=_SMALL - 1)
    axes.grid(axis=grid_lines, color=LINE, linewidth=0.4)
    axes.set_axisbelow(True)


def _trade_off_points(wide: pd.DataFrame, x: str, y: str, name: str, look: SeriesStyle) -> Points:
    policies = _by_alpha(wide)
    (x_means, x_reach), (y_means, y_reach) = (
        _means((part[measure].to_numpy() for part in policies.values()), _bounds(measure))
        for measure in (x, y)
    )
    hollow = np.array([alpha == DETERMINISTIC for alpha in policies], dtype=bool)
    name = name if policies else f"{name} (undefined)"
    return Points(x_means, y_means, look, name, x_reach, y_reach, hollow, joined=True)


def _means(
    parts: Iterable[FloatArray], bounds: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of each part, and how far its interval extends below and above."""
    intervals = [mean_with_interval(values, bounds) for values in parts]
    means, low, high = np.reshape(intervals, (-1, 3)).T
    return means, reach(means, low, high)


def correlation(
    wide: pd.DataFrame, x: str, y: str, resamples: int = 1000, seed: int = 42
) -> tuple[float, float, float, str]:
    """Return Pearson's correlation of two measures, with a percentile bootstrap interval.

    The paper does not define its correlation. Here it is taken over all queries under all policies,
    with the deterministic run if `wide` has it.
    The bootstrap resamples queries, each with all its points.

    Args:
        wide: values with the level ``qid`` in the index and one column per measure.
        x: one measure.
        y: the other.
        resamples: the number of bootstrap samples.
        seed: the seed of the bootstrap.

    Returns:
        The correlation, the ends of its 95 % interval, and the reason if they are NaN.
    """
    points = wide[[x, y]].dropna()
    products = pd.DataFrame(
        {"n": 1.0, "x": points[x], "y": points[y], "xx": points[x] ** 2, "yy": points[y] ** 2}
    ).assign(xy=points[x] * points[y])
    sums = products.groupby(level=QID).sum().sort_index().to_numpy()
    if not len(sums):
        return math.nan, math.nan, math.nan, "there are no points"
    totals = bootstrap_counts(len(sums), resamples, seed) @ sums
    n, sx, sy, sxx, syy, sxy = totals.T
    spread = np.maximum(n * sxx - sx**2, 0.0) * np.maximum(n * syy - sy**2, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(spread > 1e-12 * sxx * syy, (n * sxy - sx * sy) / np.sqrt(spread), np.nan)
    value = float(values[0])
    return value, *percentile_interval(value, values[1:])


def _correlation_text(wide: pd.DataFrame, x: str, y: str) -> str:
    value, low, high, note = correlation(wide, x, y)
    if math.isnan(value):
        return f"r is undefined ({note})"
    interval = f"(no interval: {note})" if note else interval_text(low, high, 2)
    return f"r = {number_text(value, 2)} {interval}"


def _bounds(name: str) -> tuple[float, float]:
    """Return the bounds of a measure, infinite if they are unknown or any (EU)."""
    if name == NORMALIZED_EU:
        return 0.0, math.inf  # can exceed 1 for the deterministic run
    with suppress(FairtkError):
        return value_bounds(parse(name))
    return -math.inf, math.inf


def _by_alpha(wide: pd.DataFrame) -> dict[Any, pd.DataFrame]:
    return dict(list(wide.groupby(level="alpha", sort=False)))


def _policy_text(alpha: Any) -> str:
    return alpha if isinstance(alpha, str) else f"alpha {alpha:g}"


def _alpha_text(alpha: Any) -> str:
    return "fixed" if alpha == DETERMINISTIC else f"{alpha:g}"


def _boxes(
    axes: Any, parts: list[FloatArray], labels: list[str], generator: np.random.Generator
) -> None:
    for i, part in enumerate(parts, 1):
        x = i + generator.uniform(-0.18, 0.18, len(part))
        axes.plot(x, part, ".", color=BLUE, alpha=0.35, markersize=3)
    line = {"color": INK, "linewidth": 1}
    axes.boxplot(  # above the dots
        parts, manage_ticks=False, widths=0.5, showfliers=False, boxprops=line, whiskerprops=line,
        capprops=line, medianprops={"color": INK, "linewidth": 2},
    )  # fmt: skip
    axes.set_xticks(range(1, len(labels) + 1), labels)
    _style(axes, grid_lines="y")


def trade_off_text(values: pd.DataFrame, x: str, y: str, title: str) -> str:
    """Return the text alternative of `plot_trade_off`: the means of each retriever.

    Args:
        values: the values of one task and generator.
        x: the measure of the horizontal axis.
        y: the measure of the vertical axis.
        title: the title of the figure.
    """
    lines = [
        f"{retriever}: " + _at_each_alpha(wide[[x, y]].dropna(), pd.DataFrame.mean)
        for (_, retriever, _), wide in models(values, "trade_off_text")
    ]
    head = f"Line chart of {title}, one line per retriever."
    return f"{head} Means of {x} and {y}. {'. '.join(lines)}."


def spread_text(
    values: pd.DataFrame, measures: tuple[str, ...] = (EE_D, EE_R, NORMALIZED_EU)
) -> str:
    """Return the text alternative of `plot_spread`: the quartiles at each alpha.

    Args:
        values: the values of one model.
        measures: the measures in the figure.
    """
    [(_, wide)] = models(values, "spread_text")
    lines = [
        f"{measure}: "
        + _at_each_alpha(wide[[measure]].dropna(), lambda part: part.quantile([0.25, 0.5, 0.75]))
        for measure in measures
    ]
    head = "Box plots of disparity, ranking quality and utility at each alpha, one dot per query."
    return f"{head} Lower quartile, median and upper quartile of {'. '.join(lines)}."


def credit_text(values: pd.DataFrame) -> str:
    """Return the text alternative of `plot_credit`, for the values of one model."""
    table, positions = credit_table(values), position_table(values)
    parts = []
    for name in (AE_D, AE_R):
        rows = table[table["measure"] == name]
        pairs = zip(rows["alpha"], rows["exposure"], rows["value"], strict=True)
        each = "; ".join(
            f"{_policy_text(a)}: {number_text(e, 3)}, {number_text(c, 3)}" for a, e, c in pairs
        )
        parts.append(f"{name} of exposure and of credit: {each}.")
    for alpha, part in positions.groupby("alpha", sort=False):
        shares = ", ".join(number_text(value, 3) for value in part["value"])
        parts.append(f"Shares of the positions, {_policy_text(alpha)}: {shares}.")
    return "Credit and exposure at each alpha. " + " ".join(parts)


def _at_each_alpha(wide: pd.DataFrame, numbers: Callable[[pd.DataFrame], Any]) -> str:
    parts = []
    for alpha, part in _by_alpha(wide).items():
        values = ", ".join(number_text(v, 3) for v in numbers(part).to_numpy().ravel())
        parts.append(f"{_policy_text(alpha)}: {values}")
    return "; ".join(parts) or "undefined"
