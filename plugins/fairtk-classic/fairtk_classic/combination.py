"""From one value per group to one number: the combinations of FairRankTune's measures."""

from __future__ import annotations

import numpy as np

from fairtk.frames import BoolArray, FloatArray
from fairtk_classic.listing import ratio

HIGHER_IS_BETTER = ("min/max",)

NO_GROUPS = "fewer than two groups have a value"
INFINITE = "a group has the value 0, so the ratio is infinite or open"


def combine(values: FloatArray, counts: BoolArray, how: str) -> FloatArray:
    """Return one number per row; NaN for a row with fewer than two groups, or a division by 0.

    Args:
        values: value of each group, 0 or above; shape (n_rows, n_groups).
        counts: whether the group counts; same shape.
        how: ``"min/max"``: 1 if all are alike; ``"max/min"``: 1; ``"max-min"``: 0;
            ``"max-deviation"`` and ``"mean-deviation"``: largest and mean distance from the mean of
            the groups, 0; ``"l2"``: the Euclidean norm of the values, which is not 0 if all are
            alike; ``"variance"`` (of the population): 0.
    """
    number = counts.sum(axis=1)
    lowest = np.where(counts, values, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(counts, values, -np.inf).max(axis=1, initial=-np.inf)
    seen = np.where(counts, values, 0.0)
    several = np.maximum(number, 1)
    deviation = np.where(counts, np.abs(seen - (seen.sum(axis=1) / several)[:, None]), 0.0)
    with np.errstate(invalid="ignore"):  # rows without groups: inf - inf
        found = {
            "min/max": ratio(lowest, highest),
            "max/min": ratio(highest, lowest),
            "max-min": highest - lowest,
            "max-deviation": deviation.max(axis=1, initial=0.0),
            "mean-deviation": deviation.sum(axis=1) / several,
            "l2": np.sqrt((seen**2).sum(axis=1)),
            "variance": (deviation**2).sum(axis=1) / several,
        }[how]
    return np.where(number >= 2, found, np.nan)


def worst(how: str, n_groups: int, top: float) -> float:
    """Return a value that no combination is worse than, NaN if there is none.

    Args:
        how: as in `combine`.
        n_groups: number of groups.
        top: the highest value that a group can have; the lowest is 0.
    """
    if how == "min/max":
        return 0.0
    if how == "max/min" or not np.isfinite(top):
        return float("nan")
    half = (n_groups // 2) / max(n_groups, 1)
    return {
        "max-min": top,
        "max-deviation": top * (1.0 - 1.0 / max(n_groups, 1)),
        "mean-deviation": top * 2.0 * half * (1.0 - half),
        "l2": top * float(np.sqrt(n_groups)),
        "variance": top**2 * half * (1.0 - half),
    }[how]
