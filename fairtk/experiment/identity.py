"""Identities of stages, which are the keys of stored results; pipelines as chains of stages.

Tables map the `identity_name` of a class to its relevant attributes, or to a function that returns
them. They have names instead of classes to avoid imports. fairtk's transformers need no entry
because of their `SETTINGS`.

An identity is a description in JSON values: the `identity_name` of the class, its `output_version`
(by default the distribution and its version), and all settings, with digests for frames, groups
and files. Equal identities mean equal results. A `repr` is never an identity, because it may omit
settings or have an address. Objects without an identity are rejected; `fairtk.identified` adds one.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib.metadata
import platform
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
from pyterrier._ops import Compose
from pyterrier.datasets._irds import IRDSDataset
from pyterrier.transformer import SourceTransformer

from fairtk.errors import IdentityError
from fairtk.frames import QID, IntArray, digest, identity_name
from fairtk.io import folder_digest
from fairtk.io.atomic import file_digest
from fairtk.llm import ChatModel, FunctionModel, LedgerModel
from fairtk.llm.hugging_face import HuggingFaceChatModel, HuggingFaceModel
from fairtk.llm.loading import find_folder, model_digest
from fairtk.measures import FairMeasure
from fairtk.transformers import Candidates, FairTransformer, Generator, NeuralScorer
from fairtk.transformers.fitted import copy_to_train, is_trained
from fairtk.transformers.generator import CONTENT_MODELS
from fairtk.transformers.seen import Log, Seen
from fairtk.wording import short

Adapter = Callable[[Any], dict[str, Any]]
"""A function that returns the settings of an object, which are described recursively."""

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

_RAG_BACKEND = "pyterrier_rag.backend._base.Backend"
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
_PISA_FILES = ("fwd*", "inv*", "pt_*.json")  # other files are derived from these
_PISA = (
    *("scorer", "num_results", "retr_args", "stops", "query_algorithm", "query_weighted"),
    *("toks_scale", "precompute_impact"),
)


def adapter_of(value: Any, name: str) -> Adapter | None:
    """Return the adapter of an object whose class has this name, `None` if there is no adapter."""
    for table in (_PYTERRIER, _RAG):
        if name in table:
            return lambda instance: {a: getattr(instance, a) for a in table[name]}
    if name in _BY_NAME:
        return _BY_NAME[name]
    for base, adapter in _BY_BASE:
        if isinstance(value, base):
            return adapter
    # groups, targets, browsing models, folders of data, and others with a method digest()
    if not isinstance(value, type) and callable(getattr(value, "digest", None)):
        return _digest
    return None


def _digest(value: Any) -> dict[str, Any]:
    text = value.digest()
    if not isinstance(text, str):  # e.g. of a hash object
        raise IdentityError(f"{identity_name(type(value))}.digest() must return a string")
    return {"digest": text}


_SERVER_MODEL, _LOCAL_MODEL = "fairtk.ChatBackend", "fairtk.LocalChat"
"""Names of classes of earlier versions in the keys of stored results, which must not change."""


def described_model(llm: ChatModel) -> Any:
    """Return the object that identifies the content of a model: itself, or its source."""
    is_source = isinstance(llm, FunctionModel) and llm.is_described_by_source
    return llm.source if is_source else llm  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _Setting:
    """A value that is a setting of another name than its key in identities, for errors."""

    value: Any
    where: str


def _without_ledger(llm: Any) -> Any:
    """Return the model behind a ledger, which does not change results."""
    return llm.llm if isinstance(llm, LedgerModel) else llm


def _described_llm(llm: Any) -> Any:
    """Return a description of a model outside of generators."""
    llm = _without_ledger(llm)
    if not isinstance(llm, CONTENT_MODELS):
        return llm
    parts: dict[str, Any] = {"class": _LOCAL_MODEL, "made by": f"{_LOCAL_MODEL} 1"}
    if isinstance(llm, HuggingFaceChatModel) and llm.temperature:
        parts |= {"temperature": llm.temperature, "seed": llm.seed}
        llm = llm.at_temperature(0.0)
    return parts | {"backend": described_model(llm)}


def _transformer(stage: FairTransformer) -> dict[str, Any]:
    settings = stage.settings()
    return settings | ({"llm": _described_llm(settings["llm"])} if "llm" in settings else {})


def _generator(stage: Generator) -> dict[str, Any]:
    # settings that a subclass like FlanT5 passes to its model are described there
    llm = _without_ledger(stage.llm)
    passed = ("llm", *getattr(llm, "SETTINGS", ()))
    settings = {name: value for name, value in stage.settings().items() if name not in passed}
    where = f"{type(stage).__name__}.llm"
    if isinstance(llm, CONTENT_MODELS):
        return settings | {"backend": _Setting(described_model(llm), where)}
    named = {"class": _SERVER_MODEL, "made by": f"{_SERVER_MODEL} 1"}
    model = _Setting(_described_llm(llm), where)
    return settings | {"backend": {**named, "model": model}}


def _candidates(stage: Candidates) -> dict[str, Any]:
    if _named(stage._source):
        return dict(stage.settings())
    return stage.settings() | {"dataset": _data(stage._source)}


def _irds_dataset(dataset: Any) -> dict[str, Any]:
    source = dataset.irds_ref()
    return {"dataset": source.dataset_id() if _named(source) else _data(source)}


def _named(source: Any) -> bool:
    return hasattr(source, "dataset_id")


def _data(source: Any) -> str:
    """Return a digest of the content of a dataset without an id."""
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
    # the digest of the files replaces their name; loading options do not change results
    omitted = {"model", "revision", "allow_pickled_weights"}
    if isinstance(model, HuggingFaceChatModel) and not model.temperature:
        omitted |= set(model.SAMPLING)
    settings = {name: getattr(model, name) for name in model.SETTINGS if name not in omitted}
    weights = _weights(model.content_digest(), model.LIBRARIES)
    return settings | weights | {"device": _device_class(model.device)}


@cache
def version(name: str) -> str:
    """Return the version of an installed distribution."""
    return importlib.metadata.version(name)


def _weights(digest: str, libraries: Iterable[str] = HuggingFaceModel.LIBRARIES) -> dict[str, Any]:
    return {"files": f"#{digest}", "libraries": {name: version(name) for name in libraries}}


def _device_class(device: Any) -> str:
    """Return ``"cpu"`` or ``"cuda"``; answers from devices of the same class count as equal."""
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
    settings = {name: getattr(backend, name, None) for name in (*names, "logprobs_topk")}
    client = getattr(backend, "client", None)
    return settings | {"server": str(getattr(client, "base_url", ""))}


def _rag_prompt(prompt: Any) -> dict[str, Any]:
    names = ("system_message", "output_field", "input_fields", "raw_instruction", "api_type")
    method = vars(prompt).get("answer_extraction")
    if getattr(method, "__func__", None) is not type(prompt).answer_extraction:
        raise IdentityError("PromptTransformer.answer_extraction is a function")
    settings = {name: getattr(prompt, name) for name in (*names, "conversation_template")}
    return settings | {"instruction": _compiled(prompt.instruction)}


def _compiled(instruction: Any) -> str:
    """Return a digest of the compiled code of a Jinja template, which has no source."""
    for cell in getattr(instruction, "__closure__", None) or ():
        render = getattr(cell.cell_contents, "root_render_func", None)
        if render is not None:
            return f"template #{digest(_code(render.__code__), 16)}"
    raise IdentityError("PromptTransformer.instruction is a function")


def _code(code: Any) -> list[Any]:
    constants = [_code(c) if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return [code.co_code, list(code.co_names), constants]


def _measure(measure: Any) -> dict[str, Any]:
    if "<" in type(measure).__qualname__:  # from ir_measures.define, with any function
        raise IdentityError(f"the measure {measure!r} is a function")
    return dict(measure.identity_settings if isinstance(measure, FairMeasure) else measure.params)


def _function(model: FunctionModel) -> dict[str, Any]:
    owner = getattr(model.function, "__self__", None)
    method = getattr(model.function, "__name__", "")
    if owner is None or adapter_of(owner, identity_name(type(owner))) is None:
        raise IdentityError(f"the model {model.name!r} is a function")
    return {"backend": owner, "method": method, "max_prompt_tokens": model.max_prompt_tokens}


_BY_NAME: dict[str, Adapter] = {
    "pyterrier_pisa.PisaRetrieve": _pisa,
    "pyterrier_rag.backend._hf.HuggingFaceBackend": _rag_hugging_face,
    "pyterrier_rag.backend._hf.Seq2SeqLMBackend": _rag_hugging_face,
    "pyterrier_rag.backend._openai.OpenAIBackend": _rag_openai,
    "pyterrier_rag.prompt._base.PromptTransformer": _rag_prompt,
}

_BY_BASE: tuple[tuple[type, Adapter], ...] = (
    (LedgerModel, lambda model: {"model": _described_llm(model.llm)}),
    (HuggingFaceModel, _hugging_face),
    (FunctionModel, _function),
    (ChatModel, lambda model: {"name": model.name, "parameters": model.parameters()}),
    (ir_measures.Measure, _measure),
    (IRDSDataset, _irds_dataset),
    (Candidates, _candidates),
    (Generator, _generator),
    (NeuralScorer, lambda stage: {"encoder": stage.encoder}),
    (FairTransformer, _transformer),
)

_MADE_AGAIN = {n for n, attributes in _PYTERRIER.items() if "left" not in attributes}
_MADE_AGAIN -= {"pyterrier._ops.Compose", "pyterrier._ops.FeatureUnion"}
"""PyTerrier's stages that run faster than a store reads their results."""


