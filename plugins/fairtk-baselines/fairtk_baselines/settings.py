"""Checks of settings that several baselines have, when they are built."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from fairtk.errors import ParameterError, suggestion


def choice(name: str, value: Any, known: Collection[str], where: str) -> str:
    """Return a setting that is one of some words.

    Raises:
        ParameterError: it is none of them; the nearest is suggested.
    """
    if not isinstance(value, str) or value not in known:
        near = suggestion(value, known) if isinstance(value, str) else ""
        raise ParameterError(
            f"{where}: {name} must be one of {', '.join(map(repr, known))}; found {value!r}{near}"
        )
    return value


def number(
    name: str, value: Any, where: str, least: float = 0.0, most: float = math.inf, ends: str = "[]"
) -> float:
    """Return a setting that is a finite number of a range.

    Args:
        name: the setting, for the message.
        value: what the user gave.
        where: the transformer, for the message.
        least: the lower end.
        most: the upper end.
        ends: ``"["`` or ``"("``, then ``"]"`` or ``")"``: round ones leave the end itself out.

    Raises:
        ParameterError: it is none, or out of its range.
    """
    try:
        if isinstance(value, str | bool):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    above = found > least if ends[0] == "(" else found >= least
    below = found < most if ends[1] == ")" else found <= most
    if not (math.isfinite(found) and above and below):
        if math.isfinite(most):
            wanted = f"lie in {ends[0]}{least:g}, {most:g}{ends[1]}"
        else:
            wanted = f"be a finite number {'above' if ends[0] == '(' else 'of at least'} {least:g}"
        raise ParameterError(f"{where}: {name} must {wanted}; found {value!r}")
    return found


def share(name: str, value: Any, where: str) -> float:
    """Return a setting that is a share, from 0 to 1."""
    return number(name, value, where, 0, 1)
