"""Utility by level of exposure, beside the deterministic run: Tables 1 and 6 to 12."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError, ParameterError
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import QID, require
from fairtk.statistics import correct, paired_test
from fairtk.studies.fair_rag.points import (
    ALPHA,
    DETERMINISTIC,
    DOCUMENTS,
    EE_D,
    EU,
    GENERATOR,
    MODEL,
    TASK,
    VALUE,
    models,
    needed,
    sampled,
)
from fairtk.studies.fair_rag.published import BASELINE, FAIRNESS_TABLES, TABLE, beside_paper

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
INTERVAL = "interval"
OUT_OF_REACH = "out of reach: no policy spreads exposure over so few candidates so evenly"
_DIGITS = 9
"""Sampled EE-D is a sum of fractions: 0.6 may be 0.6000000000000001."""


def fairness_intervals(
    values: pd.DataFrame,
    *,
    cutoff: int,
    sizes: pd.DataFrame | None = None,
    edges: tuple[float, ...] = EDGES,
    closed: bool = False,
    test: str = "t",
    correction: str | None = "holm",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
) -> pd.DataFrame:
    """Return, per model and interval of EE-D, how utility differs from the deterministic run's.

    A point is a query under one sampled policy. ``value`` is what the paper prints: the mean of
    the interval's points minus the mean of the deterministic run over all its queries. The queries
    of an interval differ from those; so each query's mean in the interval is paired with its own
    deterministic value, too, and tested: one pair per query, since a query's points hang together.

    Args:
        values: a frame of values (see `points`) with EE_D and EU.
        cutoff: k of the rankings.
        sizes: a frame of sizes; None: what is out of reach is not marked.
        edges: of the intervals, rising; each holds its lower end.
        closed: whether the last interval holds its upper end: the paper's Table 12 prints
            ``[0.8, 1.0]``, the others ``[0.8, 1.0)``.
        test: see `fairtk.statistics.paired_test`.
        correction: of the p-values of a model, for the number of its intervals.
        confidence: of the intervals of the paired difference.
        resamples: of tests that draw.
        seed: of these draws.

    Returns:
        One row per model and interval: ``baseline``, ``mean``, ``value``; ``points``, ``queries``;
        ``at the end`` (points at exactly the last edge: in the interval if `closed`, else left out
        of it); ``paired``, ``low``, ``high``, ``p``, ``p_corrected``; ``reachable`` (queries whose
        most even exposure, k/n, lies below the interval's upper end); ``note``; ``paper`` and
        ``from paper`` (the printed difference, and ours minus it); ``table``.

    Raises:
        ParameterError: `edges` do not rise.
        NotFoundError: there are no values of EE_D or EU.
        InputError: a policy is unknown, or nothing to compare with.
    """
    where = "fairness_intervals"
    if len(edges) < 2 or not (np.diff(edges) > 0).all():
        raise ParameterError(f"{where}: edges must rise; found {edges!r}")
    drawing = {"test": test, "confidence": confidence, "resamples": resamples, "seed": seed}
    parts = []
    for model, wide in models(values, where):
        needed(wide, (EE_D, EU), where)
        floors = _floors(sizes, model, cutoff)
        parts.append(_intervals(model, wide, floors, edges, closed, drawing, correction))
    table = pd.concat(parts, ignore_index=True)
    table[TABLE] = table[TASK].map(FAIRNESS_TABLES).fillna(0).astype(int)
    # the paper's headings, whatever `closed` is here
    return beside_paper(table, table[INTERVAL].str.replace("]", ")"))


def baselines(values: pd.DataFrame) -> pd.DataFrame:
    """Return each model's mean utility of the deterministic run, beside the paper's.

    Args:
        values: a frame of values with EU.

    Returns:
        ``task``, ``retriever``, ``generator``, ``value``, ``queries``, ``table``, ``paper``,
        ``from paper``.
    """
    rows = []
    for model, wide in models(values, "baselines"):
        needed(wide, (EU,), "baselines")
        fixed = _deterministic(wide, model)
        rows.append([*model, fixed.mean(), len(fixed)])
    table = pd.DataFrame(rows, columns=[*MODEL, VALUE, "queries"])
    table[TABLE] = table[TASK].map(FAIRNESS_TABLES).fillna(0).astype(int)
    return beside_paper(table, pd.Series(BASELINE, index=table.index))


def _deterministic(wide: pd.DataFrame, model: tuple[Any, ...]) -> pd.Series:
    fixed = wide.loc[wide.index.get_level_values(ALPHA) == DETERMINISTIC, EU]
    if fixed.isna().all():
        raise InputError(
            f"there is no deterministic run of {' with '.join(map(str, model[1:]))} on {model[0]} "
            f"to compare with: rows with alpha {DETERMINISTIC!r}"
        )
    return fixed.droplevel(ALPHA).dropna()


def _floors(sizes: pd.DataFrame | None, model: tuple[Any, ...], cutoff: int) -> FloatArray | None:
    """Return the smallest EE-D that any policy has, by query: that of a uniform one, k / n."""
    if sizes is None:
        return None
    require(sizes, [TASK, GENERATOR, QID, DOCUMENTS], "fairness_intervals (sizes)")
    own = sizes[(sizes[TASK] == model[0]) & (sizes[GENERATOR] == model[2])]
    n = own[DOCUMENTS].to_numpy(dtype=np.float64)
    return np.asarray(np.minimum(cutoff, n) / n)


def _intervals(
    model: tuple[Any, ...],
    wide: pd.DataFrame,
    floors: FloatArray | None,
    edges: tuple[float, ...],
    closed: bool,
    drawing: dict[str, Any],
    correction: str | None,
) -> pd.DataFrame:
    fixed = _deterministic(wide, model)
    is_sampled = sampled(wide.index.get_level_values(ALPHA).to_series()).to_numpy()
    points = wide[is_sampled].dropna(subset=[EE_D, EU])
    disparity = np.round(points[EE_D].to_numpy(), _DIGITS)
    place: IntArray = np.searchsorted(np.asarray(edges), disparity, side="right") - 1
    last, at_end = len(edges) - 2, disparity == edges[-1]
    place[at_end] = last if closed else last + 1
    rows = []
    for number, (low, high) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        end = "]" if closed and number == last else ")"
        own = points[EU][place == number]
        per_query = own.groupby(level=QID).mean()
        both = per_query.index.intersection(fixed.index)
        found = paired_test(per_query[both], fixed[both], **drawing)
        # a floor of exactly the upper end is out of reach unless the end belongs to the interval
        within = None if floors is None else (floors < high) | ((floors == high) & (end == "]"))
        note = found.note
        if within is not None and len(within) and not within.any():
            note = OUT_OF_REACH
        elif own.empty:
            note = "no policy that was run gives this"
        rows.append(
            {
                **dict(zip(MODEL, model, strict=True)),
                INTERVAL: f"[{low:.1f}, {high:.1f}{end}",
                BASELINE: fixed.mean(),
                "mean": own.mean(),
                VALUE: own.mean() - fixed.mean(),
                "points": len(own),
                "queries": len(per_query),
                "at the end": int(at_end.sum()) if number == last else 0,
                "paired": found.difference,
                "low": found.low,
                "high": found.high,
                "p": found.p,
                "reachable": np.nan if within is None else int(within.sum()),
                "note": note,
            }
        )
    table = pd.DataFrame(rows)
    table.insert(table.columns.get_loc("p") + 1, "p_corrected", correct(table["p"], correction))
    return table
