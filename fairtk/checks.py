"""Settings, checked where they are given: whole numbers, ranges, choices. For plugins, too.

Each check returns the value as it is to be kept, or raises an error that names who has the setting
(``where``, a transformer, measure or function; ``""``: nobody is named), the setting, what it must
be, and what was found.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from typing import Any

from fairtk.errors import NotFoundError, ParameterError, suggestion

__all__ = [
    "choice",
    "cutoff",
    "exponent",
    "inside",
    "number",
    "positive",
    "share",
    "whole",
]

FROM_1 = "be an integer from 1"
ABOVE_0 = "be a whole number above 0"


def whole(
    name: str,
    value: Any,
    where: str = "",
    least: int | None = 1,
    rule: str = "",
    most: int | None = None,
) -> int:
    """Return a whole-number setting as an int.

    Args:
        name: the setting.
        value: what the user gave; no bool.
        where: who has the setting.
        least: the smallest value allowed; None for any.
        rule: what it must do, in other words than the usual ones.
        most: the largest value allowed; None for any.

    Raises:
        ParameterError: the value is not a whole number, too small or too large.
    """
    try:
        count = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        count = None
    if count is None or (least is not None and count < least):
        kind = "be an integer" if least is None else f"be an integer of at least {least}"
        raise _error(name, value, where, rule or kind)
    if most is not None and count > most:
        raise _error(name, value, where, f"be at most {most}")
    return count


def number(
    name: str,
    value: Any,
    where: str = "",
    least: float = 0.0,
    most: float = math.inf,
    ends: str = "[]",
    rule: str = "",
) -> float:
    """Return a setting that is a finite number of a range, as a float.

    Args:
        name: the setting.
        value: what the user gave; no text, and no bool.
        where: who has the setting.
        least: the lower end of the range.
        most: its upper end.
        ends: ``"["`` and ``"]"`` take the end itself, ``"("`` and ``")"`` leave it out.
        rule: what it must do, in other words than the usual ones.

    Raises:
        ParameterError: the value is no finite number of the range.
    """
    real = _real(value)
    above = real > least if ends[0] == "(" else real >= least
    below = real < most if ends[1] == ")" else real <= most
    if not (math.isfinite(real) and above and below):
        kind = f"be a finite number {'above' if ends[0] == '(' else 'of at least'} {least:g}"
        if math.isfinite(most):
            kind = f"lie in {ends[0]}{least:g}, {most:g}{ends[1]}"
        raise _error(name, value, where, rule or kind)
    return real


def share(name: str, value: Any, where: str = "") -> float:
    """Return a setting that is a share, from 0 to 1; raises as `number`."""
    return number(name, value, where, 0, 1)


def positive(name: str, value: Any, where: str = "") -> float:
    """Return a setting that is a finite number above 0; raises as `number`."""
    return number(name, value, where, ends="()", rule="be above 0")


def inside(name: str, value: Any, where: str = "") -> float:
    """Return a probability that is neither 0 nor 1, as a confidence; raises as `number`."""
    return number(name, value, where, 0, 1, "()", "be above 0 and below 1")


def choice(name: str, value: Any, choices: Collection[str], where: str = "") -> str:
    """Return a setting that is one of some words; of another, the nearest is suggested.

    Raises:
        ParameterError: the value is none of the choices.
    """
    if not isinstance(value, str) or value not in choices:
        near = suggestion(value, choices) if isinstance(value, str) else ""
        raise _error(name, value, where, f"be one of {', '.join(map(repr, choices))}", near)
    return value


def known(kind: str, name: object, names: Collection[str]) -> str:
    """Return the name of a thing of some kind, such as a test.

    Raises:
        NotFoundError: it is none of the names.
    """
    if name not in names:
        raise NotFoundError(kind, name, names)
    return str(name)


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
    real = number(
        *("alpha", value, where),
        rule="be a finite number of at least 0 (0 is uniform, larger is closer to the "
        "deterministic ranking)",
    )
    return int(real) if real.is_integer() and real < 2**53 else real


def _real(value: Any) -> float:
    """Return a number as a float; what is none, is NaN."""
    try:
        return math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _error(name: str, value: Any, where: str, rule: str, near: str = "") -> ParameterError:
    return ParameterError(
        f"{where}{': ' if where else ''}{name} must {rule}; found {value!r}{near}"
    )
