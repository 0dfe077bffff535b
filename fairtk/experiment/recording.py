"""Language models of a pipeline, behind the ledger of the store: nothing is paid for twice."""

from __future__ import annotations

import copy
from functools import cached_property
from pathlib import Path
from typing import Any

from fairtk.llm import ChatBackend, ChatModel, Ledger, Recorded
from fairtk.transformers.base import FairTransformer


class Recording:
    """Puts models behind the store's ledger; whoever asks writes there, also a worker.

    A model that the user has put behind a ledger keeps that one, and rules that stand in for a
    model need none.

    Args:
        path: the store's file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self.path)

    def stage(self, stage: Any) -> Any:
        """Return a stage, or a copy of it whose models are recorded."""
        if not isinstance(stage, FairTransformer):
            return stage
        found = {
            name: self._ledger.wrap(value)
            for name, value in stage.settings().items()
            if _is_paid(value)
        }
        if found:
            stage = copy.copy(stage)
            for name, value in found.items():
                setattr(stage, name, value)
        return stage

    def backend(self, backend: Any) -> Any:
        """Return a backend, or one whose model is recorded."""
        if isinstance(backend, ChatBackend) and _is_paid(backend.model):
            return ChatBackend(self._ledger.wrap(backend.model))
        return backend


def _is_paid(model: Any) -> bool:
    return isinstance(model, ChatModel) and not isinstance(model, Recorded) and not model.free
