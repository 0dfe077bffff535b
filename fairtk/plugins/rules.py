"""What a plugin must keep to: hooks that exist and are marked, and values of the hook's kind."""

from __future__ import annotations

from typing import Any

from fairtk.errors import PluginError, suggestion
from fairtk.exposure.browsing import BrowsingModel
from fairtk.plugins import hookspecs
from fairtk.plugins.registry import (
    DatasetSpec,
    PromptSpec,
    StudySystemSpec,
    TransformerSpec,
    UtilitySpec,
)

_SPECS: dict[str, type] = {
    "fairtk_utilities": UtilitySpec,
    "fairtk_transformers": TransformerSpec,
    "fairtk_datasets": DatasetSpec,
    "fairtk_prompts": PromptSpec,
    "fairtk_study_systems": StudySystemSpec,
}


class BrokenPluginError(Exception):
    """A plugin does not work; it is left out with a warning."""


def hook_names() -> list[str]:
    """Return the names of all hooks, sorted."""
    return sorted(name for name in vars(hookspecs) if name.startswith("fairtk_"))


def check_hooks(plugin: Any, marked: list[str], label: str) -> None:
    """Raise unless a plugin has hooks, all of them exist, and all are marked.

    Args:
        plugin: the module or object.
        marked: the names of its functions that are marked by `fairtk.hookimpl`.
        label: the owner's name and version, for messages.

    Raises:
        PluginError: a hook is misspelt, or not marked.
        BrokenPluginError: there is no hook.
    """
    known = hook_names()
    for name in marked:
        if name not in known:
            raise PluginError(
                f"plugin {label} implements the hook {name!r}, which {hookspecs.PROJECT} does not "
                f"have{suggestion(name, known)}"
            )
    for name in known:
        function = getattr(plugin, name, None)
        imported = function is vars(hookspecs)[name]
        if callable(function) and name not in marked and not imported:
            raise PluginError(
                f"plugin {label} defines {name} without marking it, so {hookspecs.PROJECT} would "
                "not call it: put @fairtk.hookimpl above it"
            )
    if not marked:
        raise BrokenPluginError(f"it implements no hook; the hooks are {', '.join(known)}")


def named(values: Any, hook: str) -> list[tuple[str, Any]]:
    """Return what a hook returned, each value with its name.

    Raises:
        BrokenPluginError: a value is not what the hook must give.
    """
    if not hasattr(values, "__iter__") or isinstance(values, str | dict):
        raise BrokenPluginError(f"{hook} must return a list; found {values!r}")
    return [(_name(value, hook), value) for value in values]


def _name(value: Any, hook: str) -> str:
    wanted = _SPECS.get(hook)
    if wanted is not None and not isinstance(value, wanted):
        raise BrokenPluginError(f"{hook} must give {wanted.__name__} objects; found {value!r}")
    if hook == "fairtk_browsing_models":
        if not (isinstance(value, type) and issubclass(value, BrowsingModel)):
            raise BrokenPluginError(
                f"{hook} must give subclasses of BrowsingModel (classes, not objects); "
                f"found {value!r}"
            )
        return value.__name__
    if hook == "fairtk_measures" and isinstance(value, type):
        raise BrokenPluginError(f"{hook} must give instances, {value.__name__}(); found the class")
    name = getattr(value, "NAME", None) or getattr(value, "name", None)
    if not isinstance(name, str) or not name:
        raise BrokenPluginError(f"{hook} gave {value!r}, which has no name")
    return name
