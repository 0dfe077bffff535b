"""Memberships of documents in the levels of one attribute, or of several that are crossed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import DuplicateError, InputError, ParameterError, listed, such_rows
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
from fairtk.groups.levels import Documents, LevelSpace
from fairtk.io import number_of, shown


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute: a sparse matrix of documents by levels, in compressed rows.

    A one-hot attribute of 6.5 million documents takes 40 megabytes beside the docnos, which
    attributes of the same documents share; as a ``csr_array``, whose levels have 4 bytes or 8 and
    whose weights are all stored, it would take 104.
    """

    name: str  # the attribute
    levels: tuple[str, ...]  # its levels, in order
    unknown: int  # place of the unknown level among them; -1: there is none
    documents: Documents  # the documents that have a row
    start: npt.NDArray[Any]  # first entry of each row, and their number; (n_documents + 1,)
    level: npt.NDArray[Any]  # level of each entry, increasing inside a row
    weights: FloatArray | None  # weight of each entry; None: all 1
    normalized: bool  # whether each row was divided by its sum

    def entries(self, rows: IntArray) -> SparseRows:
        """Return the memberships of some documents; row -1 has none."""
        begin = self.start[rows].astype(np.int64)
        size = np.where(rows >= 0, self.start[rows + 1] - begin, 0)
        _, entry = spread(begin, size)
        weight = np.ones(len(entry)) if self.weights is None else self.weights[entry]
        return SparseRows.of_sizes(size, self.level[entry], weight, len(self.levels))

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


def with_unknown(
    factor: Attribute, part: SparseRows, rows: IntArray, docnos: ObjectArray
) -> SparseRows:
    """Return memberships with the unknown level for documents without a row (-1 in `rows`)."""
    absent = rows < 0
    if not absent.any():
        return part
    if factor.unknown < 0:
        raise InputError(
            f"unlabeled='unknown': docno {str(docnos[first(absent)])!r} has no row in "
            f"{factor.name!r}, which has no unknown level; use unlabeled='drop' or 'uniform'"
        )
    return _plus(part, absent, np.arange(len(factor.levels)) == factor.unknown)


def known_only(
    factor: Attribute, part: SparseRows, rows: IntArray
) -> tuple[SparseRows, FloatArray]:
    """Take the unknown level out; the second result is the share of each document that it had."""
    unknown = part.level == factor.unknown
    share = part.per_row(part.weight * unknown)
    share[rows < 0] = 1.0
    rest = np.where(unknown, 0.0, part.weight)
    return SparseRows.collect(part.row, part.level, rest, part.n_rows, part.n_levels), share


def spread_evenly(
    space: LevelSpace, factor: Attribute, part: SparseRows, share: FloatArray
) -> SparseRows:
    """Return memberships with a share of each document for all known levels alike."""
    even = np.arange(len(factor.levels)) != factor.unknown
    if not even.any():
        raise InputError(f"unlabeled='uniform': {factor.name!r} has no known level")
    _check_size(space, int((share > 0).sum() * even.sum()))
    return _plus(part, share / even.sum(), even)


def _plus(part: SparseRows, share: FloatArray | BoolArray, levels: BoolArray) -> SparseRows:
    """Return memberships with a share of each document added to some levels."""
    from scipy import sparse

    column, row = (sparse.csr_array(a.astype(np.float64)) for a in (share[:, None], levels[None]))
    return SparseRows(part.matrix + column @ row)


def crossed(space: LevelSpace, parts: Sequence[SparseRows]) -> SparseRows:
    """Return the memberships in all combinations of levels: of each document, the outer product."""
    if len(parts) == 1:
        return parts[0]
    n = parts[0].n_rows
    _check_size(space, int(np.prod([part.size.astype(np.float64) for part in parts], axis=0).sum()))
    size, level, weight = np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.ones(n)
    single = [bool((part.size == 1).all()) for part in parts]
    # attributes with one level per document first: they cost one number per document
    for at in sorted(range(len(parts)), key=lambda at: not single[at]):
        part, i, j = parts[at], slice(None), slice(None)
        if not single[at]:
            size, i, j = _pairs(size, part.size)
        level = level[i] + part.level[j] * space.strides[at]
        weight = weight[i] * part.weight[j]
    return SparseRows.of_sizes(size, level, weight, space.size)


def _pairs(left: IntArray, right: IntArray) -> tuple[IntArray, Any, Any]:
    """Return, of two runs per document, their numbers of pairs, and the two items of each pair."""
    size = left * right
    owner, place = spread(np.zeros(len(size), dtype=np.int64), size)
    begin_left, begin_right = np.cumsum(left) - left, np.cumsum(right) - right
    if bool((left <= 1).all()):
        return size, begin_left[owner], begin_right[owner] + place
    width = right[owner]
    high = place // width
    return size, begin_left[owner] + high, begin_right[owner] + place - high * width


def _check_size(space: LevelSpace, count: int) -> None:
    if count > _MOST_ENTRIES:
        raise InputError(
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


def level_order(names: Sequence[str], unknown: str | None) -> tuple[str, ...]:
    """Return levels in their default order: the unknown one first, then by name."""
    rest = sorted(set(names) - {unknown})
    return (unknown, *rest) if unknown is not None and unknown in names else tuple(rest)


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
    names = list(as_strings(values))
    codes = codes.astype(np.int64)
    if (codes < 0).any():
        if unknown is None:
            fail(first(codes < 0), "the group is missing and unknown=None", InputError)
        if unknown not in names:
            names.append(unknown)
        codes[codes < 0] = names.index(unknown)
    if not names and unknown is not None and levels is None:
        names = [unknown]  # an empty frame
    order = level_order(names, unknown) if levels is None else checked_levels(levels, where)
    if unknown is not None and unknown in names and unknown not in order:
        order = (unknown, *order)  # first, as in TREC's files
    message = f"group {{}} is none of the levels {listed(order, 40)}"
    places = level_places(codes, names, order, message, fail)
    if not order:
        raise InputError(f"{where}: there are no levels; give a row, or levels=")
    return order, places


def level_places(
    codes: IntArray, names: list[str], levels: Sequence[str], message: str, fail: Fail
) -> IntArray:
    """Return the place of each row's level among the levels that there are.

    A row has a code, a place in `names`. A name that is none of the `levels` fails, with it in
    place of ``{}`` in the message.
    """
    places = {level: place for place, level in enumerate(levels)}
    for code, name in enumerate(names):
        if name not in places:
            fail(first(codes == code), message.replace("{}", repr(name), 1), InputError)
    table = np.array([places[name] for name in names], dtype=np.int64)
    return table[codes] if len(codes) else codes


def checked_weights(frame: pd.DataFrame, names: list[str], fail: Fail) -> FloatArray:
    """Return the weights as floats; a text is one if it is a plain number.

    `names` are the columns that name a row, for messages.
    """
    column = frame[WEIGHT]
    if pd.api.types.is_numeric_dtype(column.dtype):
        weight = as_numbers(column)
    else:
        numbers = [number_of(value) for value in column.tolist()]
        weight = np.array([np.nan if n is None else n for n in numbers], dtype=np.float64)
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
