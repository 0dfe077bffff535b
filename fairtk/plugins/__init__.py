"""Plugins: hook specifications, the registries they fill, and the host that loads them."""

from __future__ import annotations

from fairtk.plugins.hookspecs import hookimpl
from fairtk.plugins.host import HOST, RESTRICT, STRICT
from fairtk.plugins.registry import (
    DatasetSpec,
    PromptSpec,
    StudySystemSpec,
    TransformerSpec,
    UtilitySpec,
)

load = HOST.load
loaded = HOST.all_plugins
register = HOST.register
unregister = HOST.unregister

__all__ = [
    "DatasetSpec",
    "HOST",
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
