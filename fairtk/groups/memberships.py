"""Attributes, their levels, and the memberships of documents in the levels of one attribute, or of
several that are crossed.

A level of the crossed attributes ``gender`` and ``region`` is one pair of theirs; its number counts
the last attribute fastest, as numpy's C order does. Nothing is ever stored per crossed level.

Wikipedia's page ids are whole numbers. Where all docnos are, 8 bytes each are kept and looked up by
bisection; a hash table of 6.5 million strings would take a gigabyte. Other docnos are kept as
strings, with a hash table built on first use.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NoReturn, overload

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
from fairtk.frames.schema import shown
from fairtk.groups.divergence import SparseRows, spread
from fairtk.io.rows import number_of

UNKNOWN = "@UNKNOWN"
"""The level of documents whose group is not known, as TREC Fair Ranking names it."""

Level = str | tuple[str, ...]
"""A name, or one for each of the attributes that are crossed."""


@dataclass(frozen=True)
class LevelSpace:
    """The attributes and their levels, in order.

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
    def crossed(self) -> bool:
        """Whether there is more than one attribute."""
        return len(self.names) > 1

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How far apart neighboring levels of each attribute are among the crossed ones."""
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))

    def codes(self, level: IntArray, attribute: int) -> IntArray:
        """Return the number that each level has in one attribute; shape of `level`."""
        return (level // self.strides[attribute]) % self.shape[attribute]

    def part(self, attributes: Sequence[int]) -> LevelSpace:
        """Return the space of some of the attributes, given by place."""
        return LevelSpace(
            tuple(self.names[i] for i in attributes),
            tuple(self.levels[i] for i in attributes),
            tuple(self.unknown[i] for i in attributes),
        )

    def project(self, level: IntArray, attributes: Sequence[int]) -> IntArray:
        """Return the levels' numbers in the `part` of some attributes; shape of `level`."""
        result = np.zeros(len(level), dtype=np.int64)
        for _, run in groupby(enumerate(attributes), lambda item: item[1] - item[0]):
            places = [attribute for _, attribute in run]  # neighbors are divided out as one
            size = math.prod(self.shape[place] for place in places)
            result = result * size + level // self.strides[places[-1]] % size
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

    def label(self, number: int) -> Level:
        """Return the level with this number: a string, or a tuple if attributes are crossed."""
        if not 0 <= number < self.size:
            raise IndexError(number)
        names = tuple(
            levels[(number // stride) % len(levels)]
            for levels, stride in zip(self.levels, self.strides, strict=True)
        )
        return names if self.crossed else names[0]

    def columns(self, level: IntArray) -> dict[str, pd.Series]:
        """Return the names of levels as columns: ``group``, or one for each crossed attribute."""
        columns = {}
        for place, name in enumerate(self.names):
            names = np.array(self.levels[place], dtype=object)
            values: Any = names[self.codes(level, place)] if len(level) else []
            columns[name if self.crossed else GROUP] = pd.Series(values, dtype="str")
        return columns

    def number(self, level: Level) -> int:
        """Return the number of a level; one that there is not is an `InputError`."""
        parts = (level,) if isinstance(level, str) else tuple(level)
        if len(parts) != len(self.names):
            raise InputError(
                f"a level of {list(self.names)} has {len(self.names)} parts: {level!r}"
            )
        result = 0
        for name, levels, part, stride in zip(
            self.names, self.levels, parts, self.strides, strict=True
        ):
            if part not in levels:
                raise InputError(f"{name!r} has no level {part!r}; it has {listed(levels, 40)}")
            result += levels.index(part) * stride
        return result

    def index(self, attribute: str) -> int:
        """Return the place of an attribute; one that there is not is an `InputError`."""
        if attribute not in self.names:
            raise InputError(f"there is no attribute {attribute!r} among {list(self.names)}")
        return self.names.index(attribute)

    def known_levels(self, attribute: int) -> FloatArray:
        """Return 1 for each level of an attribute that is not the unknown one, else 0."""
        result = np.ones(self.shape[attribute])
        if self.unknown[attribute] >= 0:
            result[self.unknown[attribute]] = 0.0
        return result


class Levels(Sequence[Level]):
    """All levels of a space in order, each made when it is asked for."""

    def __init__(self, space: LevelSpace) -> None:
        self.space = space

    def __len__(self) -> int:
        return self.space.size

    @overload
    def __getitem__(self, place: int) -> Level: ...
    @overload
    def __getitem__(self, place: slice) -> list[Level]: ...
    def __getitem__(self, place: int | slice) -> Level | list[Level]:
        if isinstance(place, slice):
            return [self.space.label(i) for i in range(*place.indices(len(self)))]
        return self.space.label(place + len(self) if place < 0 else place)

    def __contains__(self, level: object) -> bool:
        try:
            self.space.number(level)  # type: ignore[arg-type]
        except (InputError, TypeError):
            return False
        return True

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Levels):
            return self.space.levels == other.space.levels
        return (
            isinstance(other, list | tuple)
            and len(other) == len(self)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    def __hash__(self) -> int:
        return hash(self.space.levels)

    def __repr__(self) -> str:
        return f"[{listed(self[:20], 20)}{', ...' if len(self) > 20 else ''}]"


_POWERS = 10 ** np.arange(19, dtype=np.int64)


class Documents:
    """Distinct docnos in a fixed order: integers, sorted (`numbers`), or strings in any order."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values
        self.numeric = values.dtype.kind == "i"

    @classmethod
    def ordered(cls, docnos: Any) -> tuple[Documents, IntArray | None]:
        """Return an index of distinct docnos, and for each of its rows the place among them.

        Docnos are strings or integers; None instead of places: the same ones.
        """
        values = np.asarray(docnos)
        whole = values.dtype.kind in "iu"
        ids = values.astype(np.int64) if whole else numbers(as_strings(values))
        if ids is None or not len(ids) or ids.min() < 0:
            return cls(as_strings(values)), None
        if bool((ids[1:] > ids[:-1]).all()):
            return cls(ids), None
        order = np.argsort(ids, kind="stable")
        return cls(ids[order]), order

    def __len__(self) -> int:
        return len(self.values)

    @property
    def docnos(self) -> ObjectArray:
        """The docnos as strings; shape (n_documents,). Made anew if they are numbers."""
        return as_strings(self.values)

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.values, dtype=object)

    def rows(self, docnos: Iterable[str] | npt.NDArray[Any]) -> IntArray:
        """Return the row of each docno, -1 where it is not in the index."""
        names = docnos if isinstance(docnos, np.ndarray) else np.array(list(docnos), dtype=object)
        if not self.numeric:
            return np.asarray(self._index.get_indexer(as_strings(names)), dtype=np.int64)
        if names.dtype.kind in "iu":
            return self._bisect(names.astype(np.int64))
        ids = numbers(names)
        return self._bisect(_one_by_one(names) if ids is None else ids)

    def _bisect(self, ids: IntArray) -> IntArray:
        if not len(self.values):
            return np.full(len(ids), -1, dtype=np.int64)
        order = np.argsort(ids)  # bisection of sorted numbers stays in the cache
        rising = ids[order]
        place = np.searchsorted(self.values, rising)
        place[place == len(self.values)] = 0
        result = np.empty(len(ids), dtype=np.int64)
        result[order] = np.where(self.values[place] == rising, place, -1)
        return result

    def same(self, other: Documents) -> bool:
        """Return whether both hold the same docnos in the same order."""
        return self is other or (
            self.numeric == other.numeric and bool(np.array_equal(self.values, other.values))
        )

    def shared_with(self, other: Documents) -> bool:
        """Return whether any docno is in both, looking no further than the first such one."""
        few, many = sorted((self, other), key=len)
        step = 1 << 14
        return any(
            bool((many.rows(few.docnos_at(slice(at, at + step))) >= 0).any())
            for at in range(0, len(few), step)
        )

    def docnos_at(self, rows: IntArray | slice) -> ObjectArray:
        """Return the docnos of some rows, as strings."""
        return as_strings(self.values[rows])


def numbers(docnos: Sequence[str] | npt.NDArray[Any]) -> IntArray | None:
    """Return docnos as whole numbers, or None unless each is one, written plainly.

    ``"007"``, ``"+7"`` and ``"1_000"`` are no such numbers: they would name another document.
    Elements that only look different are -1; a docno that is no number at all gives None.
    """
    try:
        ids = np.fromiter(map(int, docnos), dtype=np.int64, count=len(docnos))
    except (ValueError, TypeError, OverflowError):
        return None
    if not len(ids):
        return ids
    length = np.fromiter(map(len, docnos), dtype=np.int64, count=len(docnos))
    digits = np.maximum(np.searchsorted(_POWERS, ids, side="right"), 1)
    plain = (length == digits) & (ids >= 0)
    if not "".join(docnos).isascii():
        plain &= np.fromiter(map(str.isascii, docnos), dtype=bool, count=len(docnos))
    return np.where(plain, ids, -1)


def _one_by_one(docnos: npt.NDArray[Any]) -> IntArray:
    texts = map(str, docnos)
    plain = re.compile(r"0|[1-9][0-9]{0,17}").fullmatch
    return np.array([int(text) if plain(text) else -1 for text in texts], dtype=np.int64)


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
