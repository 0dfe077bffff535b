"""Checks of settings, for fairtk and its plugins: integers, ranges, choices.

Each check returns the normalized value, or raises an error with the setting, the rule and the
value. ``where`` names the transformer, measure or function with the setting; it may be empty.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Collection, Iterable
from decimal import Decimal
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from fairtk.errors import NotFoundError, ParameterError
from fairtk.wording import did_you_mean, short

T = TypeVar("T")

__all__ = [
    "boolean",
    "choice",
    "cutoff",
    "exponent",
    "open_interval",
    "number",
    "positive",
    "share",
    "integer",
    "refuse_missing",
    "text",
]


def integer(
    name: str,
    value: Any,
    where: str = "",
    least: int | None = 1,
    rule: str = "",
    most: int | None = None,
) -> int:
    """Return an integer setting as an int.

    Args:
        name: the setting.
        value: the user's value; bool is an error.
        where: the owner of the setting.
        least: the smallest allowed value; `None` for any.
        rule: replaces the rule in the message.
        most: the largest allowed value; `None` for any.

    Raises:
        ParameterError: the value is not an integer, too small or too large.
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
    """Return a finite number in a range as a float.

    Args:
        name: the setting.
        value: the user's value; text and bool are errors.
        where: the owner of the setting.
        least: the lower end of the range.
        most: the upper end of the range.
        ends: ``"["`` and ``"]"`` include the end, ``"("`` and ``")"`` exclude it.
        rule: replaces the rule in the message.

    Raises:
        ParameterError: the value is not a finite number in the range.
    """
    real = _real(value)
    above = real > least if ends[0] == "(" else real >= least
    below = real < most if ends[1] == ")" else real <= most
    if not (math.isfinite(real) and above and below):
        kind = f"be a finite number {'above' if ends[0] == '(' else 'of at least'} {least:g}"
        if math.isfinite(most):
            kind = f"be in {ends[0]}{least:g}, {most:g}{ends[1]}"
        raise _error(name, value, where, rule or kind)
    return real


def share(name: str, value: Any, where: str = "") -> float:
    """Return a share, a number from 0 to 1; see `number`."""
    return number(name, value, where, 0, 1)


def positive(name: str, value: Any, where: str = "") -> float:
    """Return a finite number above 0; see `number`."""
    return number(name, value, where, ends="()")


def open_interval(name: str, value: Any, where: str = "") -> float:
    """Return a number above 0 and below 1; see `number`."""
    return number(name, value, where, 0, 1, "()", "be above 0 and below 1")


def choice(name: str, value: Any, choices: Collection[Any], where: str = "") -> Any:
    """Return a setting with several choices, such as strings.

    Raises:
        ParameterError: the value is not one of the choices.
    """
    choices = listed("choices", choices)
    if not isinstance(value, tuple({type(c) for c in choices})) or value not in choices:
        raise _error(name, value, where, f"be one of {', '.join(map(repr, choices))}")
    return value


def boolean(name: str, value: Any, where: str = "") -> bool:
    """Return a setting that is True or False.

    Raises:
        ParameterError: the value is neither True nor False.
    """
    if not isinstance(value, bool):
        raise _error(name, value, where, "be True or False")
    return value


def text(name: str, value: Any, where: str = "") -> str:
    """Return a setting that is a string and not empty.

    Raises:
        ParameterError: the value is not a string, or is empty.
    """
    if not isinstance(value, str) or not value.strip():
        raise _error(name, value, where, "be a string that is not empty")
    return value


def refuse_missing(name: str, value: Any, where: str = "", default: Any = ...) -> None:
    """Raise an error for None, NaN, infinity and an empty string that are not the default.

    So does an integer that is too large for a float.

    Args:
        name: the setting.
        value: the user's value.
        where: the owner of the setting.
        default: the default value; ``...`` without a default.

    Raises:
        ParameterError: the value is one of these.
    """
    if type(value) is type(default) and value == default:
        return
    if value is None:
        prefix = f"{where}: " if where else ""
        raise ParameterError(f"{prefix}{name} must not be None; omit it to use its default")
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    if is_real and not math.isfinite(_real(value)):
        raise _error(name, value, where, "be finite")
    if isinstance(value, str) and not value.strip():
        raise _error(name, value, where, "not be empty")


