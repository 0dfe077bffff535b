"""Parquet files, and the format in which PyTerrier saves runs.

By default PyTerrier saves runs in TREC's format, which has no column for ``sample`` and
``qanswer``: a run that is read again would differ. PyTerrier passes open binary files to a reader
and a writer, and does so only in its linear plan without ``batch_size``; `fairtk.Experiment` keeps
results in any plan.
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


@accepts_dataframes
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


def _read(file: BinaryIO) -> pd.DataFrame:
    """Read a frame; a half-written or damaged file is a `FormatError` that names it."""
    frame, _ = read_parquet(getattr(file, "name", "the saved results"), file)
    for name in frame.columns:
        if is_object_dtype(frame[name].dtype):  # Parquet gives lists back as arrays
            frame[name] = [v.tolist() if isinstance(v, np.ndarray) else v for v in frame[name]]
    return frame


save_format = (_read, write_parquet)
"""A reader and a writer for ``pt.Experiment(save_dir=..., save_format=fairtk.io.save_format)``."""
