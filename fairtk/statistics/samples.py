"""What all statistics ask of their input, and draws that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.frames.arrays import FloatArray

_NUMBERS = 1 << 22
"""How many drawn numbers are in memory at a time."""


def numbers(values: npt.ArrayLike, name: str, ndim: int) -> FloatArray:
    """Return values as an array of floats; NaN is allowed and means undefined.

    Raises:
        InputError: they are no numbers, infinite, or not of so many dimensions.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}") from None
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s); found the shape {array.shape}")
    infinite = np.isinf(array)
    if infinite.any():
        place = tuple(int(i) for i in np.argwhere(infinite)[0])
        where = place[0] if ndim == 1 else place
        raise InputError(f"{name} must be finite or NaN; found {array[place]} at index {where}")
    return array


def one_of(kind: str, name: object, known: tuple[str, ...]) -> str:
    """Return a name, which must be one of those known.

    Raises:
        NotFoundError: it is not.
    """
    if name not in known:
        raise NotFoundError(kind, name, known)
    return str(name)


def check_drawing(confidence: float, resamples: int) -> None:
    """Raise unless a confidence is in (0, 1) and there is at least one resample.

    Raises:
        ParameterError: they are not.
    """
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must be above 0 and below 1; found {confidence!r}")
    if isinstance(resamples, bool) or not isinstance(resamples, int | np.integer) or resamples < 1:
        raise ParameterError(f"resamples must be an integer of at least 1; found {resamples!r}")


def batches(resamples: int, n: int) -> Iterator[int]:
    """Yield how many resamples of n values to draw at a time."""
    size = max(1, _NUMBERS // max(n, 1))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)
