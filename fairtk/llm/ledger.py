"""The ledger: no answer is paid for twice, none is lost, and a budget is kept."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from fairtk.llm.budget import Budget, Spending
from fairtk.llm.chat import Chat, ChatModel, Completion
from fairtk.llm.claims import Claim, Claims
from fairtk.llm.errors import OfflineError
from fairtk.llm.local import as_chat_model
from fairtk.llm.prices import Prices, PriceTable, most_completion_tokens, prompt_tokens
from fairtk.llm.recorded import Recorded
from fairtk.llm.rows import answer_row, now
from fairtk.llm.store import AnswerStore


class Ledger:
    """Keeps every answer of a language model in a file, and answers equal calls from it.

        llm = Ledger("answers.sqlite", max_calls=500).wrap(OpenAICompatible("gpt-4o"))

    Calls are equal when model, parameters and prompt are. Each answer is committed before it is
    used, so a killed run goes on where it stopped. Equal calls at the same time are made once, in
    all threads and processes that have the file open: the others wait for the answer. The file
    holds prompts and answers, and no keys.

    Args:
        path: the SQLite file; made when it is not there. A file that is damaged or of another
            version is kept under another name, with a warning, and what it holds is taken over.
        offline: whether a call that is not in the ledger is an error.
        max_calls: the most calls to pay for from now on, those of other processes with the same
            file included; None: any number.
        max_cost: the most money to pay from now on, counted likewise, in the currency of `prices`;
            None: any. Before a call its answer, and those of the calls that still run, are counted
            as long as can be; near the limit fewer calls run at a time.
        prices: model to (prompt, completion) per million tokens, or a TSV file with the columns
            ``model``, ``prompt``, ``completion``. What is not listed has no known price.
        retry_unusable: whether to ask once more for answers that are there and of no use: refused,
            cut off, unreadable, or rejected by who read them.

    Raises:
        ParameterError: a limit is negative or no number.
        OfflineError: `offline`, and there is no such file.
        FormatError: the file cannot be opened, or the prices cannot be read.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        offline: bool = False,
        max_calls: int | None = None,
        max_cost: float | None = None,
        prices: PriceTable | str | PathLike[str] | None = None,
        retry_unusable: bool = False,
    ) -> None:
        self.offline = bool(offline)
        self.retry_unusable = bool(retry_unusable)
        self.budget = Budget(max_calls, max_cost, Prices(prices))
        self._since = now() if retry_unusable else ""
        self._open(path)
        self.budget.after = self._claims.last_payment()

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

    def wrap(self, llm: Any) -> Recorded:
        """Return a model behind this ledger.

        Args:
            llm: a `ChatModel`, or what `fairtk.llm.as_chat_model` takes: a backend, a function.

        Raises:
            ParameterError: `max_cost` is given, but no price for the model.
        """
        return Recorded(as_chat_model(llm), self)

    def recorded(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Return the answers that are there, by key, less those that are to be asked again."""
        return self.store.get(keys, self._since)

    def claim(self, key: str, llm: ChatModel, chat: Chat) -> Claim:
        """Claim a call, unless it is answered, under way elsewhere, or beyond the budget.

        Args:
            key: what the call is known by.
            llm: the model.
            chat: the prompt.
        """
        if not self.budget.limited:
            return self._claims.claim(key, 0.0, self._since)
        price = self._most(llm, chat)
        return self._claims.claim(
            key,
            price,
            self._since,
            self.budget.after,
            lambda new, running, reserved: self.budget.refusal(new, running, reserved, price),
        )

    def pay(self, key: str, llm: ChatModel, chat: Chat, answer: Completion) -> Completion:
        """Commit the answer of a claimed call, and return it as it is kept."""
        price = self.budget.spend(llm, answer, self._most(llm, chat))
        return self._claims.pay(answer_row(key, llm, chat, answer), price)

    def release(self, keys: Iterable[str]) -> None:
        """End the claims of calls without an answer."""
        self._claims.release(keys)

    def warn_of_standstill(self, keys: Iterable[str]) -> None:
        """Warn if the process that makes one of the calls does not move."""
        self._claims.warn_of_standstill(keys)

    def close(self) -> None:
        """Close the file."""
        self._claims.close()
        self.store.close()

    def _open(self, path: str | PathLike[str]) -> None:
        if self.offline and not Path(path).exists():
            raise OfflineError(f"offline=True needs a ledger that exists; there is none at {path}")
        self.store = AnswerStore(path)
        self._claims = Claims(self.store)

    def _most(self, llm: ChatModel, chat: Chat) -> float:
        """Return the most that a call can cost; 0 without a limit of money."""
        if self.budget.max_cost is None:
            return 0.0
        return self.prices.of(llm, prompt_tokens(chat), most_completion_tokens(llm))

    def __getstate__(self) -> dict[str, Any]:
        # another process opens the file itself, and shares the budget from where it began here
        state = {k: v for k, v in vars(self).items() if k not in ("store", "_claims")}
        return {**state, "path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        path = state.pop("path")
        self.__dict__.update(state)
        self._open(path)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.store)

    def __repr__(self) -> str:
        limits = {"max_calls": self.budget.max_calls, "max_cost": self.budget.max_cost}
        shown = "".join(f", {k}={v!r}" for k, v in limits.items() if v is not None)
        flags = [f", {n}=True" for n in ("offline", "retry_unusable") if getattr(self, n)]
        return f"Ledger({str(self.path)!r}{''.join(flags)}{shown})"
