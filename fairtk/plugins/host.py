"""Loads plugins one by one and fills the registries with what they give.

A plugin that does not work is left out whole with a `PluginWarning`. A misspelt hook or a name that
is taken is a `PluginError` at the next look-up. ``FAIRTK_PLUGINS`` names the distributions to load
(empty: built-ins only); ``FAIRTK_STRICT_PLUGINS=1`` raises everything at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pluggy

from fairtk.errors import BrokenPluginError, PluginError, PluginWarning, install_hint, suggestion
from fairtk.plugins import hookspecs, registry
from fairtk.plugins.registry import Registry
from fairtk.starting.printing import to_stderr

RESTRICT = "FAIRTK_PLUGINS"
STRICT = "FAIRTK_STRICT_PLUGINS"
BUILTIN = "fairtk"
HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("fairtk_"))
ALL: dict[str, Registry[Any]] = {
    f"fairtk_{name}": value for name, value in vars(registry).items() if isinstance(value, Registry)
}  # what each hook that returns values fills


@dataclass(eq=False)
class Plugin:
    """What is known of one plugin: its distribution, what it implements, and what is wrong."""

    name: str
    version: str
    module: str
    registries: dict[str, Registry[Any]] = field(repr=False)
    hooks: list[str] = field(default_factory=list)
    problem: str = ""
    implementation: Any = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @property
    def gave(self) -> dict[str, list[str]]:
        """For each hook, the names of what it gave."""
        found = ((hook, filled.given_by(self)) for hook, filled in self.registries.items())
        return {hook: names for hook, names in found if names}


class PluginHost:
    """The plugins of one process (`plugins`, with what is wrong) and the registries they fill."""

    def __init__(self, registries: dict[str, Registry[Any]]) -> None:
        self.registries = registries
        for filled in registries.values():
            filled.before_use = self.ready
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.plugins: list[Plugin] = []
        self._waiting: list[tuple[EntryPoint, Plugin]] = []
        self._errors: list[str] = []
        self._found = False

    def load(self) -> None:
        """Load the plugins of all installed distributions; later calls try what had to wait."""
        if not self._found:
            self._find()
        waiting, self._waiting = self._waiting, []
        for point, plugin in waiting:
            self._load_one(point, plugin)

    def ready(self) -> None:
        """Load all plugins and say what is wrong: a broken rule is a `PluginError`."""
        self.load()
        if self._errors:
            more = len(self._errors) - 1
            tail = f" (and {more} more such problems: see fairtk plugins)" if more else ""
            raise PluginError(self._errors[0] + tail)

    def register(self, plugin: Any, name: str, version: str = "") -> Plugin:
        """Register a module or object with hooks; a `PluginError` leaves nothing behind."""
        module = getattr(plugin, "__name__", type(plugin).__name__)
        known = Plugin(name, version, module, self.registries)
        try:
            self._collect(plugin, known)
        except PluginError:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(f"plugin {known}: {_reason(error)}") from error
        self.plugins.append(known)
        return known

    def unregister(self, plugin: Any) -> None:
        """Take back what `register` did; an unknown object is a `PluginError`."""
        if not self.manager.is_registered(plugin):
            raise PluginError(f"{plugin!r} is not a registered plugin, so it cannot be taken back")
        known = next(p for p in self.plugins if p.implementation is plugin)
        self._take_back(known)
        self.plugins.remove(known)

    def all_plugins(self) -> list[Plugin]:
        """Return all plugins found so far, the rejected ones with their `Plugin.problem`."""
        self.load()
        return list(self.plugins)

    def with_commands(self) -> list[Plugin]:
        """Return the plugins with ``fairtk_commands``; only theirs of the modules are imported."""
        if not self._found:
            self._find()
        for point, plugin in self._waiting:
            if plugin.implementation is None and _names(point, "fairtk_commands"):
                with to_stderr(), contextlib.suppress(Exception, SystemExit):  # said when it loads
                    plugin.implementation = point.load()
        return [p for p in [*self.plugins, *(p for _, p in self._waiting)] if self._commands(p)]

    def _commands(self, plugin: Plugin) -> bool:
        hook = "fairtk_commands"
        marked = hasattr(plugin.implementation, hook) and not plugin.problem
        return marked and bool(self.manager.parse_hookimpl_opts(plugin.implementation, hook))

    def reject(self, plugin: Plugin, error: BaseException) -> None:
        """Note that a plugin does not work, and warn; with all else the work goes on."""
        plugin.problem = _reason(error)
        advice = f"update or uninstall it, or name the others in {RESTRICT}"
        self._say(f"plugin {plugin} is left out: {plugin.problem}; {advice}", error)

    def _find(self) -> None:
        """Find the installed plugins, and let those that the user chose wait for loading."""
        self._found = True
        found = []
        for point in entry_points(group=hookspecs.PROJECT):
            # A folder that an interrupted installation left behind may have no name or version.
            name, version = (getattr(point.dist, a, None) or "" for a in ("name", "version"))
            plugin = Plugin(name or point.value, version, point.value, self.registries)
            found.append((point, plugin))
        found.sort(key=lambda f: (f[1].name != BUILTIN, f[1].name, f[0].name))  # built-ins first
        names = {_normal(plugin.name): plugin.name for _, plugin in found}
        if BUILTIN not in names:
            self._say(
                "the built-in measures are missing, because the entry point of fairtk is: install "
                f"the package ({install_hint()}, or pip install -e . in a checkout)"
            )
        wanted = os.environ.get(RESTRICT)
        chosen = sorted(w.strip() for w in (wanted or "").split(",") if w.strip())
        allowed = {BUILTIN, *map(_normal, chosen)} if wanted is not None else set(names)
        self._waiting = [f for f in found if _normal(f[1].name) in allowed]
        for name in chosen:
            if _normal(name) not in names:
                tail = suggestion(name, names.values())
                self._say(f"{RESTRICT} names {name!r}, but no such plugin is installed{tail}")

    def _load_one(self, point: EntryPoint, plugin: Plugin) -> None:
        if _half_imported(point.value.partition(":")[0]):
            self._waiting.append((point, plugin))  # its hooks would be missed silently
            return
        self.plugins.append(plugin)
        try:
            with to_stderr():
                self._collect(point.load(), plugin)
        except (Exception, SystemExit) as error:
            if isinstance(error, ImportError) and _half_imported(error.name or ""):
                self.plugins.remove(plugin)  # the missing name will be there later
                self._waiting.append((point, plugin))
            elif isinstance(error, PluginError) and plugin.hooks:  # not raised by its import
                plugin.problem = str(error)
                self._errors.append(plugin.problem)
                if os.environ.get(STRICT) == "1":
                    raise
            else:
                self.reject(plugin, error)

    def _collect(self, implementation: Any, plugin: Plugin) -> None:
        """Take in all that a plugin gives, or raise and take in nothing."""
        if self.manager.is_registered(implementation):
            raise PluginError(
                f"plugin {plugin}: {plugin.module} is registered already; name a module in one "
                "entry point only, and unregister an object first"
            )
        try:
            self.manager.register(implementation)
        except pluggy.PluginValidationError as error:
            why = " ".join(str(error).split())
            raise BrokenPluginError(f"it implements a hook in a wrong form: {why}") from error
        plugin.implementation = implementation
        try:
            callers = self.manager.get_hookcallers(implementation) or []
            plugin.hooks = [caller.name for caller in callers]
            _check_hooks(plugin)
            for hook in plugin.hooks:
                if hook in self.registries:
                    self._fill(hook, getattr(implementation, hook)(), plugin)
        except BaseException:
            self._take_back(plugin)
            raise

    def _fill(self, hook: str, values: Any, plugin: Plugin) -> None:
        if not hasattr(values, "__iter__") or isinstance(values, str | dict):
            raise BrokenPluginError(f"{hook} must return a list; found {values!r}")
        for value in values:
            try:
                self.registries[hook].add(value, plugin)
            except PluginError as error:
                raise PluginError(f"plugin {plugin}: {error}") from error

    def _take_back(self, plugin: Plugin) -> None:
        self.manager.unregister(plugin.implementation)
        for filled in self.registries.values():
            filled.discard(plugin)

    def _say(self, text: str, cause: BaseException | None = None) -> None:
        if os.environ.get(STRICT) == "1":
            raise PluginError(text) from cause
        warnings.warn(text, PluginWarning, stacklevel=2)


def _check_hooks(plugin: Plugin) -> None:
    if not plugin.hooks:
        raise BrokenPluginError(f"it implements no hook; the hooks are {', '.join(HOOKS)}")
    for name in [*plugin.hooks, *HOOKS]:
        if name not in HOOKS:
            what = f"plugin {plugin} implements the hook {name!r}, which fairtk does not have"
            raise PluginError(what + suggestion(name, HOOKS))
        function = getattr(plugin.implementation, name, None)
        imported = function is vars(hookspecs)[name]
        if callable(function) and name not in plugin.hooks and not imported:
            raise PluginError(
                f"plugin {plugin} defines {name} without marking it, so fairtk would not call it: "
                "put @fairtk.hookimpl above it"
            )


def _names(point: EntryPoint, hook: str) -> bool:
    """Return whether a plugin's module may have a hook, by its text: importing it may take long."""
    path, name, spec = None, "", None
    for part in point.module.split("."):
        name = f"{name}.{part}".lstrip(".")
        with contextlib.suppress(Exception):  # strange metadata: said when it is loaded
            spec = find_spec(name) if path is None else PathFinder.find_spec(name, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations
    text = Path(spec.origin).read_text("utf-8", "replace") if spec and spec.origin else hook
    return bool(point.attr) or hook in text or "import *" in text


def _half_imported(module: str) -> bool:
    # ``import fairtk_hello`` imports fairtk, which loads its plugins, ``fairtk_hello`` among them,
    # of which only the first lines have run by then; Python tells by a private flag only
    parts = module.strip().split(".")
    around = [".".join(parts[: end + 1]) for end in range(len(parts))]
    specs = [getattr(sys.modules.get(name), "__spec__", None) for name in around]
    # fairtk itself is always half imported when it loads plugins
    return parts[0] != BUILTIN and any(getattr(s, "_initializing", False) for s in specs)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()  # fairtk_hello is fairtk-hello, as for pip


def _reason(error: BaseException) -> str:
    text = next(iter(str(error).strip().splitlines()), "")
    return text if isinstance(error, BrokenPluginError) else f"{type(error).__name__}: {text}"


HOST = PluginHost(ALL)
