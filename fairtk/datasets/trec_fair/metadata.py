"""The metadata of the articles: eight fairness dimensions, as compact arrays of levels.

Levels and rules are those of the track's code (fair-trec/trec2022-fair-public, PageAlignments.py
and MetricInputs.py): a page without a region, source, gender or occupation is ``@UNKNOWN``, and so
are sources of unknown region (``UNK``); the four regions of Oceania are merged; ``cisgender`` and
``transgender`` are dropped before ``female`` and ``male``, and all other identities are ``NB``.
Rows are divided by their sum, except for gender: a page with two genders counts fully for both.

The file has 6.5 million records, 4 GB uncompressed. Readers store the values as numbers in arrays,
about 100 bytes per record. The Parquet cache is rebuilt if the size or modification time of the
file changes; single dimensions can be read from it.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fairtk.datasets.fetching import cache_path, is_writable
from fairtk.datasets.trec_fair.dataset import stamp
from fairtk.errors import FormatError, NotFoundError, warn
from fairtk.frames import FloatArray, IntArray
from fairtk.groups import UNKNOWN, background
from fairtk.io import atomic_write
from fairtk.io.lines import JSON_ENTRY, decode_line, describe_json, open_bytes, parse_json

Kind = Literal["list", "counts", "one"]

_GENDER = re.compile(r"(?:cis|trans)gender\s+((?:fe)?male)")
_OCEANIA = frozenset({"Australia and New Zealand", "Melanesia", "Micronesia", "Polynesia"})

_REGIONS = (
    UNKNOWN,
    *("Antarctica", "Caribbean", "Central America", "Central Asia", "Eastern Africa"),
    *("Eastern Asia", "Eastern Europe", "Middle Africa", "Northern Africa", "Northern America"),
    *("Northern Europe", "Oceania", "South America", "South-eastern Asia", "Southern Africa"),
    *("Southern Asia", "Southern Europe", "Western Africa", "Western Asia", "Western Europe"),
)
_OCCUPATIONS = (
    UNKNOWN,
    *("activist", "agricultural worker", "artist", "athlete", "biologist", "businessperson"),
    *("chemist", "civil servant", "clergyperson", "computer scientist", "designer"),
    *("earth scientist", "educator", "engineer", "health professional", "humanities scholar"),
    *("information professional", "journalist", "jurist", "linguist", "mathematician"),
    *("media professional", "military personnel", "musician", "performing artist", "physicist"),
    *("politician", "scientist", "social scientist", "sportsperson (non-athlete)"),
    *("transportation occupation", "writer"),
)


@dataclass(frozen=True)
class Dimension:
    """One fairness dimension."""

    name: str  # the track's name
    key: str  # the key in the metadata
    kind: Kind  # the type of a value: a list, counts by level, or one level
    levels: tuple[str, ...]  # the official levels, the unknown level first
    summary: str  # a description
    background: str | None = None  # the packaged background of the official target, if any
    normalized: bool = True  # whether a page's memberships sum to 1
    open: bool = False  # whether the metadata may have additional levels without a warning

    @property
    def unknown(self) -> int:
        """The index of the unknown level; -1 if absent."""
        return 0 if self.levels[0] == UNKNOWN else -1

    def level(self, value: str) -> str:
        """Return the level of a value of the metadata."""
        if self.name == "gender":
            short = _GENDER.sub(r"\1", value)
            return short if short in self.levels else "NB"
        if self.levels is _REGIONS:
            if value in _OCEANIA:
                return "Oceania"
            return UNKNOWN if value == "UNK" else value
        return value


_WORLD = "trec-2022-world-population"
_ALL = (
    Dimension("sub-geo", "page_subcont_regions", "list", _REGIONS,
              "regions that the article is about", _WORLD),
    Dimension("src-geo", "source_subcont_regions", "counts", _REGIONS,
              "regions of the article's sources", _WORLD),
    Dimension("gender", "gender", "list", (UNKNOWN, "female", "male", "NB"),
              "gender of the person the article is about", "trec-2022-gender", normalized=False),
    Dimension("occ", "occupations", "list", _OCCUPATIONS,
              "occupations of the person the article is about", open=True),
    Dimension("alpha", "first_letter_category", "one", ("a-d", "e-k", "l-r", "s-"),
              "first letter of the title"),
    Dimension("age", "creation_date_category", "one",
              ("2001-2006", "2007-2011", "2012-2016", "2017-2022"), "when the article was created"),
    Dimension("pop", "relative_pageviews_category", "one",
              ("Low", "Medium-Low", "Medium-High", "High"), "how often the article is read"),
    Dimension("langs", "num_sitelinks_category", "one",
              ("English only", "2-4 languages", "5+ languages"), "languages that have the article"),
)  # fmt: skip

DIMENSIONS: dict[str, Dimension] = {d.name: d for d in _ALL}
"""The official dimensions by name, in the track's order."""