def known(kind: str, name: object, names: Collection[str]) -> str:
    """Return a name if it is known; `kind` describes it in the message.

    Raises:
        NotFoundError: the name is unknown.
    """
    if not isinstance(name, str) or name not in names:
        raise NotFoundError(kind, name, names)
    return str(name)


def parameters(options: Iterable[str], where: str, *functions: Callable[..., Any]) -> None:
    """Refuse options that are not parameters of any of these functions.

    Raises:
        ParameterError: a parameter is unknown; the nearest name is suggested.
    """
    names = {
        parameter.name
        for function in functions
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    for option in options:
        if option not in names:
            tail = did_you_mean(option, names)
            raise ParameterError(f"{where}: unknown parameter {option!r}{tail}")


def listed(name: str, values: Any, where: str = "", rule: str = "be a list") -> list[Any]:
    """Return a setting with several values as a list; a text or a path is one value.

    Raises:
        ParameterError: the setting is not iterable.
    """
    if isinstance(values, str | PathLike):
        return [values]
    if not isinstance(values, Iterable):
        raise _error(name, values, where, rule)
    return list(values)


def mapping(name: str, value: Any, where: str = "") -> dict[Any, Any]:
    """Return a setting with values by name as a dict; a Series has its index as names.

    Raises:
        ParameterError: the setting has no names.
    """
    if not hasattr(value, "keys"):
        raise _error(name, value, where, "be a dict")
    return dict(value)


def instance(name: str, value: Any, kind: type[T], where: str = "") -> T:
    """Return a setting that is an object of a class.

    Raises:
        ParameterError: the value is something else.
    """
    if not isinstance(value, kind):
        raise _error(name, value, where, f"be an object of the class {kind.__name__}")
    return value


def path(name: str, value: Any, where: str = "") -> Path:
    """Return the path of a file or folder.

    Raises:
        ParameterError: the value is neither a string nor a path.
    """
    if not isinstance(value, str | PathLike):
        raise _error(name, value, where, "be the path of a file or folder")
    return Path(value)


def interval(name: str, value: Any, where: str = "") -> tuple[float, float]:
    """Return the ends of an interval, which may be infinite, as floats.

    Raises:
        ParameterError: the value is not two numbers, the smaller one first.
    """
    ends = [_real(end) for end in value] if isinstance(value, Iterable) else []
    if len(ends) != 2 or not ends[0] <= ends[1]:
        raise _error(name, value, where, "be two numbers, the smaller one first")
    return ends[0], ends[1]


def cutoff(value: Any, where: str) -> int | None:
    """Return ``cutoff``: an integer of at least 1, or `None` for full rankings."""
    if value is None:
        return None
    try:
        return integer("cutoff", value, where)
    except ParameterError as error:
        raise ParameterError(f"{error}; use None for full rankings") from None


def exponent(value: Any, where: str) -> int | float:
    """Return ``alpha``, finite and at least 0; 2.0 becomes 2, so that both print alike."""
    real = number(
        *("alpha", value, where),
        rule="be a finite number of at least 0 (0 is uniform, larger is closer to the "
        "deterministic ranking)",
    )
    return int(real) if real.is_integer() and real < 2**53 else real


def _real(value: Any) -> float:
    """Return a value as a float; NaN if it is not a number."""
    try:
        is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool)
        return float(value) if is_number else math.nan
    except (ValueError, OverflowError):  # a signaling NaN, an integer that is too large
        return math.nan


def _error(name: str, value: Any, where: str, rule: str) -> ParameterError:
    return ParameterError(f"{where}{': ' if where else ''}{name} must {rule}, got {short(value)}")
