"""Tests against a margin: is one system at most so much worse, or are two alike within it?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairtk.errors import ParameterError
from fairtk.statistics.paired import no_test, pair_differences
from fairtk.statistics.samples import check_drawing, one_of

BETTER = ("higher", "lower")


@dataclass(frozen=True)
class MarginTest:
    """What a test against a margin found.

    Attributes:
        margin: the margin.
        n: pairs that are defined on both sides.
        difference: the mean of x - y over these pairs; NaN without any.
        low: the difference is above it with the wished confidence.
        high: it is below it with that confidence; both at once hold with less: 90 % for 95 %.
        p: the p-value, in [0, 1]; below 1 - confidence the claim holds.
        note: why `p`, `low` and `high` are NaN, or ``""``.
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
) -> MarginTest:
    """Test whether x is at most `margin` worse than y: a one-sided paired t-test.

    That a difference is not significant does not say that there is none; this test does say that
    it is small. The null hypothesis is that x is worse by `margin` or more.

    Args:
        x: values of one system, one per query, shape (n,).
        y: values of the other, of the same queries in the same order; pairs with a NaN are left
            out.
        margin: the largest loss that is accepted, above 0; choose it before you look.
        better: ``"higher"`` or ``"lower"`` values.
        confidence: of `MarginTest.low` and `MarginTest.high`, each, in (0, 1).

    Raises:
        ParameterError: `margin` or `confidence` is out of its range.
        NotFoundError: there is no such direction.
        InputError: the shapes differ, or a value is infinite or no number.
    """
    one_of("direction", better, BETTER)
    found, (not_below, not_above) = _one_sided(x, y, margin, confidence)
    return _with_p(found, not_below if better == "higher" else not_above)


def equivalence_test(
    x: npt.ArrayLike, y: npt.ArrayLike, margin: float, *, confidence: float = 0.95
) -> MarginTest:
    """Test whether x and y differ by less than `margin`: two one-sided paired t-tests.

    Schuirmann 1987. The null hypothesis is that the mean difference is `margin` or more, one way
    or the other; it is refused where the interval from `low` to `high` lies within the margin.

    Args:
        x: as in `non_inferiority_test`.
        y: likewise.
        margin: the smallest difference that matters, above 0; choose it before you look.
        confidence: of `MarginTest.low` and `MarginTest.high`, each, in (0, 1).

    Raises:
        ParameterError: `margin` or `confidence` is out of its range.
        InputError: the shapes differ, or a value is infinite or no number.
    """
    found, sides = _one_sided(x, y, margin, confidence)
    return _with_p(found, max(sides))


def check_margin(margin: object, where: str = "margin") -> float:
    """Return a margin, which must be a finite number above 0.

    Raises:
        ParameterError: it is not.
    """
    number = isinstance(margin, int | float | np.number) and not isinstance(margin, bool)
    if not (number and math.isfinite(margin) and margin > 0):  # type: ignore[arg-type, operator]
        raise ParameterError(f"{where} must be a finite number above 0; found {margin!r}")
    return float(margin)  # type: ignore[arg-type]


def _one_sided(
    x: npt.ArrayLike, y: npt.ArrayLike, margin: float, confidence: float
) -> tuple[MarginTest, tuple[float, float]]:
    """Return what both tests share, and the p-values of "not below" and "not above" the margin."""
    from scipy.stats import t

    margin = check_margin(margin)
    check_drawing(confidence, 1)
    differences = pair_differences(x, y)
    n = len(differences)
    mean = float(differences.mean()) if n else math.nan
    note = no_test(differences)
    if note:
        nothing = math.nan
        return MarginTest(margin, n, mean, nothing, nothing, nothing, note), (nothing, nothing)
    error = float(differences.std(ddof=1)) / math.sqrt(n)
    half = float(t.ppf(confidence, n - 1)) * error
    below, above = (float(t.sf((margin + way * mean) / error, n - 1)) for way in (1, -1))
    found = MarginTest(margin, n, mean, mean - half, mean + half, math.nan, note)
    return found, (below, above)


def _with_p(found: MarginTest, p: float) -> MarginTest:
    return MarginTest(**{**vars(found), "p": p})
