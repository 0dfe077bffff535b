"""Attributes that are crossed: their documents, and the groups of given documents, on demand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairtk.divergence import SparseRows, spread
from fairtk.errors import InputError, ParameterError
from fairtk.exposure.expected import total
from fairtk.frames.arrays import FloatArray, IntArray, ObjectArray
from fairtk.groups.attribute import Attribute
from fairtk.groups.exposure import Memberships
from fairtk.groups.levels import LevelSpace
from fairtk.renamed import refuses_old_words

UNLABELED = ("drop", "unknown", "uniform", "bounds")
"""The policies for documents without a label or a row."""

_MOST_ENTRIES = 50_000_000


@dataclass(frozen=True)
class _Part:
    """The levels of some documents in one attribute: entries, sorted by document."""

    size: IntArray
    level: IntArray
    weight: FloatArray

    @property
    def single(self) -> bool:
        """Whether every document has exactly one entry."""
        return len(self.level) == len(self.size) and bool((self.size == 1).all())


class Crossed:
    """One attribute, or several that are crossed; kept as the factors."""

    def __init__(self, factors: Sequence[Attribute]) -> None:
        self.factors: tuple[Attribute, ...] = tuple(factors)
        self.space = LevelSpace(
            tuple(f.name for f in self.factors),
            tuple(f.levels for f in self.factors),
            tuple(f.unknown for f in self.factors),
        )

    @property
    def name(self) -> str:
        """The attribute; crossed ones are joined by ``*``."""
        return self.space.title

    @cached_property
    def docnos(self) -> ObjectArray:
        """The documents with a row (of all attributes, if crossed), as strings; (n_documents,)."""
        return self.factors[0].documents.docnos_at(self._common)

    @cached_property
    def _common(self) -> IntArray:
        first = self.factors[0].documents
        found = np.ones(len(first), dtype=bool)
        for factor in self.factors[1:]:
            if not factor.documents.same(first):
                found &= factor.documents.rows(first.values) >= 0
        return np.flatnonzero(found)

    def __len__(self) -> int:
        return len(self._common)

    def rows(self, docnos: Iterable[str]) -> IntArray:
        """Return the place of each docno in `docnos`, -1 for a document without a row; (n,)."""
        found = self.factors[0].documents.rows(docnos)
        if len(self.factors) == 1:
            return found
        place = np.full(len(self.factors[0].documents) + 1, -1, dtype=np.int64)
        place[self._common] = np.arange(len(self._common))
        return place[found]

    @refuses_old_words
    def memberships(self, docnos: Iterable[str], unlabeled: str = "drop") -> Memberships:
        """Return the groups of some documents, by flat level number.

        Args:
            docnos: the documents; shape (n,).
            unlabeled: what becomes of documents without a row, and of unknown levels.
                ``"drop"`` (TREC Fair Ranking): a document without a row in every attribute does
                not count; the unknown level is a level like any other.
                ``"unknown"``: a document without a row belongs to the unknown level.
                ``"uniform"``: it belongs to all known levels alike, and so does whatever belongs
                to the unknown level.
                ``"bounds"``: it may belong to any known level, and so may whatever belongs to the
                unknown level (`Memberships.free`); for one attribute only.

        Raises:
            ParameterError: `unlabeled` is none of these, or ``"bounds"`` is asked of crossed
                attributes.
            InputError: ``"unknown"`` is asked of an attribute that has no unknown level and lacks
                a document, or ``"uniform"`` would make too many cells.
        """
        if unlabeled not in UNLABELED:
            raise ParameterError(f"unlabeled must be one of {list(UNLABELED)}; found {unlabeled!r}")
        if unlabeled == "bounds" and len(self.factors) > 1:
            raise ParameterError(
                f"unlabeled='bounds' is for one attribute; {self.space.title!r} is crossed: "
                "measure its attributes one by one"
            )
        wanted = docnos if isinstance(docnos, np.ndarray) else np.array(list(docnos), dtype=object)
        rows = self._rows_by_factor(wanted)
        known = np.ones(len(wanted), dtype=bool)
        if unlabeled == "drop":
            for found in rows:
                known &= found >= 0
            rows = [np.where(known, found, -1) for found in rows]
        parts = []
        free = np.zeros(len(wanted))
        for factor, found in zip(self.factors, rows, strict=True):
            part = _Part(*factor.entries(found))
            if unlabeled == "unknown":
                part = _as_unknown(factor, part, found, wanted)
            elif unlabeled == "uniform":
                part, share = _known_only(factor, part, found)
                part = _spread_evenly(self.space, factor, part, share)
            elif unlabeled == "bounds":
                part, free = _known_only(factor, part, found)
            parts.append(part)
        crossed = _cross(self.space, parts)
        start = np.concatenate([[0], np.cumsum(crossed.size)]).astype(np.int64)
        return Memberships(start, crossed.level, crossed.weight, known, free, self.space.size)

    def _rows_by_factor(self, docnos: ObjectArray) -> list[IntArray]:
        result: list[IntArray] = []
        for factor in self.factors:
            before = zip(self.factors, result, strict=False)
            same = (rows for other, rows in before if other.documents.same(factor.documents))
            found = next(same, None)
            result.append(factor.documents.rows(docnos) if found is None else found)
        return result


def _as_unknown(factor: Attribute, part: _Part, rows: IntArray, docnos: ObjectArray) -> _Part:
    absent = rows < 0
    if not absent.any():
        return part
    if factor.unknown < 0:
        at = int(np.flatnonzero(absent)[0])
        raise InputError(
            f"unlabeled='unknown': docno {str(docnos[at])!r} has no row in {factor.name!r}, which "
            "has no unknown level; use unlabeled='drop' or 'uniform'"
        )
    one = absent.astype(np.int64)
    unknown = np.array([factor.unknown])
    return _with_extra(part, one, unknown, one.astype(np.float64), len(factor.levels))


def _known_only(factor: Attribute, part: _Part, rows: IntArray) -> tuple[_Part, FloatArray]:
    """Take the unknown level out; the second result is the share of each document that it had."""
    n = len(part.size)
    owner = np.repeat(np.arange(n), part.size)
    lost = part.level == factor.unknown
    share = total(owner[lost], part.weight[lost], n)
    share[rows < 0] = 1.0
    kept = ~lost
    size = np.bincount(owner[kept], minlength=n)
    return _Part(size, part.level[kept], part.weight[kept]), share


def _spread_evenly(space: LevelSpace, factor: Attribute, part: _Part, share: FloatArray) -> _Part:
    levels = np.array([i for i in range(len(factor.levels)) if i != factor.unknown], dtype=np.int64)
    if not len(levels):
        raise InputError(f"unlabeled='uniform': {factor.name!r} has no known level")
    count = np.where(share > 0, len(levels), 0)
    if int(count.sum()) > _MOST_ENTRIES:
        raise InputError(_too_many(space, int(count.sum())))
    return _with_extra(part, count, levels, share / len(levels), len(factor.levels))


def _with_extra(
    part: _Part, count: IntArray, levels: IntArray, weight: FloatArray, n_levels: int
) -> _Part:
    """Append the first `count` of some levels to each document's entries, all with one weight."""
    n = len(count)
    owner, place = spread(np.zeros(n, dtype=np.int64), count)
    rows = SparseRows.collect(
        np.concatenate([np.repeat(np.arange(n), part.size), owner]),
        np.concatenate([part.level, levels[place]]),
        np.concatenate([part.weight, weight[owner]]),
        n,
        n_levels,
    )
    return _Part(np.diff(rows.start), rows.cell, rows.weight)


