"""Columns of numbers, whatever type pandas keeps them in."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from fairtk.frames.arrays import FloatArray


def as_numbers(column: pd.Series) -> FloatArray:
    """Return a column as floats; NaN for what is missing or no number, such as the text "1".

    Args:
        column: integers, floats, booleans, pandas' nullable ones, or objects that are numbers.
    """
    if getattr(column.dtype, "kind", "O") in "biuf":
        numbers: FloatArray = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers
    return np.array([_number(value) for value in column.tolist()], dtype=np.float64)


def _number(value: Any) -> float:
    if not isinstance(value, Real | np.bool_):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf")