Description = dict[str, Any]
"""JSON values; the keys are ``class``, ``made by`` and the names of settings."""


class Identified(pt.Transformer):  # type: ignore[misc]
    """A transformer with an identity given by the user; see `identified`."""

    def __init__(self, transformer: pt.Transformer, name: str) -> None:
        self.transformer = transformer
        self.name = name

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the result of the transformer."""
        return self.transformer.transform(inp)

    @property
    def missing(self) -> Any:
        """The transformer's queries without a result; `None` if it does not report them."""
        return getattr(self.transformer, "missing", None)

    @property
    def leaves_notes(self) -> bool:
        """Whether the transformer leaves notes on queries."""
        return getattr(self.transformer, "leaves_notes", False)

    def subtransformers(self) -> dict[str, Any]:
        """Return the transformer, for PyTerrier's schematics."""
        return {"transformer": self.transformer}

    def __repr__(self) -> str:
        return f"identified({self.transformer!r}, {self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identified) and self.name == other.name

    def __hash__(self) -> int:
        return hash((Identified, self.name))


class IdentifiedEstimator(Identified, pt.Estimator):  # type: ignore[misc]
    """A trainable transformer with an identity given by the user; see `identified`."""

    def fit(self, *frames: pd.DataFrame | None) -> None:
        """Train the transformer."""
        self.transformer.fit(*frames)

    def __deepcopy__(self, memo: dict[int, Any]) -> IdentifiedEstimator:
        return IdentifiedEstimator(copy_to_train(self.transformer), self.name)


