"""Load plugins one by one, and register the objects that they provide.

A plugin that is broken, misspells a hook or provides a duplicate name is left out completely.
"""

from __future__ import annotations

import sys
from functools import cached_property
from types import ModuleType
from typing import Any

import pluggy

from fairtk.errors import PluginError
from fairtk.plugins import hookspecs, registry
from fairtk.plugins.entry_points import BUILTIN, HOOK_GROUP, Plugin, installed_plugins, reason
from fairtk.plugins.registry import Registry
from fairtk.plugins.streams import to_stderr
from fairtk.wording import did_you_mean

HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("fairtk_"))
ALL: dict[str, Registry[Any]] = {
    hook: getattr(registry, hook.removeprefix("fairtk_")) for hook in HOOKS
}  # hooks and their registries


class PluginHost:
    """The plugins of a process, working and rejected, and the registries that they fill."""

    def __init__(self, registries: dict[str, Registry[Any]]) -> None:
        self.registries = registries
        for filled in registries.values():
            filled.before_use = self.load
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.plugins: list[Plugin] = []

    def load(self) -> None:
        """Load the plugins of all installed distributions; later calls retry postponed ones."""
        waiting, self._waiting = self._waiting, []
        try:
            while waiting:
                self._load_one(waiting.pop(0))
        finally:  # if warnings are errors, the next call continues
            self._waiting += waiting

    def register(self, plugin: Any, name: str, version: str = "") -> Plugin:
        """Register a module or object with hooks; after a `PluginError`, nothing is registered."""
        kind = plugin if isinstance(plugin, type) else type(plugin)
        is_module = isinstance(plugin, ModuleType)
        entry = Plugin(name, version, plugin.__name__ if is_module else kind.__module__)
        try:
            self._collect(plugin, entry)
        except (Exception, SystemExit) as error:
            raise PluginError(f"plugin {entry}: {reason(error)}") from error
        self.plugins.append(entry)
        return entry

    def unregister(self, plugin: Any) -> None:
        """Undo `register`; an unknown object is a `PluginError`."""
        if not self.manager.is_registered(plugin):
            raise PluginError(f"unknown plugin {plugin!r}; unregister only registered ones")
        entry = next(p for p in self.plugins if p.implementation is plugin)
        self._take_back(entry)
        self.plugins.remove(entry)

    def all_plugins(self) -> list[Plugin]:
        """Return all plugins so far; rejected ones have a `Plugin.problem`."""
        self.load()
        return list(self.plugins)

    @cached_property
    def _waiting(self) -> list[Plugin]:
        """The plugins to load: at first all installed ones."""
        return installed_plugins(HOOK_GROUP)

    def _load_one(self, plugin: Plugin) -> None:
        self.plugins.append(plugin)
        try:
            if _is_partly_imported(module := plugin.module.partition(":")[0]):
                raise ImportError("some of its hooks are not defined yet", name=module)
            plugin.check_version()
            with to_stderr():
                self._collect(plugin.point.load(), plugin)
        except (Exception, SystemExit) as error:
            if isinstance(error, ImportError) and _is_partly_imported(error.name or ""):
                self.plugins.remove(plugin)  # postponed until the import is complete
                self._waiting.append(plugin)
            else:
                plugin.reject(error)

    def _collect(self, implementation: Any, plugin: Plugin) -> None:
        """Register all objects of a plugin, or raise an error and register nothing."""
        if self.manager.is_registered(implementation):
            raise PluginError(
                f"duplicate plugin {plugin.module}; name a module in only one entry point, and "
                "unregister an object before you register it again"
            )
        plugin.implementation = implementation
        try:
            self.manager.register(implementation)
            callers = self.manager.get_hookcallers(implementation) or []
            plugin.hooks = [caller.name for caller in callers]
            _check_hooks(plugin)
            for hook in plugin.hooks:
                values = getattr(implementation, hook)()
                if not hasattr(values, "__iter__") or isinstance(values, str | dict):
                    raise PluginError(f"{hook} must return a list, got {values!r}")
                plugin.gave[hook] = [self.registries[hook].add(v, plugin) for v in values]
        except pluggy.PluginValidationError as error:
            self._take_back(plugin)
            text = " ".join(str(error).split())
            raise PluginError(f"invalid hook implementation: {text}") from error
        except BaseException:
            self._take_back(plugin)
            raise

    def _take_back(self, plugin: Plugin) -> None:
        if self.manager.is_registered(plugin.implementation):
            self.manager.unregister(plugin.implementation)
        plugin.gave.clear()
        for filled in self.registries.values():
            filled.discard(plugin)


def _check_hooks(plugin: Plugin) -> None:
    if not plugin.hooks:
        raise PluginError(f"no hook with @fairtk.hookimpl; known: {', '.join(HOOKS)}")
    for name in [*plugin.hooks, *HOOKS]:
        if name not in HOOKS:
            raise PluginError(f"unknown hook {name!r}{did_you_mean(name, HOOKS)}")
        function = getattr(plugin.implementation, name, None)
        imported = function is vars(hookspecs)[name]
        if callable(function) and name not in plugin.hooks and not imported:
            raise PluginError(f"{name} requires the marker @fairtk.hookimpl")


def _is_partly_imported(module: str) -> bool:
    # ``import fairtk_hello`` imports fairtk, which loads its plugins, among them ``fairtk_hello``.
    # At that time, only its first lines have run. A private flag of the module spec shows this.
    parts = module.strip().split(".")
    around = [".".join(parts[: end + 1]) for end in range(len(parts))]
    specs = [getattr(sys.modules.get(name), "__spec__", None) for name in around]
    return parts[0] != BUILTIN and any(getattr(s, "_initializing", False) for s in specs)


HOST = PluginHost(ALL)
"""The plugins of this process."""


loaded_plugins = HOST.all_plugins
register = HOST.register
unregister = HOST.unregister
