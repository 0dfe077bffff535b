"""Keeps what was read from the metadata as a Parquet file, from which single dimensions are read.

The file belongs to one metadata file, known by size and time of change, and is made anew if that
changes, or if it is broken: every page of the file has a checksum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.datasets.trec_fair.files import derived, stamp, writable
from fairtk.datasets.trec_fair.metadata import Pages, read_pages
from fairtk.datasets.trec_fair.official import WORK
from fairtk.datasets.trec_fair.page_columns import Column
from fairtk.files.atomic import atomic_write

_NOTE = b"fairtk"
_VERSION = 1


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