@dataclass(frozen=True)
class IdentifiedFunction:
    """A function with an identity given by the user; see `identified`."""

    function: Callable[..., Any] = field(repr=False, compare=False)
    name: str

    def __call__(self, *args: Any) -> Any:
        """Return the result of the function."""
        return self.function(*args)


def identified(transformer: Any, name: str) -> Any:
    """Give a transformer or a function an identity, so that an experiment can save its results.

    Use it for functions (`pt.apply`, or ``answer`` of `fairtk.Generator`) and transformers that
    fairtk cannot inspect. The name must change whenever the results change, so include a version,
    e.g. ``"my reranker, v2"``, and the settings. A transformer that can be trained still can, e.g.
    by `fairtk.Fitted`, which identifies its training data itself.

    Raises:
        IdentityError: the name is empty, or the object is not a transformer or a function.
    """
    is_function = isinstance(transformer, types.FunctionType | types.BuiltinFunctionType)
    if not is_function and not isinstance(transformer, pt.Transformer):
        raise IdentityError(
            "identified: expected a PyTerrier transformer or a function, got "
            f"{type(transformer).__name__}"
        )
    if not isinstance(name, str) or not name.strip():
        raise IdentityError(
            f"identified: expected a name with a version, e.g. 'my reranker, v2', got {short(name)}"
        )
    if is_function:
        return IdentifiedFunction(transformer, name)
    has_fit = callable(getattr(transformer, "fit", None))
    if is_trained(transformer) or (has_fit and not isinstance(transformer, Compose)):
        return IdentifiedEstimator(transformer, name)
    return Identified(transformer, name)


