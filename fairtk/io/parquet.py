"""Parquet files, and a format for the runs that PyTerrier saves.

By default, ``pt.Experiment`` saves runs in TREC's format, which loses ``sample`` and ``qanswer``.
It accepts other formats only in its linear plan without ``batch_size``.
"""

from __future__ import annotations

import json
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import FormatError, InputError
from fairtk.frames import require_columns
from fairtk.frames.accepted import frame_of
from fairtk.io.atomic import atomic_write

_NOTE = b"fairtk"


def read_parquet(
    path: str | PathLike[str], file: BinaryIO | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a Parquet file.

    Args:
        path: the file, or its name for messages if `file` is given.
        file: the open file; `None` to open it.

    Returns:
        The frame, and the note of `write_parquet`.

    Raises:
        InputError: there is no such file.
        FormatError: the file is damaged or not Parquet.
    """
    import pyarrow
    from pyarrow import parquet

    if file is None:
        checks.path("path", path, "read_parquet")
    try:
        # an open file, because pyarrow makes columns of folders named "alpha=1"
        with parquet.ParquetFile(
            path if file is None else file, page_checksum_verification=True
        ) as opened:
            table = opened.read()
        note = json.loads((table.schema.metadata or {}).get(_NOTE, b"{}"))
        frame = table.to_pandas()
        for field in table.schema:
            if pyarrow.types.is_list(field.type) or pyarrow.types.is_large_list(field.type):
                values = frame[field.name]  # pyarrow returns lists as arrays
                lists = [v.tolist() if isinstance(v, np.ndarray) else v for v in values]
                frame[field.name] = pd.Series(lists, index=frame.index, dtype=object)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # damaged files raise many kinds of errors, some from C++
        reason = " ".join((str(error) or type(error).__name__).split())[:200]
        raise FormatError(f"invalid Parquet file ({reason}); write it again", path=path) from None
    if not isinstance(note, dict):
        raise FormatError("the note of this file must be a JSON object", path=path)
    return frame, note


def write_parquet(
    frame: pd.DataFrame, path: str | PathLike[str] | BinaryIO, note: dict[str, Any] | None = None
) -> None:
    """Write a Parquet file, atomically unless the file is open already.

    Args:
        frame: any frame; its index is not written.
        path: the path, or an open binary file.
        note: a JSON object, which `read_parquet` returns.

    Raises:
        InputError: Parquet cannot hold a value.
    """
    import pyarrow
    from pyarrow import parquet

    frame = frame_of(frame)
    require_columns(frame, (), "write_parquet")
    if not hasattr(path, "write"):
        checks.path("path", path, "write_parquet")
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


def _read(file: BinaryIO) -> pd.DataFrame:
    return read_parquet(getattr(file, "name", "the saved results"), file)[0]


save_format = (_read, write_parquet)
"""A reader and a writer for ``pt.Experiment(save_dir=..., save_format=fairtk.io.save_format)``."""
