"""How long a language model was waited for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from fairtk.llm import Chat, ChatModel
from fairtk.llm.chat import Outcome


class Clocked(ChatModel):
    """A model whose calls are timed from outside: what waiting for it took in all.

    Equal to the model itself.

    Attributes:
        waited: a list with one number, the seconds; shared by the model at other temperatures.
    """

    free: ClassVar[bool] = False

    def __init__(self, llm: ChatModel, waited: list[float] | None = None) -> None:
        self.llm = llm
        self.waited = [0.0] if waited is None else waited

    @property
    def name(self) -> str:
        """The model's name."""
        return self.llm.name

    def parameters(self) -> dict[str, Any]:
        """Return the model's parameters."""
        return self.llm.parameters()

    def digest(self) -> str:
        """Return the model's digest."""
        return self.llm.digest()

    def __repr__(self) -> str:
        return repr(self.llm)

    def reject(self, chat: Chat) -> None:
        """Tell the model that an answer was of no use."""
        self.llm.reject(chat)

    def at_temperature(self, temperature: float) -> Clocked:
        """Return the model at another temperature, by the same clock."""
        return Clocked(self.llm.at_temperature(temperature), self.waited)

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the model's outcomes; on a terminal, show how many there are after two seconds."""
        from tqdm import tqdm

        asked = list(chats)
        begin = time.perf_counter()
        try:
            yield from tqdm(
                self.llm.outcomes(asked),
                total=len(asked),
                desc=f"asking {self.name}",
                unit=" calls",
                delay=2,
                leave=False,
                disable=None,
            )
        finally:
            self.waited[0] += time.perf_counter() - begin
