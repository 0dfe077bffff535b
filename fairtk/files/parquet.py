"""Parquet files, with checksums that find a damaged page."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any, BinaryIO

import pandas as pd

from fairtk.errors import FormatError, InputError
from fairtk.files.atomic import atomic_write

_NOTE = b"fairtk"


def read_parquet(
    path: str | PathLike[str], file: BinaryIO | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a Parquet file: the frame, and the note that `write_parquet` left.

    A file that is open already is given beside its name. A damaged one, or none, is a
    `FormatError`.
    """
    from pyarrow import parquet

    try:
        # one file, opened as such: pyarrow would make columns of folders named "alpha=1"
        with parquet.ParquetFile(
            path if file is None else file, page_checksum_verification=True
        ) as opened:
            table = opened.read()
        note = json.loads((table.schema.metadata or {}).get(_NOTE, b"{}"))
        frame = table.to_pandas()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except Exception as error:  # damaged files end in many kinds of errors, some of C++
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise FormatError(f"broken Parquet file ({reason}); make it again", path=path) from None
    if not isinstance(note, dict):
        raise FormatError("the note of this file is no JSON object", path=path)
    return frame, note


def write_parquet(
    frame: pd.DataFrame, path: str | PathLike[str] | BinaryIO, note: dict[str, Any] | None = None
) -> None:
    """Write a Parquet file in one step, or into an open file; the index of a frame is not kept.

    The note comes back with the frame. Values that Parquet cannot hold are an `InputError`.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"this frame cannot be written as Parquet: {reason}") from None
    if note is not None:
        metadata = {**(table.schema.metadata or {}), _NOTE: json.dumps(note)}
        table = table.replace_schema_metadata(metadata)
    if isinstance(path, str | PathLike):
        with atomic_write(path) as temporary:
            parquet.write_table(table, temporary, write_page_checksum=True)
    else:
        parquet.write_table(table, path, write_page_checksum=True)
