"""Plugins: hook specifications, the registries they fill, and the host that loads them."""

from __future__ import annotations

from fairtk.plugins.hookspecs import hookimpl
from fairtk.plugins.host import (
    HOST,
    RESTRICT,
    STRICT,
    Plugin,
    PluginHost,
    load,
    loaded,
    register,
    unregister,
)
from fairtk.plugins.registry import (
    DatasetSpec,
    PromptSpec,
    StudySystemSpec,
    TransformerSpec,
    UtilitySpec,
)

__all__ = [
    "DatasetSpec",
    "HOST",
    "Plugin",
    "PluginHost",
    "PromptSpec",
    "RESTRICT",
    "STRICT",
    "StudySystemSpec",
    "TransformerSpec",
    "UtilitySpec",
    "hookimpl",
    "load",
    "loaded",
    "register",
    "unregister",
]
