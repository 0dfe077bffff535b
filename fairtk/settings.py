"""Settings that take effect when they are assigned, as in a new object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import pandas as pd

_ARGUMENTS = "_arguments"
"""The attribute with the arguments of the constructor; `None` while it runs."""


class Configurable:
    """Base of objects whose settings, the arguments of their constructor, can be assigned later.

    An assignment runs the constructor again, with the arguments that were given and the new value.
    So the value is checked, and all attributes that depend on it change, as in a new object. If the
    constructor raises an error, the object stays as it was.
    """

    LOADED: ClassVar[Mapping[str, Collection[str]]] = MappingProxyType({})
    """Attributes that take long to compute, such as weights, and the settings they depend on.

    They stay if another setting is assigned. If the constructor has an argument of this name, it
    gets the attribute. All other attributes are computed again.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Return an object that records the arguments of its constructor."""
        del args, kwargs
        # not in __init_subclass__, because dataclasses get their constructor later
        if cls.__init__ is not object.__init__ and not hasattr(cls.__init__, _ARGUMENTS):
            cls.__init__ = _recording(cls.__init__)  # type: ignore[method-assign]
        return super().__new__(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        if vars(self).get(_ARGUMENTS) is not None and name in names_of_settings(self):
            self._configure(name, value)
        else:
            super().__setattr__(name, value)

    def given(self, name: str) -> Any:
        """Return a setting as it was given; the attribute or the default if it was not."""
        parameter = _signature(_class(self)).parameters.get(name)
        default = getattr(self, name, None) if parameter is None else parameter.default
        given = vars(self).get(_ARGUMENTS) or {}
        return given.get(name, vars(self).get(name, default))

    def _configure(self, name: str, value: Any) -> None:
        """Run the constructor with a new value of a setting."""
        before, known = vars(self), names_of_settings(self)
        loaded = {
            attribute: before[attribute]
            for attribute, settings in self.LOADED.items()
            if attribute in before and name not in settings
        }
        arguments = {n: v for n, v in loaded.items() if n in known} | {name: value}
        args, kwargs = _call(type(self), before[_ARGUMENTS] | arguments)
        super().__setattr__("__dict__", {})
        try:
            self.__init__(*args, **kwargs)  # type: ignore[misc]
        except BaseException:
            super().__setattr__("__dict__", before)
            raise
        now = vars(self)
        now[_ARGUMENTS] = before[_ARGUMENTS] | {name: now[_ARGUMENTS][name]}
        now.update((n, v) for n, v in loaded.items() if n not in known)
        for attribute, part in now.items():
            old: Any = before.get(attribute)
            if isinstance(part, Configurable) and type(part) is type(old):
                part._keep_loaded(old)

    def _keep_loaded(self, other: Configurable) -> None:
        """Take over what another object has loaded with the same settings."""
        for attribute, settings in self.LOADED.items():
            is_same = all(getattr(self, s, None) == getattr(other, s, None) for s in settings)
            if is_same and attribute in vars(other):
                vars(self)[attribute] = vars(other)[attribute]


def remade(configurable: Any, **changes: Any) -> Any:
    """Return a new object with the settings of another one, except for changes."""
    kind = type(configurable)
    args, kwargs = _call(kind, vars(configurable)[_ARGUMENTS] | changes)
    return kind(*args, **kwargs)


def names_of_settings(configurable: Any) -> tuple[str, ...]:
    """Return the names of the settings of an object; ``**options`` are those in ``SETTINGS``."""
    return _names(_class(configurable))


def _class(configurable: Any) -> Any:
    return type(configurable)  # Any, because mypy does not take these classes as hashable


@functools.cache
def _names(cls: Any) -> tuple[str, ...]:
    if cls.__init__ is object.__init__:
        return ()
    parameters = _signature(cls).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    options = getattr(cls, "SETTINGS", ()) if len(names) < len(parameters) else ()
    return tuple(dict.fromkeys([*names, *options]))


@functools.cache
def _signature(cls: Any) -> inspect.Signature:
    """Return the arguments of a class, and for ``*args, **kwargs`` those of its base class."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    kinds = [p.kind for p in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds and inspect.Parameter.VAR_KEYWORD in kinds:
        base = next(base for base in cls.__mro__[1:] if "__init__" in vars(base))
        own = [p.name for p in parameters]
        inherited = _signature(base).parameters.values() if base is not object else ()
        parameters += [p for p in inherited if p.name not in own and p.kind is not p.VAR_KEYWORD]
        parameters = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
        parameters.sort(key=lambda p: p.kind)  # stable
    return inspect.Signature(parameters)


def _call(cls: Any, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments of a constructor for settings by name."""
    bound = _signature(cls).bind_partial()
    options = dict(given)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            bound.arguments[name] = options
        elif name in given:
            value = options.pop(name)
            is_text = parameter.kind is parameter.VAR_POSITIONAL and isinstance(value, str)
            bound.arguments[name] = (value,) if is_text else value
    bound.apply_defaults()
    return bound.args, bound.kwargs


def _recording(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that records its arguments."""

    @functools.wraps(init)
    def constructor(self: Any, *args: Any, **kwargs: Any) -> None:
        attributes = vars(self)
        if _ARGUMENTS in attributes and attributes[_ARGUMENTS] is None:
            init(self, *args, **kwargs)  # called by the constructor of a subclass
            return
        attributes[_ARGUMENTS] = None
        init(self, *args, **kwargs)
        signature = _signature(_class(self))
        given: dict[str, Any] = signature.bind(*args, **kwargs).arguments
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                given |= given.pop(name, {})
        vars(self)[_ARGUMENTS] = {name: _kept(self, name, v) for name, v in given.items()}

    constructor.__dict__[_ARGUMENTS] = True
    return constructor


def _kept(owner: Any, name: str, value: Any) -> Any:
    """Return an argument for later calls: iterators are used up, and frames may be changed."""
    if isinstance(value, Iterator):
        return vars(owner).get(name, value)
    return value.copy(deep=False) if isinstance(value, pd.DataFrame) else value
