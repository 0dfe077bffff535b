"""Which significance the single tests of a ranking get, and checks of the settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fairtk.errors import ParameterError, suggestion
from fairtk.frames import FloatArray

ADJUST = ("nearest", "below", "none")
"""The corrections for testing every prefix."""

_ROUNDING = 1e-12


def distinct(values: FloatArray) -> FloatArray:
    """Return the distinct values in order; what differs by rounding alone is one value."""
    ordered: FloatArray = np.unique(values)
    if not len(ordered):
        return ordered
    apart = np.append(True, ordered[1:] > ordered[:-1] * (1 + _ROUNDING))
    result: FloatArray = ordered[apart]
    return result


def between(steps: FloatArray, step: int) -> float:
    """Return a significance at which the first `step` values, and no others, are rejected.

    It lies between two values, so that rounding does not decide.

    Args:
        steps: the values of F at which the test changes, increasing.
        step: how many of them are rejected.
    """
    if not step:
        return 0.0
    low = float(steps[step - 1])
    return (low + float(steps[step])) / 2 if step < len(steps) else low * (1 + 10 * _ROUNDING)


def step_for(fails: Callable[[int], float], last: int, alpha: float, adjust: str) -> int:
    """Return the step whose fail probability suits.

    Args:
        fails: the fail probability at a step, non-decreasing; 0 at step 0.
        last: the last step.
        alpha: the fail probability that is asked for.
        adjust: ``"nearest"`` (of two that are equally near, the lower) or ``"below"``.
    """
    low, high = 0, last + 1  # fails(low) <= alpha < fails(high), where that exists
    below, above = 0.0, math.inf
    while high - low > 1:
        middle = (low + high) // 2
        value = fails(middle)
        if value <= alpha:
            low, below = middle, value
        else:
            high, above = middle, value
    if adjust == "nearest" and above - alpha < alpha - below:
        return high
    return low


def check_alpha(value: Any, where: str) -> float:
    """Return a significance as a float; a `ParameterError` if it is not in (0, 1)."""
    number = _number(value)
    if not 0 < number < 1:
        raise ParameterError(f"{where}: alpha must lie between 0 and 1; found {value!r}")
    return number


def check_share(name: str, value: Any, where: str) -> float:
    """Return a share as a float; a `ParameterError` if it is not in [0, 1]."""
    number = _number(value)
    if not 0 <= number <= 1:
        raise ParameterError(f"{where}: {name} must be a share from 0 to 1; found {value!r}")
    return number


def check_adjust(value: Any, where: str) -> str:
    """Return a correction; a `ParameterError` if there is none of that name."""
    if value not in ADJUST:
        raise ParameterError(
            f"{where}: adjust must be one of {list(ADJUST)}; found {value!r}"
            f"{suggestion(str(value), ADJUST)}"
        )
    return str(value)


def _number(value: Any) -> float:
    if isinstance(value, str | bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