WORK = "qual_cat"
"""The key of the article's quality class, which determines the work needed (Task 2)."""


def dimension(name: str) -> Dimension:
    """Return a dimension; raise a `NotFoundError` if it is unknown."""
    if name not in DIMENSIONS:
        raise NotFoundError("TREC Fair Ranking dimension", name, DIMENSIONS)
    return DIMENSIONS[name]


def backgrounds(names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return the background shares by dimension; dimensions without a background are left out."""
    shares = {}
    for name in names:
        of = dimension(name).background
        if of is not None:
            shares[name] = background(of).to_dict()
    return shares


NONE = -1
"""The code of a missing value."""

_BLOCK = 1 << 17  # pages whose counts are expanded at a time


@dataclass(frozen=True)
class Column:
    """The levels of all pages in one dimension, in compressed rows."""

    levels: tuple[str, ...]  # the levels, official levels first
    start: npt.NDArray[Any]  # first entry of each page, and the end; shape (n_pages + 1,)
    level: npt.NDArray[Any]  # level of each entry, increasing within a page
    weight: FloatArray | None  # count of each entry, above 0; `None` if all are 1


@dataclass
class OneReader:
    """A reader of single values."""

    codes: array[int] = field(default_factory=lambda: array("h"))
    levels: dict[str, int] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        """Add the next record's value; raise a `FormatError` if it is invalid."""
        if value is None:
            self.codes.append(NONE)
            return
        code = self.levels.get(value)
        if code is None:
            if type(value) is not str:
                raise FormatError(f"a category must be a string, got {value!r}")
            code = self.levels[value] = len(self.levels)
        self.codes.append(code)

    def column(self, rows: IntArray, dimension: Dimension) -> Column:
        """Return the levels of the records `rows`."""
        levels, index = _level_index(dimension, self.levels)
        code = np.frombuffer(self.codes, dtype=np.int16)[rows]
        has_value = code != NONE
        table = np.array([index[name] for name in self.levels], dtype=np.int16)
        level = table[code[has_value]] if len(table) else code[has_value]
        return Column(levels, _start(has_value), level, None)


@dataclass
class ListsReader:
    """A reader of lists of values, with a code for each distinct list."""

    dimension: Dimension
    codes: array[int] = field(default_factory=lambda: array("i"))
    lists: dict[tuple[str, ...], int] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        """Add the next record's value; raise a `FormatError` if it is invalid."""
        value = [] if value is None else value
        if type(value) is not list:
            raise FormatError(f"{self.dimension.key!r} must be a list, got {value!r}")
        key = tuple(value)
        code = self.lists.get(key)
        if code is None:
            wrong = [v for v in key if type(v) is not str]
            if wrong:
                raise FormatError(f"{self.dimension.key!r} must contain strings, got {wrong[0]!r}")
            code = self.lists[key] = len(self.lists)
        self.codes.append(code)

    def column(self, rows: IntArray, dimension: Dimension) -> Column:
        """Return the levels of the records `rows`."""
        from scipy import sparse

        values = (dimension.level(value) for key in self.lists for value in key)
        levels, index = _level_index(dimension, values)
        number: list[int] = []
        level: list[int] = []
        for row, key in enumerate(self.lists):
            names = [dimension.level(value) for value in dict.fromkeys(key)] or [UNKNOWN]
            # merged regions count separately, merged genders once
            names = names if dimension.normalized else list(dict.fromkeys(names))
            number += [row] * len(names)
            level += [index[name] for name in names]
        entries = (np.ones(len(level)), (np.array(number, np.int32), np.array(level, np.int32)))
        table = sparse.coo_array(entries, shape=(len(self.lists), len(levels))).tocsr()
        return _column(levels, table[np.frombuffer(self.codes, dtype=np.int32)[rows]])


@dataclass
class CountsReader:
    """A reader of counts by level."""

    dimension: Dimension
    size: array[int] = field(default_factory=lambda: array("i"))
    code: array[int] = field(default_factory=lambda: array("h"))
    count: array[float] = field(default_factory=lambda: array("d"))
    levels: dict[str, int] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        """Add the next record's value; raise a `FormatError` if it is invalid."""
        value = {} if value is None else value
        if type(value) is not dict:
            raise FormatError(f"{self.dimension.key!r} must be an object, got {value!r}")
        levels = self.levels
        for name, count in value.items():
            if type(count) is not int and type(count) is not float or not 0 <= count < 1e15:
                raise FormatError(
                    f"{self.dimension.key!r}: the count of {name!r} must be at least 0, got "
                    f"{count!r}"
                )
            self.code.append(levels.setdefault(name, len(levels)))
            self.count.append(count)
        self.size.append(len(value))

    def column(self, rows: IntArray, dimension: Dimension) -> Column:
        """Return the levels of the records `rows`."""
        from scipy import sparse

        levels, index = _level_index(dimension, map(dimension.level, self.levels))
        n_values, sizes = len(self.levels), np.frombuffer(self.size, dtype=np.int32)
        level_of = np.array([index[dimension.level(value)] for value in self.levels], np.int32)
        to_levels = sparse.csr_array(
            (np.ones(n_values), level_of, np.arange(n_values + 1)), shape=(n_values, len(levels))
        )
        code, count = np.frombuffer(self.code, np.int16), np.frombuffer(self.count, np.float64)
        by_value = sparse.csr_array((count, code, _start(sizes)), shape=(len(sizes), n_values))
        blocks = []  # to save memory
        for first in range(0, len(rows), _BLOCK):
            table = by_value[rows[first : first + _BLOCK]] @ to_levels
            empty = np.flatnonzero(table.sum(axis=1) == 0)  # get the unknown level, the first
            entries = (np.ones(len(empty)), (empty, np.zeros(len(empty), dtype=np.int32)))
            blocks.append(table + sparse.coo_array(entries, shape=table.shape).tocsr())
        del by_value, code
        return _column(levels, sparse.vstack(blocks, format="csr"))


def _column(levels: tuple[str, ...], table: Any) -> Column:
    """Return the column of a ``csr_array`` of counts; shape (n_pages, n_levels)."""
    table.eliminate_zeros()
    table.sort_indices()
    weight = None if bool((table.data == 1).all()) else table.data
    return Column(levels, _start(np.diff(table.indptr)), table.indices.astype(np.int16), weight)


def reader_of(dimension: Dimension) -> OneReader | ListsReader | CountsReader:
    """Return a reader of a dimension's values."""
    if dimension.kind == "one":
        return OneReader()
    return ListsReader(dimension) if dimension.kind == "list" else CountsReader(dimension)


def _level_index(
    dimension: Dimension, names: Iterable[str]
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the levels, official ones first, others by name, and their indices."""
    levels = (*dimension.levels, *sorted(set(names) - set(dimension.levels)))
    return levels, {level: index for index, level in enumerate(levels)}


def _start(sizes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    start = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    return start.astype(np.int32) if start[-1] < 1 << 31 else start


def is_metadata(path: Path) -> bool:
    """Return whether a file has the track's metadata: JSON lines with pages and dimensions."""
    with open_bytes(path, JSON_ENTRY) as stream:
        first = stream.readline().removeprefix(b"\xef\xbb\xbf")
    if not first.lstrip().startswith(b"{"):
        return False
    record = parse_json(decode_line(first, path, 1), path, 1)
    keys = {WORK, *(dimension.key for dimension in DIMENSIONS.values())}
    return isinstance(record, dict) and _PAGE in record and not keys.isdisjoint(record)


_NOTE = b"fairtk"
_VERSION = 2
_PAGE = "page_id"


@dataclass(frozen=True)
class Pages:
    """The metadata of all pages."""

    ids: IntArray  # the page numbers, increasing; shape (n_pages,)
    columns: dict[str, Column]  # the dimensions in the file
    work: npt.NDArray[Any]  # code of the quality class of each page, `NONE` if absent
    work_levels: tuple[str, ...]  # the quality classes
    doubts: dict[str, str]  # warnings about the file, by key of the metadata


def load_pages(source: Path, dimensions: Iterable[str]) -> Pages:
    """Return the pages of a metadata file, from the cache if it is up to date.

    Dimensions that are missing from the file are left out. A `DataWarning` reports records without
    a requested dimension (or without quality, if none is requested), and pages with different
    records.
    """
    names = list(dimensions)
    mark = stamp(source)
    cache = cache_path(source, ".parquet")
    pages = _read(cache, mark, names)
    if pages is None:
        pages = read_pages(source)
        if is_writable(cache):
            _write(pages, cache, mark)
    for key in (_PAGE, *(DIMENSIONS[name].key for name in names), *([] if names else [WORK])):
        if key in pages.doubts:
            warn(f"{source}: {pages.doubts[key]}", stacklevel=3)
    return pages


def _write(pages: Pages, target: Path, mark: str) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    columns = {_PAGE: arrow.array(pages.ids), WORK: arrow.array(pages.work)}
    for name, column in pages.columns.items():
        start = arrow.array(column.start)
        lists = arrow.ListArray if column.start.dtype == np.int32 else arrow.LargeListArray
        columns[name] = lists.from_arrays(start, arrow.array(column.level))
        if column.weight is not None:
            columns[_weight(name)] = lists.from_arrays(start, arrow.array(column.weight))
    note = {
        "version": _VERSION,
        "source": mark,
        "levels": {name: column.levels for name, column in pages.columns.items()},
        "work": pages.work_levels,
        "doubts": pages.doubts,
    }
    table = arrow.table(columns).replace_schema_metadata({_NOTE: json.dumps(note)})
    with atomic_write(target) as temporary:
        parquet.write_table(table, temporary)


def _read(path: Path, mark: str, names: list[str]) -> Pages | None:
    """Return the pages in a cache file; `None` if it is absent or outdated."""
    if not path.is_file():
        return None
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        note = json.loads(file.schema_arrow.metadata[_NOTE])
        if note["version"] != _VERSION or note["source"] != mark:
            return None
        return _pages(file, note, [name for name in names if name in note["levels"]])


def _pages(file: Any, note: dict[str, Any], names: list[str]) -> Pages:
    ids = _values(file, _PAGE)
    column_names = set(file.schema_arrow.names)
    columns = {}
    for name in names:
        start, level = _lists(file, name)
        weight = None
        if _weight(name) in column_names:
            weight = _lists(file, _weight(name))[1]
        columns[name] = Column(tuple(note["levels"][name]), start, level, weight)
    return Pages(ids, columns, _values(file, WORK), tuple(note["work"]), note["doubts"])


def _values(file: Any, name: str) -> npt.NDArray[Any]:
    # one column at a time, with one thread, to save memory
    return np.asarray(file.read([name], use_threads=False)[name].to_numpy())


def _lists(file: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return starts and values of a column of lists."""
    size, values = [], []
    for group in range(file.num_row_groups):
        for lists in file.read_row_group(group, [name], use_threads=False)[name].chunks:
            offsets = lists.offsets.to_numpy()
            size.append(np.diff(offsets))
            values.append(lists.values.to_numpy()[offsets[0] : offsets[-1]].copy())
    start = np.concatenate([[0], np.cumsum(np.concatenate(size), dtype=np.int64)])
    narrow = start.astype(np.int32) if start[-1] < 1 << 31 else start
    return narrow, np.concatenate(values)


def _weight(name: str) -> str:
    return f"{name} count"


def read_pages(path: Path) -> Pages:
    """Read metadata in JSON lines; the first record of a duplicate page counts."""
    from tqdm import tqdm

    ids, lines, contents = array("q"), array("q"), array("q")
    work = OneReader()
    readers = {name: reader_of(dimension) for name, dimension in DIMENSIONS.items()}
    pairs = [(reader, DIMENSIONS[name].key) for name, reader in readers.items()]
    pairs.append((work, WORK))
    n_missing = {key: 0 for _, key in pairs}  # the number of records without the key
    keys = frozenset(n_missing)
    first_missing: dict[str, int] = {}  # the first such record
    progress = tqdm(_lines(path), desc="reading metadata", unit=" pages", disable=None)
    for number, raw in progress:
        try:
            record = json.loads(raw)
            page = record[_PAGE]
            if type(page) is not int or page < 0:
                raise FormatError(f"'page_id' must be an integer, got {page!r}")
            if b"\\u" in raw:
                # refuses unpaired surrogates
                parse_json(decode_line(raw, path, number), path, number)
            for reader, key in pairs:
                reader.add(record.get(key))
            if not keys <= record.keys():
                for key in keys - record.keys():
                    n_missing[key] += 1
                    first_missing.setdefault(key, len(ids))
            ids.append(page)
            lines.append(number)
            contents.append(hash(raw if raw[-1:] == b"\n" else raw + b"\n"))
        except FormatError as error:
            raise FormatError(error.reason, path, number) from None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise _wrong_record(raw, path, number) from None
    numbers = np.frombuffer(ids, dtype=np.int64)
    pages, rows = np.unique(numbers, return_index=True)
    pairs.clear()
    present = {key for key, count in n_missing.items() if count < len(ids)}
    doubts = {
        key: f"{n_missing[key]} of {len(ids)} records have no {key!r}; it counts as empty (line "
        f"{lines[at]}: page {ids[at]})"
        for key, at in sorted(first_missing.items())
        if key in present
    }
    if len(rows) < len(ids):
        first = rows[np.searchsorted(pages, numbers)]
        content = np.frombuffer(contents, dtype=np.int64)
        if len(ignored := np.flatnonzero(content != content[first])):
            at = ignored[0]
            doubts[_PAGE] = (
                f"{len(ignored)} duplicate records with other values are ignored (page {ids[at]} "
                f"in lines {lines[first[at]]} and {lines[at]})"
            )
    columns = {}
    for name in DIMENSIONS:
        reader = readers.pop(name)  # frees its memory after the conversion
        if DIMENSIONS[name].key in present:
            columns[name] = reader.column(rows, DIMENSIONS[name])
        del reader
    quality = np.frombuffer(work.codes, dtype=np.int16)[rows]
    return Pages(pages, columns, quality, tuple(work.levels), doubts)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with open_bytes(path, JSON_ENTRY) as stream:
        for number, raw in enumerate(stream, start=1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if not raw.isspace():
                yield number, raw


def _wrong_record(raw: bytes, path: Path, number: int) -> FormatError:
    """Return the error of a line that is not a record of a page."""
    record = parse_json(decode_line(raw, path, number), path, number)
    if not isinstance(record, dict) or "page_id" not in record:
        return FormatError(
            f"expected a page with 'page_id', got {describe_json(record)}", path, number
        )
    return FormatError(f"page {record['page_id']}: a value has the wrong type", path, number)
