"""Vectors as the rows of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


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
