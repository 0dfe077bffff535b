"""Corrections of p-values for the number of tests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError
from fairtk.frames.arrays import FloatArray
from fairtk.statistics.samples import numbers, one_of

CORRECTIONS = ("holm", "bonferroni", "fdr_bh", "none")
"""The names of the corrections of p-values."""


def correct(p: npt.ArrayLike, method: str | None = "holm") -> FloatArray:
    """Return the p-values of one family of tests, corrected for their number.

    Args:
        p: the p-values, shape (n,). NaN (nothing was tested) stays NaN and does not count.
        method: ``"holm"`` (Holm 1979) and ``"bonferroni"`` bound the chance of any false finding;
            ``"fdr_bh"`` (Benjamini and Hochberg 1995) bounds the share of false ones among the
            findings, for tests that are independent or positively dependent; ``"none"`` or None.

    Returns:
        shape (n,), in [0, 1]; never below `p`.

    Raises:
        NotFoundError: there is no such method.
        InputError: a p-value is not in [0, 1].
    """
    name = one_of("correction", "none" if method is None else method, CORRECTIONS)
    given = numbers(p, "p-values", ndim=1)
    there = ~np.isnan(given)
    found = given[there]
    outside = (found < 0) | (found > 1)
    if outside.any():
        raise InputError(f"p-values must lie in [0, 1]; found {found[outside][0]}")
    n = len(found)
    order = np.argsort(found, kind="stable")
    if name == "holm":
        found[order] = np.maximum.accumulate(found[order] * np.arange(n, 0, -1))
    elif name == "bonferroni":
        found = found * n
    elif name == "fdr_bh":
        scaled = found[order] * (n / np.arange(1, n + 1))
        found[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    out = np.full(len(given), np.nan)
    out[there] = np.minimum(found, 1.0)
    return out
