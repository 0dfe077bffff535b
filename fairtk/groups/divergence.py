"""Distributions over groups as sparse rows, and how far apart two of them are.

A "row" is one query (or one sampled ranking), a "cell" one group: a level of an attribute, or one
combination of levels of several attributes. Crossed attributes have millions of cells of which a
ranking touches hundreds, so only cells with weight are kept, and the divergences here visit the
cells of their first argument alone. Pure array arithmetic, for all rows at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.exposure import total
from fairtk.frames import FloatArray, IntArray

_DENSE = 1 << 20  # so many sums are cheaper to keep in an array than to sort for
_MOST_KEYS = 1 << 62


class Distributions(Protocol):
    """One non-negative vector over the cells per row, stored or computed on demand.

    `SparseRows` stores it; the factored forms of `fairtk.groups` compute it, so that a target over
    millions of cells takes no memory.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_cells(self) -> int:
        """Number of cells, of which most are 0."""

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""

    def lookup(self, row: IntArray, cell: IntArray) -> FloatArray:
        """Return the weights of cells, 0 where nothing is stored; shape of `row` and `cell`."""

    def take(self, rows: IntArray) -> Distributions:
        """Return the rows at these indices; index -1 gives an empty row."""

    def expanded(self) -> SparseRows:
        """Return all weights above 0."""


@dataclass(frozen=True)
class SparseRows:
    """The weights above 0 of each row, sorted by row and cell.

    Attributes:
        row: row of each weight, non-decreasing; shape (n_entries,).
        cell: cell of each weight, increasing inside a row; shape (n_entries,).
        weight: the weights; shape (n_entries,).
        n_rows: number of rows, with or without weights.
        n_cells: number of cells.
    """

    row: IntArray
    cell: IntArray
    weight: FloatArray
    n_rows: int
    n_cells: int

    @classmethod
    def collect(
        cls, row: IntArray, cell: IntArray, weight: FloatArray, n_rows: int, n_cells: int
    ) -> SparseRows:
        """Return the sums of weights that share row and cell; sums of 0 are left out.

        Entries are in any order; shape (n_entries,) each.

        Raises:
            ParameterError: rows times cells do not fit into 62 bits.
        """
        if n_rows * n_cells >= _MOST_KEYS:
            raise ParameterError(
                f"{n_rows} rows of {n_cells} cells are too many to tell apart; cross fewer "
                "attributes"
            )
        key = row * np.int64(n_cells) + cell
        if n_rows * n_cells <= max(_DENSE, 2 * len(key)):
            sums: FloatArray = total(key, weight, n_rows * n_cells)
            keys = np.flatnonzero(sums)
            sums = sums[keys]
        else:
            order = np.argsort(key, kind="stable")
            key = key[order]
            first = np.flatnonzero(np.diff(key, prepend=-1))
            keys = key[first]
            sums = np.add.reduceat(weight[order], first) if len(first) else np.zeros(0)
            if not sums.all():
                keys, sums = keys[sums != 0], sums[sums != 0]
        # two divisions of a whole array cost more than these
        rows = keys // n_cells
        return cls(rows, keys - rows * n_cells, np.asarray(sums), n_rows, n_cells)

    @cached_property
    def key(self) -> IntArray:
        """Row and cell of each weight as one increasing number; shape (n_entries,)."""
        return self.row * np.int64(self.n_cells) + self.cell

    @cached_property
    def start(self) -> IntArray:
        """First entry of each row, and the number of entries; shape (n_rows + 1,)."""
        return np.searchsorted(self.row, np.arange(self.n_rows + 1)).astype(np.int64)

    def per_row(self, values: FloatArray) -> FloatArray:
        """Sum values of entries inside each row; shape (n_rows,)."""
        return total(self.row, values, self.n_rows)

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.per_row(self.weight)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.per_row(self.weight**2)

    def lookup(self, row: IntArray, cell: IntArray) -> FloatArray:
        """Return the weights of cells, 0 where nothing is stored; shape of `row` and `cell`."""
        if not len(self.weight):
            return np.zeros(len(row))
        wanted = row * np.int64(self.n_cells) + cell
        place = np.searchsorted(self.key, wanted)
        place[place == len(self.key)] = 0
        return np.where(self.key[place] == wanted, self.weight[place], 0.0)

    def take(self, rows: IntArray) -> SparseRows:
        """Return the rows at these indices, in this order; index -1 gives an empty row."""
        size = np.append(np.diff(self.start), 0)[rows]
        begin = np.append(self.start[:-1], 0)[rows]
        row, entry = spread(begin, size)
        return SparseRows(row, self.cell[entry], self.weight[entry], len(rows), self.n_cells)

    def expanded(self) -> SparseRows:
        """Return the rows themselves."""
        return self

    def scaled(self, factor: FloatArray | float) -> SparseRows:
        """Return each row times a factor: one for all rows, or one each."""
        factors = np.broadcast_to(np.asarray(factor, dtype=np.float64), (self.n_rows,))
        return replace(self, weight=self.weight * factors[self.row])

    def normalized(self) -> SparseRows:
        """Return each row divided by its sum; an empty row stays empty."""
        total = self.total()
        return self.scaled(np.divide(1.0, total, out=np.zeros_like(total), where=total > 0))

    def dense(self) -> FloatArray:
        """Return the rows as a plain array; shape (n_rows, n_cells). For few cells only."""
        result = np.zeros((self.n_rows, self.n_cells))
        result[self.row, self.cell] = self.weight
        return result


def spread(begin: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """Return the run and the position of each item of consecutive runs.

    Runs are given by the position of their first item and by their number of items.
    """
    owner = np.repeat(np.arange(len(size), dtype=np.int64), size)
    ahead = np.cumsum(size) - size
    return owner, np.arange(len(owner), dtype=np.int64) + (begin - ahead)[owner]


@dataclass(frozen=True)
class Divergence:
    """Base of all divergences.

    A subclass is a frozen dataclass and gives `NAME` and `between`. It is printed, and read back
    from strings, as ``kl(smoothing=0.01)``.

    Attributes:
        NAME: what users write.
    """

    NAME: ClassVar[str]

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return how far each row shown is from the same row of the target; shape (n_rows,).

        Rows shown need not sum to 1. It is 0 for equal rows, NaN where either row is empty.
        """
        raise NotImplementedError(f"{type(self).__name__} must define between(shown, target)")

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"{self.NAME}({shown})" if shown else self.NAME


def log_of(base: float | str) -> float:
    """Return the natural logarithm of a base given as ``"e"``, ``"2"`` or a number above 1.

    Raises:
        ParameterError: it is neither.
    """
    try:
        value = math.e if base == "e" else float(base)
    except (TypeError, ValueError):
        value = 0.0
    if not 1 < value < math.inf:
        raise ParameterError(f"base must be 'e' or a number above 1, e.g. 2; found {base!r}")
    return 1.0 if base == "e" else math.log(value)


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
    checks.number("smoothing", smoothing, "", 0, 1, "[)")
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
        checks.number("smoothing", self.smoothing, "", 0, 1, "[)")
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
