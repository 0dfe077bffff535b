"""Groups and targets by name, so that a measure can be written as a string.

A measure prints its groups as name and content digest (``gender#1a2b3c4d``). Such a string, a name
that was registered, and a path of a file all lead back to the object.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from fairtk.errors import DuplicateError, InputError, NotFoundError
from fairtk.groups.groups import Groups
from fairtk.groups.target import Target

T = TypeVar("T", Groups, Target)

_GROUPS: dict[str, Groups] = {}
_TARGETS: dict[str, Target] = {}
_BY_KEY: WeakValueDictionary[str, Any] = WeakValueDictionary()


def register_groups(groups: Groups, name: str | None = None) -> str:
    """Make groups known under a name, for measures as strings: ``AWRF(groups='gender', ...)``.

    Args:
        groups: the groups.
        name: the name; None: that of the groups.

    Returns:
        The name.

    Raises:
        DuplicateError: other groups have the name already.
    """
    return _register(_GROUPS, groups, name or groups.name, "groups")


def register_target(target: Target, name: str) -> str:
    """Make a target known under a name, for measures as strings.

    Args:
        target: the target.
        name: the name.

    Returns:
        The name.

    Raises:
        DuplicateError: another target has the name already.
    """
    return _register(_TARGETS, target, name, "target")


def find_groups(text: str) -> Groups:
    """Return the groups that a string names: registered name, printed key or path of a file.

    Raises:
        NotFoundError: nothing has that name; the nearest is suggested.
    """
    return _find(_GROUPS, text, "groups", Groups)


def find_target(text: str) -> Target:
    """Return the target that a string names: registered name, printed key or path of a file.

    Raises:
        NotFoundError: nothing has that name; the nearest is suggested.
    """
    return _find(_TARGETS, text, "target", Target)


def groups_key(groups: Groups) -> str:
    """Return the string form of groups, and remember what it stands for."""
    return _remember(groups, "groups:")


def target_key(target: Target) -> str:
    """Return the string form of a target, and remember what it stands for."""
    return _remember(target, "target:")


def _register(known: dict[str, T], value: T, name: str, kind: str) -> str:
    if name in known and known[name] != value:
        raise DuplicateError(
            f"other {kind} are registered as {name!r} already ({known[name]!r}); choose another "
            "name"
        )
    known[name] = value
    return name


def _remember(value: T, prefix: str) -> str:
    _BY_KEY.setdefault(prefix + value.key, value)
    return value.key


def _find(known: dict[str, T], text: str, kind: str, cls: type[T]) -> T:
    if text in known:
        return known[text]
    found = _BY_KEY.get(f"{kind}:{text}")
    if found is not None:
        return found  # type: ignore[no-any-return]
    for value in known.values():
        if value.key == text:
            return value
    path = Path(text)
    if path.suffix and path.exists():
        return cls.read(path)
    if path.suffix and len(path.suffix) < 9 and "#" not in text:
        raise InputError(f"{kind} {text!r}: no such file, and nothing is registered as that")
    raise NotFoundError(kind, text, known)
