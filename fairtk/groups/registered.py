"""Groups and targets by name, so that a measure can be written as a string.

A measure prints its groups as name and content digest (``gender#1a2b3c4d``). Such a string, a name
that was registered, and a path of a file all lead back to the object.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

from fairtk.errors import DuplicateError, InputError, NotFoundError
from fairtk.starting.printing import load_target

if TYPE_CHECKING:
    from fairtk.groups.groups import Groups
    from fairtk.groups.target import Target

T = TypeVar("T", "Groups", "Target")


class Directory(Generic[T]):
    """What strings stand for; the class of the objects is imported when a file is read."""

    def __init__(self, kind: str, cls: str) -> None:
        self._kind = kind
        self._cls = cls
        self._known: dict[str, T] = {}
        self._by_key: WeakValueDictionary[str, T] = WeakValueDictionary()

    def register(self, value: T, name: str) -> str:
        """Make an object known under a name; another that has it is a `DuplicateError`."""
        if self._known.get(name, value) != value:
            raise DuplicateError(
                f"other {self._kind} are registered as {name!r} already ({self._known[name]!r}); "
                "choose another name"
            )
        self._known[name] = value
        return name

    def key(self, value: T) -> str:
        """Return the string form of an object, and remember what it stands for."""
        self._by_key.setdefault(value.key, value)
        return value.key

    def find(self, text: str) -> T:
        """Return what a string names: registered name, printed key or path of a file."""
        found: T | None = self._known.get(text, self._by_key.get(text))
        if found is not None:  # empty groups are false
            return found
        for value in self._known.values():
            if value.key == text:
                return value
        path = Path(text)
        if path.suffix and path.exists():
            cls: Any = load_target(self._cls)
            read: T = cls.read(path)
            return read
        if path.suffix and len(path.suffix) < 9 and "#" not in text:
            raise InputError(
                f"{self._kind} {text!r}: no such file, and nothing is registered as that"
            )
        raise NotFoundError(self._kind, text, self._known)


GROUPS: Directory[Groups] = Directory("groups", "fairtk.groups.groups:Groups")
TARGETS: Directory[Target] = Directory("target", "fairtk.groups.target:Target")


def register_groups(groups: Groups, name: str | None = None) -> str:
    """Make groups known under a name, for measures as strings: ``AWRF(groups='gender', ...)``.

    Returns the name, by default that of the groups.

    Raises:
        DuplicateError: other groups have the name already.
    """
    return GROUPS.register(groups, name or groups.name)


def register_target(target: Target, name: str) -> str:
    """Make a target known under a name, for measures as strings; return the name.

    Raises:
        DuplicateError: another target has the name already.
    """
    return TARGETS.register(target, name)
