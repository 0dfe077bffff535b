"""Which group is shown least, against what it should have."""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import BoolArray, FloatArray, IntArray

RULES = ("difference", "ratio")


def under_represented(
    share: FloatArray, target: FloatArray, known: BoolArray, rule: str
) -> IntArray:
    """Return the most under-represented group of each row, -1 where none is.

    A group lacks exposure if its share is below its target. The unknown level is never chosen: no
    keyword asks for it. Equal groups: the first one.

    Args:
        share: exposure of the groups, each row summing to 1; shape (n_rows, n_groups).
        target: what the groups should have; same shape.
        known: whether a group can be asked for; shape (n_groups,).
        rule: ``"difference"``: the largest target - share; ``"ratio"``: the largest target / share,
            which always prefers groups without any exposure, however small their target (of
            several such groups, the one with the largest target).
    """
    lack = np.where(known, target - share, 0.0)
    lack = np.where(lack > 1e-12, lack, 0.0)
    if rule == "ratio":
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(lack > 0, target / share, 0.0)
        best = ratio.max(axis=1, initial=0.0, keepdims=True)
        lack = np.where((ratio == best) & (lack > 0), target, 0.0)
    chosen = lack.argmax(axis=1)
    return np.where(lack.max(axis=1, initial=0.0) > 0, chosen, -1).astype(np.int64)
