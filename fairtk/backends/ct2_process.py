"""Talks to the process in which CTranslate2 runs."""

from __future__ import annotations

import tempfile
import threading
import weakref
from typing import IO, Any

from fairtk.errors import ModelError
from fairtk.starting.interpreters import ENDED, Interpreter


class TranslatorProcess:
    """A process with one model (what `ct2_worker` loads); it ends with this object."""

    def __init__(self, name: str, **model: Any) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._interpreter = Interpreter("fairtk.backends.ct2_worker:translating", stderr=self._said)
        self._finalizer = weakref.finalize(self, _end, self._interpreter, self._said)
        self.ask(name=name, **model)

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request.

        Raises:
            RuntimeError: CTranslate2 failed, e.g. for want of memory.
            ModelError: the model cannot be used, or the process is gone.
        """
        try:
            with self._lock:
                found, error = self._interpreter.ask(request)
        except ENDED:
            raise ModelError(
                f"the process of CTranslate2 for {self.name!r} has ended (exit code "
                f"{self._interpreter.process.wait()}): {self._last_words()}"
            ) from None
        if error:
            raise (RuntimeError if "tokens" in request else ModelError)(error)
        return found

    def _last_words(self) -> str:
        self._said.seek(0)
        return " ".join(self._said.read().split())[-300:] or "it said nothing"


def _end(interpreter: Interpreter, said: IO[str]) -> None:
    interpreter.end()
    said.close()
