"""The Kullback-Leibler divergence, in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairtk.divergence.base import Divergence, log_of
from fairtk.divergence.rows import Distributions, SparseRows
from fairtk.errors import ParameterError
from fairtk.exposure.expected import total
from fairtk.frames.arrays import FloatArray


def kl_divergence(
    p: SparseRows, q: Distributions, base: float | str = "e", smoothing: float = 0.0
) -> FloatArray:
    """Return the Kullback-Leibler divergence KL(p || q) of each row.

    Both are divided by their sums first. In [0, infinity]; infinite where p has weight in a cell
    that q lacks, unless smoothed.

    Args:
        p: the rows whose logarithm is averaged, e.g. what a ranking shows.
        q: the rows that are compared with.
        base: ``"e"`` or a number above 1: of the logarithm.
        smoothing: share in [0, 1) of a uniform distribution over all cells that is mixed into
            both before they are compared. Above 0, all cells of q are visited.

    Returns:
        An array of shape (n_rows,); NaN where either row is empty.

    Raises:
        ParameterError: `smoothing` is not in [0, 1).
    """
    _check_smoothing(smoothing)
    p_total, q_total = p.total(), q.total()
    row, cell = p.row, p.cell
    if smoothing > 0:
        other = q.expanded()
        key = np.union1d(p.key, other.key)
        row = key // p.n_cells
        cell = key - row * p.n_cells
    with np.errstate(invalid="ignore", divide="ignore"):
        floor = smoothing / p.n_cells
        ours = (1 - smoothing) * p.lookup(row, cell) / p_total[row] + floor
        theirs = (1 - smoothing) * q.lookup(row, cell) / q_total[row] + floor
        terms = ours * np.log(ours / theirs)
    sums = total(row, terms, p.n_rows)
    result = np.maximum(sums, 0.0) / log_of(base)
    return np.where((p_total > 0) & (q_total > 0), result, np.nan)


@dataclass(frozen=True, repr=False)
class KullbackLeibler(Divergence):
    """KL(shown || target); see `kl_divergence`.

    Attributes:
        smoothing: share in [0, 1) of a uniform distribution that is mixed into both.
        base: of the logarithm, ``"e"`` or a number above 1.
    """

    NAME: ClassVar[str] = "kl"

    smoothing: float = 0.0
    base: float | str = "e"

    def __post_init__(self) -> None:
        _check_smoothing(self.smoothing)
        log_of(self.base)

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return KL(shown || target) of each row."""
        return kl_divergence(shown, target, self.base, self.smoothing)


class ReverseKullbackLeibler(KullbackLeibler):
    """KL(target || shown): infinite, unless smoothed, where a group of the target is not shown."""

    NAME = "reverse-kl"

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return KL(target || shown) of each row."""
        return kl_divergence(target.expanded(), shown, self.base, self.smoothing)


def _check_smoothing(value: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < 1:
        raise ParameterError(f"smoothing must lie in [0, 1); found {value!r}")
