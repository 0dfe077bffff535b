"""What was answered and what it cost: a file of answers, and the calls that may still be made."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from fairtk.llm.budget import Budget, Prices, Spending, most_completion_tokens, prompt_tokens
from fairtk.llm.chat import Chat, ChatModel, Completion
from fairtk.llm.claims import Claim, Claims
from fairtk.llm.errors import OfflineError
from fairtk.llm.rows import answer_row, now
from fairtk.llm.store import AnswerStore


class Account:
    """The answers in a file, the claims of calls under way, and the budget: below `Ledger`."""

    def __init__(
        self,
        path: str | PathLike[str],
        budget: Budget,
        offline: bool = False,
        retry_unusable: bool = False,
    ) -> None:
        self.offline = bool(offline)
        self.retry_unusable = bool(retry_unusable)
        self.budget = budget
        self._since = now() if retry_unusable else ""
        self._open(path)
        self.budget.after = self.claims.last_payment()

    @property
    def path(self) -> Path:
        """The file."""
        return self.store.path

    @property
    def prices(self) -> Prices:
        """The prices of models."""
        return self.budget.prices

    @property
    def spent(self) -> Spending:
        """What was paid through this ledger since it was opened."""
        return self.budget.own

    def recorded(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Return the answers that are there, by key, less those that are to be asked again."""
        return self.store.get(keys, self._since)

    def claim(self, key: str, llm: ChatModel, chat: Chat) -> Claim:
        """Claim a call, unless it is answered, under way elsewhere, or beyond the budget."""
        if not self.budget.limited:
            return self.claims.claim(key, 0.0, self._since)
        price = self._most(llm, chat)
        return self.claims.claim(
            key,
            price,
            self._since,
            self.budget.after,
            lambda new, running, reserved: self.budget.refusal(new, running, reserved, price),
        )

    def pay(self, key: str, llm: ChatModel, chat: Chat, answer: Completion) -> Completion:
        """Commit the answer of a claimed call, and return it as it is kept."""
        price = self.budget.spend(llm, answer, self._most(llm, chat))
        return self.claims.pay(answer_row(key, llm, chat, answer), price)

    def close(self) -> None:
        """Close the file."""
        self.claims.close()
        self.store.close()

    def _open(self, path: str | PathLike[str]) -> None:
        if self.offline and not Path(path).exists():
            raise OfflineError(f"offline=True needs a ledger that exists; there is none at {path}")
        self.store = AnswerStore(path)
        self.claims = Claims(self.store)

    def _most(self, llm: ChatModel, chat: Chat) -> float:
        """Return the most that a call can cost; 0 without a limit of money."""
        if self.budget.max_cost is None:
            return 0.0
        return self.prices.of(llm, prompt_tokens(chat), most_completion_tokens(llm))

    def __getstate__(self) -> dict[str, Any]:
        # another process opens the file itself, and shares the budget from where it began here
        state = {k: v for k, v in vars(self).items() if k not in ("store", "claims")}
        return {**state, "path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        path = state.pop("path")
        self.__dict__.update(state)
        self._open(path)

    def __len__(self) -> int:
        return len(self.store)
