"""Corrections of p-values for multiple testing."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.errors import InputError
from fairtk.frames import FloatArray
from fairtk.statistics.arrays import numbers

Correction = Literal["holm", "bonferroni", "fdr_bh", "none"]

CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
"""The names of the corrections of p-values."""


def correct_p_values(p: npt.ArrayLike, method: str | None = "holm") -> FloatArray:
    """Correct the p-values of a family of tests for multiple testing.

    Args:
        p: the p-values, shape (n,). NaN (no test) stays NaN and does not count.
        method: ``"holm"`` (Holm 1979) and ``"bonferroni"`` control the family-wise error rate;
            ``"fdr_bh"`` (Benjamini and Hochberg 1995) controls the false discovery rate of tests
            that are independent or positively dependent; ``"none"`` or `None` for no correction.

    Returns:
        The corrected p-values in [0, 1], shape (n,).

    Raises:
        NotFoundError: the method is unknown.
        InputError: a p-value is not in [0, 1].
    """
    name = checks.known("correction method", "none" if method is None else method, CORRECTIONS)
    family = numbers(p, "p-values", ndim=1)
    defined = ~np.isnan(family)
    p_values = family[defined]
    outside = (p_values < 0) | (p_values > 1)
    if outside.any():
        raise InputError(f"p-values must be in [0, 1], got {p_values[outside][0]}")
    n = len(p_values)
    order = np.argsort(p_values, kind="stable")
    if name == "holm":
        p_values[order] = np.maximum.accumulate(p_values[order] * np.arange(n, 0, -1))
    elif name == "bonferroni":
        p_values = p_values * n
    elif name == "fdr_bh":
        scaled = p_values[order] * (n / np.arange(1, n + 1))
        p_values[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    out = np.full(len(family), np.nan)
    out[defined] = np.minimum(p_values, 1.0)
    return out
