"""A worker process: reads tasks from standard input, writes results to what was standard output.

It is started as a fresh interpreter, never as a fork (a fork after torch has generated hangs), and
does not import the user's script. It ends when its parent does.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from typing import Any, BinaryIO

from fairtk.errors import FairtkError
from fairtk.experiment.executors.sessions import Function
from fairtk.experiment.executors.travel import from_parent


def send(stream: BinaryIO, message: Any) -> None:
    """Write an object; the other side is a process of the same run, and reads it by pickle."""
    stream.write(pickle.dumps(message, protocol=5))
    stream.flush()


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


def main(results: BinaryIO) -> None:
    """Work until standard input ends, and write what comes of it."""
    sys.stdout = sys.stderr
    calls: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, calls), daemon=True).start()
    stages: dict[str, Any] = {}
    while True:
        function, task, fresh = calls.get()
        try:
            stages |= {key: from_parent(data) for key, data in fresh.items()}
        except Exception as error:
            send(results, ("failed", portable(error), []))
            continue
        send(results, answer(function, stages, task))


def _listen(stream: BinaryIO, calls: queue.Queue[Any]) -> None:
    """Hand over calls as they come; end the process with its parent, whatever it does then."""
    try:
        while True:
            calls.put(pickle.load(stream))  # noqa: S301 - of this run's parent
    except (EOFError, pickle.UnpicklingError):  # it ended, perhaps in the middle of a call
        os._exit(0)
    except BaseException:  # or the parent would wait for ever
        traceback.print_exc()
        os._exit(1)
