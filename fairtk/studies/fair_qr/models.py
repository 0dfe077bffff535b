"""The language model of a study, from its settings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from fairtk.errors import NotFoundError, ParameterError
from fairtk.llm import ChatModel, KeywordRefiner, LocalChat, OpenAICompatible
from fairtk.studies.config import with_nothing

BACKENDS = ("keyword", "openai", "causal", "seq2seq")


def make_model(settings: Mapping[str, Any]) -> ChatModel:
    """Return the model.

    Args:
        settings: ``backend``: ``"keyword"`` (the default: rules, no model), ``"openai"`` (any
            server that speaks OpenAI's chat protocol), ``"causal"`` or ``"seq2seq"`` (local
            Hugging Face models); and the settings of `fairtk.llm.KeywordRefiner`,
            `fairtk.llm.OpenAICompatible`, `fairtk.backends.HuggingFaceCausal` or
            `fairtk.backends.HuggingFaceSeq2Seq` (these two with ``temperature`` and ``seed`` of
            `fairtk.llm.LocalChat`). Keys are never settings: they stay in the environment;
            ``api_key_env = ""`` is for servers without, ``temperature = "none"`` and ``max_tokens =
            "none"`` for those that take none.

    Raises:
        NotFoundError: there is no such backend or setting.
        ParameterError: a setting is missing or out of its range.
    """
    given = dict(settings)
    backend = given.pop("backend", "keyword")
    if backend not in BACKENDS:
        raise NotFoundError("backend of [llm]", backend, BACKENDS)
    if backend == "keyword":
        return KeywordRefiner(**_checked(KeywordRefiner, given))
    if backend == "openai":
        return OpenAICompatible(**_checked(OpenAICompatible, with_nothing(given)))
    from fairtk.backends import HuggingFaceCausal, HuggingFaceSeq2Seq

    kind = HuggingFaceCausal if backend == "causal" else HuggingFaceSeq2Seq
    sampling = {name: given.pop(name) for name in ("temperature", "seed") if name in given}
    return LocalChat(kind(**_checked(kind, given)), **sampling)


def parse_model(text: str) -> dict[str, Any]:
    """Return the settings for what a user writes: ``keyword``, ``openai:gpt-4o``, ``causal:PATH``.

    Raises:
        NotFoundError: there is no such backend.
        ParameterError: the model's name is missing.
    """
    backend, _, model = text.partition(":")
    if backend not in BACKENDS:
        raise NotFoundError("backend", backend, BACKENDS)
    if backend != "keyword" and not model:
        raise ParameterError(f"expected {backend}:MODEL, e.g. openai:gpt-4o; found {text!r}")
    name = {"keyword": "table"}.get(backend, "model")
    return {"backend": backend} | ({name: model} if model else {})


def _checked(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    known = list(inspect.signature(kind).parameters)
    for name in given:
        if name not in known:
            raise NotFoundError(f"setting of {kind.__name__}", name, known)
    if "model" in known and "model" not in given:
        raise ParameterError(f"[llm] needs the name of the model: model = '...' ({kind.__name__})")
    return dict(given)
