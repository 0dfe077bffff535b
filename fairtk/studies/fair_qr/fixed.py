"""Fixed targets of a study: what groups should have whatever the topic, known before the search."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairtk.errors import InputError, NotFoundError
from fairtk.groups import Groups, Target

UNIFORM = "uniform"
SUFFIX = " (fixed target)"


def fixed_targets(
    targets: Mapping[str, Any] | None, attributes: Mapping[str, tuple[Groups, Target]]
) -> dict[str, tuple[Groups, Target]]:
    """Return the attributes once more, with fixed targets, under a name that says so.

    Args:
        targets: by attribute; see `fixed_target`.
        attributes: groups and the target from judgments, by name.

    Raises:
        NotFoundError: there is no such attribute.
        InputError: the target has no such form, or names groups that no document has.
    """
    found = {}
    for name, target in (targets or {}).items():
        if name not in attributes:
            raise NotFoundError("attribute of [targets]", name, attributes)
        groups = attributes[name][0]
        found[name + SUFFIX] = (groups, fixed_target(target, groups, name))
    return found


def fixed_target(target: Any, groups: Groups, name: str) -> Target:
    """Return a target for all topics.

    Args:
        target: ``"uniform"`` (equal shares of the known levels), shares by level (for crossed
            attributes by attribute, as if independent), a file as `fairtk.Target.read` reads it,
            or a `fairtk.Target`.
        groups: the groups.
        name: the attribute, for messages.

    Raises:
        InputError: it has no such form, or names groups that no document has.
    """
    if isinstance(target, Target):
        return target.for_groups(groups)
    if target == UNIFORM:
        return Target.uniform(groups, unknown=False)
    if isinstance(target, Mapping):
        try:
            return Target.population(target, groups)
        except InputError as error:
            raise InputError(f"the target of {name!r}: {error}") from error
    if isinstance(target, str) and Path(target).exists():
        return Target.read(target, groups)
    raise InputError(
        f"the target of {name!r} must be {UNIFORM!r}, shares by group or a file that exists; found "
        f"{target!r}"
    )
