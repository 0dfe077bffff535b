"""Divergences of the shares of groups from a target."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import MeasureError, ParameterError
from fairtk.frames import FloatArray
from fairtk.groups.rows import Distributions, FactoredRows, SparseRows
from fairtk.statistics.arrays import numbers, returned_numbers
from fairtk.wording import short


@dataclass(frozen=True)
class Divergence:
    """Base of all divergences: frozen dataclasses that define `NAME` and `between`.

    The string form, such as ``kl(smoothing=0.01)``, can be read back.

    Attributes:
        NAME: the name in the string form.
    """

    NAME: ClassVar[str]

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return the divergence of each row from the same row of the target; shape (n_rows,).

        Rows need not sum to 1. The value is 0 for equal shares, and NaN if either row is empty.
        """
        raise NotImplementedError(f"{type(self).__name__} must define between(shown, target)")

    def checked_between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return the divergence `between` rows, for transformers.

        Raises:
            MeasureError: it is not one number per row, or NaN although neither row is empty.
        """
        rule = (
            f"divergence {self!r} (module {type(self).__module__}): between must return one "
            "number per row, NaN only if the row of the exposure or of the target is empty"
        )
        shown_total, target_total = shown.total(), target.total()
        values = returned_numbers(self.between(shown, target), len(shown_total), rule)
        invalid = np.flatnonzero(np.isnan(values) & (shown_total > 0) & (target_total > 0))
        if len(invalid):
            raise MeasureError(f"{rule}, got NaN for row {invalid[0]}")
        return values

    def __repr__(self) -> str:
        settings = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"{self.NAME}({settings})" if settings else self.NAME


def log_base(base: float | str) -> float:
    """Return the natural logarithm of a base given as ``"e"``, ``"2"`` or a number above 1.

    Raises:
        ParameterError: the base is invalid.
    """
    try:
        value = math.e if base == "e" else float(base)
    except (TypeError, ValueError):
        value = 0.0
    if not 1 < value < math.inf:
        raise ParameterError(f"base must be 'e' or a number above 1, got {short(base)}")
    return 1.0 if base == "e" else math.log(value)


def kl_divergence(
    p: SparseRows | FloatArray,
    q: Distributions | FloatArray,
    base: float | str = "e",
    smoothing: float = 0.0,
) -> FloatArray:
    """Return the Kullback-Leibler divergence KL(p || q) of each row.

    Rows are divided by their sums. Values are in [0, infinity]; without smoothing, they are
    infinite if p has weight on a level without weight in q.

    Args:
        p: the rows that weight the logarithms, e.g. exposures; or an array (n_rows, n_levels).
        q: the reference rows, e.g. a target; or an array.
        base: the base of the logarithm, ``"e"`` or a number above 1.
        smoothing: the share in [0, 1) of a uniform distribution over all levels that is mixed into
            both.

    Returns:
        Shape (n_rows,); NaN if either row is empty.

    Raises:
        ParameterError: `smoothing` is not in [0, 1).
    """
    checks.number("smoothing", smoothing, "", 0, 1, "[)")
    if not isinstance(p, SparseRows):
        p = SparseRows.of_dense(numbers(p, "p", ndim=2))
    if not isinstance(q, SparseRows | FactoredRows):
        q = SparseRows.of_dense(numbers(q, "q", ndim=2))
    p_total, q_total = p.total(), q.total()
    smoothed = SparseRows(p.matrix + q.expanded().matrix) if smoothing > 0 else p
    row, level = smoothed.row, smoothed.level
    with np.errstate(invalid="ignore", divide="ignore"):
        floor = smoothing / p.n_levels
        p_share = (1 - smoothing) * p.lookup(row, level) / p_total[row] + floor
        q_share = (1 - smoothing) * q.lookup(row, level) / q_total[row] + floor
        terms = p_share * np.log(p_share / q_share)
    result = np.maximum(smoothed.per_row(terms), 0.0) / log_base(base)  # NaN if q is empty
    return np.where(p_total > 0, result, np.nan)


@dataclass(frozen=True, repr=False)
class KullbackLeibler(Divergence):
    """KL(exposure || target); see `kl_divergence`.

    Attributes:
        smoothing: the share in [0, 1) of a uniform distribution that is mixed into both.
        base: the base of the logarithm, ``"e"`` or a number above 1.
    """

    identity_name = "fairtk.kl"
    output_version = 1
    NAME: ClassVar[str] = "kl"

    smoothing: float = 0.0
    base: float | str = "e"

    def __post_init__(self) -> None:
        checks.number("smoothing", self.smoothing, "", 0, 1, "[)")
        log_base(self.base)

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return KL(exposure || target) of each row."""
        return kl_divergence(shown, target, self.base, self.smoothing)


