"""Slopes and areas of the three trade-offs (Tables 3 to 5), and a check of their uniform end."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.frames.arrays import FloatArray
from fairtk.frames.columns import QID, require
from fairtk.statistics import CURVES, curve_values
from fairtk.studies.fair_rag.points import (
    ALPHA,
    DETERMINISTIC,
    DOCUMENTS,
    EE_D,
    EE_R,
    EU,
    GENERATOR,
    MODEL,
    TASK,
    USEFUL,
    VALUE,
    models,
    needed,
)
from fairtk.studies.fair_rag.published import AREA, SLOPE, STATISTIC, TABLE, beside_paper

TRADE_OFFS = {3: (EE_D, EE_R), 4: (EE_R, EU), 5: (EE_D, EU)}
"""What the paper's tables set against what: x and y."""


def trade_offs(
    values: pd.DataFrame,
    *,
    deterministic: bool = False,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 42,
) -> pd.DataFrame:
    """Return slopes and areas of quality and utility against exposure, for each model.

    The paper says neither whether lines are fitted to queries or means, nor how areas are closed:
    `fairtk.statistics.curve_values` has both kinds of both, areas over [0, 1].

    Args:
        values: a frame of values (see `points`); trade-offs without their measures are left out.
        deterministic: whether the deterministic run is a point of the curves. The paper gathers
            "the four repeated runs", and reads it off their right end.
        confidence: of the bootstrap intervals over queries.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        One row per trade-off, model and statistic: ``table``, ``task``, ``retriever``,
        ``generator``, ``x``, ``y``, ``statistic``, ``value``, ``low``, ``high``, ``queries``,
        ``covered`` (the share of [0, 1] between the smallest and the largest mean x: the rest of
        an area is a guess), ``paper``, ``from paper``.
    """
    rows = []
    for model, wide in models(values, "trade_offs"):
        if not deterministic:
            wide = wide[wide.index.get_level_values(ALPHA) != DETERMINISTIC]
        for table, (x, y) in TRADE_OFFS.items():
            if not {x, y} <= set(wide.columns):
                continue
            defined = wide[[x, y]].dropna()
            if defined.empty:
                continue
            first, second = (_by_query(defined[name]) for name in (x, y))
            found = curve_values(
                first, second, confidence=confidence, resamples=resamples, seed=seed
            )
            covered = float(np.ptp(np.clip(np.nanmean(first, axis=0), 0.0, 1.0)))
            for name in CURVES:
                one = found[name]
                ends = [one.value, one.low, one.high, len(first), covered]
                rows.append([table, *model, x, y, name, *ends])
    columns = [TABLE, *MODEL, "x", "y", STATISTIC, VALUE, "low", "high", "queries", "covered"]
    result = pd.DataFrame(rows, columns=columns)
    of_slope = result[STATISTIC].astype(str).str.startswith(SLOPE)
    printed = pd.Series(np.where(of_slope, SLOPE, AREA), index=result.index)
    return beside_paper(result, printed)


def _by_query(points: pd.Series) -> FloatArray:
    """Return values of shape (queries, policies), queries in order; NaN where there is none."""
    table = points.unstack(ALPHA).sort_index()
    return np.asarray(table.to_numpy(dtype=np.float64))


def uniform_end(values: pd.DataFrame, sizes: pd.DataFrame, *, cutoff: int) -> pd.DataFrame:
    """Return what quality a uniform policy has, beside what the most even run shows.

    The paper reads the left end of its curves as the share of useful documents. That is the
    normalized EE-R of a uniform policy where there are more useful documents than ranks; with m
    useful ones of n and k ranks it is (k^2 / n) / (m + (k - m)^2 / (n - m)) else. And that policy
    has a normalized EE-D of k / n, not 0.

    Args:
        values: a frame of values (see `points`) with EE_D and EE_R.
        sizes: a frame of sizes.
        cutoff: k of the rankings.

    Returns:
        One row per model: ``share of useful`` (mean of m / n over the queries), ``uniform EE_R``
        and ``uniform EE_D`` (exact means), ``alpha`` (the smallest that was run), ``EE_R`` and
        ``EE_D`` (its means: with samples a little off where alpha is 0, and apart where it is
        larger), ``queries``.
    """
    where = "uniform_end"
    require(sizes, [TASK, GENERATOR, QID, DOCUMENTS, USEFUL], f"{where} (sizes)")
    rows = []
    for model, wide in models(values, where):
        needed(wide, (EE_D, EE_R), where)
        smallest = wide.index.get_level_values(ALPHA)[0]
        run = wide[wide.index.get_level_values(ALPHA) == smallest].droplevel(ALPHA)
        own = sizes[(sizes[TASK] == model[0]) & (sizes[GENERATOR] == model[2])].set_index(QID)
        n, m = (own[name].reindex(run.index).to_numpy(dtype=float) for name in (DOCUMENTS, USEFUL))
        known = m > 0  # without a useful document EE-R is undefined
        relevance = _uniform_relevance(n[known], m[known], cutoff)
        disparity = np.minimum(cutoff, n[known]) / n[known]
        means = [np.mean(v) if len(v) else np.nan for v in (m[known] / n[known], relevance)]
        ends = [np.mean(disparity) if len(disparity) else np.nan, smallest]
        found = [run[name][known].mean() for name in (EE_R, EE_D)]
        rows.append([*model, *means, *ends, *found, int(known.sum())])
    shown = ["share of useful", "uniform EE_R", "uniform EE_D", ALPHA, EE_R, EE_D, "queries"]
    return pd.DataFrame(rows, columns=[*MODEL, *shown])


def _uniform_relevance(n: FloatArray, m: FloatArray, cutoff: int) -> FloatArray:
    """Return a uniform policy's EE-R, normalized (Eqs. 6 and 24); arrays: (queries,)."""
    k = np.minimum(cutoff, n)
    rest = np.where(n > m, (k - m) ** 2 / np.maximum(n - m, 1.0), 0.0)
    bound = np.where(m <= k, m + rest, k**2 / m)
    return np.asarray(k**2 / n / bound, dtype=np.float64)
