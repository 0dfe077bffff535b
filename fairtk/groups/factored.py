"""Targets over millions of levels, kept as factors, and those made from relevance labels."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.errors import DuplicateError, InputError, NotFoundError, ParameterError, listed
from fairtk.exposure import TREC, make_grades, target_exposure, total
from fairtk.frames import BoolArray, FloatArray, IntArray, Qrels, as_strings
from fairtk.groups.divergence import (
    Distributions,
    SparseRows,
    attention_matrix,
    group_exposure,
    spread,
)
from fairtk.groups.memberships import LevelSpace

if TYPE_CHECKING:
    from fairtk.groups.groups import Groups

MOST_LEVELS = 5_000_000
"""So many weights may be written out at once."""

_FEW_LEVELS = 1 << 12


@dataclass(frozen=True)
class ProductRows:
    """The same product of one distribution per attribute in every row."""

    space: LevelSpace  # the attributes
    shares: tuple[FloatArray, ...]  # the weights of each attribute's levels
    present: BoolArray  # whether each row has the product, or is empty; shape (n_rows,)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.present)

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return self.space.size

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return np.where(self.present, math.prod(float(s.sum()) for s in self.shares), 0.0)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return np.where(self.present, math.prod(float((s**2).sum()) for s in self.shares), 0.0)

    def lookup(self, row: IntArray, level: IntArray) -> FloatArray:
        """Return the weights of levels; shape of `row` and `level`."""
        result = self.present[row].astype(np.float64)
        for place, share in enumerate(self.shares):
            result *= share[self.space.codes(level, place)]
        return result

    def take(self, rows: IntArray) -> ProductRows:
        """Return the rows at these indices; index -1 gives an empty row."""
        return replace(self, present=np.append(self.present, False)[rows])

    def expanded(self) -> SparseRows:
        """Return all weights above 0; too many are an `InputError`."""
        used = [np.flatnonzero(s) for s in self.shares]
        count = math.prod(len(u) for u in used) * int(self.present.sum())
        check_size(count, self.space)
        level, weight = np.zeros(1, dtype=np.int64), np.ones(1)
        for own, share, stride in zip(used, self.shares, self.space.strides, strict=True):
            level = (level[:, None] + own * stride).ravel()
            weight = (weight[:, None] * share[own]).ravel()
        n, size = int(self.present.sum()), self.present * len(level)
        return SparseRows.of_sizes(size, np.tile(level, n), np.tile(weight, n), self.n_levels)


@dataclass(frozen=True)
class BackgroundRows:
    """Distributions of relevant documents, averaged half and half with backgrounds.

    The levels fall into cases: which of the averaged attributes are known. A case keeps its mass c;
    half of it stays where the relevant documents are, half goes to c x (product of the backgrounds
    of the known attributes), spread over the attributes that are not averaged (the tail) as the
    relevant documents of the same averaged levels are, or, where there are none, as all relevant
    documents are. The first kind of level is stored, the second computed (TREC Fair Ranking 2022).
    """

    space: LevelSpace  # all attributes
    averaged: tuple[int, ...]  # the places of the averaged ones
    shares: tuple[FloatArray, ...]  # background of each averaged attribute, 1 for unknown
    stored: SparseRows  # final weights of levels whose averaged levels occur in relevant documents
    seen: SparseRows  # mass of relevant documents by averaged levels, before averaging
    tail: SparseRows  # distribution of relevant documents over the levels of the tail
    mass: FloatArray  # of each case, (n_rows, n_cases); bit i: attribute i is known

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stored.n_rows

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return self.space.size

    @cached_property
    def tail_places(self) -> tuple[int, ...]:
        """The places of the attributes that are not averaged."""
        return tuple(i for i in range(len(self.space.names)) if i not in self.averaged)

    @cached_property
    def head_space(self) -> LevelSpace:
        """The space of the averaged attributes."""
        return self.space.part(self.averaged)

    def _half(self, row: IntArray, head: IntArray) -> FloatArray:
        """Return what the backgrounds give to averaged levels, were they not seen."""
        return half_of_background(self.head_space, self.shares, self.mass, row, head)

    def total(self) -> FloatArray:
        """Return the sum of each row; shape (n_rows,)."""
        return self.stored.total() + self._unseen(1)

    def square(self) -> FloatArray:
        """Return the squared Euclidean norm of each row; shape (n_rows,)."""
        return self.stored.square() + self._unseen(2) * self.tail.square()

    def _unseen(self, power: int) -> FloatArray:
        """Return the sum over averaged levels that are not seen of what backgrounds give them."""
        everywhere = np.zeros(self.n_rows)
        for case in range(1, self.mass.shape[1]):
            places = [i for i in range(len(self.averaged)) if case >> i & 1]
            shares = [self.shares[i] * self.head_space.known_levels(i) for i in places]
            norm = math.prod(float((s**power).sum()) for s in shares)
            everywhere += (0.5 * self.mass[:, case]) ** power * norm
        seen = self._half(self.seen.row, self.seen.level) ** power
        return np.maximum(everywhere - self.seen.per_row(seen), 0.0)

    def lookup(self, row: IntArray, level: IntArray) -> FloatArray:
        """Return the weights of levels; shape of `row` and `level`."""
        result = self.stored.lookup(row, level)
        left = np.flatnonzero(result == 0)
        row, level = row[left], level[left]
        head = self.space.project(level, self.averaged)
        unseen = self.seen.lookup(row, head) == 0
        left, row, level, head = left[unseen], row[unseen], level[unseen], head[unseen]
        tail = self.tail.lookup(row, self.space.project(level, self.tail_places))
        result[left] = self._half(row, head) * tail
        return result

    def take(self, rows: IntArray) -> BackgroundRows:
        """Return the rows at these indices; index -1 gives an empty row."""
        mass = np.vstack([self.mass, np.zeros((1, self.mass.shape[1]))])[rows]
        stored, seen, tail = (part.take(rows) for part in (self.stored, self.seen, self.tail))
        return replace(self, stored=stored, seen=seen, tail=tail, mass=mass)

    def expanded(self) -> SparseRows:
        """Return all weights above 0; too many are an `InputError`."""
        heads = np.arange(self.head_space.size)
        size = self.tail.size
        check_size(len(heads) * int(size.sum()), self.space)
        # every averaged level of every row ...
        row = np.repeat(np.arange(self.n_rows), len(heads))
        head = np.tile(heads, self.n_rows)
        half = self._half(row, head)
        used = (half > 0) & (self.seen.lookup(row, head) == 0)
        row, head, half = row[used], head[used], half[used]
        # ... with every tail of its row
        owner, entry = spread(self.tail.start[row], size[row])
        level = self._join(head[owner], self.tail.level[entry])
        weight = half[owner] * self.tail.weight[entry]
        return SparseRows.collect(
            np.concatenate([self.stored.row, row[owner]]),
            np.concatenate([self.stored.level, level]),
            np.concatenate([self.stored.weight, weight]),
            self.n_rows,
            self.n_levels,
        )

    def _join(self, head: IntArray, tail: IntArray) -> IntArray:
        result = np.zeros(len(head), dtype=np.int64)
        for places, part in ((self.averaged, head), (self.tail_places, tail)):
            space = self.space.part(places)
            for i, place in enumerate(places):
                result += space.codes(part, i) * self.space.strides[place]
        return result


def half_of_background(
    head: LevelSpace,
    shares: tuple[FloatArray, ...],
    mass: FloatArray,
    row: IntArray,
    level: IntArray,
) -> FloatArray:
    """Return half of a case's mass times the backgrounds of its known attributes; 0 if none is.

    The levels are those of `head`, the averaged attributes; see `BackgroundRows` for the others.
    """
    case = head.cases(level)
    result = np.full(len(level), 0.5)
    for place, share in enumerate(shares):
        result *= share[head.codes(level, place)]
    return result * np.where(case > 0, mass[row, case], 0.0)


def written_out(rows: ProductRows | BackgroundRows) -> Distributions:
    """Return distributions over few levels with all weights written out, others as they are."""
    return rows.expanded() if rows.space.size <= _FEW_LEVELS else rows


def check_size(count: int, space: LevelSpace) -> None:
    """Raise an `InputError` if so many weights are too many to write out."""
    if count > MOST_LEVELS:
        raise InputError(
            f"the target over {list(space.names)} has about {count} weights above 0; write it "
            "out for fewer queries (Target.for_qids) or attributes (Target.marginal)"
        )


def content(rows: Distributions) -> list[Any]:
    """Return what a digest of distributions is made of."""
    if isinstance(rows, SparseRows):
        return ["rows", rows.row, rows.level, rows.weight, rows.n_rows]
    if isinstance(rows, ProductRows):
        return ["product", list(rows.shares), rows.present]
    if isinstance(rows, BackgroundRows):
        parts = [content(part) for part in (rows.stored, rows.seen, rows.tail)]
        return ["background", *parts, list(rows.shares), rows.mass]
    raise TypeError(f"unknown distributions: {type(rows).__name__}")


WORK_ORDER = ("Stub", "Start", "C", "B", "GA", "FA")
"""The quality classes of Wikipedia articles, most work needed first."""


class Relevant:
    """The relevant documents of all queries: labels of at least `rel`, or above 0."""

    def __init__(self, qrels: pd.DataFrame | Qrels, rel: float | None, where: str) -> None:
        labeled = qrels if isinstance(qrels, Qrels) else Qrels(qrels, where)
        relevant = labeled.labels > 0 if rel is None else labeled.labels >= rel
        self.qids = labeled.qids
        self.docnos = labeled.docnos
        self.query: IntArray = labeled.query[relevant]
        self.doc: IntArray = labeled.doc[relevant]

    def work_exposure(
        self, work: Mapping[str, str] | pd.Series, order: Sequence[str]
    ) -> tuple[FloatArray, int]:
        """Return each relevant document's target exposure by its class, and how many have no class.

        An ideal ranking shows relevant documents by work needed, most first, and shuffles them
        inside a class: each gets the mean discount of its class's block of ranks; 0 without a
        class.
        """
        places = {level: float(len(order) - i) for i, level in enumerate(order)}
        series = pd.Series(work)
        series = series[~series.isna()]
        unknown = [v for v in series.unique() if v not in places]
        if unknown:
            docno = series.index[series == unknown[0]][0]
            raise InputError(
                f"Target.from_work_needed: docno {str(docno)!r} has the class {unknown[0]!r}; "
                f"known: {list(order)}"
            )
        docnos = pd.Index(as_strings(series.index), dtype=object)
        if docnos.has_duplicates:
            docno = docnos[docnos.duplicated()][0]
            raise DuplicateError(f"Target.from_work_needed: docno {docno!r} has two classes")
        values = pd.Series(series.map(places).to_numpy(dtype=float), index=docnos)
        grade = values.reindex(self.docnos).to_numpy()[self.doc]
        grades = make_grades(self.query, grade, len(self.qids))
        exposure = np.append(target_exposure(grades, TREC(), None), 0.0)[grades.of_pair]
        return np.where(np.isnan(grade), 0.0, exposure), int(np.isnan(grade).sum())


def mean_memberships(
    relevant: Relevant, groups: Groups, weight: FloatArray | None, unlabeled: str
) -> tuple[SparseRows, dict[str, str]]:
    """Return the mean memberships of each query's relevant documents, and what has none and why.

    Documents count by their weight, or all alike; `unlabeled` as in `Groups.memberships`.
    """
    if unlabeled == "bounds":
        raise ParameterError("a target cannot be made with unlabeled='bounds'; use 'drop'")
    memberships = groups.memberships(relevant.docnos, unlabeled)
    weights = np.ones(len(relevant.doc)) if weight is None else weight
    n = len(relevant.qids)
    attention = attention_matrix(relevant.query, relevant.doc, weights, (n, memberships.n_rows))
    rows = group_exposure(attention, memberships).normalized()
    count = np.bincount(relevant.query, minlength=n)
    undefined = {}
    for place in np.flatnonzero(rows.total() == 0):
        many = int(count[place])
        undefined[str(relevant.qids[place])] = (
            f"none of its {many} relevant documents is in the groups" if many else
            "it has no relevant document"
        )  # fmt: skip
    return rows, undefined


def with_background(
    rows: SparseRows, space: LevelSpace, background: Mapping[str, Mapping[str, float]]
) -> Distributions:
    """Average the known part of distributions with backgrounds; see `BackgroundRows`."""
    averaged = tuple(space.index(name) for name in space.names if name in background)
    if not averaged:
        return rows
    shares = tuple(_share(space, i, background[space.names[i]]) for i in averaged)
    head = space.part(averaged)
    tail_places = tuple(i for i in range(len(space.names)) if i not in averaged)
    heads = space.project(rows.level, averaged)
    tails = space.project(rows.level, tail_places)
    n, size_of_tail = rows.n_rows, space.part(tail_places).size
    seen = SparseRows.collect(rows.row, heads, rows.weight, n, head.size)
    tail = SparseRows.collect(rows.row, tails, rows.weight, n, size_of_tail)
    case = head.cases(seen.level)
    n_cases = 1 << len(averaged)
    mass = total(seen.row * n_cases + case, seen.weight, n * n_cases).reshape(n, n_cases)
    half = half_of_background(head, shares, mass, seen.row, seen.level)
    factor = seen.weighted(np.where(case > 0, 0.5 + half / seen.weight, 1.0))
    stored = rows.weighted(rows.weight * factor.lookup(rows.row, heads))
    return written_out(BackgroundRows(space, averaged, shares, stored, seen, tail, mass))


def backgrounds_by_attribute(
    background: Mapping[str, Any] | pd.Series | None, space: LevelSpace
) -> dict[str, Mapping[str, float]]:
    """Return a `background` argument as shares by level, by attribute."""
    if background is None or len(background) == 0:
        return {}
    if not isinstance(background, Mapping | pd.Series):
        raise ParameterError(
            f"background must map levels to shares; found {type(background).__name__}"
        )
    items = dict(background)
    nested = any(isinstance(v, Mapping | pd.Series) for v in items.values())
    if not nested:
        if space.crossed:
            raise ParameterError(
                f"the attributes {list(space.names)} are crossed: background must map an "
                "attribute to its shares, e.g. {'gender': {'female': 0.5, 'male': 0.5}}"
            )
        items = {space.names[0]: items}
    result: dict[str, Mapping[str, float]] = {}
    for name, shares in items.items():
        if name not in space.names:
            raise InputError(f"background: {name!r} is none of the attributes {list(space.names)}")
        if not isinstance(shares, Mapping | pd.Series):
            raise ParameterError(f"background: {name!r} must map levels to shares")
        result[name] = dict(shares)
    return result


def _share(space: LevelSpace, attribute: int, shares: Mapping[str, float]) -> FloatArray:
    name, levels = space.names[attribute], space.levels[attribute]
    result = np.zeros(len(levels))
    lacking = [level for level in shares if level not in levels]
    if lacking:
        raise InputError(
            f"background of {name!r}: the groups lack the level {listed(lacking)}; they have "
            f"{only(levels)}"
        )
    for level, share in shares.items():
        if not np.isfinite(share) or share < 0:
            raise InputError(
                f"background of {name!r}: the share of {level!r} must be 0 or above; found {share}"
            )
        result[levels.index(level)] = share
    unknown = space.unknown[attribute]
    if unknown >= 0 and result[unknown] > 0:
        raise InputError(
            f"background of {name!r}: the unknown level {levels[unknown]!r} can have no share"
        )
    if abs(result.sum() - 1) > 1e-6:
        raise InputError(
            f"background of {name!r}: the shares must sum to 1; found {result.sum():g}"
        )
    result /= result.sum()
    if unknown >= 0:
        result[unknown] = 1.0
    return result


def only(levels: Sequence[str]) -> str:
    """Return the levels that there are, for a message about one that is not."""
    return (
        f"{listed(levels, 40)} (give levels= when the groups are made, for levels without a "
        "document)"
    )


BACKGROUNDS = ("trec-2022-world-population", "trec-2022-gender", "trec-2021-world-population")
"""The names of the packaged backgrounds."""


def background(name: str) -> pd.Series:
    """Return a packaged background as shares by level.

    Args:
        name: ``"trec-2022-world-population"`` (20 United Nations sub-regions, the four of Oceania
            merged; TREC's attributes ``sub-geo`` and ``src-geo``), ``"trec-2022-gender"``
            (female, male and NB: .495, .495, .01) or ``"trec-2021-world-population"`` (the seven
            continents of the track's first year with Wikipedia).

    Returns:
        Shares that sum to 1, indexed by level; ``.attrs["source"]`` says where they are from.

    Raises:
        NotFoundError: there is no such background.
    """
    if name not in BACKGROUNDS:
        raise NotFoundError("background", name, BACKGROUNDS)
    entry = _packaged()[name]
    counts = pd.Series(entry["weights"], dtype="float64", name=name)
    shares = counts / counts.sum()
    shares.attrs["source"] = entry["source"]
    return shares


@cache
def _packaged() -> dict[str, Any]:
    text = resources.files("fairtk.groups").joinpath("backgrounds.json").read_text("utf-8")
    return dict(json.loads(text))
