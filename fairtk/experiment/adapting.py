"""What adapters of objects need: their type, names of classes, and a way to say no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairtk.errors import IdentityError

Adapter = Callable[[Any], dict[str, Any]]
"""Takes an object and returns its settings; further objects among them are described in turn."""


class NoIdentityError(IdentityError):
    """Something among a stage's settings has no identity; says what."""


def refuse(reason: str) -> Any:
    """Raise: an adapter's way to say that an object has no identity."""
    raise NoIdentityError(reason)


def class_name(cls: type) -> str:
    """Return a class's module and name."""
    return f"{cls.__module__}.{cls.__qualname__}"
