"""The entry points of installed plugins: hooks (group ``fairtk``) and commands.

``FAIRTK_PLUGINS`` names the distributions to load (empty: built-ins only). A broken plugin is left
out with a `PluginWarning`; ``FAIRTK_STRICT_PLUGINS=1`` makes that a `PluginError`.
"""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass, field
from email.message import Message
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from fairtk import __version__
from fairtk.errors import PluginError, PluginWarning
from fairtk.wording import did_you_mean, install_hint

RESTRICT = "FAIRTK_PLUGINS"
STRICT = "FAIRTK_STRICT_PLUGINS"
BUILTIN = "fairtk"
HOOK_GROUP, COMMAND_GROUP = "fairtk", "fairtk.commands"
"""The groups of entry points with hooks and with commands."""


@dataclass(eq=False)
class Plugin:
    """A plugin: its distribution, its hooks, and its error if it is broken."""

    name: str
    version: str
    module: str
    hooks: list[str] = field(default_factory=list)
    gave: dict[str, list[str]] = field(default_factory=dict)  # the names registered by each hook
    problem: str = ""
    implementation: Any = field(default=None, repr=False)
    point: Any = field(default=None, repr=False)  # its entry point; `None` for objects
    command: str = ""  # the name of its command, if it is one

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def label(self) -> str:
        """The name in messages."""
        return f"the command {self.command!r} of {self}" if self.command else f"plugin {self}"

    def check_version(self) -> None:
        """Raise a `PluginError` if the distribution requires another version of fairtk."""
        if self.name == BUILTIN:
            return
        from packaging.requirements import Requirement
        from packaging.version import Version

        version = Version(__version__).base_version  # a pre-release of 0.4 counts as 0.4
        for line in _metadata(self.point.dist).get_all("Requires-Dist") or ():
            required = Requirement(line)
            needed = required.marker is None or required.marker.evaluate({"extra": ""})
            if needed and _normal(required.name) == BUILTIN and version not in required.specifier:
                raise PluginError(
                    f"it requires fairtk{required.specifier}, got fairtk {__version__}"
                )

    def reject(self, error: BaseException) -> None:
        """Record that the plugin is broken, and warn."""
        self.problem = reason(error)
        advice = f"update or uninstall it, or name the others in {RESTRICT}"
        _warn(f"{self.label} is left out: {self.problem}; {advice}", error)


def installed_plugins(group: str) -> list[Plugin]:
    """Return the entry points of a group, of the distributions chosen by the user.

    The built-in ones come first, the others are sorted by name.
    """
    points = entry_points()
    plugins = []
    for point in (*points.select(group=HOOK_GROUP), *points.select(group=COMMAND_GROUP)):
        metadata = _metadata(point.dist)
        name, version = metadata.get("Name") or point.value, metadata.get("Version") or ""
        command = point.name if point.group == COMMAND_GROUP else ""
        plugins.append(Plugin(name, version, point.value, point=point, command=command))
    plugins.sort(key=lambda p: (p.name != BUILTIN, p.name, p.point.name))
    names = {_normal(plugin.name): plugin.name for plugin in plugins}
    if BUILTIN not in names:
        _warn(
            "fairtk is not installed, so the built-in measures and commands are missing; run "
            f"{install_hint()}, or pip install -e ., in a checkout"
        )
    restricted = os.environ.get(RESTRICT)
    chosen = sorted(w.strip() for w in (restricted or "").split(",") if w.strip())
    allowed = {BUILTIN, *map(_normal, chosen)} if restricted is not None else set(names)
    for name in chosen:
        if _normal(name) not in names:
            tail = did_you_mean(name, names.values())
            _warn(f"unknown plugin {name!r} in {RESTRICT}{tail}")
    return [p for p in plugins if p.point.group == group and _normal(p.name) in allowed]


@cache  # parses a file, once for all commands of a distribution
def _metadata(distribution: Any) -> Any:
    return distribution.metadata or Message()  # remains of an uninstalled package have no metadata


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
