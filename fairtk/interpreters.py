"""Fresh interpreters that answer calls through pipes, and end when their parent does.

They are never forks (a fork after torch has generated hangs), and do not import the user's script.
Calls and answers are pickled: both sides are processes of one run.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import pkgutil
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO

ENDED = (EOFError, OSError, ValueError, pickle.UnpicklingError)
"""The errors that `Interpreter.ask` raises when the process has ended."""

EXIT_TIMEOUT = 10.0
"""Seconds that a process has after an interrupt to store answers that are paid for."""

_START = (
    "import json, os, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "answers = os.fdopen(os.dup(1), 'wb'); os.dup2(2, 1); sys.stdout = sys.stderr; "
    "calls = os.fdopen(os.dup(0), 'rb'); os.dup2(os.open(os.devnull, os.O_RDONLY), 0); "
    "from fairtk.interpreters import serve; serve(sys.argv[2], calls, answers)"
)
# Output of a stage, a library or a plugin must not mix with the answers, and nothing that they
# start may read the calls from standard input.


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Interpreter:
    """A process that answers calls with the function that ``server`` returns.

    Args:
        server: ``"module:function"``.
        **options: further options of `subprocess.Popen`.
    """

    def __init__(self, server: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path), server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for the parent, which ends its workers in order.
            start_new_session=True,
            **options,
        )

    def ask(self, call: Any) -> Any:
        """Return the answer to a call, or raise one of `ENDED` if the process has ended."""
        to: Any = self.process.stdin
        back: Any = self.process.stdout
        data = pickle.dumps(call, protocol=5)
        try:
            to.write(data)
            to.flush()
            return pickle.load(back)
        except BaseException:  # otherwise a later call could receive this call's answer
            self.end()
            raise

    def interrupt(self) -> None:
        """Ask the process to end as Ctrl-C would; it ends after at most `EXIT_TIMEOUT` seconds."""
        stdin: Any = self.process.stdin
        with contextlib.suppress(OSError):
            stdin.close()

    def end(self) -> None:
        """End the process; a thread that waits for an answer gets one of `ENDED`."""
        self.interrupt()
        try:
            self.process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
        with contextlib.suppress(OSError), self.process:  # closes its streams and waits for it
            pass


def serve(server: str, calls: BinaryIO, answers: BinaryIO) -> None:
    """Answer calls until the stream of calls ends."""
    answer = pkgutil.resolve_name(server)()
    waiting: queue.Queue[Any] = queue.Queue()
    # needed where the calling shell ignores Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = (calls, waiting, threading.get_ident())
    try:
        threading.Thread(target=_listen, args=arguments, daemon=True).start()
        while True:
            answers.write(pickle.dumps(answer(waiting.get()), protocol=5))
            answers.flush()
    except KeyboardInterrupt:
        os._exit(0)


def _listen(stream: BinaryIO, calls: queue.Queue[Any], answering: int) -> None:
    """Queue calls as they arrive; when they end, interrupt the answering thread and exit."""
    try:
        while True:
            calls.put(pickle.load(stream))
    except (EOFError, pickle.UnpicklingError):  # the stream ended, perhaps within a call
        if hasattr(signal, "pthread_kill"):  # not on Windows
            signal.pthread_kill(answering, signal.SIGINT)
            time.sleep(EXIT_TIMEOUT)
        os._exit(0)
    except BaseException:  # otherwise the parent would wait forever
        traceback.print_exc()
        os._exit(1)
