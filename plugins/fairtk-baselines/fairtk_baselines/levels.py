"""Checks of the common settings of baselines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.groups import Groups, Level
from fairtk.measures import RemarkKind
from fairtk.wording import did_you_mean, format_list

NO_TARGET = "fairtk-baselines:no target"
NO_TARGET_KIND = RemarkKind(DataWarning, "{stage}: {queries} have no target and keep their order")


def checked_groups(groups: Any, where: str) -> Groups:
    """Return groups, or raise a `ParameterError` for another type."""
    if not isinstance(groups, Groups):
        raise ParameterError(
            f"{where}: groups must be fairtk.Groups (Groups.from_frame, Groups.read), got "
            f"{type(groups).__name__}"
        )
    return groups


def levels_of(
    groups: Groups, given: Any, where: str, name: str = "protected", rules: Sequence[str] = ()
) -> tuple[Level, ...]:
    """Return one or several levels in the groups' order; for crossed groups, a tuple is one level.

    `rules` are other valid values of the setting, for suggestions.
    """
    space = groups.space
    one = isinstance(given, str) or (space.crossed and isinstance(given, tuple))
    several = [given] if one or not isinstance(given, Iterable) else list(given)
    if not several:
        raise ParameterError(f"{where}: {name} must name at least one level, got none")
    cells = []
    for level in several:
        try:
            cells.append(space.number(level))
        except (InputError, TypeError) as error:
            near = did_you_mean(str(level), [*rules, *map(str, groups.levels[:100])])
            hint = near if "did you mean" in near else ""  # the error lists the known levels
            raise ParameterError(
                f"{where}: {name} has the level {level!r}: {error}{hint}"
            ) from None
    twice = [level for i, level in enumerate(several) if cells[i] in cells[:i]]
    if twice:
        raise ParameterError(f"{where}: duplicate level in {name}: {format_list(twice)}")
    return tuple(groups.levels[cell] for cell in sorted(cells))


def number_of_known(groups: Groups) -> int:
    """Return the number of levels other than the unknown level."""
    space = groups.space
    return math.prod(n - (u >= 0) for n, u in zip(space.shape, space.unknown, strict=True))


def shown(level: Level) -> str:
    """Return a level as text."""
    return level if isinstance(level, str) else " x ".join(level)
