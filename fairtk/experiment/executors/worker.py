"""What a worker process does with tasks, and how stages and what came of them travel.

Stages travel by cloudpickle, with reducers for what it cannot take.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from fairtk.errors import FairtkError, WorkerError
from fairtk.experiment.executors.sessions import Function
from fairtk.frames import identity_name

_INDEX = ("text_field", "stemmer", "index_encoding", "batch_size", "stops", "threads")
_OPENAI = ("max_input_length", "max_new_tokens", "api", "timeout", "logprobs_topk", "verbose")
_RETRIEVER = (
    *("scorer", "num_results", "threads", "verbose", "stops", "query_algorithm"),
    *("query_weighted", "toks_scale", "precompute_impact"),
)


def to_worker(stage: Any) -> bytes:
    """Return a stage as bytes."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            reducer = _REDUCERS.get(identity_name(type(obj)))
            return super().reducer_override(obj) if reducer is None else reducer(obj)

    sink = io.BytesIO()
    try:
        Pickler(sink).dump(stage)
    except Exception as error:
        raise WorkerError(
            f"{type(stage).__name__} cannot travel to a worker ({error}): use executor='serial', "
            "or give the transformer a __getstate__ that leaves out what is open"
        ) from error
    return sink.getvalue()


def from_parent(data: bytes) -> Any:
    """Return the stage that `to_worker` packed: bytes of the run's own parent, never a file's."""
    return pickle.loads(data)


def _pisa_index(index: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    settings = {name: getattr(index, name) for name in _INDEX}
    return _made, ("pyterrier_pisa", "PisaIndex", (str(index.path),), settings)


def _pisa_retriever(stage: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    settings = {name: getattr(stage, name) for name in _RETRIEVER} | stage.retr_args
    return _made, ("pyterrier_pisa", "PisaRetrieve", (stage.index,), settings)


def _openai(backend: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # its connection stays here, and so does the key: a worker has its own in the environment
    settings = {name: getattr(backend, name) for name in _OPENAI} | {
        "generation_args": backend._generation_args,
        "base_url": str(backend.client.base_url),
        "max_retries": backend.client.max_retries,
        "parallel": backend.thread_pool._max_workers,
    }
    return _made, ("pyterrier_rag.backend", "OpenAIBackend", (backend.model_id,), settings)


def _template(template: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    # its text is not kept, but what it was compiled to is
    parts = {
        "name": template.name,
        "__file__": template.filename,
        "root": template.root_render_func,
        "blocks": template.blocks,
        "debug_info": template._debug_info,
    }
    return _made_template, (template.environment, parts, template.globals)


def _made_template(environment: Any, parts: dict[str, Any], names: Any) -> Any:
    import jinja2

    return jinja2.Template._from_namespace(environment, parts, names)


def _made(module: str, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*args, **settings)


_REDUCERS: dict[str, Callable[[Any], Any]] = {
    "jinja2.environment.Template": _template,
    "pyterrier_pisa.PisaIndex": _pisa_index,
    "pyterrier_pisa.PisaRetrieve": _pisa_retriever,
    "pyterrier_rag.backend._openai.OpenAIBackend": _openai,
}
"""How objects that hold something open are made anew, by class."""


def working() -> Callable[[tuple[Function, Any, Mapping[str, bytes]]], tuple[str, Any, Any]]:
    """Return what does the tasks of a worker, which come with the stages that are new to it."""
    stages: dict[str, Any] = {}

    def work(call: tuple[Function, Any, Mapping[str, bytes]]) -> tuple[str, Any, Any]:
        function, task, fresh = call
        try:
            stages.update({key: from_parent(data) for key, data in fresh.items()})
        except Exception as error:
            return "failed", portable(error), []
        return answer(function, stages, task)

    return work


def answer(function: Function, stages: Mapping[str, Any], task: Any) -> tuple[str, Any, Any]:
    """Return what a task gave, as data: the result or the error, and the warnings of ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kind, value = "done", function(stages, task)
        except Exception as error:
            kind, value = "failed", portable(error)
    said = [(w.category, str(w.message)) for w in caught]
    return kind, value, [s for s in said if s[0].__module__.startswith("fairtk")]


def portable(error: Exception) -> tuple[Exception, str]:
    """Return an error that can travel, and what Python would print: cause and traceback cannot."""
    return _pickled(error), "".join(traceback.format_exception(error))


def _pickled(error: Exception) -> Exception:
    """Return the error itself, or its message in one of our classes."""
    with contextlib.suppress(Exception):  # some cannot be made from their arguments
        if str(pickle.loads(pickle.dumps(error))) == str(error):
            return error
    text = str(error) if isinstance(error, FairtkError) else f"{type(error).__name__}: {error}"
    for cls in type(error).__mro__:
        if cls.__module__ == FairtkError.__module__ and "__init__" not in vars(cls):
            plain: Exception = cls(text)
            return plain
    return FairtkError(text)
