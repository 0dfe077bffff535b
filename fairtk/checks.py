"""Settings, checked where they are given: whole numbers, ranges, choices. For plugins, too."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from typing import Any

from fairtk.errors import ParameterError, suggestion


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
        count = operator.index(value)
    except TypeError:
        raise ParameterError(f"{where}: {name} must be {kind}; found {value!r}") from None
    if least is not None and count < least:
        raise ParameterError(f"{where}: {name} must be {kind}; found {value!r}")
    return count


def number(
    name: str,
    value: Any,
    where: str,
    least: float = 0.0,
    most: float = math.inf,
    ends: str = "[]",
    rule: str = "",
) -> float:
    """Return a setting that is a finite number of a range, as a float.

    Args:
        name: the setting, for the message.
        value: what the user gave; no text, and no bool.
        where: the transformer, measure or function, for the message.
        least: the lower end of the range.
        most: its upper end.
        ends: ``"["`` and ``"]"`` take the end itself, ``"("`` and ``")"`` leave it out.
        rule: what the setting must do, if it is not said by the range, as ``"be a share"``.

    Raises:
        ParameterError: the value is no finite number of the range.
    """
    real = _real(value)
    above = real > least if ends[0] == "(" else real >= least
    below = real < most if ends[1] == ")" else real <= most
    if not (math.isfinite(real) and above and below):
        usual = f"be a finite number {'above' if ends[0] == '(' else 'of at least'} {least:g}"
        if math.isfinite(most):
            usual = f"lie in {ends[0]}{least:g}, {most:g}{ends[1]}"
        raise ParameterError(f"{where}: {name} must {rule or usual}; found {value!r}")
    return real


def share(name: str, value: Any, where: str) -> float:
    """Return a setting that is a share, from 0 to 1; raises as `number`."""
    return number(name, value, where, 0, 1)


def choice(name: str, value: Any, choices: Collection[str], where: str) -> str:
    """Return a setting that is one of some words; of another, the nearest is suggested.

    Raises:
        ParameterError: the value is none of the choices.
    """
    if not isinstance(value, str) or value not in choices:
        near = suggestion(value, choices) if isinstance(value, str) else ""
        raise ParameterError(
            f"{where}: {name} must be one of {', '.join(map(repr, choices))}; found {value!r}{near}"
        )
    return value


def cutoff(value: Any, where: str) -> int | None:
    """Return the setting ``cutoff``: an integer of at least 1, or None for no cutoff."""
    if value is None:
        return None
    try:
        return whole("cutoff", value, where)
    except ParameterError as error:
        raise ParameterError(f"{error}; None gives full rankings") from None


def exponent(value: Any, where: str) -> int | float:
    """Return the setting ``alpha``, finite and >= 0; equal values print alike: 2.0 becomes 2."""
    real = _real(value)
    if not (math.isfinite(real) and real >= 0):
        raise ParameterError(
            f"{where}: alpha must be a finite number of at least 0 (0 is uniform, larger is closer "
            f"to the deterministic ranking); found {value!r}"
        )
    return int(real) if real.is_integer() and real < 2**53 else real


def _real(value: Any) -> float:
    """Return a number as a float; what is none, is NaN."""
    try:
        return math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
