"""The Jensen-Shannon divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fairtk.divergence.base import Divergence, log_of
from fairtk.divergence.rows import Distributions, SparseRows
from fairtk.frames.arrays import FloatArray


def js_divergence(p: SparseRows, q: Distributions, base: float | str = "e") -> FloatArray:
    """Return the Jensen-Shannon divergence of each row of p from the same row of q.

    Both are divided by their sums first. With m = (p + q) / 2 it is KL(p, m) / 2 + KL(q, m) / 2
    (Lin 1991): in [0, ln 2] with natural logarithm, in [0, 1] with base 2, 0 for equal rows (never
    NaN from rounding), symmetric.

    Args:
        p: rows with few cells, such as what a ranking shows.
        q: rows with any number of cells, such as a target.
        base: ``"e"`` or a number above 1: of the logarithm.

    Returns:
        An array of shape (n_rows,); NaN where either row is empty.
    """
    terms, elsewhere = js_terms(p, q, base)
    return terms.total() + elsewhere


def js_terms(
    p: SparseRows, q: Distributions, base: float | str = "e"
) -> tuple[SparseRows, FloatArray]:
    """Return what each cell adds to the Jensen-Shannon divergence; arguments as `js_divergence`.

    Where p is 0 a cell adds q log(2) / 2 whatever it is, so only the cells of p are visited.

    Returns:
        The parts of the cells of p, each 0 or above, and the sum of the parts of all other cells,
        of shape (n_rows,); the latter is NaN where either row is empty.
    """
    p_total, q_total = p.total(), q.total()
    found = q.lookup(p.row, p.cell)
    unit = 0.5 / log_of(base)
    with np.errstate(invalid="ignore", divide="ignore"):
        ours, theirs = p.weight / p_total[p.row], found / q_total[p.row]
        elsewhere = unit * math.log(2.0) * (q_total - p.per_row(found)) / q_total
        both = ours + theirs
        off = (ours - theirs) / both
        # p log(p / m) + q log(q / m) with 2 p = both (1 + off), 2 q = both (1 - off)
        terms = unit * 0.5 * both * (_x_log_x(off) + _x_log_x(-off))
    defined = (p_total > 0) & (q_total > 0)
    terms = np.where(defined[p.row], np.maximum(terms, 0.0), 0.0)
    return replace(p, weight=terms), np.where(defined, np.maximum(elsewhere, 0.0), np.nan)


@dataclass(frozen=True, repr=False)
class JensenShannon(Divergence):
    """The Jensen-Shannon divergence; see `js_divergence`.

    Attributes:
        base: of the logarithm, ``"e"`` or a number above 1.
    """

    NAME: ClassVar[str] = "js"

    base: float | str = "e"

    def __post_init__(self) -> None:
        log_of(self.base)

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return the divergence of each row."""
        return js_divergence(shown, target, self.base)


def _x_log_x(off: FloatArray) -> FloatArray:
    """Return (1 + off) ln(1 + off) for off in [-1, 1]; 0 at -1."""
    above = off > -1
    log = np.log1p(off, out=np.zeros_like(off), where=above)
    return np.asarray((1 + off) * log)
