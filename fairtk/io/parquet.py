"""Parquet files, and the format in which PyTerrier saves runs.

By default, PyTerrier saves runs in TREC's format, which loses ``sample`` and ``qanswer``. PyTerrier
passes open binary files to a reader and a writer, but only in its linear plan without
``batch_size``; `fairtk.Experiment` saves results in any plan.
"""

from __future__ import annotations

import json
from os import PathLike
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from pandas.api.types import is_object_dtype

from fairtk.errors import FormatError, InputError
from fairtk.frames.accepted import accepts_dataframes
from fairtk.io.atomic import atomic_write

_NOTE = b"fairtk"


def read_parquet(
    path: str | PathLike[str], file: BinaryIO | None = None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read a Parquet file: the frame, and the note of `write_parquet`.

    If the file is open already, pass it with its name. A damaged file, or one of another format, is
    a `FormatError`.
    """
    from pyarrow import parquet

    try:
        # an open file, because pyarrow makes columns of folders named "alpha=1"
        with parquet.ParquetFile(
            path if file is None else file, page_checksum_verification=True
        ) as opened:
            table = opened.read()
        note = json.loads((table.schema.metadata or {}).get(_NOTE, b"{}"))
        frame = table.to_pandas()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except Exception as error:  # damaged files raise many kinds of errors, some from C++
        reason = " ".join((str(error) or type(error).__name__).split())[:200]
        raise FormatError(f"invalid Parquet file ({reason}); write it again", path=path) from None
    if not isinstance(note, dict):
        raise FormatError("the note of this file must be a JSON object", path=path)
    return frame, note


@accepts_dataframes
def write_parquet(
    frame: pd.DataFrame, path: str | PathLike[str] | BinaryIO, note: dict[str, Any] | None = None
) -> None:
    """Write a Parquet file atomically, or into an open file; the index is not written.

    `read_parquet` returns the note. Values that Parquet cannot hold are an `InputError`.
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


def _read(file: BinaryIO) -> pd.DataFrame:
    """Read a frame; a damaged file is a `FormatError` with its name."""
    frame, _ = read_parquet(getattr(file, "name", "the saved results"), file)
    for name in frame.columns:
        if is_object_dtype(frame[name].dtype):  # Parquet returns lists as arrays
            frame[name] = [v.tolist() if isinstance(v, np.ndarray) else v for v in frame[name]]
    return frame


save_format = (_read, write_parquet)
"""A reader and a writer for ``pt.Experiment(save_dir=..., save_format=fairtk.io.save_format)``."""
