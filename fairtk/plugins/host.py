"""Loads plugins one by one and fills the registries with what they give.

A plugin that cannot be imported, or whose hook fails, becomes a `PluginWarning` and is left out
whole; nothing else suffers. A misspelt hook, or a name that another plugin has, is a `PluginError`,
raised at the next look-up so that ``fairtk plugins`` can still show who is who. The environment
variable ``FAIRTK_PLUGINS`` restricts loading to a comma-separated list of distributions (empty:
built-ins only); ``FAIRTK_STRICT_PLUGINS=1`` raises everything at once.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from fairtk.errors import PluginError, PluginWarning, suggestion
from fairtk.plugins import hookspecs
from fairtk.plugins.half_imported import half_imported, when_imported
from fairtk.plugins.registry import ALL, Registry
from fairtk.plugins.rules import BrokenPluginError, check_hooks, named

RESTRICT = "FAIRTK_PLUGINS"
STRICT = "FAIRTK_STRICT_PLUGINS"
BUILTIN = "fairtk"


@dataclass(eq=False)
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

    Attributes:
        manager: pluggy's manager.
        plugins: all plugins found so far, the rejected ones with their `Plugin.problem`.
        listeners: called with (hook, name, value) for everything a plugin gives, and with None as
            the value when it is taken back.
    """

    def __init__(self, registries: dict[str, Registry[Any]]) -> None:
        self.registries = registries
        self.manager = pluggy.PluginManager(hookspecs.PROJECT)
        self.manager.add_hookspecs(hookspecs)
        self.plugins: list[Plugin] = []
        self.listeners: list[Callable[[str, str, Any], None]] = []
        self._objects: dict[int, Plugin] = {}
        self._deferred: list[tuple[EntryPoint, Plugin]] = []
        self._errors: list[str] = []
        self._loaded = False

    def load(self) -> None:
        """Load the plugins of all installed distributions; later calls do nothing.

        Raises:
            PluginError: a plugin is broken in any way, and ``FAIRTK_STRICT_PLUGINS`` is 1.
        """
        if self._loaded:
            return
        self._loaded = True
        wanted = os.environ.get(RESTRICT)
        chosen = None if wanted is None else {w.strip() for w in wanted.split(",") if w.strip()}
        allowed = {_normal(name) for name in chosen or ()} | {BUILTIN}
        found = [(point, _described(point)) for point in entry_points(group=hookspecs.PROJECT)]
        found.sort(key=lambda f: (f[1].name != BUILTIN, f[1].name, f[0].name))  # built-ins first
        if not any(plugin.name == BUILTIN for _, plugin in found):
            self._left_out(
                Plugin(BUILTIN, "", "fairtk.builtin"),
                "the built-in measures are missing, because the entry point of fairtk is: "
                "install the package (pip install fairtk, or pip install -e . in a checkout)",
            )
        for point, plugin in found:
            if chosen is None or _normal(plugin.name) in allowed:
                self._load_one(point, plugin)
        names = {_normal(plugin.name) for _, plugin in found}
        for name in sorted(chosen or ()):
            if _normal(name) not in names:
                others = [plugin.name for _, plugin in found]
                tail = suggestion(name, others)
                self._warn(f"{RESTRICT} names {name!r}, but no such plugin is installed{tail}")

    def settle(self) -> None:
        """Load what `load` had to put off because its module was half imported."""
        self.load()
        now = [d for d in self._deferred if not half_imported(_module(d[0].value))]
        self._deferred = [d for d in self._deferred if d not in now]
        for point, plugin in now:
            self._load_one(point, plugin)

    def ready(self) -> None:
        """Load all plugins, and raise what was found wrong.

        Raises:
            PluginError: a plugin implements a hook that does not exist, or gives a name that
                another plugin has.
        """
        self.settle()
        if self._errors:
            more = len(self._errors) - 1
            tail = f" (and {more} more such problems: see fairtk plugins)" if more else ""
            raise PluginError(self._errors[0] + tail)

    def register(self, plugin: Any, name: str, version: str = "") -> Plugin:
        """Register an object with hook implementations, as an installed plugin would be.

        For notebooks and tests. Errors are raised at once, and leave nothing behind.

        Args:
            plugin: a module or an instance with methods marked by `fairtk.hookimpl`.
            name: the owner's name.
            version: the owner's version.

        Raises:
            PluginError: the plugin is broken in any way.
        """
        known = Plugin(name, version, getattr(plugin, "__name__", type(plugin).__name__))
        try:
            self._collect(plugin, known)
        except PluginError:
            raise
        except Exception as error:
            raise PluginError(f"plugin {known.label}: {_reason(error)}") from error
        self.plugins.append(known)
        return known

    def unregister(self, plugin: Any) -> None:
        """Take back what `register` did.

        Raises:
            PluginError: the object is not registered.
        """
        known = self._objects.get(id(plugin))
        if known is None:
            raise PluginError(f"{plugin!r} is not a registered plugin, so it cannot be taken back")
        self._take_back(plugin, known)
        self.plugins.remove(known)

    def command_plugins(self) -> Iterator[tuple[Plugin, Callable[..., object]]]:
        """Yield each plugin's ``fairtk_commands`` implementation with its owner."""
        self.settle()
        for impl in self.manager.hook.fairtk_commands.get_hookimpls():
            yield self._objects[id(impl.plugin)], impl.function

    def reject(self, plugin: Plugin, why: str) -> None:
        """Note that a plugin's later work failed (a command that cannot be added)."""
        self._left_out(plugin, why)

    def _load_one(self, point: EntryPoint, plugin: Plugin) -> None:
        if self._defer(point.value, point, plugin):
            return
        try:
            loaded = point.load()
        except (Exception, SystemExit) as error:
            # a name missing from another module that is half imported will be there later
            if isinstance(error, ImportError) and self._defer(error.name, point, plugin):
                return
            self._left_out(plugin, _reason(error), error)
            return
        if self._defer(point.value, point, plugin):
            return
        try:
            self._collect(loaded, plugin)
        except PluginError as error:
            plugin.problem = str(error)
            self.plugins.append(plugin)
            self._errors.append(str(error))
            if _strict():
                raise
        except Exception as error:
            self._left_out(plugin, _reason(error), error)
        else:
            self.plugins.append(plugin)

    def _defer(self, module: str | None, point: EntryPoint, plugin: Plugin) -> bool:
        """Put a plugin off if the module is half imported: its hooks would be missed silently."""
        unfinished = half_imported(_module(module or ""))
        if unfinished in ("", BUILTIN):  # fairtk is always half imported when it loads plugins
            return False
        self._deferred.append((point, plugin))
        when_imported(unfinished, self.settle)
        return True

    def _collect(self, loaded: Any, plugin: Plugin) -> None:
        """Take in all that a plugin gives, or raise and take in nothing.

        Raises:
            PluginError: a rule of the plugin system is broken.
            Exception: anything that the plugin raises.
        """
        self._join(loaded, plugin)
        self._objects[id(loaded)] = plugin
        try:
            callers = self.manager.get_hookcallers(loaded) or []
            plugin.hooks = [caller.name for caller in callers]
            check_hooks(loaded, plugin.hooks, plugin.label)
            for caller in callers:
                if caller.name in self.registries:
                    for impl in caller.get_hookimpls():
                        if impl.plugin is loaded:
                            self._fill(caller.name, impl.function, plugin)
        except BaseException:
            self._take_back(loaded, plugin)
            raise

    def _join(self, loaded: Any, plugin: Plugin) -> None:
        try:
            self.manager.register(loaded, name=f"{plugin.name}:{plugin.module}")
        except pluggy.PluginValidationError as error:
            raise PluginError(
                f"plugin {plugin.label} implements a hook of {BUILTIN} in a wrong form: "
                f"{' '.join(str(error).split())}"
            ) from error
        except ValueError as error:  # pluggy's message spans lines and lists all plugins
            raise PluginError(
                f"plugin {plugin.label}: {plugin.module} is registered already; "
                "name a module in one entry point only, and unregister an object first"
            ) from error

    def _fill(self, hook: str, function: Callable[[], Any], plugin: Plugin) -> None:
        registry = self.registries[hook]
        for name, value in named(function(), hook):
            if name in plugin.gave.get(hook, ()):
                raise BrokenPluginError(f"{hook} gives the {registry.kind} {name!r} twice")
            registry.add(name, value, plugin.label)
            plugin.gave.setdefault(hook, []).append(name)
            try:
                self._tell(hook, name, value)
            except PluginError as error:
                raise PluginError(f"plugin {plugin.label}: {error}") from error

    def _take_back(self, loaded: Any, plugin: Plugin) -> None:
        self._objects.pop(id(loaded), None)
        self.manager.unregister(loaded)
        for hook, names in plugin.gave.items():
            self.registries[hook].discard(names)
            for name in names:
                self._tell(hook, name, None)
        plugin.gave = {}

    def _tell(self, hook: str, name: str, value: Any) -> None:
        for listener in self.listeners:
            listener(hook, name, value)

    def _left_out(self, plugin: Plugin, why: str, error: BaseException | None = None) -> None:
        plugin.problem = why
        if plugin not in self.plugins:
            self.plugins.append(plugin)
        advice = f"update or uninstall it, or name the others in {RESTRICT}"
        ours = plugin.name == BUILTIN
        self._warn(
            why if ours else f"plugin {plugin.label} is left out: {why}; {advice}", cause=error
        )

    def _warn(self, text: str, cause: BaseException | None = None) -> None:
        if _strict():
            raise PluginError(text) from cause
        warnings.warn(text, PluginWarning, stacklevel=2)


def _strict() -> bool:
    return os.environ.get(STRICT) == "1"


def _described(point: EntryPoint) -> Plugin:
    # A folder that an interrupted installation left behind may have no name or version.
    name = getattr(point.dist, "name", None) or point.value
    return Plugin(str(name), str(getattr(point.dist, "version", None) or ""), point.value)


def _module(value: str) -> str:
    return value.partition(":")[0].strip()  # of an entry point's value, even a malformed one


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()  # fairtk_hello is fairtk-hello, as for pip


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    return text if isinstance(error, BrokenPluginError) else f"{type(error).__name__}: {text}"


HOST = PluginHost(ALL)
"""The host that `import fairtk` fills."""

for _registry in ALL.values():
    _registry.before_use = HOST.ready

load = HOST.load
register = HOST.register
unregister = HOST.unregister


def loaded() -> list[Plugin]:
    """Return all plugins found so far, the rejected ones with their `problem`."""
    HOST.settle()
    return list(HOST.plugins)
