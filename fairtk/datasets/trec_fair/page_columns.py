"""From the values of one dimension, page by page, to a column of levels.

A reader is given each record's value and keeps it as numbers in arrays; when all are read, it makes
the column of the pages that are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.datasets.trec_fair.official import Dimension
from fairtk.divergence import spread
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.groups import UNKNOWN

NONE = -1
"""The number of a value that a page does not have."""

ABSENT = object()
"""Stands for the value of a record that lacks the key."""

_BLOCK = 1 << 17  # pages whose counts are written out at a time


@dataclass(frozen=True)
class Column:
    """The levels of all pages in one dimension, in compressed rows."""

    levels: tuple[str, ...]  # the levels, the official ones first
    start: npt.NDArray[Any]  # first entry of each page, and their number; shape (n_pages + 1,)
    level: npt.NDArray[Any]  # level of each entry, increasing for each page
    weight: FloatArray | None  # count of each entry, above 0; None: all are 1


class WrongValueError(ValueError):
    """A record holds something else than it should; the text is for users."""


@dataclass
class OneReader:
    """Values of which a page has one or none."""

    codes: array[int] = field(default_factory=lambda: array("h"))
    levels: dict[str, int] = field(default_factory=dict)
    found: bool = False

    def add(self, value: Any) -> None:
        """Take the next record's value; what is wrong with it is a `WrongValueError`."""
        if value is ABSENT or value is None:
            self.codes.append(NONE)
            self.found |= value is None
            return
        code = self.levels.get(value)
        if code is None:
            if type(value) is not str:
                raise WrongValueError(f"a category must be a string; found {value!r}")
            code = self.levels[value] = len(self.levels)
            self.found = True
        self.codes.append(code)

    def column(self, kept: IntArray, dimension: Dimension) -> Column:
        """Return the levels of the records at the places `kept`."""
        levels, place = _places(dimension, self.levels)
        code = np.frombuffer(self.codes, dtype=np.int16)[kept]
        has = code != NONE
        table = np.array([place[name] for name in self.levels], dtype=np.int16)
        level = table[code[has]] if len(table) else code[has]
        return Column(levels, _start(has), level, None)


@dataclass
class ListsReader:
    """Lists of values: each distinct list has a number."""

    dimension: Dimension
    codes: array[int] = field(default_factory=lambda: array("i"))
    lists: dict[tuple[str, ...], int] = field(default_factory=dict)
    found: bool = False

    def add(self, value: Any) -> None:
        """Take the next record's value; what is wrong with it is a `WrongValueError`."""
        if value is ABSENT or value is None:
            value = []
        else:
            self.found = True
        if type(value) is not list:
            raise WrongValueError(f"{self.dimension.key!r} must be a list; found {value!r}")
        key = tuple(value)
        code = self.lists.get(key)
        if code is None:
            wrong = [v for v in key if type(v) is not str]
            if wrong:
                raise WrongValueError(
                    f"{self.dimension.key!r} must hold strings; found {wrong[0]!r}"
                )
            code = self.lists[key] = len(self.lists)
        self.codes.append(code)

    def column(self, kept: IntArray, dimension: Dimension) -> Column:
        """Return the levels of the records at the places `kept`."""
        levels, place = _places(dimension, (dimension.level(v) for key in self.lists for v in key))
        size: list[int] = []
        level: list[int] = []
        weight: list[float] = []
        for values in self.lists:
            counts: dict[str, float] = {}
            for value in dict.fromkeys(values):
                name = dimension.level(value)
                # regions that are merged count each; genders that are merged count once
                counts[name] = counts.get(name, 0.0) + 1 if dimension.normalized else 1.0
            entries = sorted((place[name], count) for name, count in counts.items())
            entries = entries or [(place[UNKNOWN], 1.0)]
            size.append(len(entries))
            level += [code for code, _ in entries]
            weight += [count for _, count in entries]
        sizes = np.array(size, dtype=np.int32)
        first = np.cumsum(sizes, dtype=np.int64) - sizes
        code = np.frombuffer(self.codes, dtype=np.int32)[kept]
        if not len(code):
            return Column(levels, _start(code), np.zeros(0, dtype=np.int16), None)
        _, entry = spread(first[code], sizes[code].astype(np.int64))
        alike = all(count == 1 for count in weight)
        counts_of = None if alike else np.array(weight)[entry]
        return Column(levels, _start(sizes[code]), np.array(level, np.int16)[entry], counts_of)


