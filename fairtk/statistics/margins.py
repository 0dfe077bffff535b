"""Tests of non-inferiority and equivalence."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy.typing as npt

from fairtk import checks
from fairtk.statistics.arrays import check_drawing
from fairtk.statistics.clusters import error_of_mean
from fairtk.statistics.tests import no_test, pair_differences

BETTER = ("higher", "lower")


@dataclass(frozen=True)
class MarginTest:
    """The result of a non-inferiority or equivalence test.

    Attributes:
        margin: the margin.
        n: the number of defined pairs.
        difference: the mean of x - y over these pairs, NaN if there are no pairs.
        low: the lower one-sided confidence bound.
        high: the upper one-sided bound. With confidence 0.95, [low, high] is a 90 % interval.
        p: the p-value, in [0, 1].
        note: the reason if `p`, `low` and `high` are NaN, otherwise ``""``.
    """

    margin: float
    n: int
    difference: float
    low: float
    high: float
    p: float
    note: str


def non_inferiority_test(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    margin: float,
    *,
    better: str = "higher",
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
) -> MarginTest:
    """Test whether x is less than `margin` worse than y, with a one-sided paired t-test.

    The null hypothesis is that x is worse by `margin` or more.

    Args:
        x: values of one system, one per query, shape (n,).
        y: values of the other system, for the same queries in the same order; pairs with NaN are
            ignored.
        margin: the largest acceptable loss, above 0, chosen before looking at the data.
        better: the better direction, ``"higher"`` or ``"lower"``.
        confidence: the level of `MarginTest.low` and of `MarginTest.high`, in (0, 1).
        clusters: see `paired_test`.

    Raises:
        ParameterError: `margin` or `confidence` is out of range.
        NotFoundError: the direction is unknown.
        InputError: the shapes differ, a value is not a finite number, or `clusters` is invalid.
    """
    checks.known("direction `better`", better, BETTER)
    margin_test, (not_below, not_above) = _one_sided(x, y, margin, confidence, clusters)
    return replace(margin_test, p=not_below if better == "higher" else not_above)


def equivalence_test(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    margin: float,
    *,
    confidence: float = 0.95,
    clusters: npt.ArrayLike | None = None,
) -> MarginTest:
    """Test whether x and y differ by less than `margin`, with two one-sided paired t-tests.

    The null hypothesis is that the absolute mean difference is `margin` or more. It is rejected if
    the interval from `low` to `high` is within the margin.

    Args:
        x: see `non_inferiority_test`.
        y: see `non_inferiority_test`.
        margin: the smallest difference that matters, above 0, chosen before looking at the data.
        confidence: the level of `MarginTest.low` and of `MarginTest.high`, in (0, 1).
        clusters: see `paired_test`.

    Raises:
        ParameterError: `margin` or `confidence` is out of range.
        InputError: the shapes differ, a value is not a finite number, or `clusters` is invalid.

    References:
        Schuirmann 1987.
    """
    margin_test, sides = _one_sided(x, y, margin, confidence, clusters)
    return replace(margin_test, p=max(sides))


def check_margin(margin: object, where: str = "margin") -> float:
    """Return a margin.

    Raises:
        ParameterError: the margin is not a finite number above 0.
    """
    return checks.number(where, margin, ends="(]")


def _one_sided(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    margin: float,
    confidence: float,
    clusters: npt.ArrayLike | None,
) -> tuple[MarginTest, tuple[float, float]]:
    """Return the result without p-value, and the p-values of the lower and the upper margin."""
    from scipy.stats import t

    margin = check_margin(margin)
    check_drawing(confidence, 1)
    differences, codes = pair_differences(x, y, clusters)
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    note = no_test(differences, codes)
    if note:
        nothing = math.nan
        return MarginTest(margin, n, mean, nothing, nothing, nothing, note), (nothing, nothing)
    error, degrees = error_of_mean(differences, codes)
    half = float(t.ppf(confidence, degrees)) * error
    below, above = (float(t.sf((margin + way * mean) / error, degrees)) for way in (1, -1))
    margin_test = MarginTest(margin, n, mean, mean - half, mean + half, math.nan, note)
    return margin_test, (below, above)
