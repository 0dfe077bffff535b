"""Reads the metadata of the articles into compact arrays, and keeps what it found as Parquet.

The file has 6.5 million records, 4 GB unpacked. What is kept of a record is some 100 bytes: page
numbers and level numbers in arrays, with distinct lists of values (there are few) numbered. The
Parquet file, of which single dimensions are read, belongs to one metadata file, known by size and
time of change, and is made anew if that changes, or if it is broken: every page has a checksum.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.datasets.trec_fair.files import derived, stamp, writable
from fairtk.datasets.trec_fair.official import DIMENSIONS, WORK
from fairtk.datasets.trec_fair.page_columns import (
    ABSENT,
    Column,
    OneReader,
    WrongValueError,
    reader_of,
)
from fairtk.errors import FormatError
from fairtk.files import JSON_ENTRY, decoded, opened, parse_json
from fairtk.files.atomic import atomic_write
from fairtk.frames.arrays import IntArray

_NOTE = b"fairtk"
_VERSION = 1


@dataclass(frozen=True)
class Pages:
    """What the metadata say of all pages."""

    ids: IntArray  # the page numbers, increasing; shape (n_pages,)
    columns: dict[str, Column]  # the dimensions that the file carries
    work: npt.NDArray[Any]  # number of the quality class of each page, `NONE` where there is none
    work_levels: tuple[str, ...]  # the quality classes


def load_pages(source: Path, dimensions: Iterable[str]) -> Pages:
    """Return the pages of a metadata file, from the cache if there is a good one.

    Dimensions that the file lacks are left out.
    """
    wanted = list(dimensions)
    mark = stamp(source)
    places = derived(source, ".parquet")
    for place in places:
        found = _read(place, mark, wanted)
        if found is not None:
            return found
    pages = read_pages(source)
    target = writable(places)
    if target is not None:
        _write(pages, target, mark)
    return pages


def _write(pages: Pages, target: Path, mark: str) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    columns = {"page_id": arrow.array(pages.ids), WORK: arrow.array(pages.work)}
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
    }
    table = arrow.table(columns).replace_schema_metadata({_NOTE: json.dumps(note)})
    with atomic_write(target) as temporary:
        parquet.write_table(table, temporary, write_page_checksum=True)


def _read(path: Path, mark: str, wanted: list[str]) -> Pages | None:
    """Return what a cache file holds, None if there is none, or none that can be used."""
    if not path.is_file():
        return None
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            note = json.loads(file.schema_arrow.metadata[_NOTE])
            if note["version"] != _VERSION or note["source"] != mark:
                return None
            return _pages(file, note, [name for name in wanted if name in note["levels"]])
    except (arrow.ArrowException, OSError, ValueError, KeyError, TypeError):
        return None


def _pages(file: Any, note: dict[str, Any], carried: list[str]) -> Pages:
    ids = _values(file, "page_id")
    named = set(file.schema_arrow.names)
    columns = {}
    for name in carried:
        start, level = _lists(file, name)
        weight = None
        if _weight(name) in named:
            weight = _lists(file, _weight(name))[1]
        if len(start) != len(ids) + 1 or (weight is not None and len(weight) != len(level)):
            raise ValueError(name)
        columns[name] = Column(tuple(note["levels"][name]), start, level, weight)
    return Pages(ids, columns, _values(file, WORK), tuple(note["work"]))


def _values(file: Any, name: str) -> npt.NDArray[Any]:
    # a column at a time, by one thread: reading costs no more memory than its result
    return np.asarray(file.read([name], use_threads=False)[name].to_numpy())


def _lists(file: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return starts and values of a column of lists, read a row group at a time."""
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
    """Read metadata, JSON lines; of a page that occurs twice, the first record counts."""
    from tqdm import tqdm

    ids = array("q")
    work = OneReader()
    readers = {name: reader_of(dimension) for name, dimension in DIMENSIONS.items()}
    pairs = [(reader, DIMENSIONS[name].key) for name, reader in readers.items()]
    pairs.append((work, WORK))
    shown = tqdm(_lines(path), desc="reading metadata", unit=" pages", disable=None)
    for number, raw in shown:
        try:
            record = json.loads(raw)
            page = record["page_id"]
            if type(page) is not int or page < 0:
                raise WrongValueError(f"'page_id' must be a whole number; found {page!r}")
            ids.append(page)
            for reader, key in pairs:
                reader.add(record.get(key, ABSENT))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise _explained(error, raw, path, number) from None
    pages, kept = np.unique(np.frombuffer(ids, dtype=np.int64), return_index=True)
    pairs.clear()
    columns = {}
    for name in DIMENSIONS:
        reader = readers.pop(name)  # what has been read goes as the columns come
        if reader.found:
            columns[name] = reader.column(kept, DIMENSIONS[name])
        del reader
    quality = np.frombuffer(work.codes, dtype=np.int16)[kept]
    return Pages(pages, columns, quality, tuple(work.levels))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with opened(path, JSON_ENTRY) as stream:
        for number, raw in enumerate(stream, start=1):
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if not raw.isspace():
                yield number, raw


def _explained(error: Exception, raw: bytes, path: Path, number: int) -> FormatError:
    """Return the error of a line that could not be read."""
    if isinstance(error, WrongValueError):
        return FormatError(str(error), path, number)
    if isinstance(error, FormatError):
        return error  # of the file itself
    record = parse_json(decoded(raw, path, number), path, number)
    if not isinstance(record, dict):
        return FormatError(f"expected an object, found {type(record).__name__}", path, number)
    if "page_id" not in record:
        return FormatError(f"'page_id' is missing; found {sorted(record)[:8]}", path, number)
    return FormatError(f"page {record['page_id']}: a value is of the wrong kind", path, number)
