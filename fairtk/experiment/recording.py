"""Language models of a pipeline, behind the ledger of the store: nothing is paid for twice."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from pyterrier._ops import Compose

from fairtk.experiment.identity import Identified
from fairtk.llm import ChatBackend, ChatModel, Ledger, Recorded
from fairtk.transformers.base import FairTransformer


class Recording:
    """Puts models behind the store's ledger; whoever asks writes there, also a worker.

    A model that the user has put behind a ledger keeps that one, and rules that stand in for a
    model need none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _ledger(self) -> Ledger:
        return Ledger(self.path)

    def behind(self, value: Any) -> Any:
        """Return a stage or backend, or a copy of it in which all models are recorded.

        Models stand in settings of fairtk's transformers, and these within others and pipelines.
        """
        if isinstance(value, ChatModel):
            own = value.free or isinstance(value, Recorded)
            return value if own else self._ledger.wrap(value)
        if isinstance(value, ChatBackend):
            model = self.behind(value.model)
            return value if model is value.model else ChatBackend(model)
        if isinstance(value, list | tuple):
            parts = [self.behind(part) for part in value]
            same = all(new is old for new, old in zip(parts, value, strict=True))
            return value if same else type(value)(parts)
        names: Iterable[str] = ()
        if isinstance(value, FairTransformer):
            names = value.SETTINGS
        elif isinstance(value, Compose):
            names = ("_transformers",)
        elif isinstance(value, Identified):
            names = ("transformer",)
        found = {name: self.behind(getattr(value, name)) for name in names}
        found = {name: new for name, new in found.items() if new is not getattr(value, name)}
        if found:
            value = copy.copy(value)
            for name, new in found.items():
                setattr(value, name, new)
        return value
