"""Checks of arrays of values, and the threshold for rounding errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.errors import InputError, MeasureError
from fairtk.frames import FloatArray
from fairtk.wording import short

ZERO = 1e-12
"""Numbers below this share of the largest one are rounding errors and count as 0."""


def numbers(values: npt.ArrayLike, name: str, ndim: int) -> FloatArray:
    """Return values as an array of floats, with NaN for undefined values.

    Raises:
        InputError: a value is infinite or not a number, or the number of dimensions is wrong.
    """
    array = floats(values, name)
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    infinite = np.isinf(array)
    if infinite.any():
        index = tuple(int(i) for i in np.argwhere(infinite)[0])
        where = index[0] if ndim == 1 else index
        raise InputError(f"{name} must be finite or NaN, got {array[index]} at index {where}")
    return array


def floats(values: npt.ArrayLike, name: str) -> FloatArray:
    """Return values as an array of floats of any shape.

    Raises:
        InputError: a value is not a number.
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}") from None


def returned_numbers(values: Any, size: int, rule: str) -> FloatArray:
    """Return what a method of a plugin returned as floats; shape (size,).

    Args:
        values: the returned object.
        size: the required number of values.
        rule: what the method must return, for the error.

    Raises:
        MeasureError: the object is not an array of this many numbers.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise MeasureError(f"{rule}, got {short(values)}")
    if array.shape != (size,):
        raise MeasureError(f"{rule}, shape ({size},), got shape {array.shape}: {short(values)}")
    return array.astype(np.float64, copy=False)


def check_drawing(confidence: float, resamples: int) -> None:
    """Check that `confidence` is in (0, 1) and `resamples` at least 1.

    Raises:
        ParameterError: a value is out of range.
    """
    checks.open_interval("confidence", confidence)
    checks.integer("resamples", resamples)
