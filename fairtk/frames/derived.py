"""Values that functions derive from data that does not change, computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Value = TypeVar("Value")


class Deriving:
    """Data that keeps what functions have derived from it."""

    _derived: dict[tuple[Any, ...], Any]

    def derived(self, function: Callable[..., Value], *options: Any) -> Value:
        """Return ``function(self, *options)``, which depends on nothing else, computed once.

        Args:
            function: a function of a module; not a lambda, which would be another one each time.
            options: hashable arguments.
        """
        memory = self.__dict__.setdefault("_derived", {})
        key = (function, *options)
        if key not in memory:
            memory[key] = function(self, *options)
        value: Value = memory[key]
        return value