class ReverseKullbackLeibler(KullbackLeibler):
    """KL(target || exposure); unless smoothed, infinite if a target's group has no exposure."""

    identity_name = "fairtk.ReverseKullbackLeibler"
    output_version = 1
    NAME = "reverse-kl"

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return KL(target || exposure) of each row."""
        return kl_divergence(target.expanded(), shown, self.base, self.smoothing)


def js_divergence(
    p: SparseRows | FloatArray, q: Distributions | FloatArray, base: float | str = "e"
) -> FloatArray:
    """Return the Jensen-Shannon divergence of each row of p from the same row of q.

    Rows are divided by their sums. With m = (p + q) / 2, the value is KL(p || m) / 2 +
    KL(q || m) / 2 (Lin 1991). It is symmetric, and in [0, ln 2] with the natural logarithm, in
    [0, 1] with base 2.

    Args:
        p: rows with few levels, e.g. exposures; or an array (n_rows, n_levels).
        q: rows with any number of levels, e.g. a target; or an array.
        base: the base of the logarithm, ``"e"`` or a number above 1.

    Returns:
        Shape (n_rows,); NaN if either row is empty.
    """
    if not isinstance(p, SparseRows):
        p = SparseRows.of_dense(numbers(p, "p", ndim=2))
    if not isinstance(q, SparseRows | FactoredRows):
        q = SparseRows.of_dense(numbers(q, "q", ndim=2))
    p_total, q_total = p.total(), q.total()
    target = q.lookup(p.row, p.level)
    unit = 0.5 / log_base(base)
    with np.errstate(invalid="ignore", divide="ignore"):
        p_share, q_share = p.weight / p_total[p.row], target / q_total[p.row]
        # levels with p = 0 add q log(2) / 2, so only the levels of p are visited
        elsewhere = unit * math.log(2.0) * (q_total - p.per_row(target)) / q_total
        both = p_share + q_share
        off = (p_share - q_share) / both
        # p log(p / m) + q log(q / m), with 2 p = both (1 + off) and 2 q = both (1 - off)
        terms = unit * 0.5 * both * (_near_one(off) + _near_one(-off))
    result = p.per_row(np.maximum(terms, 0.0)) + np.maximum(elsewhere, 0.0)
    return np.where((p_total > 0) & (q_total > 0), result, np.nan)


@dataclass(frozen=True, repr=False)
class JensenShannon(Divergence):
    """The Jensen-Shannon divergence; see `js_divergence`.

    Attributes:
        base: the base of the logarithm, ``"e"`` or a number above 1.
    """

    identity_name = "fairtk.js"
    output_version = 1
    NAME: ClassVar[str] = "js"

    base: float | str = "e"

    def __post_init__(self) -> None:
        log_base(self.base)

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return the divergence of each row."""
        return js_divergence(shown, target, self.base)


def _near_one(off: FloatArray) -> FloatArray:
    """Return (1 + off) ln(1 + off) for off in [-1, 1]; 0 at -1."""
    above = off > -1
    log = np.log1p(off, out=np.zeros_like(off), where=above)
    return np.asarray((1 + off) * log)


_TINY = np.finfo(np.float64).tiny  # makes 0 log 0 equal 0


def x_log_x(values: FloatArray) -> FloatArray:
    """Return x ln(x), 0 at 0; shape of `values`."""
    return np.asarray(values * np.log(values + _TINY))


def js_parts(shares: FloatArray, target: FloatArray) -> FloatArray:
    """Return the terms of the natural Jensen-Shannon divergence that depend on the shares.

    Shares sum to 1. The terms of the target alone, ``x_log_x(target) / 2``, are left out.
    """
    return np.asarray(x_log_x(shares) / 2 - x_log_x((shares + target) / 2))
