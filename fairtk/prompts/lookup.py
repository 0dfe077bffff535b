"""Prompt builders by name."""

from __future__ import annotations

from typing import Any

from fairtk.errors import ParameterError
from fairtk.plugins import registry
from fairtk.prompts.builder import PromptBuilder
from fairtk.string_forms import refuse_unknown_options


def get(name: str, **options: Any) -> PromptBuilder:
    """Return the prompt builder of a name.

    Args:
        name: ``"lamp-1"`` to ``"lamp-7"``, ``"rag"``, ``"template"``, or a plugin's.
        **options: the builder's options, e.g. ``truncate="fair-rag"`` for the LaMP prompts.

    Raises:
        NotFoundError: no such prompt; the nearest name is suggested.
        ParameterError: the prompt has no such option, needs one more, or refuses the value.
    """
    factory = registry.prompts.load(name)
    parameters = refuse_unknown_options(f"the prompt {name!r}", factory, options)
    needed = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    missing = [parameter for parameter in needed if parameter not in options]
    if missing:
        raise ParameterError(
            f"the prompt {name!r} needs the option {missing[0]!r}: "
            f"fairtk.prompts.get({name!r}, {missing[0]}=...)"
        )
    builder: PromptBuilder = factory(**options)
    return builder


def as_builder(prompt: str | PromptBuilder) -> PromptBuilder:
    """Return a builder for a name, or the given builder after a look at its interface.

    Raises:
        ParameterError: the object is neither a name nor a builder.
    """
    if isinstance(prompt, str):
        return get(prompt)
    if isinstance(prompt, type) or not callable(prompt) or not hasattr(prompt, "fields"):
        raise ParameterError(
            "prompt must be a name (fairtk.prompts.get) or an object with `fields` that is called "
            f"with (question, documents, tokenizer); found {prompt!r}"
        )
    return prompt
