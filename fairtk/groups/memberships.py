"""Memberships of documents in the levels of one attribute, or of several that are crossed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import DuplicateError, InputError, ParameterError, listed, such_rows
from fairtk.exposure import total
from fairtk.frames import (
    DOCNO,
    GROUP,
    WEIGHT,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    as_numbers,
    as_strings,
    encode_ids,
    require,
)
from fairtk.groups.divergence import SparseRows, spread
from fairtk.groups.exposure import Memberships
from fairtk.groups.levels import Documents, LevelSpace
from fairtk.io import number_of, shown


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute: a sparse matrix of documents by levels, in compressed rows.

    A one-hot attribute of 6.5 million documents takes 40 megabytes beside the docnos, which
    attributes of the same documents share.
    """

    name: str  # the attribute
    levels: tuple[str, ...]  # its levels, in order
    unknown: int  # place of the unknown level among them; -1: there is none
    documents: Documents  # the documents that have a row
    start: npt.NDArray[Any]  # first entry of each row, and their number; (n_documents + 1,)
    level: npt.NDArray[Any]  # level of each entry, increasing inside a row
    weights: FloatArray | None  # weight of each entry; None: all 1
    normalized: bool  # whether each row was divided by its sum

    def entries(self, rows: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the size of each row, and level and weight of their entries; row -1 has none."""
        begin = self.start[rows].astype(np.int64)
        size = np.where(rows >= 0, self.start[rows + 1] - begin, 0)
        _, entry = spread(begin, size)
        weight = np.ones(len(entry)) if self.weights is None else self.weights[entry]
        return size, self.level[entry].astype(np.int64), weight

    def all_weights(self) -> FloatArray:
        """Return the weight of each entry; shape (n_entries,)."""
        return np.ones(len(self.level)) if self.weights is None else self.weights

    def to_frame(self) -> pd.DataFrame:
        """Return ``docno``, ``group`` and ``weight`` of each entry, page ids as integers."""
        owner = np.repeat(np.arange(len(self.documents)), np.diff(self.start))
        return pd.DataFrame(
            {
                DOCNO: self.documents.values[owner],
                GROUP: pd.Categorical.from_codes(self.level, list(self.levels)),
                WEIGHT: self.all_weights(),
            }
        )

    def level_counts(self) -> pd.DataFrame:
        """Return ``group``, ``documents`` and ``weight`` of each level, in order."""
        n = len(self.levels)
        weight = np.bincount(self.level, weights=self.all_weights(), minlength=n)
        documents = np.bincount(self.level, minlength=n)
        return pd.DataFrame({GROUP: self.levels, "documents": documents, WEIGHT: weight})

    @cached_property
    def used(self) -> BoolArray:
        """Whether each level has a document; shape (n_levels,)."""
        return np.bincount(self.level, minlength=len(self.levels)) > 0

    @cached_property
    def hash(self) -> bytes:
        """A digest of name, levels and memberships; the order of documents does not count."""
        state = hashlib.blake2b(digest_size=16)
        for text in (self.name, str(self.unknown), *self.levels):
            state.update(f"{len(text)}:{text}".encode())
        names = self.documents.values
        if self.documents.numeric:
            of_document = _mixed(names.astype(np.uint64))
        else:
            of_document = pd.util.hash_array(np.asarray(names, dtype=object), categorize=False)
        with np.errstate(over="ignore"):
            entry = self.level.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            entry = _mixed(entry ^ self.all_weights().view(np.uint64))
            owner = np.repeat(of_document, np.diff(self.start))
            # a sum per document would cost as much as hashing each entry with its document
            mixed = _mixed(entry ^ owner)
        state.update(np.sort(of_document).tobytes())
        state.update(np.sort(mixed).tobytes())
        return state.digest()


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64-bit numbers one to one (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


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


SPLITS = ("count", "equal")

_ROUNDING = 1e-12

Fail = Callable[[int, str, type[InputError]], NoReturn]
"""Raises for a row of the table; files put their path and line in front."""


def attribute_from_frame(
    frame: pd.DataFrame,
    name: str,
    *,
    unknown: str | None,
    levels: Sequence[str] | None,
    split: str,
    normalize: bool,
    fail: Fail | None = None,
) -> Attribute:
    """Return the attribute that a groups frame describes; see `fairtk.Groups.from_frame`."""
    where = f"Groups {name!r}"
    if split not in SPLITS:
        raise ParameterError(f"{where}: split must be 'count' or 'equal'; found {split!r}")
    require(frame, [DOCNO, GROUP], where)
    fail = fail or failing(where)
    row, documents = _documents(frame[DOCNO], where, fail)
    names, code = _levels(frame[GROUP], levels, unknown, where, fail)
    weight = np.ones(len(frame))
    if WEIGHT in frame.columns:
        weight = checked_weights(frame, [DOCNO, GROUP], fail)
    key = row * np.int64(len(names)) + code
    rising = bool((key[1:] > key[:-1]).all())
    if not rising:
        twice = pd.Series(key).duplicated().to_numpy()
        if twice.any():
            at = first(twice)
            fail(
                at,
                f"docno {str(frame[DOCNO].iloc[at])!r} and group {names[code[at]]!r} occur twice "
                f"({such_rows(int(twice.sum()))}); give each pair once, with a weight",
                DuplicateError,
            )
    total = np.bincount(row, weights=weight, minlength=len(documents))
    if not total.all():
        at = first((total == 0)[row])
        fail(
            at,
            f"the weights of docno {str(frame[DOCNO].iloc[at])!r} sum to 0; leave the document out "
            "or give it a group",
            InputError,
        )
    if not weight.all():
        used = weight > 0
        row, code, weight, key = row[used], code[used], weight[used], key[used]
    if split == "equal":
        weight = np.ones(len(row))
    if not rising:
        order = np.argsort(key, kind="stable")
        row, code, weight = row[order], code[order], weight[order]
    if normalize:
        total = np.bincount(row, weights=weight, minlength=len(documents))
        total[np.abs(total - 1) < _ROUNDING] = 1  # so that writing and reading changes nothing
        weight = weight / total[row]
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(documents)))])
    return Attribute(
        name,
        names,
        -1 if unknown is None or unknown not in names else names.index(unknown),
        documents,
        start.astype(np.int32 if len(row) < 2**31 else np.int64),
        code.astype(np.int16 if len(names) < 2**15 else np.int32),
        None if bool((weight == 1.0).all()) else weight,
        normalize,
    )


def failing(where: str) -> Fail:
    """Return the function that raises for a row of a frame."""

    def fail(row: int, message: str, kind: type[InputError]) -> NoReturn:
        raise kind(f"{where}: row {row}: {message}")

    return fail


def level_order(found: Sequence[str], unknown: str | None) -> tuple[str, ...]:
    """Return levels in their default order: the unknown one first, then by name."""
    rest = sorted(set(found) - {unknown})
    return (unknown, *rest) if unknown is not None and unknown in found else tuple(rest)


def checked_levels(levels: Sequence[str], where: str) -> tuple[str, ...]:
    """Return given levels as a tuple; what is no list of distinct strings is an `InputError`."""
    if isinstance(levels, str) or not all(isinstance(v, str) for v in levels):
        raise ParameterError(f"{where}: levels must be a list of strings; found {levels!r}")
    names = tuple(levels)
    twice = [v for i, v in enumerate(names) if v in names[:i]]
    if twice:
        raise DuplicateError(f"{where}: the level {twice[0]!r} is listed twice")
    return names


def _documents(column: pd.Series, where: str, fail: Fail) -> tuple[IntArray, Documents]:
    """Return the row of each document, and the documents."""
    values = column.to_numpy() if pd.api.types.is_integer_dtype(column.dtype) else None
    if values is not None and len(values) and values.dtype.kind == "i" and values[0] >= 0:
        step = np.diff(values)
        if bool((step >= 0).all()):  # as written by fairtk: no hash table is needed
            fresh = np.concatenate([[True], step > 0])
            return np.cumsum(fresh) - 1, Documents(values[fresh].astype(np.int64))
    missing = column.isna().to_numpy()
    if missing.any():
        fail(first(missing), "docno is missing", InputError)
    codes, docnos = encode_ids(column, DOCNO, where)
    documents, order = Documents.ordered(docnos)
    row = codes.astype(np.int64, copy=False)
    if order is not None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        row = place[row]
    return row, documents


def _levels(
    column: pd.Series, levels: Sequence[str] | None, unknown: str | None, where: str, fail: Fail
) -> tuple[tuple[str, ...], IntArray]:
    codes, values = pd.factorize(column)
    found = list(as_strings(values))
    codes = codes.astype(np.int64)
    if (codes < 0).any():
        if unknown is None:
            fail(first(codes < 0), "the group is missing and unknown=None", InputError)
        if unknown not in found:
            found.append(unknown)
        codes[codes < 0] = found.index(unknown)
    if not found and unknown is not None and levels is None:
        found = [unknown]  # an empty frame
    names = level_order(found, unknown) if levels is None else checked_levels(levels, where)
    if unknown is not None and unknown in found and unknown not in names:
        names = (unknown, *names)  # first, as in TREC's files
    message = f"group {{}} is none of the levels {listed(names, 40)}"
    places = level_places(codes, found, names, message, fail)
    if not names:
        raise InputError(f"{where}: there are no levels; give a row, or levels=")
    return names, places


def level_places(
    codes: IntArray, found: list[str], names: Sequence[str], message: str, fail: Fail
) -> IntArray:
    """Return the place of each row's level among the levels that there are.

    A level of `found` that is none of the `names` fails, with it in place of ``{}`` in the message.
    """
    places = {level: place for place, level in enumerate(names)}
    for code, level in enumerate(found):
        if level not in places:
            fail(first(codes == code), message.replace("{}", repr(level), 1), InputError)
    table = np.array([places[level] for level in found], dtype=np.int64)
    return table[codes] if len(codes) else codes


def checked_weights(frame: pd.DataFrame, names: list[str], fail: Fail) -> FloatArray:
    """Return the weights as floats; a text is one if it is a plain number.

    `names` are the columns that name a row, for messages.
    """
    column = frame[WEIGHT]
    if pd.api.types.is_numeric_dtype(column.dtype):
        weight = as_numbers(column)
    else:
        found = [number_of(value) for value in column.tolist()]
        weight = np.array([np.nan if value is None else value for value in found], dtype=np.float64)
    wrong = ~np.isfinite(weight) | (weight < 0)
    if wrong.any():
        at = first(wrong)
        fail(
            at,
            f"{row_name(frame, names, at)}: weight must be a finite number, 0 or above; found "
            f"{shown(column.iloc[at])} ({such_rows(int(wrong.sum()))})",
            InputError,
        )
    return weight


def row_name(frame: pd.DataFrame, names: list[str], at: int) -> str:
    """Return what names a row: ``"docno 'd1', group 'a'"``."""
    row = frame.iloc[at]
    return ", ".join(f"{name} {str(row[name])!r}" for name in names)


def first(wrong: BoolArray) -> int:
    """Return the first row that is wrong."""
    return int(np.flatnonzero(wrong)[0])
