"""Talks to the process in which CTranslate2 runs."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import weakref
from typing import IO, Any

from fairtk.errors import ModelError

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from fairtk.backends.ct2_worker import serve; serve()"
)


class TranslatorProcess:
    """A process with one model (what `ct2_worker` loads); it ends with this object."""

    def __init__(self, name: str, **model: Any) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            encoding="utf-8",
        )
        self._finalizer = weakref.finalize(self, _end, self._process, self._said)
        self.ask(name=name, **model)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            RuntimeError: CTranslate2 failed, e.g. for want of memory.
            ModelError: the model cannot be used, or the process is gone.
        """
        with self._lock:
            to, back = self._process.stdin, self._process.stdout
            line = ""
            if to is not None and back is not None:
                with contextlib.suppress(BrokenPipeError):
                    to.write(json.dumps(request) + "\n")
                    to.flush()
                line = back.readline()
        if not line:
            raise ModelError(
                f"the process of CTranslate2 for {self.name!r} has ended (exit code "
                f"{self._process.wait()}): {self._last_words()}"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            kind = RuntimeError if "tokens" in request else ModelError
            raise kind(answer["error"])
        return answer

    def _last_words(self) -> str:
        self._said.seek(0)
        return " ".join(self._said.read().split())[-300:] or "it said nothing"


def _end(process: subprocess.Popen[str], said: IO[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, said):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
