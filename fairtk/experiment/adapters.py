"""How fairtk looks into each kind of object: the one table of identities by class.

A class's `identity_name` leads to the attributes that decide what its objects do, or to a function
that returns them. Names, not classes, so that nothing is imported to look something up. Classes of
fairtk's transformers need no entry: their `SETTINGS` say all.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import ir_measures

from fairtk.backends.adapter import CallableBackend
from fairtk.backends.model import HuggingFaceModel
from fairtk.backends.weights import find_folder, model_digest
from fairtk.errors import IdentityError
from fairtk.files.fingerprints import folder_digest
from fairtk.frames import digest, identity_name
from fairtk.llm import ChatBackend, ChatModel, LocalChat
from fairtk.llm.recorded import Recorded
from fairtk.measures import FairMeasure
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.generator import Generator
from fairtk.transformers.neural import NeuralScorer

Adapter = Callable[[Any], dict[str, Any]]
"""Takes an object and returns its settings; further objects among them are described in turn."""

_PYTERRIER: dict[str, tuple[str, ...]] = {
    "pyterrier._ops.Compose": ("_transformers",),
    "pyterrier._ops.FeatureUnion": ("_transformers",),
    "pyterrier._ops.SetUnion": ("left", "right"),
    "pyterrier._ops.SetIntersection": ("left", "right"),
    "pyterrier._ops.Sum": ("left", "right"),
    "pyterrier._ops.Concatenate": ("left", "right", "epsilon"),
    "pyterrier._ops.ScalarProduct": ("scalar",),
    "pyterrier._ops.RankCutoff": ("k",),
    "pyterrier.transformer.IdentityTransformer": (),
    "pyterrier.transformer.SourceTransformer": ("df",),
    "pyterrier.transformer.UniformTransformer": ("rtr",),
    "pyterrier.apply_base.DropColumnTransformer": ("col",),
    "pyterrier.apply_base.RenameColumnsTransformer": ("columns", "errors"),
    "pyterrier.pipelines.PerQueryMaxMinScoreTransformer": (),
    "pyterrier.text.MaxPassage": ("agg",),
    "pyterrier.text.MeanPassage": ("agg",),
    "pyterrier.text.FirstPassage": ("agg",),
    "pyterrier.text.KMaxAvgPassage": ("agg", "K"),
    "pyterrier.text.SlidingWindowPassager": (
        *("text_attr", "title_attr", "passage_length", "passage_stride", "join"),
        *("prepend_title", "tokenizer"),
    ),
    "pyterrier.datasets._irds.IRDSTextLoader": ("dataset", "fields"),
}

_RAG: dict[str, tuple[str, ...]] = {
    "pyterrier_rag.readers._base.Reader": ("backend", "prompt", "output_field"),
    "pyterrier_rag.prompt._context_aggregation.Concatenator": (
        *("in_fields", "out_field", "text_loader", "intermediate_format", "tokenizer"),
        *("max_length", "max_elements", "max_per_context", "truncation_rate"),
        *("aggregate_func", "ordering_func"),
    ),
    "pyterrier_rag.backend._base.TextGenerator": (
        *("backend", "input_field", "output_field", "logprobs_field", "batch_size"),
        *("max_new_tokens", "num_responses", "stop_sequences"),
    ),
    "fastchat.conversation.Conversation": (
        *("name", "system_template", "system_message", "roles", "messages", "offset"),
        *("sep_style", "sep", "sep2", "stop_str", "stop_token_ids"),
    ),
}

_PISA_INDEX = ("text_field", "stemmer", "index_encoding", "stops")
_PISA_FILES = ("fwd*", "inv*", "pt_*.json")  # the others are made from these, on demand
_PISA = (
    *("scorer", "num_results", "retr_args", "stops", "query_algorithm", "query_weighted"),
    *("toks_scale", "precompute_impact"),
)


class NoIdentityError(IdentityError):
    """Something among a stage's settings has no identity; says what."""


def adapter_of(value: Any) -> Adapter | None:
    """Return what looks into an object; None: nothing does."""
    name = identity_name(type(value))
    for table in (_PYTERRIER, _RAG):
        if name in table:
            return lambda found: {a: getattr(found, a) for a in table[name]}
    if name in _BY_NAME:
        return _BY_NAME[name]
    for base, adapter in _BY_BASE:
        if isinstance(value, base):
            return adapter
    # of fairtk's own objects (groups, targets, browsing models, folders of data) and of those
    # that keep to the same contract
    if not isinstance(value, type) and callable(getattr(value, "digest", None)):
        return _digest
    return None


def _digest(value: Any) -> dict[str, Any]:
    found = value.digest()
    if not isinstance(found, str):  # a hash object's, say
        raise NoIdentityError(f"{identity_name(type(value))}.digest() gives no text")
    return {"digest": found}


def _generator(stage: Generator) -> dict[str, Any]:
    # what a subclass like FlanT5 hands on to its backend is described there, models by their files
    handed = getattr(stage.backend, "SETTINGS", ())
    settings = {name: value for name, value in stage.settings().items() if name not in handed}
    return settings | {"backend": stage.backend}


def _candidates(stage: Any) -> dict[str, Any]:
    return {"dataset": stage.dataset if _named(stage._source) else _data(stage._source)}


def _irds_dataset(dataset: Any) -> dict[str, Any]:
    source = dataset.irds_ref()
    return {"dataset": source.dataset_id() if _named(source) else _data(source)}


def _named(source: Any) -> bool:
    return hasattr(source, "dataset_id")


def _data(source: Any) -> str:
    """Return a digest of all that a dataset without an id holds."""
    parts: list[Any] = []
    for kind in ("docs", "queries", "scoreddocs"):
        if source.has(kind):
            parts.append([kind, *(list(item) for item in getattr(source, f"{kind}_iter")())])
    return f"#{digest(parts, 16)}"


