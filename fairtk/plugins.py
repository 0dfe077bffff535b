"""Loads plugins one by one and fills the registries with what they give.

A plugin that cannot be imported, or whose hook fails, becomes a `PluginWarning` and is left out;
nothing else suffers. A misspelt hook, or a name that another plugin has, is a `PluginError`, raised
at the next look-up so that ``fairtk plugins`` can still show who is who. The environment variable
``FAIRTK_PLUGINS`` restricts loading to a comma-separated list of distributions (empty: built-ins
only); ``FAIRTK_STRICT_PLUGINS=1`` raises everything at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from fairtk import hookspecs
from fairtk.errors import PluginError, PluginWarning
from fairtk.registry import ALL, Registry

RESTRICT = "FAIRTK_PLUGINS"
STRICT = "FAIRTK_STRICT_PLUGINS"
BUILTIN = "fairtk"


@dataclass
class Plugin:
    """What is known of one plugin.

    Attributes:
        name: its distribution, e.g. ``"fairtk-hello"``.
        version: the distribution's version, or ``""``.
        module: the plugin object's module, e.g. ``"fairtk_hello"``.
        hooks: the names of the hooks that it implements.
        gave: for each hook, the names of what it gave.
        problem: why it is left out, or ``""``.
    """

    name: str
    version: str
    module: str
    hooks: list[str] = field(default_factory=list)
    gave: dict[str, list[str]] = field(default_factory=dict)
    problem: str = ""

    @property
    def label(self) -> str:
        """Name and version, for messages."""
        return f"{self.name} {self.version}".strip()


class PluginHost:
    """The plugins of one process and the registries they fill.

    Args:
        registries: the registry that each value-returning hook fills.
    """

    def __init__(self, registries: dict[str, Registry[Any]]) -> None:
        self.registries = registries
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.plugins: list[Plugin] = []
        self.listeners: list[Callable[[str, str, Any], None]] = []
        self._objects: dict[int, Plugin] = {}
        self._deferred: list[tuple[EntryPoint, Plugin]] = []
        self._errors: list[PluginError] = []
        self._loaded = False

    def load(self) -> None:
        """Load the plugins of all installed distributions; later calls do nothing."""
        if self._loaded:
            return
        self._loaded = True
        wanted = os.environ.get(RESTRICT)
        chosen = None if wanted is None else {w.strip() for w in wanted.split(",") if w.strip()}
        found = list(entry_points(group=hookspecs.PROJECT))
        found.sort(key=lambda e: (_owner(e) != BUILTIN, _owner(e), e.name))  # built-ins first
        if not any(_owner(e) == BUILTIN for e in found):
            self._reject(
                Plugin(BUILTIN, "", "fairtk.builtin"),
                "its entry point is missing, so the built-in measures are too; "
                "install the package (pip install fairtk, or pip install -e . in a checkout)",
            )
        for point in found:
            owner = _owner(point)
            if owner == BUILTIN or chosen is None or owner in chosen:
                version = point.dist.version if point.dist is not None else ""
                self._load_one(point, Plugin(owner, version, point.value))
        if chosen:
            for name in sorted(chosen - {_owner(e) for e in found}):
                self._warn(f"{RESTRICT} names {name!r}, but no such plugin is installed")

    def ready(self) -> None:
        """Finish what `load` had to put off, and raise what `load` found wrong."""
        self.load()
        for point, plugin in self._take_deferred():
            self._load_one(point, plugin)
        if self._errors:
            raise self._errors[0]

    def register(self, plugin: Any, name: str, version: str = "") -> Plugin:
        """Register an object with hook implementations, as an installed plugin would be.

        For notebooks and tests. Errors are raised at once.

        Args:
            plugin: a module or an instance with methods marked by `fairtk.hookimpl`.
            name: the owner's name.
            version: the owner's version.
        """
        known = Plugin(name, version, getattr(plugin, "__name__", type(plugin).__name__))
        before = len(self._errors)
        self._collect(plugin, known)
        if len(self._errors) > before:
            error = self._errors.pop()
            self._remove(plugin, known)
            raise error
        if known.problem:
            self.plugins.remove(known)
            raise PluginError(f"{known.label}: {known.problem}")
        return known

    def unregister(self, plugin: Any) -> None:
        """Take back what `register` did."""
        known = self._objects.pop(id(plugin))
        self._remove(plugin, known)

    def _remove(self, plugin: Any, known: Plugin) -> None:
        self.manager.unregister(plugin)
        self.plugins.remove(known)
        for hook, names in known.gave.items():
            self.registries[hook].discard(names)
            for name in names:
                self._tell(hook, name, None)

    def command_plugins(self) -> Iterator[tuple[Plugin, Callable[..., object]]]:
        """Yield each plugin's ``fairtk_commands`` implementation with its owner."""
        for impl in self.manager.hook.fairtk_commands.get_hookimpls():
            yield self._objects[id(impl.plugin)], impl.function

    def reject(self, plugin: Plugin, why: str) -> None:
        """Note that a plugin's later work failed (a command that cannot be added)."""
        self._reject(plugin, why)

    def _take_deferred(self) -> list[tuple[EntryPoint, Plugin]]:
        ready = [d for d in self._deferred if not _initializing(d[0].module)]
        self._deferred = [d for d in self._deferred if d not in ready]
        return ready

    def _load_one(self, point: EntryPoint, plugin: Plugin) -> None:
        # A plugin's module that itself imports fairtk is only half there when fairtk loads its
        # plugins from within that import: its hooks would be missed without a word.
        if _initializing(point.module):
            self._deferred.append((point, plugin))
            return
        try:
            loaded = point.load()
        except Exception as error:
            self._reject(plugin, f"{type(error).__name__}: {_first_line(error)}", error)
            return
        if _initializing(point.module):
            self._deferred.append((point, plugin))
            return
        self._collect(loaded, plugin)

    def _collect(self, loaded: Any, plugin: Plugin) -> None:
        self.plugins.append(plugin)
        try:
            self.manager.register(loaded, name=f"{plugin.name}:{plugin.module}")
            self._objects[id(loaded)] = plugin
            self.manager.check_pending()
        except pluggy.PluginValidationError as error:
            plugin.problem = _first_line(error)
            if self.manager.is_registered(loaded):
                self.manager.unregister(loaded)
            self._error(
                PluginError(
                    f"{plugin.label} implements a hook that {BUILTIN} does not have or in a wrong "
                    f"form ({plugin.problem}); the hooks are {', '.join(sorted(_hook_names()))}"
                )
            )
            return
        for caller in self.manager.get_hookcallers(loaded) or []:
            plugin.hooks.append(caller.name)
            if caller.name in self.registries:
                for impl in caller.get_hookimpls():
                    if impl.plugin is loaded:
                        self._fill(caller.name, impl.function, plugin)

    def _fill(self, hook: str, function: Callable[[], Any], plugin: Plugin) -> None:
        registry = self.registries[hook]
        try:
            values = [(str(_name_of(v)), v) for v in function()]
        except Exception as error:
            why = f"{hook} failed: {type(error).__name__}: {_first_line(error)}"
            self._reject(plugin, why, error)
            return
        for name, value in values:
            try:
                registry.add(name, value, plugin.label)
                plugin.gave.setdefault(hook, []).append(name)
                try:
                    self._tell(hook, name, value)
                except PluginError as error:
                    raise PluginError(f"plugin {plugin.label}: {error}") from error
            except PluginError as error:
                plugin.problem = str(error)
                self._error(error)

    def _tell(self, hook: str, name: str, value: Any) -> None:
        for listener in self.listeners:
            listener(hook, name, value)

    def _reject(self, plugin: Plugin, why: str, error: Exception | None = None) -> None:
        plugin.problem = why
        if plugin not in self.plugins:
            self.plugins.append(plugin)
        text = (
            f"plugin {plugin.label} is left out: {why}; update or uninstall it, "
            f"or name the others in {RESTRICT}"
        )
        if os.environ.get(STRICT) == "1":
            raise PluginError(text) from error
        self._warn(text)

    def _error(self, error: PluginError) -> None:
        self._errors.append(error)
        if os.environ.get(STRICT) == "1":
            raise error

    def _warn(self, text: str) -> None:
        warnings.warn(text, PluginWarning, stacklevel=2)


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def _initializing(module: str) -> bool:
    # A package's submodule counts as half there while the package itself is.
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        loaded = sys.modules.get(".".join(parts[:end]))
        spec = getattr(loaded, "__spec__", None)
        if parts[0] != BUILTIN and getattr(spec, "_initializing", False):
            return True
    return False


def _name_of(value: Any) -> str:
    name = getattr(value, "NAME", None) or getattr(value, "name", None)
    name = name or getattr(value, "__name__", None)
    if not isinstance(name, str):
        raise PluginError(f"{value!r} has no name (NAME, name or __name__)")
    return name


def _hook_names() -> list[str]:
    return [n for n in vars(hookspecs) if n.startswith("fairtk_")]


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


HOST = PluginHost(ALL)
"""The host that `import fairtk` fills."""

for _registry in ALL.values():
    _registry.before_use = HOST.ready

load = HOST.load
register = HOST.register
unregister = HOST.unregister


def loaded() -> list[Plugin]:
    """Return all plugins found so far, the rejected ones with their `problem`."""
    HOST.load()
    return list(HOST.plugins)
