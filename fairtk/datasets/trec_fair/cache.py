"""Keeps what was read from the metadata as a Parquet file, from which single dimensions are read.

The file belongs to one metadata file, known by size and time of change, and is made anew if that
changes, or if it is broken: every page of the file has a checksum. Without pyarrow nothing is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fairtk.datasets.trec_fair.files import derived, stamp, writable
from fairtk.datasets.trec_fair.metadata import Column, Pages, read_pages
from fairtk.datasets.trec_fair.official import WORK
from fairtk.io.atomic import atomic_write

_NOTE = b"fairtk"
_VERSION = 1


def load_pages(source: Path, dimensions: Iterable[str]) -> Pages:
    """Return the pages of a metadata file, from the cache if there is a good one.

    Args:
        source: the metadata file.
        dimensions: the dimensions that are needed; those that the file lacks are left out.

    Raises:
        FormatError: the metadata are malformed; names the line.
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
    if target is not None and _pyarrow() is not None:
        _write(pages, target, mark)
    return pages


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    return pyarrow


def _write(pages: Pages, target: Path, mark: str) -> None:
    arrow = _pyarrow()
    columns = {"page_id": arrow.array(pages.ids), WORK: arrow.array(pages.work)}
    for name, column in pages.columns.items():
        start = arrow.array(column.start.astype(np.int32))
        columns[name] = arrow.ListArray.from_arrays(start, arrow.array(column.level))
        if not bool((column.weight == 1).all()):
            weight = arrow.array(column.weight)
            columns[_weight(name)] = arrow.ListArray.from_arrays(start, weight)
    note = {
        "version": _VERSION,
        "source": mark,
        "levels": {name: column.levels for name, column in pages.columns.items()},
        "work": pages.work_levels,
    }
    table = arrow.table(columns).replace_schema_metadata({_NOTE: json.dumps(note)})
    with atomic_write(target) as temporary:
        arrow.parquet.write_table(table, temporary, write_page_checksum=True)


def _read(path: Path, mark: str, wanted: list[str]) -> Pages | None:
    """Return what a cache file holds, None if there is none, or none that can be used."""
    arrow = _pyarrow()
    if arrow is None or not path.is_file():
        return None
    try:
        with arrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            note = json.loads(file.schema_arrow.metadata[_NOTE])
            if note["version"] != _VERSION or note["source"] != mark:
                return None
            carried = [name for name in wanted if name in note["levels"]]
            named = {*file.schema_arrow.names}
            columns = ["page_id", WORK, *carried]
            columns += [_weight(name) for name in carried if _weight(name) in named]
            table = file.read(columns)
        return _pages(table, note, carried)
    except (arrow.ArrowException, OSError, ValueError, KeyError, TypeError):
        return None


def _pages(table: Any, note: dict[str, Any], carried: list[str]) -> Pages:
    ids = table["page_id"].to_numpy()
    found = {}
    for name in carried:
        lists = table[name].combine_chunks()
        start = lists.offsets.to_numpy().astype(np.int64)
        level = lists.values.to_numpy()
        weight = np.ones(len(level))
        if _weight(name) in table.column_names:
            weight = table[_weight(name)].combine_chunks().values.to_numpy()
        if len(start) != len(ids) + 1 or len(weight) != len(level):
            raise ValueError(name)
        found[name] = Column(tuple(note["levels"][name]), start, level, weight)
    return Pages(ids, found, table[WORK].to_numpy(), tuple(note["work"]))


def _weight(name: str) -> str:
    return f"{name} count"
