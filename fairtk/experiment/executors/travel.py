"""Stages on their way to a worker: cloudpickle, and reducers for what it cannot take."""

from __future__ import annotations

import importlib
import io
import pickle
from collections.abc import Callable
from typing import Any

from fairtk.errors import WorkerError
from fairtk.experiment.identity import class_name

_INDEX = ("text_field", "stemmer", "index_encoding", "batch_size", "stops", "threads")
_RETRIEVER = (
    *("scorer", "num_results", "threads", "verbose", "stops", "query_algorithm"),
    *("query_weighted", "toks_scale", "precompute_impact"),
)


def to_worker(stage: Any) -> bytes:
    """Return a stage as bytes.

    Raises:
        WorkerError: the stage holds something that cannot travel; names the stage.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            reducer = _REDUCERS.get(class_name(type(obj)))
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


def _made(module: str, name: str, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(module), name)(*args, **settings)


_REDUCERS: dict[str, Callable[[Any], Any]] = {
    "pyterrier_pisa.PisaIndex": _pisa_index,
    "pyterrier_pisa.PisaRetrieve": _pisa_retriever,
}
"""How objects that hold something open are made anew, by class."""