def _cross(space: LevelSpace, parts: list[_Part]) -> _Part:
    """Return the entries of all combinations of levels, numbered as the space does."""
    if len(parts) == 1:
        return parts[0]
    n = len(parts[0].size)
    count = np.ones(n)
    for part in parts:
        count *= part.size
    if count.sum() > _MOST_ENTRIES:
        raise InputError(_too_many(space, int(count.sum())))
    scaled = [
        _Part(part.size, part.level * stride, part.weight)
        for part, stride in zip(parts, space.strides, strict=True)
    ]
    # attributes with one level per document first: they cost one number per document
    single: list[bool] = [part.single for part in scaled]
    result = _Part(np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.ones(n))
    for part, is_single in zip(scaled, single, strict=True):
        if is_single:
            result = _Part(result.size, result.level + part.level, result.weight * part.weight)
    for part, is_single in zip(scaled, single, strict=True):
        if not is_single:
            result = _outer(result, part)
    return result


def _outer(left: _Part, right: _Part) -> _Part:
    size = left.size * right.size
    begin_left = np.cumsum(left.size) - left.size
    begin_right = np.cumsum(right.size) - right.size
    owner, place = spread(np.zeros(len(size), dtype=np.int64), size)
    if bool((left.size <= 1).all()):
        i, j = begin_left[owner], begin_right[owner] + place
    else:
        width = right.size[owner]
        high = place // width
        i, j = begin_left[owner] + high, begin_right[owner] + place - high * width
    return _Part(size, left.level[i] + right.level[j], left.weight[i] * right.weight[j])


def _too_many(space: LevelSpace, count: int) -> str:
    return (
        f"the documents have {count} combinations of levels of {space.title!r}; cross fewer "
        "attributes, or use unlabeled='drop'"
    )