def _pisa(stage: Any) -> dict[str, Any]:
    index = stage.index
    settings = {name: getattr(stage, name) for name in _PISA}
    folder = Path(str(index.path))
    return settings | {
        "index": {name: getattr(index, name) for name in _PISA_INDEX},
        "index files": f"#{folder_digest(folder, _PISA_FILES)}",
    }


def _hugging_face(model: HuggingFaceModel) -> dict[str, Any]:
    # the files say more than their name, and how they may be read changes nothing
    files = ("model", "revision", "allow_pickled_weights")
    settings = {name: getattr(model, name) for name in model.SETTINGS if name not in files}
    weights = _weights(model.content_digest(), model.LIBRARIES)
    return settings | weights | {"device": _device_class(model.device)}


@cache  # read from the distribution's files
def version(name: str) -> str:
    """Return the version of an installed distribution."""
    return importlib.metadata.version(name)


def _weights(digest: str, libraries: Iterable[str] = HuggingFaceModel.LIBRARIES) -> dict[str, Any]:
    return {"files": f"#{digest}", "libraries": {name: version(name) for name in libraries}}


def _device_class(device: Any) -> str:
    """Return ``"cpu"`` or ``"cuda"``: answers of two devices of one class count as equal."""
    import torch

    if str(device) == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return str(torch.device(str(device)).type)


def _rag_hugging_face(backend: Any) -> dict[str, Any]:
    names = ("max_input_length", "max_new_tokens", "_generation_args", "logprobs_topk")
    settings = {name: getattr(backend, name) for name in names}
    weights = _weights(model_digest(find_folder(backend.model_id)))
    return settings | weights | {"device": _device_class(backend.device)}


def _rag_openai(backend: Any) -> dict[str, Any]:
    names = ("model_id", "max_input_length", "max_new_tokens", "_generation_args", "api")
    kept = {name: getattr(backend, name, None) for name in (*names, "logprobs_topk")}
    client = getattr(backend, "client", None)
    return kept | {"server": str(getattr(client, "base_url", ""))}


def _rag_prompt(prompt: Any) -> dict[str, Any]:
    names = ("system_message", "output_field", "input_fields", "raw_instruction", "api_type")
    own = vars(prompt).get("answer_extraction")
    if getattr(own, "__func__", None) is not type(prompt).answer_extraction:
        raise NoIdentityError("PromptTransformer.answer_extraction is a function")
    settings = {name: getattr(prompt, name) for name in (*names, "conversation_template")}
    return settings | {"instruction": _compiled(prompt.instruction)}


def _compiled(instruction: Any) -> str:
    """Return a digest of what a Jinja template was compiled to; its text is not kept."""
    for cell in getattr(instruction, "__closure__", None) or ():
        render = getattr(cell.cell_contents, "root_render_func", None)
        if render is not None:
            return f"template #{digest(_code(render.__code__), 16)}"
    raise NoIdentityError("PromptTransformer.instruction is a function")


def _code(code: Any) -> list[Any]:
    constants = [_code(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return [code.co_code, list(code.co_names), constants]


def _measure(measure: Any) -> dict[str, Any]:
    if "<" in type(measure).__qualname__:  # of ir_measures.define: its function may be any
        raise NoIdentityError(f"the measure {measure!r} is a function")
    own = isinstance(measure, FairMeasure)  # whose objects and defaults count
    return {name: measure[name] for name in (measure.SUPPORTED_PARAMS if own else measure.params)}


def _function(backend: CallableBackend) -> dict[str, Any]:
    owner = getattr(backend.function, "__self__", None)
    method = getattr(backend.function, "__name__", "")
    if owner is None or adapter_of(owner) is None:
        raise NoIdentityError(f"the backend {backend.name!r} is a function")
    return {"backend": owner, "method": method, "max_prompt_tokens": backend.max_prompt_tokens}


_BY_NAME: dict[str, Adapter] = {
    "fairtk.Candidates": _candidates,
    "fairtk.FairDataset": _irds_dataset,
    "pyterrier.datasets._irds.IRDSDataset": _irds_dataset,
    "pyterrier_pisa.PisaRetrieve": _pisa,
    "pyterrier_rag.backend._hf.HuggingFaceBackend": _rag_hugging_face,
    "pyterrier_rag.backend._hf.Seq2SeqLMBackend": _rag_hugging_face,
    "pyterrier_rag.backend._openai.OpenAIBackend": _rag_openai,
    "pyterrier_rag.prompt._base.PromptTransformer": _rag_prompt,
}

_BY_BASE: tuple[tuple[type, Adapter], ...] = (
    (ChatBackend, lambda backend: {"model": backend.model}),
    (Recorded, lambda model: {"model": model.llm}),
    (LocalChat, lambda model: {"backend": model.backend}),
    (ChatModel, lambda model: {"name": model.name, "parameters": model.parameters()}),
    (HuggingFaceModel, _hugging_face),
    (CallableBackend, _function),
    (ir_measures.Measure, _measure),
    (Generator, _generator),
    (NeuralScorer, lambda stage: {"encoder": stage.encoder}),
    (FairTransformer, lambda stage: stage.settings()),
)

CHEAP = frozenset(
    [
        *(n for n, attributes in _PYTERRIER.items() if "left" not in attributes),
        "fairtk.Candidates",
        "fairtk.BM25Scorer",
        "fairtk.FixedExposure",
        "fairtk.OracleExposure",
        "fairtk.PlackettLuceExposure",
        "fairtk.OracleSampler",
        "fairtk.FairSampler",
    ]
) - {"pyterrier._ops.Compose", "pyterrier._ops.FeatureUnion"}
"""Stages that are done again faster than a store reads what they made."""
