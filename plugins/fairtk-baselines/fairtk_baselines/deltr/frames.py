"""Features and labels of a run, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError, such_rows
from fairtk.frames import DOCNO, QID, FloatArray

FEATURES = "features"
"""PyTerrier's column of feature vectors."""


def feature_matrix(frame: pd.DataFrame, where: str, expected: int | None = None) -> FloatArray:
    """Return the column ``features`` as a matrix; shape (n_rows, n_features).

    Args:
        frame: a run with ``features``: one vector per row, all of one length. Not empty.
        where: the transformer, for messages.
        expected: the number of features there must be; None: as many as the first row has.

    Raises:
        InputError: a row has no vector, one of another length, or one with NaN or infinite values.
    """
    vectors = frame[FEATURES].tolist()
    size = np.array([_length(vector) for vector in vectors], dtype=np.int64)
    wanted = int(size[0]) if expected is None else expected
    bad = np.flatnonzero((size != wanted) | (size < 1))
    if len(bad):
        row = int(bad[0])
        seen = "no vector" if size[row] < 0 else f"{size[row]}"
        why = "as in training" if expected is not None else "as in the first row"
        need = f"{wanted} features, {why}" if wanted > 0 else "a vector of at least one number"
        raise InputError(
            f"{where} expects {need}; found {seen} at {_place(frame, row)} "
            f"({such_rows(len(bad))}); make the features of all rows in one way"
        )
    try:
        matrix: FloatArray = np.array(vectors, dtype=np.float64).reshape(len(vectors), wanted)
    except (TypeError, ValueError):
        raise InputError(
            f"{where} expects feature vectors of numbers; found {vectors[0]!r} at "
            f"{_place(frame, 0)} or other contents below it"
        ) from None
    strange = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(strange):
        row = int(strange[0])
        at = int(np.flatnonzero(~np.isfinite(matrix[row]))[0])
        raise InputError(
            f"{where}: feature {at} of {_place(frame, row)} is {matrix[row, at]} "
            f"({such_rows(len(strange))}); features must be finite: fill or leave out such rows"
        )
    return matrix


def _length(vector: Any) -> int:
    """Return the length of a vector; -1 for what is none."""
    if isinstance(vector, np.ndarray):
        return len(vector) if vector.ndim == 1 else -1
    return len(vector) if isinstance(vector, list | tuple) else -1


def _place(frame: pd.DataFrame, row: int) -> str:
    found = frame.iloc[row]
    return f"qid {str(found[QID])!r}, docno {str(found[DOCNO])!r}"
