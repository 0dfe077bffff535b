"""Plugins: hook specifications, the registries they fill, and the host that loads them."""

from __future__ import annotations

from fairtk.plugins.hookspecs import hookimpl
from fairtk.plugins.host import HOST
from fairtk.plugins.registry import (
    DatasetSpec,
    PromptSpec,
    StudySystemSpec,
    TransformerSpec,
    UtilitySpec,
)

loaded = HOST.all_plugins
register = HOST.register
unregister = HOST.unregister

__all__ = [
    "DatasetSpec",
    "HOST",
    "PromptSpec",
    "StudySystemSpec",
    "TransformerSpec",
    "UtilitySpec",
    "hookimpl",
    "loaded",
    "register",
    "unregister",
]
