"""Vectors as the rows of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import InputError
from fairtk.frames import FloatArray, IntArray, ObjectArray, Rankings, describe

DOC_VEC = "doc_vec"
QUERY_VEC = "query_vec"  # the columns that pyterrier_dr's encoders add
FEATURES = "features"  # PyTerrier's column of learning to rank


def unit_rows(vectors: npt.NDArray[Any]) -> FloatArray:
    """Return rows scaled to length 1, in double precision; rows of zeros stay zeros."""
    rows = np.asarray(vectors, dtype=np.float64)
    if not rows.size:
        return rows
    # the largest value first, so that no square over- or underflows
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 0))


def row_cosines(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the dot products of corresponding rows, in [-1, 1] for rows of `unit_rows`.

    Each is summed by itself: in a matrix product its last bits would depend on the other rows.
    """
    return np.asarray(np.clip((one * other).sum(axis=1), -1.0, 1.0))


def stacked(
    vectors: ObjectArray,
    rankings: Rankings,
    name: str,
    where: str,
    dimension: int | None = None,
    rows: IntArray | None = None,
) -> FloatArray:
    """Return the vectors that a column holds as one matrix; shape (n, dimension).

    They are of the run's `rows`, or of all; `name` is the column and `where` who asks. Without a
    `dimension` all must have that of the first.
    """
    wanted = dimension or (max(1, np.size(vectors[0])) if len(vectors) else 1)
    if not len(vectors):
        return np.zeros((0, wanted))
    try:
        matrix = np.stack(list(vectors)).astype(np.float64)
    except (TypeError, ValueError):
        matrix = np.empty((0, 0))
    if matrix.shape == (len(vectors), wanted) and bool(np.isfinite(matrix).all()):
        return matrix
    of_rows = np.arange(len(vectors)) if rows is None else rows
    found = zip((_problem(vector, wanted) for vector in vectors), of_rows, strict=True)
    problem, row = next((pair for pair in found if pair[0]), ("something else", of_rows[0]))
    raise InputError(
        f"{where}: {name} must be a vector of {wanted} finite numbers, as in "
        f"{'the first row' if dimension is None else 'training'}; found {problem} "
        f"({describe(rankings, int(row))}); make the vectors of all rows in one way"
    )


def feature_matrix(
    frame: pd.DataFrame, run: Rankings, where: str, size: int | None = None
) -> FloatArray:
    """Return the column ``features`` of a run's rows in order; see `stacked` for the errors."""
    column = frame[FEATURES].to_numpy(dtype=object)[run.order]
    return stacked(column, run, FEATURES, where, size)


def _problem(vector: Any, dimension: int) -> str | None:
    try:
        array = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        return f"a {type(vector).__name__} that is no vector of numbers"
    if array.ndim != 1:
        return repr(vector)[:40] if array.ndim == 0 else f"an array of shape {array.shape}"
    if len(array) != dimension:
        return f"{len(array)} numbers"
    bad = np.flatnonzero(~np.isfinite(array))
    return f"{array[bad[0]]} at place {bad[0]}" if len(bad) else None
