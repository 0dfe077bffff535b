"""The types of arrays, once for all rooms, and rows grouped by a code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ObjectArray = npt.NDArray[np.object_]


def rows_by_code(codes: IntArray, n_codes: int) -> tuple[IntArray, list[int]]:
    """Return the rows sorted by code, and where each code's rows start; at the end, where all end.

    Codes are from 0 to n_codes - 1; shape (n_rows,).
    """
    order = np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(n_codes + 1)).tolist()
