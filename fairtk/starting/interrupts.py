"""Ctrl-C on the command line, from the first line of fairtk on: no traceback, exit code 130.

The command line's script imports the package, which takes most of a second. An exception raised in
an import may be swallowed, or printed from a place where none can be raised; as nothing is under
way that could be lost, the process ends at once. Once a command runs, Ctrl-C is an exception, so
that the command can save what it has. What Python does before the first line of fairtk (its own
start, the script's first imports) is out of reach: there it shows a traceback of its own.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 and the number of the signal, as shells have it."""
SAID = "Aborted."


def is_command_line() -> bool:
    """Return whether this process is the command ``fairtk`` or ``python -m fairtk``."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return False  # a worker has the arguments of who started it
    program = os.path.splitext(os.path.basename(sys.argv[0]))[0] if sys.argv else ""
    if program not in ("-m", "__main__"):  # before and after Python has found the module
        return program == "fairtk"
    given = sys.orig_argv
    return "-m" in given and given[given.index("-m") + 1 :][:1] == ["fairtk"]


def end_at_once() -> None:
    """Let Ctrl-C end this process, if it is the command line; one that ignores it goes on to."""
    if is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """Let Ctrl-C raise a KeyboardInterrupt again, as in any Python program."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, f"{SAID}\n".encode())
    os._exit(INTERRUPTED)