def describe_stage(stage: Any) -> Description:
    """Return the identity of a stage as JSON values; see `fairtk.identified`.

    Raises:
        IdentityError: the stage or one of its settings has no identity.
    """
    try:
        description: Description = describe(stage, type(stage).__name__)
    except IdentityError as error:
        raise IdentityError(
            f"the stage {type(stage).__name__} has no content identity, so its results cannot be "
            f"saved: {error}; use fairtk.identified(transformer, 'name, v1'), or run without "
            "save_dir"
        ) from None
    return description


def key_of(description: Any) -> str:
    """Return the digest of an identity."""
    return digest(description, 16)


def describe(value: Any, where: str) -> Any:
    """Return JSON values that identify the content of a value.

    `where` is its name for errors, e.g. ``"FairSampler.alpha"``.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, _Setting):
        return describe(value.value, value.where)
    if isinstance(value, np.generic):
        return describe(value.item(), where)
    if isinstance(value, bytes):
        return f"bytes #{digest(value, 16)}"
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index | np.ndarray):
        return f"{type(value).__name__} {value.shape} #{_array_digest(value, where)}"
    if isinstance(value, Mapping):
        return {str(k): describe(value[k], f"{where}[{k!r}]") for k in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [describe(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((describe(item, where) for item in value), key=str)
    if isinstance(value, enum.Enum):
        return {"class": identity_name(type(value)), "value": value.name}
    if isinstance(value, Identified | IdentifiedFunction):
        return {"identified": value.name}
    if isinstance(value, types.FunctionType):
        return _described_function(value, where)
    return _described_object(value, where)


_SECRET = ("api_key", "access_token", "auth_token", "token", "password", "secret")
"""Settings whose texts are never recorded, only their digests."""


def _described_object(value: Any, where: str) -> Any:
    cls = type(value)
    name = identity_name(cls)
    adapter = adapter_of(value, name)
    if adapter is None and not isinstance(value, type) and dataclasses.is_dataclass(value):
        adapter = _fields
    if adapter is None:
        raise IdentityError(f"fairtk cannot inspect {where}, a {name}")
    parts = {n: describe(v, f"{where}.{n}") for n, v in adapter(value).items()}
    for secret in _SECRET:
        if isinstance(parts.get(secret), str):
            parts[secret] = f"text #{digest(parts[secret].encode(), 16)}"
    return {"class": name, "made by": made_by(cls, where), **parts}


def _described_function(function: types.FunctionType, where: str) -> Description:
    """Return the identity of a function of an installed package; reject others."""
    module = function.__module__ or ""  # `None` for a function that `exec` defines
    owners = _owners(module.partition(".")[0])
    if not owners or "<" in function.__qualname__:
        raise IdentityError(f"{where} is a function, {function.__qualname__}")
    return {"function": identity_name(function), "made by": _versions(owners)}


def _versions(owners: Iterable[str]) -> str:
    return ", ".join(f"{o} {version(o)}" for o in sorted(set(owners)))


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _array_digest(value: Any, where: str) -> str:
    columns = [value[c] for c in value] if isinstance(value, pd.DataFrame) else [value]
    items = [i for c in columns if c.dtype == object for i in np.asarray(c).ravel().tolist()]
    for item in items:
        if not (item is None or isinstance(item, str | bytes | bool | int | float)):
            describe(item, where)  # reject objects that only have a repr
    return digest(value, 16)


def made_by(cls: type, where: str) -> str:
    """Return the versions that the output of a class depends on, as text.

    These are the `output_version` of the class and of its bases. A class without its own
    `output_version` also gets the version of its distribution, or the digest of its file.

    Raises:
        IdentityError: the class has no `output_version` and is defined in a script or notebook,
            which may change.
    """
    declared = [base for base in cls.__mro__ if "output_version" in vars(base)]
    versions = [f"{identity_name(base)} {vars(base)['output_version']}" for base in declared]
    if cls not in declared:
        versions.insert(0, _distribution(cls, where))
    return ", ".join(versions)


def _distribution(cls: type, where: str) -> str:
    """Return the distribution and version of a class, or the digest of its file."""
    module = cls.__module__
    top = module.partition(".")[0]
    owners = _owners(top)
    if owners:
        return _versions(owners)
    # a class that `exec` defines without a __name__ also says that it is in the module builtins
    in_module = _is_defined_in(sys.modules.get(module), cls)
    if top in sys.stdlib_module_names and top != "__main__" and in_module:
        return f"python {sys.version_info.major}.{sys.version_info.minor}"
    file = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    if module == "__main__" or not file.is_file():
        raise IdentityError(
            f"the class {cls.__qualname__} of {where} is defined in a script, a notebook or by exec"
        )
    return f"{module} #{file_digest(file)}"


def _is_defined_in(module: Any, cls: type) -> bool:
    try:
        return attrgetter(cls.__qualname__)(module) is cls
    except AttributeError:
        return False


@functools.cache
def _owners(package: str) -> list[str]:
    """Return the distributions of a package; packages_distributions would read all packages."""
    owners = set()  # an editable install in the current folder is listed twice
    for distribution in importlib.metadata.distributions():
        names = (distribution.read_text("top_level.txt") or "").split()
        files = "" if names else "\n" + (distribution.read_text("RECORD") or "")
        if package in names or f"\n{package}/" in files or f"\n{package}.py," in files:
            owners.add(distribution.metadata["Name"])
    return sorted(owners)


def differences(before: Any, now: Any, where: str = "") -> Iterator[str]:
    """Yield the differences of two identities in words, e.g. ``"FairSampler.alpha: 1, now 2"``."""
    if isinstance(before, dict) and isinstance(now, dict):
        name = str(now.get("class", "")).rpartition(".")[2] or where
        if before.get("class") != now.get("class"):
            old = str(before.get("class", before.get("identified"))).rpartition(".")[2]
            yield f"{where or 'stage'}: {old}, now {name or now.get('identified')}"
            return
        for key in dict.fromkeys([*before, *now]):
            path = f"{name}.{key}" if name else key
            yield from differences(before.get(key), now.get(key), path)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{where}[{number}]" if where else "")
    elif before != now or type(before) is not type(now):
        yield f"{where or 'stages'}: {_short(before)}, now {_short(now)}"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("class", value.get("identified", "..."))).rpartition(".")[2]
    if isinstance(value, list):
        return " >> ".join(_short(item) for item in value)
    return repr(value)


_PACKAGES = (
    *("fairtk", "pyterrier", "ir_measures", "ir_datasets", "numpy", "pandas", "scipy", "pyarrow"),
    *("pytrec-eval-terrier", "cwl-eval", "pyterrier-pisa", "pyterrier-rag"),
    *("torch", "transformers", "tokenizers", "distributed"),
)


def environment() -> dict[str, Any]:
    """Return versions and the platform as JSON values, without personal data."""
    from fairtk import __version__

    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "fairtk": __version__,
        "python": sys.version.split()[0],
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": versions,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@dataclass(frozen=True)
class Stage:
    """One transformer of a pipeline."""

    key: str  # the digest of its identity, or a number in this run
    transformer: Any
    description: Description | None = None  # `None` if results are not saved

    @property
    def generator(self) -> Generator | None:
        """The stage as a generator of answers; `None` if it is not a generator."""
        inner = self.transformer
        inner = inner.transformer if isinstance(inner, Identified) else inner
        return inner if isinstance(inner, Generator) else None

    @property
    def runnable(self) -> Any:
        """The transformer to run: the generator, or a look-up of frames."""
        if type(self.transformer) is SourceTransformer:
            return FrameLookup(self.transformer.df)
        return self.generator or self.transformer

    @property
    def cheap(self) -> bool:
        """Whether running the stage is faster than reading its results."""
        kind = type(self.transformer)
        return getattr(kind, "is_cheap", False) or identity_name(kind) in _MADE_AGAIN

    @property
    def leaves_notes(self) -> bool:
        """Whether the stage leaves notes on queries."""
        own = getattr(self.transformer, "leaves_notes", False)
        return own or self.records_turns or self.calls_model

    @cached_property
    def records_turns(self) -> bool:
        """Whether there is a `fairtk.Seen` in the stage."""
        return bool(logs_of(self.transformer))

    @cached_property
    def calls_model(self) -> bool:
        """Whether there is a language model in the stage."""
        kinds = (ChatModel, Generator, pt.Transformer)
        return any(map(_is_model, objects_of(self.transformer, kinds)))

    @property
    def name(self) -> str:
        """The name of the stage, for messages."""
        if isinstance(self.transformer, Identified):
            return self.transformer.name
        return type(self.transformer).__name__


class FrameLookup(pt.Transformer):  # type: ignore[misc]
    """`pt.Transformer.from_df` as a look-up instead of a join of the full frame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    @cached_property
    def _rows(self) -> dict[str, IntArray]:
        rows: dict[str, IntArray] = self.frame.groupby(QID, sort=False).indices
        return rows

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the queries."""
        rows_by_query = [self._rows[qid] for qid in inp[QID].unique() if qid in self._rows]
        rows = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *rows_by_query]))
        return SourceTransformer(self.frame.iloc[rows]).transform(inp)


@dataclass
class Node:
    """A chain of stages: its last stage, and its parent chain."""

    number: int  # the index among the nodes of the tree; parents come before children
    parent: Node | None  # `None` for the topics
    stage: Stage
    key: str
    level: int  # the number of generators in the chain
    children: list[Node] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)  # systems that end here
    keep: bool = True  # whether results are stored

    @property
    def chain(self) -> list[Node]:
        """The nodes from the first stage to this one."""
        return [*(self.parent.chain if self.parent else []), self]

    @property
    def label(self) -> str:
        """The names of the stages, for messages."""
        return " >> ".join(node.stage.name for node in self.chain)


class Tree:
    """The chains of all systems; with `durable`, stages require an identity.

    Raises:
        IdentityError: a stage has no identity.
    """

    def __init__(self, systems: Mapping[str, Any], durable: bool) -> None:
        self.nodes: list[Node] = []
        self.ends: dict[str, Node] = {}
        self.transformers = {name: list(stages_of(system)) for name, system in systems.items()}
        self._durable = durable
        self._stages: list[Stage] = []
        for name, transformers in self.transformers.items():
            node: Node | None = None
            for transformer in transformers:
                node = self._child(node, self._stage(transformer))
            assert node is not None  # a pipeline has a stage
            node.systems.append(name)
            self.ends[name] = node
        for node in self.nodes:
            node.keep = self._is_stored(node)

    def _stage(self, transformer: Any) -> Stage:
        for candidate in self._stages:
            if candidate.transformer is transformer:
                return candidate
        if self._durable:
            description = describe_stage(transformer)
            stage = Stage(key_of(description), transformer, description)
            stage = next(
                (candidate for candidate in self._stages if candidate.key == stage.key), stage
            )
        else:
            alike = (s for s in self._stages if type(s.transformer) is type(transformer))
            equal = (s for s in alike if s.transformer == transformer)
            stage = next(equal, Stage(f"stage {len(self._stages)}", transformer))
        self._stages.append(stage)
        return stage

    def _child(self, parent: Node | None, stage: Stage) -> Node:
        siblings = parent.children if parent else [n for n in self.nodes if n.parent is None]
        for node in siblings:
            if node.stage.key == stage.key:
                return node
        key = digest([parent.key if parent else "", stage.key], 16)
        level = (parent.level if parent else 0) + (stage.generator is not None)
        node = Node(len(self.nodes), parent, stage, key, level)
        self.nodes.append(node)
        if parent:
            parent.children.append(node)
        return node

    def _is_stored(self, node: Node) -> bool:
        has_generator = any(n.stage.generator is not None for n in (node, *node.children))
        if node.systems or has_generator or node.stage.leaves_notes:
            return True
        return self._durable and (len(node.children) > 1 or not node.stage.cheap)


def chain_keys(stages: Iterable[Description]) -> list[str]:
    """Return the key of the chain up to each of some stages."""
    keys: list[str] = []
    for stage in stages:
        keys.append(digest([keys[-1] if keys else "", key_of(stage)], 16))
    return keys


def has_model(description: Any) -> bool:
    """Return whether the description of a stage has a language model."""
    if isinstance(description, list):
        return any(map(has_model, description))
    if not isinstance(description, dict):
        return False
    return not description.keys().isdisjoint(("llm", "backend")) or has_model(
        list(description.values())
    )


def models_of(stage: Any) -> list[ChatModel]:
    """Return the models of a stage whose calls go through a ledger.

    A generator's model of `CONTENT_MODELS` is not returned, only the models that it uses.
    """
    return objects_of(stage, ChatModel)


def logs_of(stage: Any) -> list[Log]:
    """Return the distinct records of `fairtk.Seen` in a stage."""
    return list({id(seen.log): seen.log for seen in objects_of(stage, Seen)}.values())


def _is_model(value: Any) -> bool:
    bases = {identity_name(base) for base in type(value).__mro__}
    return isinstance(value, ChatModel | Generator) or _RAG_BACKEND in bases


def objects_of(stage: Any, kind: Any) -> list[Any]:
    """Return the objects of a class in a stage.

    They are found in the attributes of transformers (also of PyTerrier's operators), dataclasses
    and functions as models, in lists, sets and dicts, and in the objects of bound methods.
    """
    objects: list[Any] = []
    visited: dict[int, Any] = {}  # by id; the value itself keeps its id
    waiting = [stage]
    while waiting:
        value = waiting.pop()
        if id(value) in visited:
            continue
        visited[id(value)] = value
        if isinstance(value, kind):
            objects.append(value)
        waiting += _parts(value)
    return objects


def _parts(value: Any) -> list[Any]:
    """Return the values in a value that may be or have transformers and models."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, types.MethodType):
        return [value.__self__]
    if isinstance(value, Generator) and isinstance(value.llm, CONTENT_MODELS):
        others = [part for name, part in vars(value).items() if name != "llm"]
        return others + _parts(value.llm)
    parts: list[Any] = []
    if isinstance(value, pt.Transformer | FunctionModel):
        parts += getattr(value, "__dict__", {}).values()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts += [getattr(value, f.name, None) for f in dataclasses.fields(value)]
    return parts


def stages_of(pipeline: Any) -> Iterator[Any]:
    """Yield the transformers of a pipeline in order."""
    if isinstance(pipeline, Compose):
        for part in pipeline:
            yield from stages_of(part)
    else:
        yield pipeline
