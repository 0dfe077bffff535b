"""Retrievers and generators by what a user writes: ``contriever:FOLDER``, ``t5:FOLDER``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairtk.backends import CTranslate2Seq2Seq, HuggingFaceCausal
from fairtk.errors import NotFoundError, ParameterError
from fairtk.llm import Ledger, OpenAICompatible, as_chat_model
from fairtk.studies.config import with_nothing
from fairtk.transformers import BM25Scorer, ContrieverScorer, FlanT5, Generator, SpladeScorer

RETRIEVERS: Mapping[str, Callable[..., Any]] = {
    "bm25": BM25Scorer,
    "contriever": ContrieverScorer,
    "splade": SpladeScorer,
}
GENERATORS = ("t5", "ct2", "causal", "openai")

SERVER = "openai:"
"""What generators begin with that a server answers for."""

MakeGenerator = Callable[[int, int], Generator]
"""From the number of a LaMP task and the cutoff to its generator."""


def make_retriever(text: str, **options: Any) -> Any:
    """Return the scorer for ``bm25``, ``contriever[:MODEL]`` or ``splade[:MODEL]``.

    Args:
        text: what the user wrote.
        **options: settings of the scorer.

    Raises:
        NotFoundError: there is no such retriever.
        ParameterError: a setting is wrong.
    """
    name, _, model = text.partition(":")
    if name not in RETRIEVERS:
        raise NotFoundError("retriever", name, RETRIEVERS)
    if model and name == "bm25":
        raise ParameterError(f"bm25 has no model; found {text!r}")
    return RETRIEVERS[name](**({"model": model} if model else {}), **options)


def make_generator(text: str, *, ledger: Ledger | None = None, **options: Any) -> MakeGenerator:
    """Return what makes a generator for a task, with LaMP's prompt of the task.

    Args:
        text: ``t5:MODEL`` (an encoder-decoder model: a hub name or a folder), ``ct2:MODEL`` (the
            same by CTranslate2), ``causal:MODEL``, or ``openai:MODEL`` (any server that speaks
            OpenAI's chat protocol). With a dtype, ``t5-bfloat16:MODEL``, a study can have the same
            model twice, and says how many labels differ.
        ledger: keeps the answers of ``openai`` models, and their budget; None: the study's store.
        **options: settings of `fairtk.FlanT5`, `fairtk.backends.CTranslate2Seq2Seq`,
            `fairtk.backends.HuggingFaceCausal` or `fairtk.llm.OpenAICompatible`.

    Raises:
        NotFoundError: there is no such kind of generator.
        ParameterError: the model's name is missing, or a setting is wrong.
    """
    kind, _, model = text.partition(":")
    kind, _, dtype = kind.partition("-")
    if kind not in GENERATORS:
        raise NotFoundError("generator", kind, GENERATORS)
    options = {"dtype": dtype, **options} if dtype else options
    if not model:
        raise ParameterError(f"expected {kind}:MODEL, e.g. t5:google/flan-t5-small; found {text!r}")
    if kind == "t5":
        settings = {"dtype": "float32", **options}  # labels are signs of small differences
        return lambda task, cutoff: FlanT5(model, f"lamp-{task}", cutoff, **settings)
    if kind == "openai":
        server = as_chat_model(OpenAICompatible(model, **with_nothing(options)))
        backend: Any = server if ledger is None else ledger.wrap(server)
    else:
        backend = {"ct2": CTranslate2Seq2Seq, "causal": HuggingFaceCausal}[kind](model, **options)
    return lambda task, cutoff: Generator(backend, f"lamp-{task}", cutoff)
