"""Loads plugins one by one and fills the registries with what they give.

A plugin that does not work, misspells a hook or gives a name that is taken is left out whole with
a `PluginWarning`; ``FAIRTK_STRICT_PLUGINS=1`` makes that a `PluginError`. ``FAIRTK_PLUGINS`` names
the distributions to load (empty: built-ins only).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pluggy

from fairtk.errors import BrokenPluginError, PluginError, PluginWarning, install_hint, suggestion
from fairtk.plugins import hookspecs, registry
from fairtk.plugins.registry import Registry, to_stderr

RESTRICT = "FAIRTK_PLUGINS"
STRICT = "FAIRTK_STRICT_PLUGINS"
BUILTIN = "fairtk"
HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("fairtk_"))
ALL: dict[str, Registry[Any]] = {
    hook: value for hook in HOOKS if (value := vars(registry).get(hook.removeprefix("fairtk_")))
}  # what each hook that returns values fills


def is_command_line() -> bool:
    """Return whether this process is the command ``fairtk`` or ``python -m fairtk``."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return False  # a worker has the arguments of who started it
    program = os.path.splitext(os.path.basename(sys.argv[0]))[0] if sys.argv else ""
    if program not in ("-m", "__main__"):  # before and after Python has found the module
        return program == "fairtk"
    words = sys.orig_argv
    return "-m" in words and words[words.index("-m") + 1 :][:1] == ["fairtk"]


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

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()


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
            raise PluginError(f"plugin {entry}: {_reason(error)}") from error
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

    def with_commands(self) -> list[Plugin]:
        """Return the plugins with ``fairtk_commands``; only theirs of the modules are imported."""
        hook = "fairtk_commands"
        for plugin in self._waiting:
            with to_stderr(), contextlib.suppress(Exception, SystemExit):  # said when it loads
                if plugin.implementation is None and _names(plugin.point, hook):
                    plugin.implementation = plugin.point.load()
        plugins = [p for p in (*self.plugins, *self._waiting) if not p.problem]
        having = [p for p in plugins if hasattr(p.implementation, hook)]
        return [p for p in having if self.manager.parse_hookimpl_opts(p.implementation, hook)]

    def reject(self, plugin: Plugin, error: BaseException) -> None:
        """Note that a plugin does not work, and warn; with all else the work goes on."""
        plugin.problem = _reason(error)
        advice = f"update or uninstall it, or name the others in {RESTRICT}"
        self._say(f"plugin {plugin} is left out: {plugin.problem}; {advice}", error)

    @cached_property
    def _waiting(self) -> list[Plugin]:
        """The plugins that wait for loading: at first the installed ones that the user chose."""
        installed = []
        for point in entry_points(group=hookspecs.PROJECT):
            # A folder that an interrupted installation left behind may have no name or version.
            name, version = (getattr(point.dist, a, None) or "" for a in ("name", "version"))
            installed.append(Plugin(name or point.value, version, point.value, point=point))
        installed.sort(key=lambda p: (p.name != BUILTIN, p.name, p.point.name))  # built-ins first
        names = {_normal(plugin.name): plugin.name for plugin in installed}
        if BUILTIN not in names:
            self._say(
                "the built-in measures are missing, because the entry point of fairtk is: install "
                f"the package ({install_hint()}, or pip install -e . in a checkout)"
            )
        restricted = os.environ.get(RESTRICT)
        chosen = sorted(w.strip() for w in (restricted or "").split(",") if w.strip())
        allowed = {BUILTIN, *map(_normal, chosen)} if restricted is not None else set(names)
        for name in chosen:
            if _normal(name) not in names:
                tail = suggestion(name, names.values())
                self._say(f"{RESTRICT} names {name!r}, but no such plugin is installed{tail}")
        return [plugin for plugin in installed if _normal(plugin.name) in allowed]

    def _load_one(self, plugin: Plugin) -> None:
        self.plugins.append(plugin)
        try:
            if _half_imported(module := plugin.module.partition(":")[0]):
                raise ImportError("its hooks would be missed silently", name=module)
            with to_stderr():
                self._collect(plugin.point.load(), plugin)
        except (Exception, SystemExit) as error:
            if isinstance(error, ImportError) and _half_imported(error.name or ""):
                self.plugins.remove(plugin)  # what is missing will be there later
                self._waiting.append(plugin)
            else:
                self.reject(plugin, error)

    def _collect(self, implementation: Any, plugin: Plugin) -> None:
        """Take in all that a plugin gives, or raise and take in nothing."""
        if self.manager.is_registered(implementation):
            raise BrokenPluginError(
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
                if hook in self.registries:
                    values = getattr(implementation, hook)()
                    if not hasattr(values, "__iter__") or isinstance(values, str | dict):
                        raise BrokenPluginError(f"{hook} must return a list; found {values!r}")
                    plugin.gave[hook] = [self.registries[hook].add(v, plugin) for v in values]
        except BaseException:
            self._take_back(plugin)
            raise

    def _take_back(self, plugin: Plugin) -> None:
        if self.manager.is_registered(plugin.implementation):
            self.manager.unregister(plugin.implementation)
        plugin.gave.clear()
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
            what = f"it implements the hook {name!r}, which fairtk does not have"
            raise PluginError(what + suggestion(name, HOOKS))
        function = getattr(plugin.implementation, name, None)
        imported = function is vars(hookspecs)[name]
        if callable(function) and name not in plugin.hooks and not imported:
            raise PluginError(
                f"it defines {name} without marking it, so fairtk would not call it: "
                "put @fairtk.hookimpl above it"
            )


def _names(point: EntryPoint, hook: str) -> bool:
    """Return whether a plugin's module may have a hook, by its text: importing it may take long."""
    spec = find_spec(point.module)  # imports the packages around it, which plugins keep light
    text = Path(spec.origin).read_text("utf-8", "replace") if spec and spec.origin else ""
    return hook in text or bool(point.attr) or "import *" in text


def _half_imported(module: str) -> bool:
    # ``import fairtk_hello`` imports fairtk, which loads its plugins, ``fairtk_hello`` among them,
    # of which only the first lines have run by then (as of fairtk, always); a private flag tells
    parts = module.strip().split(".")
    around = [".".join(parts[: end + 1]) for end in range(len(parts))]
    specs = [getattr(sys.modules.get(name), "__spec__", None) for name in around]
    return parts[0] != BUILTIN and any(getattr(s, "_initializing", False) for s in specs)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()  # fairtk_hello is fairtk-hello, as for pip


def _reason(error: BaseException) -> str:
    if isinstance(error, pluggy.PluginValidationError):
        return f"it implements a hook in a wrong form: {' '.join(str(error).split())}"
    text = next(iter(str(error).strip().splitlines()), "")
    ours = isinstance(error, BrokenPluginError | PluginError)
    return text if ours else f"{type(error).__name__}: {text}"


HOST = PluginHost(ALL)
"""The plugins of this process."""


loaded = HOST.all_plugins
register = HOST.register
unregister = HOST.unregister
