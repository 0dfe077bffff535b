"""The levels of one attribute or of several crossed ones, and the rows that documents have.

A level of the crossed attributes ``gender`` and ``region`` is one pair of theirs; its number counts
the last attribute fastest, as numpy's C order does. Nothing is ever stored per crossed level.

Wikipedia's page ids are whole numbers. Where all docnos are, 8 bytes each are kept and looked up by
bisection; a hash table of 6.5 million strings would take a gigabyte. Other docnos are kept as
strings, with a hash table built on first use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import InputError, listed
from fairtk.frames import GROUP, BoolArray, FloatArray, IntArray, ObjectArray, as_strings

UNKNOWN = "@UNKNOWN"
"""The level of documents whose group is not known, as TREC Fair Ranking names it."""

Level = str | tuple[str, ...]
"""A name, or one for each of the attributes that are crossed."""


def only(levels: Sequence[str]) -> str:
    """Return the levels that there are, for a message about one that is not."""
    return (
        f"{listed(levels, 40)} (give levels= when the groups are made, for levels without a "
        "document)"
    )


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
            known: Any = 1 if unknown < 0 else self.codes(level, attribute) != unknown
            result |= known * np.int64(1 << attribute)
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
    texts = list(map(str, docnos))
    ids = [int(t) if t.isascii() and t.isdecimal() and len(t) < 19 else -1 for t in texts]
    same = [str(number) == text for number, text in zip(ids, texts, strict=True)]
    return np.where(same, ids, -1).astype(np.int64)
