"""Settings of whoever takes them, checked once: whole numbers, ranges, choices."""

from __future__ import annotations

import math
import operator
from typing import Any

from fairtk.errors import ParameterError


def whole(name: str, value: Any, where: str, least: int | None = 1) -> int:
    """Return a whole-number setting as an int.

    Args:
        name: the setting, for the message.
        value: what the user gave.
        where: the transformer, for the message.
        least: the smallest value allowed; None for any.

    Raises:
        ParameterError: the value is not a whole number, or too small.
    """
    kind = "an integer" if least is None else f"an integer of at least {least}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ParameterError(f"{where}: {name} must be {kind}; found {value!r}") from None
    if least is not None and number < least:
        raise ParameterError(f"{where}: {name} must be {kind}; found {value!r}")
    return number


def depth(value: Any, where: str) -> int | None:
    """Return the setting ``cutoff``: an integer of at least 1, or None for no cutoff."""
    if value is None:
        return None
    try:
        return whole("cutoff", value, where)
    except ParameterError as error:
        raise ParameterError(f"{error}; None gives full rankings") from None


def exponent(value: Any, where: str) -> int | float:
    """Return the setting ``alpha``, finite and >= 0; equal values print alike: 2.0 becomes 2."""
    try:
        if isinstance(value, str | bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ParameterError(
            f"{where}: alpha must be a finite number of at least 0 (0 is uniform, larger is closer "
            f"to the deterministic ranking); found {value!r}"
        )
    return int(number) if number.is_integer() and number < 2**53 else number
