"""Distributions over the levels of groups, the exposure of groups, and divergences.

A document passes the attention of its rank on to its groups. The sum over a ranking is the exposure
of the groups: one row, of a query or a sampled ranking, with a column per level. AWRF and the group
forms of expected exposure compare it with a target.

A level of crossed attributes (``gender`` and ``region``) is a pair, numbered in numpy's C order:
the last attribute varies fastest. There can be millions of levels, so only weights above 0 are
stored (`SparseRows`), and a target may be computed (`FactoredRows`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain, groupby
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import sum_by_index
from fairtk.frames import GROUP, BoolArray, FloatArray, IntArray, Run
from fairtk.frames.ids import SURROGATE
from fairtk.wording import format_list

UNKNOWN = "@UNKNOWN"
"""The level of documents whose group is not known, as named in TREC Fair Ranking."""

UNIFORM, UNIFORM_WITH_UNKNOWN, POPULATION, RELEVANCE = TARGET_WORDS = (
    "uniform",
    "uniform+unknown",
    "population",
    "relevance",
)
"""Names of targets: equal shares of the named groups, or also of the unknown level; shares of all
documents; shares of relevant documents."""

OFFICIAL_TARGETS = {"trec-2022-task-1": 1, "trec-2022-task-2": 2}
"""The tasks of TREC Fair Ranking 2022 by the name of their official target."""

Level = str | tuple[str, ...]
"""A name, or a tuple with one name per crossed attribute."""


@dataclass(frozen=True)
class LevelSpace(Sequence[Level]):
    """The levels of one attribute, or of crossed attributes; a sequence of levels.

    Levels of crossed attributes are tuples, computed on access.

    Attributes:
        names: the attributes.
        levels: the levels of each attribute.
        unknown: the index of each attribute's unknown level; -1 if there is no such level.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    unknown: tuple[int, ...]

    def __post_init__(self) -> None:
        for text in chain(self.names, *self.levels):
            if SURROGATE.search(text):
                raise InputError(
                    f"unpaired surrogate in {text!r}; it was decoded wrongly, read the data again"
                )
        if "" in self.names:
            raise InputError("the name of an attribute must not be empty")
        twice = [n for i, n in enumerate(self.names) if n in self.names[:i]]
        if twice:
            raise InputError(
                f"duplicate attribute {twice[0]!r}; only attributes with different names can be "
                "crossed"
            )
        if self.size >= 1 << 62:
            raise InputError(
                f"crossing {list(self.names)} gives {float(self.size):.1e} groups, which is too "
                "many; cross fewer attributes"
            )

    @property
    def title(self) -> str:
        """The attributes' names, joined with ``*``."""
        return "*".join(self.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(len(levels) for levels in self.levels)

    @property
    def size(self) -> int:
        """Number of levels, or of combinations if attributes are crossed."""
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
        """Difference between the flat numbers of neighboring levels of each attribute."""
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(self.size))]
        if not -self.size <= number < self.size:
            raise IndexError(number)
        indices = np.unravel_index(number % self.size, self.shape)
        names = tuple(levels[i] for levels, i in zip(self.levels, indices, strict=True))
        return names if self.crossed else names[0]

    def __contains__(self, level: object) -> bool:
        try:
            self.number(level)  # type: ignore[arg-type]
        except (InputError, TypeError):
            return False
        return True

    def number(self, level: Level) -> int:
        """Return the flat number of a level; raise an `InputError` if it is unknown."""
        parts = (level,) if isinstance(level, str) else tuple(level)
        if len(parts) != len(self.names):
            raise InputError(f"expected a level of {list(self.names)}, got {level!r}")
        result = 0
        for name, levels, part in zip(self.names, self.levels, parts, strict=True):
            if part not in levels:
                raise InputError(
                    f"unknown level {part!r} of {name!r}; known: {format_list(levels, 40)}"
                )
            result = result * len(levels) + levels.index(part)
        return result

    def attribute_index(self, attribute: str) -> int:
        """Return the index of an attribute; raise an `InputError` if it is unknown."""
        if attribute not in self.names:
            raise InputError(f"unknown attribute {attribute!r}; known: {list(self.names)}")
        return self.names.index(attribute)

    def part(self, attributes: Sequence[int]) -> LevelSpace:
        """Return the space of some attributes, given by index."""
        fields = (self.names, self.levels, self.unknown)
        return LevelSpace(*(tuple(own[i] for i in attributes) for own in fields))  # type: ignore[arg-type]

    def codes(self, level: IntArray, attribute: int) -> IntArray:
        """Return the index of each level's part in one attribute; shape of `level`."""
        return (level // self.strides[attribute]) % self.shape[attribute]

    def project(self, level: IntArray, attributes: Sequence[int]) -> IntArray:
        """Return the numbers of levels in the `part` of some attributes; shape of `level`."""
        result = np.zeros(len(level), dtype=np.int64)
        for _, run in groupby(enumerate(attributes), lambda item: item[1] - item[0]):
            indices = [attribute for _, attribute in run]  # one division for neighbors
            size = math.prod(self.shape[index] for index in indices)
            result = result * size + level // self.strides[indices[-1]] % size
        return result

    def extend(self, level: IntArray, attributes: Sequence[int]) -> IntArray:
        """Return the flat numbers of a `part`'s levels, with index 0 in the other attributes."""
        part, result = self.part(attributes), np.zeros(len(level), dtype=np.int64)
        for index, attribute in enumerate(attributes):
            result += part.codes(level, index) * self.strides[attribute]
        return result

    def cases(self, level: IntArray) -> IntArray:
        """Return which attributes of each level are known: bit i for attribute i; (n,)."""
        result = np.zeros(len(level), dtype=np.int64)
        for attribute, unknown in enumerate(self.unknown):
            is_known: Any = 1 if unknown < 0 else self.codes(level, attribute) != unknown
            result |= is_known * np.int64(1 << attribute)
        return result

    def known(self, level: IntArray) -> BoolArray:
        """Return whether all attributes of each level are known; shape of `level`."""
        return np.asarray(self.cases(level) == (1 << len(self.names)) - 1)

    def known_levels(self, attribute: int) -> FloatArray:
        """Return 1 for each known level of an attribute, 0 for the unknown one."""
        known = np.arange(self.shape[attribute]) != self.unknown[attribute]
        return np.asarray(known, dtype=np.float64)

    def columns(self, level: IntArray) -> dict[str, pd.Series]:
        """Return the names of levels in ``group``, or in one column per crossed attribute."""
        columns = {}
        for index, name in enumerate(self.names):
            names = np.array(self.levels[index], dtype=object)[self.codes(level, index)]
            columns[name if self.crossed else GROUP] = pd.Series(names, dtype="str")
        return columns


@dataclass(frozen=True, eq=False)
class SparseRows:
    """The weights above 0 of each row.

    Attributes:
        matrix: a ``scipy.sparse.csr_array`` of rows by levels, with increasing levels in a row.
    """

    matrix: Any

    @classmethod
    def collect(
        cls, row: IntArray, level: IntArray, weight: FloatArray, n_rows: int, n_levels: int
    ) -> SparseRows:
        """Return the nonzero sums of weights by row and level; shape (n_entries,), in any order."""
        from scipy import sparse

        entries = (np.asarray(weight, dtype=np.float64), (row, level))
        matrix = sparse.coo_array(entries, shape=(n_rows, n_levels)).tocsr()
        matrix.eliminate_zeros()
        return SparseRows(matrix)

    @classmethod
    def of_sizes(
        cls, size: IntArray, level: IntArray, weight: FloatArray, n_levels: int
    ) -> SparseRows:
        """Return rows of sorted entries, from the number of entries in each row."""
        from scipy import sparse

        start = np.concatenate([[0], np.cumsum(size)])
        return SparseRows(sparse.csr_array((weight, level, start), shape=(len(size), n_levels)))

    @classmethod
    def of_dense(cls, rows: FloatArray) -> SparseRows:
        """Return the nonzero weights of an array; shape (n_rows, n_levels)."""
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
        """First entry of each row, then the number of entries; shape (n_rows + 1,)."""
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
        matrix = self.matrix
        entries = (weight, matrix.indices, matrix.indptr)
        return SparseRows(type(matrix)(entries, shape=matrix.shape))

    def per_row(self, values: FloatArray) -> FloatArray:
        """Return the sum of entries in each row; shape (n_rows,)."""
        return np.bincount(self.row, values, self.n_rows).astype(np.float64)

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.per_row(self.weight)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.per_row(self.weight**2)

    def lookup(self, row: IntArray, level: IntArray) -> FloatArray:
        """Return the weights of levels, 0 if not stored; shape of `row` and `level`."""
        return np.asarray(self.matrix[row, level]) if len(row) else np.zeros(0)

    def take(self, rows: IntArray) -> SparseRows:
        """Return the rows at these indices, in this order; index -1 gives an empty row."""
        present = rows >= 0
        part = self.matrix[rows[present]]
        size = np.zeros(len(rows), dtype=np.int64)
        size[present] = np.diff(part.indptr)
        return SparseRows.of_sizes(size, part.indices, part.data, self.n_levels)

    def expanded(self) -> SparseRows:
        """Return the rows; see `FactoredRows.expanded`."""
        return self

    def normalized(self) -> SparseRows:
        """Return each row divided by its sum; an empty row stays empty."""
        total = self.total()
        factor = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return self.weighted(self.weight * factor[self.row])

    def content(self) -> list[Any]:
        """Return the values for a digest."""
        return ["rows", self.row, self.level, self.weight, self.n_rows]

    def dense(self) -> FloatArray:
        """Return the rows as an array, for few levels; shape (n_rows, n_levels)."""
        return np.asarray(self.matrix.toarray())


def expand_runs(begin: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """Return the block and the position of each item, for blocks given by first item and size."""
    owner = np.repeat(np.arange(len(size), dtype=np.int64), size)
    ahead = np.cumsum(size) - size
    return owner, np.arange(len(owner), dtype=np.int64) + (begin - ahead)[owner]


def case_masses(space: LevelSpace, rows: SparseRows) -> FloatArray:
    """Return the sum of each row by case, the set of known attributes; (n_rows, n_cases)."""
    n_cases = 1 << len(space.names)
    cell = rows.row * n_cases + space.cases(rows.level)
    return sum_by_index(cell, rows.weight, rows.n_rows * n_cases).reshape(rows.n_rows, n_cases)


MOST_LEVELS = 5_000_000
"""The maximum number of weights to list."""


@dataclass(frozen=True)
class FactoredRows:
    """Rows over millions of levels: some weights are stored, the others are products.

    The attributes are split into heads and a tail. If the heads' levels are in `seen`, the weights
    are in `stored`. Otherwise a weight is the product of one share per head, the weight of the
    tail, and a scale, which may depend on the case (which heads are known).

    A uniform target, or one of independent attributes, has only heads, and `seen` is empty.

    A target from qrels and backgrounds (TREC Fair Ranking 2022) has a head per attribute with a
    background. Half of the mass of a case stays with the relevant documents. The other half follows
    the product of the backgrounds of the known heads; over the tail, it is spread like the relevant
    documents with the same heads (`stored`) or, if no document has these, like all relevant
    documents (the products).
    """

    space: LevelSpace  # all attributes
    heads: tuple[int, ...]  # the indices of the heads
    shares: tuple[FloatArray, ...]  # the shares of each head's levels
    scale: FloatArray  # per case, shape (n_rows, n_cases), bit i for head i; or (n_rows, 1)
    seen: SparseRows  # over the heads' levels; above 0 if the weights are stored
    stored: SparseRows  # over all levels
    tail: SparseRows  # over the levels of the other attributes

    @classmethod
    def product(cls, space: LevelSpace, shares: Sequence[FloatArray]) -> FactoredRows:
        """Return one row, the product of one distribution per attribute."""
        indices = tuple(range(len(shares)))
        none = SparseRows.of_sizes(np.zeros(1, int), np.zeros(0, int), np.zeros(0), space.size)
        one = np.ones((1, 1))
        return cls(space, indices, tuple(shares), one, none, none, SparseRows.of_dense(one))

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
        """The indices of the other attributes."""
        return tuple(i for i in range(len(self.space.names)) if i not in self.heads)

    def products(self, row: IntArray, head: IntArray) -> FloatArray:
        """Return the products of levels of the heads, without the tail."""
        space, result = self.head_space, np.ones(len(head))
        for index, share in enumerate(self.shares):
            result *= share[space.codes(head, index)]
        result *= self.scale[row, 0 if self.is_product else space.cases(head)]
        return result

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.stored.total() + self._unseen(1)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.stored.square() + self._unseen(2) * self.tail.square()

    def _unseen(self, power: int) -> FloatArray:
        """Return the sum of `products` to a power over the heads' levels that are not in `seen`."""
        everywhere = np.zeros(self.n_rows)
        for case, scale in enumerate(self.scale.T):
            norm = scale**power
            for index, share in enumerate(self.shares):
                known = self.head_space.known_levels(index)
                among = 1.0 if self.is_product else known if case >> index & 1 else 1 - known
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
        """Return all weights above 0 as stored rows; raise an `InputError` for too many."""
        size = self.tail.size
        count = math.prod(np.count_nonzero(share) for share in self.shares) * int(size.sum())
        if count > MOST_LEVELS:
            raise InputError(
                f"the target over {list(self.space.names)} has about {count} weights above 0, too "
                "many to list; use Target.for_qids or Target.marginal first"
            )
        # all levels of the heads in each row ...
        heads = np.zeros(1, dtype=np.int64)
        for share in self.shares:
            heads = (heads[:, None] * len(share) + np.flatnonzero(share)).ravel()
        row, head = np.repeat(np.arange(self.n_rows), len(heads)), np.tile(heads, self.n_rows)
        product = self.products(row, head)
        used = (product > 0) & (self.seen.lookup(row, head) == 0)
        row, head, product = row[used], head[used], product[used]
        # ... with each tail of the row
        owner, entry = expand_runs(self.tail.start[row], size[row])
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
        """Return the values for a digest."""
        if self.is_product:
            return ["product", list(self.shares), self.scale[:, 0] > 0]
        parts = [part.content() for part in (self.stored, self.seen, self.tail)]
        masses = case_masses(self.head_space, self.seen)
        return ["background", *parts, list(self.shares), masses]


Distributions = SparseRows | FactoredRows
"""Rows of non-negative weights over levels, stored or computed."""


def has_unknown(space: LevelSpace, rows: Distributions) -> BoolArray:
    """Return whether each row has weight on a level with an unknown attribute; (n_rows,)."""
    if isinstance(rows, FactoredRows) and rows.is_product:
        pairs = zip(rows.shares, space.unknown, strict=True)
        has = any(index >= 0 and share[index] > 0 for share, index in pairs)
        return np.full(rows.n_rows, has)
    # of a target with backgrounds, all unknown levels with weight are stored
    stored = rows.stored if isinstance(rows, FactoredRows) else rows
    unknown = np.asarray(~space.known(stored.level), dtype=np.float64)
    return stored.per_row(unknown) > 0


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
        raise ParameterError(f"base must be 'e' or a number above 1, got {base!r}")
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
    if isinstance(p, np.ndarray):
        p = SparseRows.of_dense(p)
    if isinstance(q, np.ndarray):
        q = SparseRows.of_dense(q)
    p_total, q_total = p.total(), q.total()
    smoothed = SparseRows(p.matrix + q.expanded().matrix) if smoothing > 0 else p
    row, level = smoothed.row, smoothed.level
    with np.errstate(invalid="ignore", divide="ignore"):
        floor = smoothing / p.n_levels
        p_share = (1 - smoothing) * p.lookup(row, level) / p_total[row] + floor
        q_share = (1 - smoothing) * q.lookup(row, level) / q_total[row] + floor
        terms = p_share * np.log(p_share / q_share)
    result = np.maximum(smoothed.per_row(terms), 0.0) / log_base(base)
    return np.where((p_total > 0) & (q_total > 0), result, np.nan)


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
        """Return KL(shown || target) of each row."""
        return kl_divergence(shown, target, self.base, self.smoothing)


class ReverseKullbackLeibler(KullbackLeibler):
    """KL(target || exposure); unless smoothed, infinite if a target's group has no exposure."""

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
    if isinstance(p, np.ndarray):
        p = SparseRows.of_dense(p)
    if isinstance(q, np.ndarray):
        q = SparseRows.of_dense(q)
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


_FEW_LEVELS = 1 << 12


def attention_matrix(
    row: IntArray, doc: IntArray, weight: FloatArray, shape: tuple[int, int]
) -> Any:
    """Return the attention of documents as a ``scipy.sparse.csr_array``.

    Entries keep their order within a row, so sums over a ranking are rounded from the top.

    Args:
        row: the query or ranking of each entry.
        doc: its document, an index into the rows of memberships.
        weight: its attention.
        shape: the numbers of rows and of documents.
    """
    from scipy import sparse

    if not (row[1:] >= row[:-1]).all():
        order = np.argsort(row, kind="stable")
        row, doc, weight = row[order], doc[order], weight[order]
    start = np.searchsorted(row, np.arange(shape[0] + 1))
    return sparse.csr_array((weight, doc, start), shape=shape)


def document_attention(rankings: Run, weight: FloatArray, *, amortize: bool = True) -> Any:
    """Return the attention of documents, one row per query or per ranking.

    Args:
        rankings: the run.
        weight: the attention on each sorted row of the run; shape (n_rows,).
        amortize: whether to average attention over the samples of a query, with one row per query;
            otherwise there is one row per ranking.

    Returns:
        A ``scipy.sparse.csr_array``; shape (n_queries or n_rankings, n_documents).
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

    Args:
        attention: see `document_attention`; shape (n_rows, n_documents).
        memberships: the groups of each document.

    Returns:
        The exposure before normalization (epsilon of TREC Fair Ranking 2022); shape (n_rows,
        n_levels). Documents without groups add nothing.
    """
    from scipy import sparse

    groups = memberships.matrix
    levels = None
    if memberships.n_levels > max(groups.nnz, _FEW_LEVELS):  # a product needs memory per level
        levels, column = np.unique(groups.indices, return_inverse=True)
        shape = (memberships.n_rows, len(levels))
        groups = sparse.csr_array((groups.data, column, groups.indptr), shape=shape)
    product = (attention @ groups).tocsc().tocsr()  # converting twice sorts the levels
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

    EE-D = |s|^2, EE-R = <s, t>, EE-L = |s - t|^2 = EE-D - 2 EE-R + |t|^2, with t the target times
    `scale` (Diaz et al. 2020; TREC Fair Ranking 2022, Task 2, whose guidelines misprint a square).
    """
    disparity = system.square()
    towards = target.lookup(system.row, system.level)
    relevance = scale * system.per_row(system.weight * towards)
    loss = disparity - 2 * relevance + scale**2 * target.square()
    return disparity, relevance, np.maximum(loss, 0.0)


def jensen_shannon_bounds(
    shown: SparseRows,
    free: FloatArray,
    target: Distributions,
    known: BoolArray,
    base: float | str = "e",
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest divergence over all ways to label unknown documents.

    The free attention goes to known levels, in any mixture, and the target is restricted to them.
    The divergence is convex, so the largest value assigns all free attention to one level, and the
    smallest raises the lowest ratios of exposure to target to a common height (water-filling). The
    latter may split a document between levels, so it is a lower bound for whole documents.

    Args:
        shown: the exposure of groups.
        free: the attention of unknown documents; shape (n_rows,).
        target: the target; one row per row of exposure.
        known: whether each level is known; shape (n_levels,).
        base: the base of the logarithm.

    Returns:
        Two arrays of shape (n_rows,); NaN without exposure, or without known levels in the target.
    """
    indices = np.flatnonzero(known)
    share = target.expanded().dense()[:, indices]
    fixed = shown.dense()[:, indices]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(share / share.sum(axis=1, keepdims=True))
    lowest = js_divergence(_filled(fixed, free, share), share, base)
    highest = np.full(len(free), -np.inf)
    for level in np.eye(len(indices)):
        completion = fixed + free[:, None] * level
        highest = np.maximum(highest, js_divergence(completion, share, base))
    return lowest, np.where(np.isfinite(highest), highest, np.nan)


def _filled(fixed: FloatArray, free: FloatArray, share: FloatArray) -> FloatArray:
    """Return the exposure with the free attention added at the lowest ratios to the target."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(share > 0, fixed / share, np.inf)
        order = np.argsort(ratio, axis=1, kind="stable")
        below = np.cumsum(np.take_along_axis(share, order, axis=1), axis=1)
        held = np.cumsum(np.take_along_axis(fixed, order, axis=1), axis=1)
        # the height if the first j levels are filled; the minimum is the true height
        used = np.isfinite(np.take_along_axis(ratio, order, axis=1))
        height = np.where(used, (held + free[:, None]) / below, np.inf).min(axis=1)
    height = np.where(np.isfinite(height), height, 0.0)
    return np.maximum(fixed, height[:, None] * share)
