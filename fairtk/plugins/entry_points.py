"""The entry points of installed plugins: of hooks (group ``fairtk``), of commands.

``FAIRTK_PLUGINS`` names the distributions to load (empty: built-ins only). What does not work is
left out with a `PluginWarning`; ``FAIRTK_STRICT_PLUGINS=1`` makes that a `PluginError`.
"""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from fairtk.errors import PluginError, PluginWarning, install_hint, suggestion

RESTRICT = "FAIRTK_PLUGINS"
STRICT = "FAIRTK_STRICT_PLUGINS"
BUILTIN = "fairtk"
HOOK_GROUP, COMMAND_GROUP = "fairtk", "fairtk.commands"
"""Of entry points."""


@dataclass(eq=False)
class Plugin:
    """What is known of one plugin: its distribution, what it implements, and what is wrong."""

    name: str
    version: str
    module: str
    hooks: list[str] = field(default_factory=list)
    gave: dict[str, list[str]] = field(default_factory=dict)  # names of what each hook gave
    problem: str = ""
    implementation: Any = field(default=None, repr=False)
    point: Any = field(default=None, repr=False)  # its entry point; None: a program registered it
    command: str = ""  # its name, if the entry point is that of a command

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"the command {self.command!r} of {self}" if self.command else f"plugin {self}"

    def reject(self, error: BaseException) -> None:
        """Note that it does not work, and warn; everything else works."""
        self.problem = reason(error)
        advice = f"update or uninstall it, or name the others in {RESTRICT}"
        _warn(f"{self.label} is left out: {self.problem}; {advice}", error)


def installed_plugins(group: str) -> list[Plugin]:
    """Return the entry points of a group, of the distributions that the user chose.

    The built-in ones come first, the others by name.
    """
    points = entry_points()
    plugins = []
    for point in (*points.select(group=HOOK_GROUP), *points.select(group=COMMAND_GROUP)):
        name, version = _name_and_version(point.dist)
        command = point.name if point.group == COMMAND_GROUP else ""
        plugins.append(
            Plugin(name or point.value, version, point.value, point=point, command=command)
        )
    plugins.sort(key=lambda p: (p.name != BUILTIN, p.name, p.point.name))
    names = {_normal(plugin.name): plugin.name for plugin in plugins}
    if BUILTIN not in names:
        _warn(
            "the built-in measures and commands are missing, because fairtk is not installed; "
            f"run {install_hint()}, or pip install -e . in a checkout"
        )
    restricted = os.environ.get(RESTRICT)
    chosen = sorted(w.strip() for w in (restricted or "").split(",") if w.strip())
    allowed = {BUILTIN, *map(_normal, chosen)} if restricted is not None else set(names)
    for name in chosen:
        if _normal(name) not in names:
            tail = suggestion(name, names.values())
            _warn(f"{RESTRICT} names {name!r}, but no such plugin is installed{tail}")
    return [p for p in plugins if p.point.group == group and _normal(p.name) in allowed]


@cache  # `metadata` parses a file, and all commands of a distribution need it
def _name_and_version(distribution: Any) -> tuple[str, str]:
    metadata = distribution.metadata or {}  # a folder that pip left behind may have none
    return metadata.get("Name") or "", metadata.get("Version") or ""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()  # fairtk_hello is fairtk-hello, as for pip


def reason(error: BaseException) -> str:
    """Return the first line of an error, with its type if it is not one of fairtk's."""
    text = next(iter(str(error).strip().splitlines()), "")
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}"


def _warn(text: str, cause: BaseException | None = None) -> None:
    if os.environ.get(STRICT) == "1":
        raise PluginError(text) from cause
    warnings.warn(text, PluginWarning, stacklevel=2)
