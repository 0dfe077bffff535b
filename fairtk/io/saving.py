"""Saved results of ``pt.Experiment`` that keep every column: ``save_format=fairtk.io.save_format``.

PyTerrier saves TREC runs by default, which have no place for ``sample`` and ``qanswer``: a run that
is reused would be another one. It passes open binary files to a reader and a writer, and does so in
its linear plan without ``batch_size`` only; `fairtk.Experiment` keeps results whatever the plan.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import pandas as pd
from pandas.api.types import is_object_dtype

from fairtk.files.tables import read_parquet, write_parquet


def _read(file: BinaryIO) -> pd.DataFrame:
    """Read a frame; a half-written or damaged file is a `FormatError` that names it."""
    frame, _ = read_parquet(getattr(file, "name", "the saved results"), file)
    for name in frame.columns:
        if is_object_dtype(frame[name].dtype):  # Parquet gives lists back as arrays
            frame[name] = [v.tolist() if isinstance(v, np.ndarray) else v for v in frame[name]]
    return frame


save_format = (_read, write_parquet)
"""A reader and a writer for ``pt.Experiment(save_dir=..., save_format=fairtk.io.save_format)``."""
