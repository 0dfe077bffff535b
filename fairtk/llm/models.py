"""Build models from strings, ``KIND:MODEL``, and from settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from fairtk import checks
from fairtk.errors import NotFoundError, ParameterError
from fairtk.llm.chat import ChatModel
from fairtk.llm.functions import as_chat_model
from fairtk.plugins import ChatModelSpec, registry
from fairtk.plugins.registry import refuse_other_than_text

ANSWERS, REFINEMENT = "answers", "refinement"
"""The uses of a model."""


def list_model_kinds(use: str) -> dict[str, ChatModelSpec]:
    """Return the kinds of models for a use, `ANSWERS` or `REFINEMENT`, by name."""
    checks.choice("use", use, (ANSWERS, REFINEMENT))
    entries = registry.chat_models.entries()
    return {entry.name: entry.value for entry in entries if use in entry.value.uses}


def kind_of_model(name: Any, use: str, what: str) -> ChatModelSpec:
    """Return the kind of a name, or raise a `NotFoundError` about `what` with the nearest name."""
    kinds = list_model_kinds(use)
    return kinds[checks.known(what, name, kinds)]


def parse_model(text: str, use: str, what: str) -> tuple[ChatModelSpec, dict[str, Any]]:
    """Return kind and settings from ``KIND:MODEL`` or ``KIND-DTYPE:MODEL``, e.g. ``t5:my/model``.

    Args:
        text: the user's text; kinds without a model have no colon.
        use: `ANSWERS` or `REFINEMENT`.
        what: its name in messages, e.g. ``"generator"``.

    Raises:
        NotFoundError: unknown kind; the nearest is suggested.
        ParameterError: the model's name is missing.
    """
    name, _, model = checks.text("text", text, what).partition(":")
    settings: dict[str, Any] = {}
    plain, _, dtype = name.rpartition("-")
    if name not in registry.chat_models and plain in registry.chat_models:
        name, settings = plain, {"dtype": dtype}
    spec = kind_of_model(name, use, what)
    first = next(iter(_parameters(spec).values()))
    if not model and first.default is first.empty:
        raise ParameterError(f"expected {name}:MODEL, e.g. {name}:{spec.example}, got {text!r}")
    return spec, {first.name: model, **settings} if model else settings


def check_settings(spec: ChatModelSpec, settings: Mapping[str, Any]) -> None:
    """Raise an error for an unknown setting, a missing model, or a setting of the wrong type.

    Raises:
        NotFoundError: unknown setting; the nearest is suggested.
        ParameterError: the model's name is missing, or a setting must be a text.
    """
    name, parameters = spec.load().__name__, _parameters(spec)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for setting in settings:
        if setting not in parameters and not takes_any:
            raise NotFoundError(f"{name} setting", setting, parameters)
    refuse_other_than_text(name, parameters, settings)
    first = next(iter(parameters.values()))
    if first.default is first.empty and first.name not in settings:
        raise ParameterError(
            f"{name}: {first.name} is required, the name of the model for {spec.name}"
        )


def build_model(spec: ChatModelSpec, settings: Mapping[str, Any]) -> ChatModel:
    """Return a model of a kind.

    Raises:
        NotFoundError: unknown setting.
        ParameterError: the model's name is missing, or a setting is invalid.
        MissingExtraError: a package is not installed.
    """
    check_settings(spec, settings)
    return as_chat_model(spec.load()(**settings))


def _parameters(spec: ChatModelSpec) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(spec.load()).parameters