@dataclass
class CountsReader:
    """Counts by value."""

    dimension: Dimension
    size: array[int] = field(default_factory=lambda: array("i"))
    code: array[int] = field(default_factory=lambda: array("h"))
    count: array[float] = field(default_factory=lambda: array("d"))
    levels: dict[str, int] = field(default_factory=dict)
    found: bool = False

    def add(self, value: Any) -> None:
        """Take the next record's value; what is wrong with it is a `WrongValueError`."""
        if value is ABSENT or value is None:
            value = {}
        else:
            self.found = True
        if type(value) is not dict:
            raise WrongValueError(f"{self.dimension.key!r} must be an object; found {value!r}")
        levels = self.levels
        for name, count in value.items():
            if type(count) is not int and type(count) is not float or not 0 <= count < 1e15:
                raise WrongValueError(
                    f"{self.dimension.key!r}: the count of {name!r} must be 0 or above; found "
                    f"{count!r}"
                )
            self.code.append(levels.setdefault(name, len(levels)))
            self.count.append(count)
        self.size.append(len(value))

    def column(self, kept: IntArray, dimension: Dimension) -> Column:
        """Return the levels of the records at the places `kept`."""
        levels, place = _places(dimension, map(dimension.level, self.levels))
        table = [place[dimension.level(value)] for value in self.levels]
        level_of = np.array(table, dtype=np.int64)
        codes = np.frombuffer(self.code, dtype=np.int16)
        counts = np.frombuffer(self.count, dtype=np.float64)
        sizes = np.frombuffer(self.size, dtype=np.int32)
        first = np.cumsum(sizes, dtype=np.int64) - sizes
        size: list[npt.NDArray[Any]] = [np.zeros(0, dtype=np.int32)]
        level: list[npt.NDArray[Any]] = [np.zeros(0, dtype=np.int16)]
        weight: list[FloatArray] = [np.zeros(0)]
        for at in range(0, len(kept), _BLOCK):
            pages = kept[at : at + _BLOCK]
            owner, entry = spread(first[pages], sizes[pages].astype(np.int64))
            entry_level = level_of[codes[entry]] if len(entry) else entry
            found = _merged(owner, entry_level, counts[entry], len(pages), len(levels))
            size.append(found[0])
            level.append(found[1])
            weight.append(found[2])
        return Column(
            levels, _start(np.concatenate(size)), np.concatenate(level), np.concatenate(weight)
        )


def _merged(
    page: IntArray, level: IntArray, count: FloatArray, n_pages: int, n_levels: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], FloatArray]:
    """Return entries per page, level and count, with one entry per page and level.

    Level 0 is the unknown one, to which pages without counts belong.
    """
    key = page * n_levels + level
    total = np.bincount(key, weights=count, minlength=n_pages * n_levels)
    table = total.astype(np.float64).reshape(n_pages, n_levels)
    table[table.sum(axis=1) == 0, 0] = 1
    rows, levels = np.nonzero(table)
    sizes = np.bincount(rows, minlength=n_pages).astype(np.int32)
    return sizes, levels.astype(np.int16), table[rows, levels]


def reader_of(dimension: Dimension) -> OneReader | ListsReader | CountsReader:
    """Return a reader for a dimension's kind of values."""
    if dimension.kind == "one":
        return OneReader()
    return ListsReader(dimension) if dimension.kind == "list" else CountsReader(dimension)


def _places(dimension: Dimension, found: Iterable[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the levels, official ones first and further ones by name, and their places."""
    levels = (*dimension.levels, *sorted(set(found) - set(dimension.levels)))
    return levels, {level: place for place, level in enumerate(levels)}


def _start(sizes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    start = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return start.astype(np.int32) if start[-1] < 1 << 31 else start
