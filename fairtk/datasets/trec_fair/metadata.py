"""Reads the metadata of the articles, line by line, into compact arrays.

The file has 6.5 million records, 4 GB unpacked. What is kept of a record is some 100 bytes: page
numbers and level numbers in arrays, with distinct lists of values (there are few) numbered.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
from fairtk.frames.arrays import IntArray


@dataclass(frozen=True)
class Pages:
    """What the metadata say of all pages."""

    ids: IntArray  # the page numbers, increasing; shape (n_pages,)
    columns: dict[str, Column]  # the dimensions that the file carries
    work: npt.NDArray[Any]  # number of the quality class of each page, `NONE` where there is none
    work_levels: tuple[str, ...]  # the quality classes


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
    kept = _first_records(np.frombuffer(ids, dtype=np.int64))
    pairs.clear()
    columns = {}
    for name in DIMENSIONS:
        reader = readers.pop(name)  # what has been read goes as the columns come
        if reader.found:
            columns[name] = reader.column(kept, DIMENSIONS[name])
        del reader
    quality = np.frombuffer(work.codes, dtype=np.int16)[kept]
    return Pages(np.frombuffer(ids, dtype=np.int64)[kept], columns, quality, tuple(work.levels))


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


def _first_records(ids: IntArray) -> IntArray:
    """Return the records to keep, in increasing order of page."""
    order = np.argsort(ids, kind="stable")
    rising = ids[order]
    new = np.ones(len(ids), dtype=bool)
    new[1:] = rising[1:] != rising[:-1]
    return order[new]
