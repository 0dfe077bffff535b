"""Parameters of measures: declared once, and checked when a measure is created.

ir_measures supports only scalar parameters, so an object is also stored as a string. The string of
a browsing model or a utility can be read back, e.g. ``"RBP(p=0.8)"``. Groups and targets are stored
by name; the measure also has the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
from ir_measures import ParamInfo

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import MU, BrowsingModel
from fairtk.groups.levels import OFFICIAL_TARGETS, RELEVANCE, TARGET_WORDS
from fairtk.plugins import parse_browsing_model, registry
from fairtk.plugins.registry import TARGETS, load_target

NOT_GIVEN: Any = ParamInfo().default


class Param(ParamInfo):  # type: ignore[misc]
    """A scalar parameter.

    Args:
        dtype: the type or types of values.
        default: the default value.
        choices: the allowed values, if there are only a few.
        desc: one line for ``fairtk measures``.
        check: a function of the parameter's name, a value and the measure's name that raises a
            `ParameterError` for an invalid value, as in `fairtk.checks`; `None` for no check.
    """

    def __init__(
        self,
        dtype: type | tuple[type, ...],
        default: Any = NOT_GIVEN,
        choices: Any = NOT_GIVEN,
        desc: str = "",
        check: Callable[[str, Any, str], object] | None = None,
    ) -> None:
        super().__init__(dtype=dtype, default=default, choices=choices, desc=desc)
        self.check = check

    def accept(
        self, value: Any, name: str, measure: str, given: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Return the stored form of a value, which is printed, and the value or object.

        Args:
            value: the user's value.
            name: the parameter's name.
            measure: the measure's name.
            given: the values of the parameters that are declared before this one.

        Raises:
            ParameterError: the value has the wrong type, is not one of the choices, is missing
                (`None`, NaN, an empty string) and not the default, or is infinite.
        """
        if value is None:
            checks.refuse_missing(name, value, measure, self.default)
            return None, None
        if isinstance(value, np.generic):
            value = value.item()  # numbers of numpy, whose text cannot be read back
        kinds = self.dtype if isinstance(self.dtype, tuple) else (self.dtype,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            types = " or ".join(k.__name__ for k in kinds)
            quoted = ""
            if isinstance(value, ir_measures.Measure) and str in kinds:  # RBP is also a measure
                # its own string form leaves out defaults, which differ from those of the model
                settings = ", ".join(f"{key}={item!r}" for key, item in value.params.items())
                text = f"{value.NAME}({settings})" if settings else value.NAME
                quoted = f"; quote it: {name}={text!r}"
            raise ParameterError(
                f"{measure}: {name} must be of type {types}, got {_one_line(value)}{quoted}"
            )
        if self.choices is not NOT_GIVEN:
            checks.choice(name, value, self.choices, measure)
        else:
            checks.refuse_missing(name, value, measure, self.default)
        if self.check is not None:
            self.check(name, value, measure)
        return value, value

    def resolve(self, value: Any) -> Any:
        """Return the value, or the object that it names."""
        return None if value is NOT_GIVEN else value


def as_param(info: Any, name: str, measure: str) -> Param:
    """Return a ``ParamInfo`` of ir_measures as a `Param`; its `validate` checks values.

    Raises:
        ParameterError: the declaration has another type.
    """
    if isinstance(info, Param):
        return info
    if not isinstance(info, ParamInfo):
        raise ParameterError(
            f"{measure}: the parameter {name!r} must be declared by a Param or an "
            f"ir_measures.ParamInfo, got {info!r}"
        )

    def check(name: str, value: Any, where: str) -> None:
        if not info.validate(value):
            raise ParameterError(f"{where}: invalid value for {name}, got {value!r}")
        if name == "cutoff":
            count(name, value, where)

    kinds = (object, bool) if info.dtype is None else info.dtype
    param = Param(kinds, info.default, info.choices, info.desc or "", check)
    param.required = info.required
    return param


def _one_line(value: Any) -> str:
    """Return a value for a message; only the type of a frame or array."""
    text = repr(value)
    return f"a {type(value).__name__}" if "\n" in text or len(text) > 100 else text


class ObjectParam(Param):
    """A parameter that is an object with a string form.

    If the string form cannot be read back (e.g. that of a browsing model without a plugin), the
    object is remembered as long as a measure uses it.

    Args:
        read: converts the string form to the object; raises for an unknown name.
        accepts: the type of the object, or ``"package.module:Class"``, imported on first use.
        default: the default object, or its string form, which is read on first use.
        desc: one line for ``fairtk measures``.
        write: returns the string form of an object; different for different objects.
    """

    def __init__(
        self,
        read: Callable[[str], Any],
        accepts: type | str,
        default: Any = NOT_GIVEN,
        desc: str = "",
        write: Callable[[Any], str] = repr,
    ) -> None:
        self._in_use = registry.ObjectsInUse()
        self._default = default  # kept alive
        if default is not NOT_GIVEN and not isinstance(default, str | None):
            default = write(default)
            self._in_use.add(default, self._default)
        super().__init__(dtype=(str,), default=default, desc=desc)
        self.read = read
        self.write = write
        self.accepts = accepts

    def accept(
        self, value: Any, name: str, measure: str, given: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Return the string form, checked by reading it, and the object."""
        if isinstance(value, PathLike):
            value = fspath(value)
        if not isinstance(value, str) and value is not None:
            cls: type = load_target(self.accepts) if isinstance(self.accepts, str) else self.accepts
            self.dtype = (str, cls)
            if isinstance(value, type) and issubclass(value, cls):
                value = value()
            elif isinstance(value, pd.DataFrame) and hasattr(cls, "of"):
                value = cls.of(value)
            if isinstance(value, cls):
                return self._text(value, name, measure), value
        value, _ = super().accept(value, name, measure, given)
        if value is None:
            return None, None
        try:
            meant = self.resolve(value)
        except InputError as error:
            raise ParameterError(f"{measure}: {name}: {error}") from None
        return self._text(meant, name, measure), meant

    def _text(self, value: Any, name: str, measure: str) -> str:
        text = self.write(value)
        try:
            other = self.resolve(text)
        except InputError:
            other = value
            self._in_use.add(text, value)
        if other is not value and other != value:
            raise ParameterError(
                f"{measure}: {name}: {type(value).__module__}.{type(value).__name__} has the same "
                f"string form as another object, {text!r}; rename it"
            )
        if self._in_use.find_all(text):
            self._in_use.add(text, value)
        return text

    def resolve(self, value: Any) -> Any:
        """Return the object of a string form; `None` without a default."""
        if value is NOT_GIVEN or value is None:
            return None
        remembered = self._in_use.find_all(value)
        return remembered[0] if remembered else self.read(value)


class NamedParam(ObjectParam):
    """A parameter for groups or a target; the measure prints the name of the object.

    Args:
        directory: the named objects.
        accepts: as in `ObjectParam`.
        desc: one line for ``fairtk measures``.
    """

    def __init__(self, directory: registry.Directory[Any], accepts: str, desc: str) -> None:
        super().__init__(directory.find, accepts, desc=desc, write=directory.name)
        self.directory = directory

    def _text(self, value: Any, name: str, measure: str) -> str:
        return self.write(value)


class TargetParam(NamedParam):
    """A target; names such as ``"uniform"`` mean a target of the measure's groups."""

    def accept(
        self, value: Any, name: str, measure: str, given: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """Return the name and the target."""
        if isinstance(value, str):
            groups = given.get("groups")
            held = TARGETS.in_use.find_all(value)
            try:
                if (value == RELEVANCE or value in OFFICIAL_TARGETS) and not held:
                    raise InputError(
                        f"{value!r} requires qrels, which a measure does not have; leave it out of "
                        f"the measure and give `target={value!r}` (the first, if there are several)"
                        ", or use Target.from_qrels(qrels, groups)"
                    )
                if value in TARGET_WORDS and value != RELEVANCE:
                    made = load_target("fairtk.groups:Target").of(value, groups)
                    TARGETS.in_use.add(value, made)  # so that a different one is detected
                value = TARGETS.find(value, getattr(groups, "space", None))
            except InputError as error:
                raise ParameterError(f"{measure}: {name}: {error}") from None
        return super().accept(value, name, measure, given)


def count(name: str, value: Any, where: str) -> None:
    """Raise a `ParameterError` unless a value is a string or an integer from 1 to 2^31 - 1."""
    if not isinstance(value, str):
        checks.integer(name, value, where, most=_MOST)


_MOST = 2**31 - 1  # the limit of evaluators written in C
CUTOFF = Param(
    int, default=None, desc="number of ranks to read in each ranking or sample", check=count
)
"""The parameter ``@k``; `None` reads all ranks."""
BROWSING = ObjectParam(
    parse_browsing_model,
    BrowsingModel,
    default=MU(),
    desc="browsing model, such as RBP(p=0.5) or DCG; `fairtk measures` lists all",
)
"""The parameter ``browsing`` of exposure measures."""
GROUPS = NamedParam(
    registry.GROUPS,
    "fairtk.groups:Groups",
    "the groups of the documents: an object, a registered name, or a file",
)
"""The parameter ``groups`` of group measures."""
TARGET = TargetParam(
    TARGETS,
    "fairtk.groups:Target",
    "the target distribution: an object, uniform (equal shares of the named groups), "
    "uniform+unknown (also of the unknown level), population (shares of all documents), a "
    "registered name, or a file",
)
"""The parameter ``target`` of measures that compare with a target."""
