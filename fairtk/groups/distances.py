"""Distributions over the levels of groups, as rows; the exposure of groups; how far apart rows are.

A document passes the attention of its rank on to the groups it belongs to. Summed over a ranking
that is the exposure of the groups: a row, of one query or of one sampled ranking, with a column for
each level of the groups. AWRF and the group forms of expected exposure compare it with a target. A
level of the crossed attributes ``gender`` and ``region`` is one pair of theirs; its number counts
the last attribute fastest, as numpy's C order does. There can be millions, of which a ranking
touches hundreds: only levels with weight are kept (`SparseRows`), a target may be computed
(`FactoredRows`), and the divergences visit the levels of their first argument alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import InputError, ParameterError, format_list
from fairtk.exposure import GERR, RBP, sum_by_index
from fairtk.exposure.expected import (
    HIGHER_IS_BETTER,
    LOWER_IS_BETTER,
    Bounded,
    ExposureValues,
    Grades,
    target_exposure,
)
from fairtk.frames import GROUP, BoolArray, FloatArray, IntArray, Run

UNKNOWN = "@UNKNOWN"
"""The level of documents whose group is not known, as TREC Fair Ranking names it."""

UNIFORM, POPULATION, RELEVANCE = TARGET_WORDS = ("uniform", "population", "relevance")
"""Targets of any groups: equal shares, shares of all documents, shares of the relevant ones."""

Level = str | tuple[str, ...]
"""A name, or one for each of the attributes that are crossed."""


@dataclass(frozen=True)
class LevelSpace(Sequence[Level]):
    """The attributes and their levels, in order; a sequence of the levels, crossed ones as tuples.

    Crossed attributes can have millions of levels: each is made when it is asked for.

    Attributes:
        names: the attributes.
        levels: the levels of each attribute.
        unknown: the place of each attribute's unknown level among its levels; -1: it has none.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    unknown: tuple[int, ...]

    def __post_init__(self) -> None:
        twice = [n for i, n in enumerate(self.names) if n in self.names[:i]]
        if twice:
            raise InputError(
                f"the attribute {twice[0]!r} occurs twice; only attributes with different names "
                "can be crossed (give one another name)"
            )
        if self.size >= 1 << 62:
            raise InputError(
                f"crossing {list(self.names)} gives {float(self.size):.1e} groups, more than can "
                "be numbered; cross fewer attributes"
            )

    @property
    def title(self) -> str:
        """The attributes' names, joined by ``*``."""
        return "*".join(self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(len(levels) for levels in self.levels)

    @property
    def size(self) -> int:
        """Number of levels; of crossed attributes, of their combinations."""
        return math.prod(self.shape)

    @property
    def n_known(self) -> int:
        """Number of levels in which no attribute is unknown."""
        return math.prod(
            n - (unknown >= 0) for n, unknown in zip(self.shape, self.unknown, strict=True)
        )

    @property
    def crossed(self) -> bool:
        """Whether there is more than one attribute."""
        return len(self.names) > 1

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How far apart neighboring levels of each attribute are among the crossed ones."""
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(self.size))]
        if not -self.size <= number < self.size:
            raise IndexError(number)
        places = np.unravel_index(number % self.size, self.shape)
        names = tuple(levels[i] for levels, i in zip(self.levels, places, strict=True))
        return names if self.crossed else names[0]

    def __contains__(self, level: object) -> bool:
        try:
            self.number(level)  # type: ignore[arg-type]
        except (InputError, TypeError):
            return False
        return True

    def number(self, level: Level) -> int:
        """Return the number of a level; one that there is not is an `InputError`."""
        parts = (level,) if isinstance(level, str) else tuple(level)
        if len(parts) != len(self.names):
            raise InputError(
                f"a level of {list(self.names)} has {len(self.names)} parts: {level!r}"
            )
        result = 0
        for name, levels, part in zip(self.names, self.levels, parts, strict=True):
            if part not in levels:
                raise InputError(
                    f"{name!r} has no level {part!r}; it has {format_list(levels, 40)}"
                )
            result = result * len(levels) + levels.index(part)
        return result

    def place(self, attribute: str) -> int:
        """Return the place of an attribute; one that there is not is an `InputError`."""
        if attribute not in self.names:
            raise InputError(f"there is no attribute {attribute!r} among {list(self.names)}")
        return self.names.index(attribute)

    def part(self, attributes: Sequence[int]) -> LevelSpace:
        """Return the space of some of the attributes, given by place."""
        fields = (self.names, self.levels, self.unknown)
        return LevelSpace(*(tuple(own[i] for i in attributes) for own in fields))  # type: ignore[arg-type]

    def codes(self, level: IntArray, attribute: int) -> IntArray:
        """Return the number that each level has in one attribute; shape of `level`."""
        return (level // self.strides[attribute]) % self.shape[attribute]

    def project(self, level: IntArray, attributes: Sequence[int]) -> IntArray:
        """Return the levels' numbers in the `part` of some attributes; shape of `level`."""
        result = np.zeros(len(level), dtype=np.int64)
        for _, run in groupby(enumerate(attributes), lambda item: item[1] - item[0]):
            places = [attribute for _, attribute in run]  # neighbors are divided out as one
            size = math.prod(self.shape[place] for place in places)
            result = result * size + level // self.strides[places[-1]] % size
        return result

    def extend(self, level: IntArray, attributes: Sequence[int]) -> IntArray:
        """Return numbers for levels of the `part` of some attributes, with the others' first."""
        part, result = self.part(attributes), np.zeros(len(level), dtype=np.int64)
        for place, attribute in enumerate(attributes):
            result += part.codes(level, place) * self.strides[attribute]
        return result

    def cases(self, level: IntArray) -> IntArray:
        """Return which attributes are known in each level: bit i for attribute i; (n,)."""
        result = np.zeros(len(level), dtype=np.int64)
        for attribute, unknown in enumerate(self.unknown):
            is_known: Any = 1 if unknown < 0 else self.codes(level, attribute) != unknown
            result |= is_known * np.int64(1 << attribute)
        return result

    def known(self, level: IntArray) -> BoolArray:
        """Return whether no attribute is unknown in each level; shape of `level`."""
        return np.asarray(self.cases(level) == (1 << len(self.names)) - 1)

    def known_levels(self, attribute: int) -> FloatArray:
        """Return 1 for each level of an attribute that is not the unknown one, else 0."""
        known = np.arange(self.shape[attribute]) != self.unknown[attribute]
        return np.asarray(known, dtype=np.float64)

    def columns(self, level: IntArray) -> dict[str, pd.Series]:
        """Return the names of levels as columns: ``group``, or one for each crossed attribute."""
        columns = {}
        for place, name in enumerate(self.names):
            names = np.array(self.levels[place], dtype=object)[self.codes(level, place)]
            columns[name if self.crossed else GROUP] = pd.Series(names, dtype="str")
        return columns


@dataclass(frozen=True, eq=False)
class SparseRows:
    """The weights above 0 of each row.

    Attributes:
        matrix: a ``scipy.sparse.csr_array`` of rows by levels; levels increase inside a row.
    """

    matrix: Any

    @classmethod
    def collect(
        cls, row: IntArray, level: IntArray, weight: FloatArray, n_rows: int, n_levels: int
    ) -> SparseRows:
        """Return the sums of weights that share row and level; sums of 0 are left out.

        Entries are in any order; shape (n_entries,) each.
        """
        from scipy import sparse

        entries = (np.asarray(weight, dtype=np.float64), (row, level))
        matrix = sparse.coo_array(entries, shape=(n_rows, n_levels)).tocsr()
        matrix.eliminate_zeros()
        return SparseRows(matrix)

    @classmethod
    def of_sizes(
        cls, size: IntArray, level: IntArray, weight: FloatArray, n_levels: int
    ) -> SparseRows:
        """Return rows of entries that are in order, of which the number in each row is given."""
        from scipy import sparse

        start = np.concatenate([[0], np.cumsum(size)])
        return SparseRows(sparse.csr_array((weight, level, start), shape=(len(size), n_levels)))

    @classmethod
    def of_dense(cls, rows: FloatArray) -> SparseRows:
        """Return the weights of a plain array; shape (n_rows, n_levels)."""
        from scipy import sparse

        return SparseRows(sparse.csr_array(rows))

    @property
    def n_rows(self) -> int:
        """Number of rows, with or without weights."""
        return int(self.matrix.shape[0])

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return int(self.matrix.shape[1])

    @cached_property
    def start(self) -> IntArray:
        """First entry of each row, and the number of entries; shape (n_rows + 1,)."""
        return np.asarray(self.matrix.indptr, dtype=np.int64)

    @cached_property
    def size(self) -> IntArray:
        """Number of entries of each row; shape (n_rows,)."""
        return np.diff(self.start)

    @cached_property
    def row(self) -> IntArray:
        """Row of each entry, non-decreasing; shape (n_entries,)."""
        return np.repeat(np.arange(self.n_rows), self.size)

    @cached_property
    def level(self) -> IntArray:
        """Level of each entry, increasing inside a row; shape (n_entries,)."""
        return np.asarray(self.matrix.indices, dtype=np.int64)

    @property
    def weight(self) -> FloatArray:
        """Weight of each entry; shape (n_entries,)."""
        return np.asarray(self.matrix.data)

    def weighted(self, weight: FloatArray) -> SparseRows:
        """Return the same entries with other weights; shape (n_entries,)."""
        whole = self.matrix
        entries = (weight, whole.indices, whole.indptr)
        return SparseRows(type(whole)(entries, shape=whole.shape))

    def per_row(self, values: FloatArray) -> FloatArray:
        """Sum values of entries inside each row; shape (n_rows,)."""
        return np.bincount(self.row, values, self.n_rows).astype(np.float64)

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.per_row(self.weight)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.per_row(self.weight**2)

    def lookup(self, row: IntArray, level: IntArray) -> FloatArray:
        """Return the weights of levels, 0 where nothing is stored; shape of `row` and `level`."""
        return np.asarray(self.matrix[row, level]) if len(row) else np.zeros(0)

    def take(self, rows: IntArray) -> SparseRows:
        """Return the rows at these indices, in this order; index -1 gives an empty row."""
        present = rows >= 0
        part = self.matrix[rows[present]]
        size = np.zeros(len(rows), dtype=np.int64)
        size[present] = np.diff(part.indptr)
        return SparseRows.of_sizes(size, part.indices, part.data, self.n_levels)

    def expanded(self) -> SparseRows:
        """Return the rows themselves."""
        return self

    def normalized(self) -> SparseRows:
        """Return each row divided by its sum; an empty row stays empty."""
        total = self.total()
        factor = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return self.weighted(self.weight * factor[self.row])

    def content(self) -> list[Any]:
        """Return what a digest is made of."""
        return ["rows", self.row, self.level, self.weight, self.n_rows]

    def dense(self) -> FloatArray:
        """Return the rows as a plain array; shape (n_rows, n_levels). For few levels only."""
        return np.asarray(self.matrix.toarray())


def spread(begin: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """Return the run and the position of each item of consecutive runs.

    Runs are given by the position of their first item and by their number of items.
    """
    owner = np.repeat(np.arange(len(size), dtype=np.int64), size)
    ahead = np.cumsum(size) - size
    return owner, np.arange(len(owner), dtype=np.int64) + (begin - ahead)[owner]


def case_masses(space: LevelSpace, rows: SparseRows) -> FloatArray:
    """Return the sum of each row by case, that is by which attributes are known."""
    n_cases = 1 << len(space.names)
    cell = rows.row * n_cases + space.cases(rows.level)
    return sum_by_index(cell, rows.weight, rows.n_rows * n_cases).reshape(rows.n_rows, n_cases)


MOST_LEVELS = 5_000_000
"""So many weights may be written out at once."""


@dataclass(frozen=True)
class FactoredRows:
    """Rows over millions of levels: some weights are stored, the others are products.

    The attributes are split into heads and a tail. Where the heads' levels are among `seen`, the
    weights are those in `stored`. Everywhere else the weight is a product: one share for each head,
    the weight of the tail, and a scale, which may differ by case (which heads are known).

    A uniform target, or one of independent attributes, has heads alone, and nothing is seen.

    One made from relevance labels and backgrounds (TREC Fair Ranking 2022) has a head for each
    attribute with a background. A case keeps its mass c: half of it stays where the relevant
    documents are, half goes to c x (product of the backgrounds of the known heads), spread over
    the tail as the relevant documents with the same heads are (`stored`), or, where there are none,
    as all relevant documents are (the products).
    """

    space: LevelSpace  # all attributes
    heads: tuple[int, ...]  # the places of the heads
    shares: tuple[FloatArray, ...]  # of each head's levels
    scale: FloatArray  # by case, shape (n_rows, n_cases): bit i is head i; or (n_rows, 1): for all
    seen: SparseRows  # over the heads' levels; above 0 where the weights are stored
    stored: SparseRows  # over all levels
    tail: SparseRows  # over the levels of the other attributes

    @classmethod
    def product(cls, space: LevelSpace, shares: Sequence[FloatArray]) -> FactoredRows:
        """Return one row, the product of one distribution for each attribute."""
        places = tuple(range(len(shares)))
        none = SparseRows.of_sizes(np.zeros(1, int), np.zeros(0, int), np.zeros(0), space.size)
        one = np.ones((1, 1))
        return cls(space, places, tuple(shares), one, none, none, SparseRows.of_dense(one))

    @property
    def is_product(self) -> bool:
        """Whether all weights are products."""
        return bool(self.scale.shape[1] == 1)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stored.n_rows

    @cached_property
    def head_space(self) -> LevelSpace:
        """The space of the heads."""
        return self.space.part(self.heads)

    @cached_property
    def tail_places(self) -> tuple[int, ...]:
        """The places of the other attributes."""
        return tuple(i for i in range(len(self.space.names)) if i not in self.heads)

    def products(self, row: IntArray, head: IntArray) -> FloatArray:
        """Return the products without the tail, by levels of the heads."""
        space, result = self.head_space, np.ones(len(head))
        for place, share in enumerate(self.shares):
            result *= share[space.codes(head, place)]
        result *= self.scale[row, 0 if self.is_product else space.cases(head)]
        return result

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.stored.total() + self._unseen(1)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.stored.square() + self._unseen(2) * self.tail.square()

    def _unseen(self, power: int) -> FloatArray:
        """Return the sum of the products without the tail over the heads' levels not seen."""
        everywhere = np.zeros(self.n_rows)
        for case, scale in enumerate(self.scale.T):
            norm = scale**power
            for place, share in enumerate(self.shares):
                known = self.head_space.known_levels(place)
                among = 1.0 if self.is_product else known if case >> place & 1 else 1 - known
                norm = norm * ((share * among) ** power).sum()
            everywhere += norm
        seen = self.products(self.seen.row, self.seen.level) ** power
        return np.maximum(everywhere - self.seen.per_row(seen), 0.0)

    def lookup(self, row: IntArray, level: IntArray) -> FloatArray:
        """Return the weights of levels; shape of `row` and `level`."""
        result = self.stored.lookup(row, level)
        left = np.flatnonzero(result == 0)
        row, level = row[left], level[left]
        head = self.space.project(level, self.heads)
        unseen = self.seen.lookup(row, head) == 0
        left, row, level, head = left[unseen], row[unseen], level[unseen], head[unseen]
        tail = self.tail.lookup(row, self.space.project(level, self.tail_places))
        result[left] = self.products(row, head) * tail
        return result

    def take(self, rows: IntArray) -> FactoredRows:
        """Return the rows at these indices; index -1 gives an empty row."""
        scale = np.vstack([self.scale, np.zeros_like(self.scale[:1])])[rows]
        seen, stored, tail = (part.take(rows) for part in (self.seen, self.stored, self.tail))
        return replace(self, scale=scale, seen=seen, stored=stored, tail=tail)

    def expanded(self) -> SparseRows:
        """Return all weights above 0; too many are an `InputError`."""
        size = self.tail.size
        count = math.prod(np.count_nonzero(share) for share in self.shares) * int(size.sum())
        if count > MOST_LEVELS:
            raise InputError(
                f"the target over {list(self.space.names)} has about {count} weights above 0; "
                "write it out for fewer queries (Target.for_qids) or attributes (Target.marginal)"
            )
        # all levels of the heads of every row ...
        heads = np.zeros(1, dtype=np.int64)
        for share in self.shares:
            heads = (heads[:, None] * len(share) + np.flatnonzero(share)).ravel()
        row, head = np.repeat(np.arange(self.n_rows), len(heads)), np.tile(heads, self.n_rows)
        product = self.products(row, head)
        used = (product > 0) & (self.seen.lookup(row, head) == 0)
        row, head, product = row[used], head[used], product[used]
        # ... with every tail of its row
        owner, entry = spread(self.tail.start[row], size[row])
        ahead = self.space.extend(head, self.heads)
        level = ahead[owner] + self.space.extend(self.tail.level, self.tail_places)[entry]
        return SparseRows.collect(
            np.concatenate([self.stored.row, row[owner]]),
            np.concatenate([self.stored.level, level]),
            np.concatenate([self.stored.weight, product[owner] * self.tail.weight[entry]]),
            self.n_rows,
            self.space.size,
        )

    def content(self) -> list[Any]:
        """Return what a digest is made of."""
        if self.is_product:
            return ["product", list(self.shares), self.scale[:, 0] > 0]
        parts = [part.content() for part in (self.stored, self.seen, self.tail)]
        masses = case_masses(self.head_space, self.seen)
        return ["background", *parts, list(self.shares), masses]


Distributions = SparseRows | FactoredRows
"""One non-negative vector over the levels per row, stored or computed."""


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
        settings = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return f"{self.NAME}({settings})" if settings else self.NAME


def log_base(base: float | str) -> float:
    """Return the natural logarithm of a base given as ``"e"``, ``"2"`` or a number above 1.

    Raises:
        ParameterError: it is neither.
    """
    try:
        value = math.e if base == "e" else float(base)
    except (TypeError, ValueError):
        value = 0.0
    if not 1 < value < math.inf:
        raise ParameterError(f"base must be 'e' or a number above 1, e.g. 2, got {base!r}")
    return 1.0 if base == "e" else math.log(value)


def kl_divergence(
    p: SparseRows | FloatArray,
    q: Distributions | FloatArray,
    base: float | str = "e",
    smoothing: float = 0.0,
) -> FloatArray:
    """Return the Kullback-Leibler divergence KL(p || q) of each row.

    Both are divided by their sums first. In [0, infinity]; infinite where p has weight in a level
    that q lacks, unless smoothed.

    Args:
        p: the rows whose logarithm is averaged, e.g. what a ranking shows; or an array (n_rows,
            n_levels).
        q: the rows that are compared with; or an array.
        base: ``"e"`` or a number above 1: of the logarithm.
        smoothing: share in [0, 1) of a uniform distribution over all levels that is mixed into
            both before they are compared. Above 0, all levels of q are visited.

    Returns:
        An array of shape (n_rows,); NaN where either row is empty.

    Raises:
        ParameterError: `smoothing` is not in [0, 1).
    """
    checks.number("smoothing", smoothing, "", 0, 1, "[)")
    if isinstance(p, np.ndarray):
        p = SparseRows.of_dense(p)
    if isinstance(q, np.ndarray):
        q = SparseRows.of_dense(q)
    p_total, q_total = p.total(), q.total()
    every = SparseRows(p.matrix + q.expanded().matrix) if smoothing > 0 else p
    row, level = every.row, every.level
    with np.errstate(invalid="ignore", divide="ignore"):
        floor = smoothing / p.n_levels
        ours = (1 - smoothing) * p.lookup(row, level) / p_total[row] + floor
        theirs = (1 - smoothing) * q.lookup(row, level) / q_total[row] + floor
        terms = ours * np.log(ours / theirs)
    result = np.maximum(every.per_row(terms), 0.0) / log_base(base)
    return np.where((p_total > 0) & (q_total > 0), result, np.nan)


@dataclass(frozen=True, repr=False)
class KullbackLeibler(Divergence):
    """KL(shown || target); see `kl_divergence`.

    Attributes:
        smoothing: share in [0, 1) of a uniform distribution that is mixed into both.
        base: of the logarithm, ``"e"`` or a number above 1.
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
        """Return KL(shown || target) of each row."""
        return kl_divergence(shown, target, self.base, self.smoothing)


class ReverseKullbackLeibler(KullbackLeibler):
    """KL(target || shown): infinite, unless smoothed, where a group of the target is not shown."""

    identity_name = "fairtk.ReverseKullbackLeibler"
    output_version = 1
    NAME = "reverse-kl"

    def between(self, shown: SparseRows, target: Distributions) -> FloatArray:
        """Return KL(target || shown) of each row."""
        return kl_divergence(target.expanded(), shown, self.base, self.smoothing)


def js_divergence(
    p: SparseRows | FloatArray, q: Distributions | FloatArray, base: float | str = "e"
) -> FloatArray:
    """Return the Jensen-Shannon divergence of each row of p from the same row of q.

    Both are divided by their sums first. With m = (p + q) / 2 it is KL(p, m) / 2 + KL(q, m) / 2
    (Lin 1991): in [0, ln 2] with natural logarithm, in [0, 1] with base 2, 0 for equal rows (never
    NaN from rounding), symmetric.

    Args:
        p: rows with few levels, such as what a ranking shows; or an array (n_rows, n_levels).
        q: rows with any number of levels, such as a target; or an array.
        base: ``"e"`` or a number above 1: of the logarithm.

    Returns:
        An array of shape (n_rows,); NaN where either row is empty.
    """
    if isinstance(p, np.ndarray):
        p = SparseRows.of_dense(p)
    if isinstance(q, np.ndarray):
        q = SparseRows.of_dense(q)
    p_total, q_total = p.total(), q.total()
    target = q.lookup(p.row, p.level)
    unit = 0.5 / log_base(base)
    with np.errstate(invalid="ignore", divide="ignore"):
        ours, theirs = p.weight / p_total[p.row], target / q_total[p.row]
        # where p is 0 a level adds q log(2) / 2 whatever it is: only the levels of p are visited
        elsewhere = unit * math.log(2.0) * (q_total - p.per_row(target)) / q_total
        both = ours + theirs
        off = (ours - theirs) / both
        # p log(p / m) + q log(q / m) with 2 p = both (1 + off), 2 q = both (1 - off)
        terms = unit * 0.5 * both * (_near_one(off) + _near_one(-off))
    result = p.per_row(np.maximum(terms, 0.0)) + np.maximum(elsewhere, 0.0)
    return np.where((p_total > 0) & (q_total > 0), result, np.nan)


@dataclass(frozen=True, repr=False)
class JensenShannon(Divergence):
    """The Jensen-Shannon divergence; see `js_divergence`.

    Attributes:
        base: of the logarithm, ``"e"`` or a number above 1.
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


_TINY = np.finfo(np.float64).tiny  # so that 0 log 0 is 0


def x_log_x(values: FloatArray) -> FloatArray:
    """Return x ln(x), 0 at 0; shape of `values`."""
    return np.asarray(values * np.log(values + _TINY))


def js_parts(shares: FloatArray, target: FloatArray) -> FloatArray:
    """Return what each share adds to the natural Jensen-Shannon divergence from a target's share.

    For plain arrays of shares that sum to 1, where many rows differ in few places. Left out is what
    the target alone adds, ``x_log_x(target) / 2``; see `js_divergence` for the whole.
    """
    return np.asarray(x_log_x(shares) / 2 - x_log_x((shares + target) / 2))


_FEW_LEVELS = 1 << 12


def attention_matrix(
    row: IntArray, doc: IntArray, weight: FloatArray, shape: tuple[int, int]
) -> Any:
    """Return the attention of documents as a ``scipy.sparse.csr_array``.

    Entries may be in any order, and stay in theirs inside a row, so that sums over a ranking are
    rounded from the top.

    Args:
        row: the query of each entry, or its ranking where samples are kept apart.
        doc: its document, an index into what the memberships are made for.
        weight: the attention.
        shape: numbers of rows and of documents.
    """
    from scipy import sparse

    if not (row[1:] >= row[:-1]).all():
        order = np.argsort(row, kind="stable")
        row, doc, weight = row[order], doc[order], weight[order]
    start = np.searchsorted(row, np.arange(shape[0] + 1))
    return sparse.csr_array((weight, doc, start), shape=shape)


def document_attention(rankings: Run, weight: FloatArray, *, amortize: bool = True) -> Any:
    """Return the `attention_matrix` of each query's documents, or of each sampled ranking's.

    Rows of the run with no weight (below the cutoff, or not relevant) are left out. With `amortize`
    a document's attention is averaged over the samples of its query, and rows are queries.
    """
    seen = np.flatnonzero(weight)
    doc, weight, n_docs = rankings.doc[seen], weight[seen], len(rankings.docnos)
    if not amortize:
        return attention_matrix(rankings.ranking[seen], doc, weight, (rankings.n_rankings, n_docs))
    query, shape = rankings.query[seen], (len(rankings.qids), n_docs)
    if not rankings.sampled:
        return attention_matrix(query, doc, weight, shape)
    return SparseRows.collect(query, doc, weight / rankings.n_samples[query], *shape).matrix


def group_exposure(attention: Any, memberships: SparseRows) -> SparseRows:
    """Return the exposure of each group in each row: attention @ memberships.

    TREC Fair Ranking 2022's epsilon, before division by the attention of known documents.
    Documents without a row add nothing, but the others keep their ranks.
    """
    from scipy import sparse

    groups = memberships.matrix
    levels = None
    if memberships.n_levels > max(groups.nnz, _FEW_LEVELS):  # a product takes memory for each
        levels, column = np.unique(groups.indices, return_inverse=True)
        shape = (memberships.n_rows, len(levels))
        groups = sparse.csr_array((groups.data, column, groups.indptr), shape=shape)
    product = (attention @ groups).tocsc().tocsr()  # twice turned, levels are in order
    product.eliminate_zeros()
    if levels is not None:
        shape = (product.shape[0], memberships.n_levels)
        entries = (product.data, levels[product.indices], product.indptr)
        product = sparse.csr_array(entries, shape=shape)
    return SparseRows(product)


def loss_parts(
    system: SparseRows, target: Distributions, scale: float = 1.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return disparity, relevance and loss of group exposures, each of shape (n_rows,).

    EE-D = |s|^2, EE-R = <s, t>, EE-L = |s - t|^2 = EE-D - 2 EE-R + |t|^2 (Diaz et al. 2020; TREC
    Fair Ranking 2022, Task 2, whose guidelines misprint a square), with t the target times `scale`.
    The target is visited only where the system has exposure.
    """
    disparity = system.square()
    towards = target.lookup(system.row, system.level)
    relevance = scale * system.per_row(system.weight * towards)
    loss = disparity - 2 * relevance + scale**2 * target.square()
    return disparity, relevance, np.maximum(loss, 0.0)


def expeval_target(grades: Grades, model: RBP) -> FloatArray:
    """Return the target exposure of a document of each grade, as expeval has it; (n_grades,).

    It differs from `fairtk.exposure.expected.target_exposure` under `GERR` where documents that are
    not useful have several grades: every document of a better grade counts as a stop there.
    """
    plain = (1.0 - model.stop) ** grades.above * target_exposure(grades, RBP(model.p), None)
    return np.where(grades.useful, target_exposure(grades, model, None), plain)


def expeval_group_values(
    system: SparseRows,
    target: SparseRows,
    n_useful: IntArray,
    n_counted: IntArray,
    n_groups: IntArray,
    model: RBP,
) -> ExposureValues:
    """Return what expeval, the code published with Diaz et al. 2020, computes for groups.

    Departures from a sensible definition, kept for comparison: the bounds assume that every group
    gets all the attention; the lower bound of EE-D uses p u under `GERR`, so the normalized value
    can be negative; it equals the upper one under `RBP`, where the code then gives 0 or rounding
    noise (0 here); the bounds of EE-R are 0, so the normalized value is always 1. Unlike there, no
    exposure at all is a disparity of 0, not of infinity.

    `system` and `target` are sums over the groups' documents, every membership counted fully, of
    useful documents only if the labels are incomplete. Numbers are of each query's documents: the
    useful ones, those that count, and their groups; shape (n_rows,). p is below 1.
    """
    disparity, relevance, loss = loss_parts(system, target)
    zero = np.zeros(system.n_rows)

    def attention(p: float) -> FloatArray:
        return np.asarray((1.0 - float(p) ** n_useful) / (1.0 - p))

    most = attention(model.p)
    several = n_groups > 1
    highest = np.where(several, n_groups * most**2, 0.0)
    lowest = highest
    if isinstance(model, GERR):
        lowest = np.where(several, n_groups * attention(model.p * model.u) ** 2, 0.0)
    norm = target.square()
    excess = norm - 2 * most * target.total() + n_groups * most**2  # sum of (most - target)^2
    # no group gets more than all the attention that the counted documents can get
    whole = n_groups * ((1.0 - float(model.p) ** n_counted) / (1.0 - model.p)) ** 2
    return ExposureValues(
        Bounded.of_code(disparity, lowest, highest, whole, LOWER_IS_BETTER, 0.0),
        Bounded.of_code(relevance, zero, zero, zero, HIGHER_IS_BETTER, 1.0),
        Bounded.of_code(loss, zero, np.maximum(norm, excess), whole + norm, LOWER_IS_BETTER, 0.0),
    )


def jensen_shannon_bounds(
    shown: SparseRows,
    free: FloatArray,
    target: Distributions,
    known: BoolArray,
    base: float | str = "e",
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest divergence over all ways to label what is unknown.

    A completion gives each piece of free attention to known levels, in any mixture. The target is
    taken over the known levels alone (divided by its known part), since nothing is unknown after a
    completion. The divergence is convex in what is given, so the largest value is reached by giving
    all to one level; the smallest by raising the lowest ratios of exposure to target to one height,
    like water. That can split a document between levels: with whole documents only, the smallest
    value may be a little larger, the largest is exact. Both have shape (n_rows,), and are NaN where
    nothing is shown or the target has no known part.
    """
    places = np.flatnonzero(known)
    share = target.expanded().dense()[:, places]
    fixed = shown.dense()[:, places]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(share / share.sum(axis=1, keepdims=True))
    lowest = js_divergence(_filled(fixed, free, share), share, base)
    highest = np.full(len(free), -np.inf)
    for level in np.eye(len(places)):
        completion = fixed + free[:, None] * level
        highest = np.maximum(highest, js_divergence(completion, share, base))
    return lowest, np.where(np.isfinite(highest), highest, np.nan)


def _filled(fixed: FloatArray, free: FloatArray, share: FloatArray) -> FloatArray:
    """Return the completion whose ratios to the target are as even as they can be."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(share > 0, fixed / share, np.inf)
        order = np.argsort(ratio, axis=1, kind="stable")
        below = np.cumsum(np.take_along_axis(share, order, axis=1), axis=1)
        held = np.cumsum(np.take_along_axis(fixed, order, axis=1), axis=1)
        # the height if the first j levels are filled; the true set of levels gives the lowest
        used = np.isfinite(np.take_along_axis(ratio, order, axis=1))
        height = np.where(used, (held + free[:, None]) / below, np.inf).min(axis=1)
    height = np.where(np.isfinite(height), height, 0.0)
    return np.maximum(fixed, height[:, None] * share)
