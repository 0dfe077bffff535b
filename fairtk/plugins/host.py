"""Loads plugins one by one and fills the registries with what they give.

A plugin that does not work, misspells a hook or gives a name that is taken is left out whole.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any

import pluggy

from fairtk.errors import PluginError, did_you_mean
from fairtk.plugins import hookspecs, registry
from fairtk.plugins.entry_points import BUILTIN, HOOK_GROUP, Plugin, installed_plugins, reason
from fairtk.plugins.registry import Registry
from fairtk.plugins.streams import to_stderr

HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("fairtk_"))
ALL: dict[str, Registry[Any]] = {
    hook: getattr(registry, hook.removeprefix("fairtk_")) for hook in HOOKS
}  # the registry that each hook fills


class PluginHost:
    """The plugins of one process (`plugins`, with what is wrong) and the registries they fill."""

    def __init__(self, registries: dict[str, Registry[Any]]) -> None:
        self.registries = registries
        for filled in registries.values():
            filled.before_use = self.load
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.plugins: list[Plugin] = []

    def load(self) -> None:
        """Load the plugins of all installed distributions; later calls try what had to wait."""
        waiting, self._waiting = self._waiting, []
        try:
            while waiting:
                self._load_one(waiting.pop(0))
        finally:  # where a warning is an error, the next call goes on
            self._waiting += waiting

    def register(self, plugin: Any, name: str, version: str = "") -> Plugin:
        """Register a module or object with hooks; a `PluginError` leaves nothing behind."""
        entry = Plugin(name, version, getattr(plugin, "__name__", type(plugin).__name__))
        try:
            self._collect(plugin, entry)
        except (Exception, SystemExit) as error:
            raise PluginError(f"plugin {entry}: {reason(error)}") from error
        self.plugins.append(entry)
        return entry

    def unregister(self, plugin: Any) -> None:
        """Take back what `register` did; an unknown object is a `PluginError`."""
        if not self.manager.is_registered(plugin):
            raise PluginError(f"{plugin!r} is not a registered plugin, so it cannot be taken back")
        entry = next(p for p in self.plugins if p.implementation is plugin)
        self._take_back(entry)
        self.plugins.remove(entry)

    def all_plugins(self) -> list[Plugin]:
        """Return all plugins so far, the rejected ones with their `Plugin.problem`."""
        self.load()
        return list(self.plugins)

    @cached_property
    def _waiting(self) -> list[Plugin]:
        """The plugins that wait for loading: at first the installed ones."""
        return installed_plugins(HOOK_GROUP)

    def _load_one(self, plugin: Plugin) -> None:
        self.plugins.append(plugin)
        try:
            if _half_imported(module := plugin.module.partition(":")[0]):
                raise ImportError("its hooks would be missed silently", name=module)
            plugin.check_version()
            with to_stderr():
                self._collect(plugin.point.load(), plugin)
        except (Exception, SystemExit) as error:
            if isinstance(error, ImportError) and _half_imported(error.name or ""):
                self.plugins.remove(plugin)  # what is missing will be there later
                self._waiting.append(plugin)
            else:
                plugin.reject(error)

    def _collect(self, implementation: Any, plugin: Plugin) -> None:
        """Take in all that a plugin gives, or raise and take in nothing."""
        if self.manager.is_registered(implementation):
            raise PluginError(
                f"{plugin.module} is registered already; name a module in one entry point only, "
                "and unregister an object first"
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
            raise PluginError(f"it implements a hook in a wrong form: {text}") from error
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
        raise PluginError(f"it implements no hook; the hooks are {', '.join(HOOKS)}")
    for name in [*plugin.hooks, *HOOKS]:
        if name not in HOOKS:
            what = f"it implements the hook {name!r}, which fairtk does not have"
            raise PluginError(what + did_you_mean(name, HOOKS))
        function = getattr(plugin.implementation, name, None)
        imported = function is vars(hookspecs)[name]
        if callable(function) and name not in plugin.hooks and not imported:
            raise PluginError(
                f"it defines {name} without marking it, so fairtk would not call it: "
                "put @fairtk.hookimpl above it"
            )


def _half_imported(module: str) -> bool:
    # ``import fairtk_hello`` imports fairtk, which loads its plugins, ``fairtk_hello`` among them,
    # of which only the first lines have run by then (as of fairtk, always); a private flag tells
    parts = module.strip().split(".")
    around = [".".join(parts[: end + 1]) for end in range(len(parts))]
    specs = [getattr(sys.modules.get(name), "__spec__", None) for name in around]
    return parts[0] != BUILTIN and any(getattr(s, "_initializing", False) for s in specs)


HOST = PluginHost(ALL)
"""The plugins of this process."""


loaded_plugins = HOST.all_plugins
register = HOST.register
unregister = HOST.unregister
