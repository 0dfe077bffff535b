"""What a worker process does: tasks by stages that it keeps, and what came of them as data."""

from __future__ import annotations

import contextlib
import pickle
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from fairtk.errors import FairtkError
from fairtk.experiment.executors.sessions import Function
from fairtk.experiment.executors.travel import from_parent


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
        if cls.__module__ == "fairtk.errors" and "__init__" not in vars(cls):
            plain: Exception = cls(text)
            return plain
    return FairtkError(text)
