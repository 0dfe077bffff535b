"""Reads the metadata of the articles, line by line, into compact arrays.

The file has 6.5 million records, 4 GB unpacked. What is kept of a record is some 100 bytes: page
numbers and level numbers in arrays, with distinct lists of values (there are few) numbered.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.datasets.trec_fair.official import DIMENSIONS, WORK, Dimension
from fairtk.divergence import FloatArray, IntArray, spread
from fairtk.errors import FormatError
from fairtk.groups import UNKNOWN
from fairtk.io.content import decoded, opened

NONE = -1
"""The number of a value that a page does not have."""


@dataclass(frozen=True)
class Column:
    """The levels of all pages in one dimension, in compressed rows.

    Attributes:
        levels: the levels, the official ones first.
        start: first entry of each page, and the number of entries; shape (n_pages + 1,).
        level: level of each entry, each at most once per page.
        weight: count of each entry, above 0.
    """

    levels: tuple[str, ...]
    start: npt.NDArray[Any]
    level: npt.NDArray[Any]
    weight: FloatArray


@dataclass(frozen=True)
class Pages:
    """What the metadata say of all pages.

    Attributes:
        ids: the page numbers, increasing; shape (n_pages,).
        columns: the dimensions that the file carries.
        work: number of the quality class of each page, `NONE` where there is none.
        work_levels: the quality classes.
    """

    ids: IntArray
    columns: dict[str, Column]
    work: npt.NDArray[Any]
    work_levels: tuple[str, ...]


def read_pages(path: Path) -> Pages:
    """Read metadata; of a page that occurs twice, the first record counts.

    Args:
        path: JSON lines, plain or gzipped.

    Raises:
        FormatError: a record has no page number, or a value of the wrong kind; names the line.
    """
    from tqdm import tqdm

    ids = array("q")
    work = _One()
    readers = {name: _reader(dimension) for name, dimension in DIMENSIONS.items()}
    pairs = [(reader, DIMENSIONS[name].key) for name, reader in readers.items()]
    pairs.append((work, WORK))
    shown = tqdm(_lines(path), desc="reading metadata", unit=" pages", disable=None)
    for number, raw in shown:
        try:
            record = json.loads(raw)
            page = record["page_id"]
            if type(page) is not int or page < 0:
                raise _ValueError(f"'page_id' must be a whole number; found {page!r}")
            ids.append(page)
            for reader, key in pairs:
                reader.add(record.get(key, _ABSENT))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise _explained(error, raw, path, number) from None
    kept = _first_records(np.frombuffer(ids, dtype=np.int64))
    columns = {
        name: reader.column(kept, DIMENSIONS[name])
        for name, reader in readers.items()
        if reader.found
    }
    quality = np.frombuffer(work.codes, dtype=np.int16)[kept]
    return Pages(np.frombuffer(ids, dtype=np.int64)[kept], columns, quality, tuple(work.levels))


class _ValueError(ValueError):
    """A record holds something else than it should; the text is for users."""


_ABSENT = object()


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if not raw.isspace():
                yield number, raw


def _explained(error: Exception, raw: bytes, path: Path, number: int) -> FormatError:
    """Return the error of a line that could not be read."""
    if isinstance(error, _ValueError):
        return FormatError(str(error), path, number)
    text = decoded(raw, path, number)
    try:
        record = json.loads(text)
    except json.JSONDecodeError as wrong:
        return FormatError(f"this is not JSON ({wrong.msg})", path, number)
    if not isinstance(record, dict):
        return FormatError(f"expected an object, found {type(record).__name__}", path, number)
    if "page_id" not in record:
        return FormatError(f"'page_id' is missing; found {sorted(record)[:8]}", path, number)
    return FormatError(f"page {record['page_id']}: a value is of the wrong kind", path, number)


def _first_records(ids: IntArray) -> IntArray:
    """Return the records to keep, in increasing order of page."""
    order = np.argsort(ids, kind="stable")
    rising = ids[order]
    new = np.ones(len(ids), dtype=bool)
    new[1:] = rising[1:] != rising[:-1]
    return order[new]


@dataclass
class _One:
    """Values of which a page has one or none."""

    codes: array[int] = field(default_factory=lambda: array("h"))
    levels: dict[str, int] = field(default_factory=dict)
    found: bool = False

    def add(self, value: Any) -> None:
        if value is _ABSENT or value is None:
            self.codes.append(NONE)
            self.found |= value is None
            return
        code = self.levels.get(value)
        if code is None:
            if type(value) is not str:
                raise _ValueError(f"a category must be a string; found {value!r}")
            code = self.levels[value] = len(self.levels)
            self.found = True
        self.codes.append(code)

    def column(self, kept: IntArray, dimension: Dimension) -> Column:
        names = list(self.levels)
        code = np.frombuffer(self.codes, dtype=np.int16)[kept]
        start = np.concatenate([[0], np.cumsum(code != NONE)])
        level = code[code != NONE].astype(np.int64)
        return _column(dimension, names, start, level, np.ones(len(level)))


@dataclass
class _Lists:
    """Lists of values: each distinct list has a number."""

    dimension: Dimension
    codes: array[int] = field(default_factory=lambda: array("i"))
    lists: dict[tuple[str, ...], int] = field(default_factory=dict)
    found: bool = False

    def add(self, value: Any) -> None:
        if value is _ABSENT or value is None:
            value = []
        else:
            self.found = True
        if type(value) is not list:
            raise _ValueError(f"{self.dimension.key!r} must be a list; found {value!r}")
        key = tuple(value)
        code = self.lists.get(key)
        if code is None:
            wrong = [v for v in key if type(v) is not str]
            if wrong:
                raise _ValueError(f"{self.dimension.key!r} must hold strings; found {wrong[0]!r}")
            code = self.lists[key] = len(self.lists)
        self.codes.append(code)

    def column(self, kept: IntArray, dimension: Dimension) -> Column:
        names: dict[str, int] = {}
        size: list[int] = []
        level: list[int] = []
        weight: list[float] = []
        for values in self.lists:
            counts: dict[str, float] = {}
            for value in dict.fromkeys(values):
                name = dimension.level(value)
                # regions that are merged count each; genders that are merged count once
                counts[name] = counts.get(name, 0.0) + 1 if dimension.normalized else 1.0
            counts = counts or {UNKNOWN: 1.0}
            size.append(len(counts))
            level += [names.setdefault(name, len(names)) for name in counts]
            weight += counts.values()
        sizes = np.array(size, dtype=np.int64)
        first = np.cumsum(sizes) - sizes
        code = np.frombuffer(self.codes, dtype=np.int32)[kept]
        _, entry = spread(first[code], sizes[code])
        start = np.concatenate([[0], np.cumsum(sizes[code])])
        levels = np.array(level, dtype=np.int64)[entry]
        return _column(dimension, list(names), start, levels, np.array(weight)[entry])


@dataclass
class _Counts:
    """Counts by value."""

    dimension: Dimension
    size: array[int] = field(default_factory=lambda: array("i"))
    code: array[int] = field(default_factory=lambda: array("h"))
    count: array[float] = field(default_factory=lambda: array("d"))
    levels: dict[str, int] = field(default_factory=dict)
    found: bool = False

    def add(self, value: Any) -> None:
        if value is _ABSENT or value is None:
            value = {}
        else:
            self.found = True
        if type(value) is not dict:
            raise _ValueError(f"{self.dimension.key!r} must be an object; found {value!r}")
        levels = self.levels
        for name, count in value.items():
            code = levels.get(name)
            if code is None:
                code = levels[name] = len(levels)
            if type(count) is not int and type(count) is not float or not 0 <= count < 1e15:
                raise _ValueError(
                    f"{self.dimension.key!r}: the count of {name!r} must be 0 or above; found "
                    f"{count!r}"
                )
            self.code.append(code)
            self.count.append(count)
        self.size.append(len(value))

    def column(self, kept: IntArray, dimension: Dimension) -> Column:
        sizes = np.frombuffer(self.size, dtype=np.int32).astype(np.int64)
        first = (np.cumsum(sizes) - sizes)[kept]
        owner, entry = spread(first, sizes[kept])
        merged: dict[str, int] = {UNKNOWN: 0}
        table = [merged.setdefault(dimension.level(v), len(merged)) for v in self.levels]
        n = len(merged)
        code = np.array(table, dtype=np.int64)[np.frombuffer(self.code, dtype=np.int16)[entry]]
        count = np.frombuffer(self.count, dtype=np.float64)[entry]
        used = count > 0
        key = owner[used] * n + code[used]
        count = count[used]
        known = np.zeros(len(kept), dtype=bool)
        known[key // n] = True
        # pages without sources are of unknown region
        nothing = np.flatnonzero(~known)
        key = np.concatenate([key, nothing * n])
        count = np.concatenate([count, np.ones(len(nothing))])
        order = np.argsort(key, kind="stable")
        key, count = key[order], count[order]
        new = np.flatnonzero(np.diff(key, prepend=-1))
        count = np.add.reduceat(count, new) if len(new) else count
        key = key[new]
        start = np.searchsorted(key // n, np.arange(len(kept) + 1))
        return _column(dimension, list(merged), start, key % n, count)


def _reader(dimension: Dimension) -> _One | _Lists | _Counts:
    if dimension.kind == "one":
        return _One()
    return _Lists(dimension) if dimension.kind == "list" else _Counts(dimension)


def _column(
    dimension: Dimension, names: list[str], start: Any, level: IntArray, weight: FloatArray
) -> Column:
    """Return a column whose levels are in the official order, further ones behind it by name."""
    further = sorted(set(names) - set(dimension.levels))
    levels = (*dimension.levels, *further)
    places = np.array([levels.index(name) for name in names], dtype=np.int16)
    code = places[level] if len(level) else level.astype(np.int16)
    return Column(levels, start.astype(np.int64), code, weight)
