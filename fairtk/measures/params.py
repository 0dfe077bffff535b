"""Parameters of measures: declared once, checked when a measure is built, readable from strings.

ir_measures reads named scalar arguments only. A parameter that is an object (a browsing model, a
utility) is therefore kept as the string that leads back to it, e.g. ``"RBP(p=0.8)"``; an object
whose string cannot be read back is remembered under it.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from typing import Any
from weakref import WeakValueDictionary

import ir_measures
from ir_measures import ParamInfo

from fairtk.errors import InputError, ParameterError
from fairtk.exposure.browsing import MU, BrowsingModel
from fairtk.groups import registered
from fairtk.measures.notation import parse
from fairtk.starting.printing import load_target
from fairtk.string_forms import parse_call, read_browsing
from fairtk.utilities import get as get_utility

NOT_GIVEN: Any = ParamInfo().default


class Param(ParamInfo):  # type: ignore[misc]
    """A scalar parameter.

    Args:
        dtype: the type or types that a value may have.
        default: the value when it is not given.
        choices: the values that are allowed, if they are few.
        desc: one line for ``fairtk measures``.
        check: returns what is wrong with a value, or ``""``.
    """

    def __init__(
        self,
        dtype: type | tuple[type, ...],
        default: Any = NOT_GIVEN,
        choices: Any = NOT_GIVEN,
        desc: str = "",
        check: Callable[[Any], str] | None = None,
    ) -> None:
        super().__init__(dtype=dtype, default=default, choices=choices, desc=desc)
        self.check = check
        self.ready = True  # whether the default is at hand, or has to be read first
        self.default_object = None if default is NOT_GIVEN else default

    def accept(self, value: Any, name: str, measure: str) -> tuple[Any, Any]:
        """Return the value as the measure keeps and prints it, and what it works with.

        Raises:
            ParameterError: the value has the wrong type, or is none of the choices.
        """
        kinds = self.dtype if isinstance(self.dtype, tuple) else (self.dtype,)
        wrong_bool = isinstance(value, bool) and bool not in kinds
        if value is not None and (wrong_bool or not isinstance(value, kinds)):
            wanted = " or ".join(k.__name__ for k in kinds)
            is_measure = isinstance(value, ir_measures.Measure)  # RBP is a measure's name, too
            quoted = f"; in quotes: {name}={str(value)!r}" if is_measure and str in kinds else ""
            raise ParameterError(
                f"{measure}: {name} must be of type {wanted}; found {_one_line(value)}{quoted}"
            )
        if self.choices is not NOT_GIVEN and value not in self.choices:
            raise ParameterError(
                f"{measure}: {name} must be one of {list(self.choices)}; found {value!r}"
            )
        problem = self.check(value) if self.check is not None and value is not None else ""
        if problem:
            raise ParameterError(f"{measure}: {name} {problem}; found {value!r}")
        return value, value

    def resolve(self, value: Any) -> Any:
        """Return what a measure works with: the value itself, or the object it names."""
        return value


def _one_line(value: Any) -> str:
    """Return a value as a message shows it; a frame or array by its type alone."""
    text = repr(value)
    return f"a {type(value).__name__}" if "\n" in text or len(text) > 100 else text


class ObjectParam(Param):
    """A parameter that is an object with a string form.

    An object whose string form cannot be read back (a browsing model of no plugin) is remembered
    under it as long as a measure uses it.

    Args:
        read: turns the string form into the object; raises for an unknown name.
        accepts: the type of object that may be given directly, or ``"package.module:Class"``,
            imported when the first object is given.
        default: the default, an object or its string form. A string is read when a measure first
            asks for it, an object needs no plugin.
        desc: one line for ``fairtk measures``.
        write: the string form of an object; equal for equal objects alone.
    """

    def __init__(
        self,
        read: Callable[[str], Any],
        accepts: type | str,
        default: Any = NOT_GIVEN,
        desc: str = "",
        write: Callable[[Any], str] = repr,
    ) -> None:
        self._given: WeakValueDictionary[str, Any] = WeakValueDictionary()
        text = default
        if default is not NOT_GIVEN and not isinstance(default, str):
            text = write(default)
            self._given[text] = default
        super().__init__(dtype=(str,), default=text, desc=desc)
        self.ready = not isinstance(default, str)
        self.default_object = None if default is NOT_GIVEN else default
        self.read = read
        self.write = write
        self.accepts = accepts

    def accept(self, value: Any, name: str, measure: str) -> tuple[Any, Any]:
        """Return the string form, checked by reading it, and the object."""
        if isinstance(value, PathLike):
            value = fspath(value)
        if not isinstance(value, str) and value is not None:
            cls: type = load_target(self.accepts) if isinstance(self.accepts, str) else self.accepts
            self.dtype = (str, cls)
            if isinstance(value, type) and issubclass(value, cls):
                value = value()
            if isinstance(value, cls):
                return self._remembered(value, name, measure), value
        value, _ = super().accept(value, name, measure)
        try:
            found = self.resolve(value)
        except InputError as error:
            raise ParameterError(f"{measure}: {name}: {error}") from None
        return self._remembered(found, name, measure), found

    def _remembered(self, value: Any, name: str, measure: str) -> str:
        text = self.write(value)
        try:
            other = self.resolve(text)
        except InputError:
            self._given[text] = value
            return text
        if other != value:
            raise ParameterError(
                f"{measure}: {name}: {type(value).__module__}.{type(value).__name__} prints as "
                f"{text!r}, like another object; give it another name"
            )
        return text

    def resolve(self, value: Any) -> Any:
        """Return the object that the string form leads to."""
        given = self._given.get(value)
        return self.read(value) if given is None else given


class MeasureParam(ObjectParam):
    """A parameter that is itself a measure, kept as its string form."""

    def __init__(self, desc: str) -> None:
        super().__init__(parse, ir_measures.Measure, desc=desc)


def read_utility(text: str) -> Any:
    """Return the utility that a string like ``"rougeL"`` names."""
    name, options = parse_call(text, "utility")
    return get_utility(name, **options)


def at_least(low: int) -> Callable[[Any], str]:
    """Return a check that a number is at least `low`."""
    return lambda value: "" if value >= low else f"must be at least {low}"


def _is_cutoff(value: Any) -> str:
    return at_least(1)(value) or ("" if value <= _MOST else f"must be at most {_MOST}")


_MOST = 2**31 - 1  # what evaluators that are written in C can hold
CUTOFF = Param(int, desc="ranks read in each ranking (each sample on its own)", check=_is_cutoff)
"""The parameter ``@k``."""
BROWSING = ObjectParam(
    read_browsing,
    BrowsingModel,
    default=MU(),
    desc="browsing model: MU, RBP(p=0.5), GERR(p=0.5, u=0.5), DCG, TREC",
)
"""The parameter ``browsing`` of measures of exposure."""
GROUPS = ObjectParam(
    registered.GROUPS.find,
    "fairtk.groups:Groups",
    desc="the groups of the documents: an object, a registered name, or a file",
    write=registered.GROUPS.key,
)
"""The parameter ``groups`` of measures of groups."""
TARGET = ObjectParam(
    registered.TARGETS.find,
    "fairtk.groups:Target",
    desc="the distribution to compare with: an object, a registered name, or a file",
    write=registered.TARGETS.key,
)
"""The parameter ``target`` of measures that compare with one."""
_POLICIES = ("drop", "unknown", "uniform", "best", "worst")


def _policy(value: str) -> str:
    if value == "bounds":
        return "'bounds' is two values: measure 'best' and 'worst', its two ends"
    return "" if value in _POLICIES else f"must be one of {list(_POLICIES)}"


UNLABELED = Param(
    str,
    default="drop",
    check=_policy,
    desc="documents without a group: drop (TREC), unknown, uniform; best and worst: over all ways "
    "to complete what is unknown",
)
AMORTIZE = Param(bool, default=True, desc="average exposure over samples first, then compare")
