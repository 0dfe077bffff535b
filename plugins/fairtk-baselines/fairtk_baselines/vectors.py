"""Vectors as the rows of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError
from fairtk.frames import FloatArray, IntArray, ObjectArray
from fairtk.frames.rankings import Rankings, describe


def unit_rows(vectors: npt.NDArray[Any]) -> FloatArray:
    """Return rows scaled to length 1, in double precision; rows of zeros stay zeros."""
    rows = np.asarray(vectors, dtype=np.float64)
    if not rows.size:
        return rows
    # the largest value first, so that no square over- or underflows
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    found: FloatArray = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return found


def row_cosines(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the dot products of corresponding rows, in [-1, 1] for rows of `unit_rows`.

    Each product is summed by itself, so it does not depend on the other rows, as it would in a
    matrix product.
    """
    found: FloatArray = np.clip((one * other).sum(axis=1), -1.0, 1.0)
    return found


def stacked(
    vectors: ObjectArray,
    dimension: int,
    rankings: Rankings,
    rows: IntArray,
    name: str,
    where: str,
) -> FloatArray:
    """Return vectors as one matrix; shape (n, dimension).

    Args:
        vectors: what a column holds; shape (n,).
        dimension: the length that they must have.
        rankings: the run whose column it is.
        rows: which of its rows each vector is of, for messages; shape (n,).
        name: the column.
        where: who asks.

    Raises:
        InputError: a vector is missing, not finite or of another length; names qid and docno.
    """
    if not len(vectors):
        return np.zeros((0, dimension))
    try:
        matrix = np.stack(list(vectors)).astype(np.float64)
    except (TypeError, ValueError):
        matrix = np.empty((0, 0))
    if matrix.shape == (len(vectors), dimension) and bool(np.isfinite(matrix).all()):
        return matrix
    for vector, row in zip(vectors, rows, strict=True):
        problem = _problem(vector, dimension)
        if problem:
            raise InputError(
                f"{where}: {name} must be a vector of {dimension} finite numbers; found {problem} "
                f"({describe(rankings, int(row))}); encode all rows with the same bi-encoder"
            )
    raise InputError(f"{where}: {name} must be vectors of {dimension} finite numbers")


def _problem(vector: Any, dimension: int) -> str | None:
    try:
        array = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        return f"a {type(vector).__name__}"
    if array.ndim != 1:
        return repr(vector)[:40] if array.ndim == 0 else f"an array of shape {array.shape}"
    if len(array) != dimension:
        return f"{len(array)} numbers"
    return None if np.isfinite(array).all() else "NaN or infinity"
