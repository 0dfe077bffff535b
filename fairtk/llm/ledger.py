"""The ledger: no answer is paid for twice, none is lost, and a budget is kept."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from threading import Event, Lock
from typing import Any

from fairtk.errors import ParameterError
from fairtk.frames.content import digest
from fairtk.llm.chat import Chat, ChatModel, Completion, Failure, Outcome
from fairtk.llm.errors import BudgetError, OfflineError
from fairtk.llm.prices import (
    Estimate,
    Prices,
    PriceTable,
    estimate,
    most_completion_tokens,
    prompt_tokens,
)
from fairtk.llm.store import AnswerStore


@dataclass(frozen=True)
class Spending:
    """What was paid through one `Ledger` since it was opened.

    Attributes:
        calls: answers that were paid for; failed calls do not count.
        prompt_tokens: tokens of prompts, as far as known.
        completion_tokens: tokens of answers, as far as known.
        price: NaN as soon as one price is unknown.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    price: float = 0.0

    def plus(self, answer: Completion, price: float) -> Spending:
        """Return the spending after one more answer."""
        return Spending(
            self.calls + 1,
            self.prompt_tokens + (answer.prompt_tokens or 0),
            self.completion_tokens + (answer.completion_tokens or 0),
            self.price + price,
        )


class Ledger:
    """Keeps every answer of a language model in a file, and answers equal calls from it.

        llm = Ledger("answers.sqlite", max_calls=500).wrap(OpenAICompatible("gpt-4o"))

    Calls are equal when model, parameters and prompt are. Each answer is committed before it is
    used, so a killed run goes on where it stopped; equal calls at the same time in one process are
    made once. The file holds prompts and answers, and no keys.

    Args:
        path: the SQLite file; made when it is not there. A file that is corrupt or of another
            version is moved aside, with a warning, never deleted.
        offline: whether a call that is not in the ledger is an error.
        max_calls: the most calls to pay for from now on; None: any number.
        max_cost: the most money to pay from now on, in the currency of `prices`; None: any. Before
            a call its answer, and those of the calls that still run, are counted as long as can
            be; near the limit fewer calls run at a time.
        prices: model to (prompt, completion) per million tokens, or a TSV file with the columns
            ``model``, ``prompt``, ``completion``. What is not listed has no known price.

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
    ) -> None:
        for name, limit in (("max_calls", max_calls), ("max_cost", max_cost)):
            right = isinstance(limit, int | float) and not isinstance(limit, bool)
            if limit is not None and not (right and math.isfinite(limit) and limit >= 0):
                raise ParameterError(
                    f"Ledger: {name} must be finite and not negative; found {limit!r}"
                )
        if offline and not Path(path).exists():
            raise OfflineError(f"offline=True needs a ledger that exists; there is none at {path}")
        self.offline = offline
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.prices = Prices(prices)
        self.store = AnswerStore(path)
        self.spent = Spending()
        self._lock = Lock()
        self._reserved_calls = 0
        self._reserved = 0.0

    @property
    def path(self) -> Path:
        """The file."""
        return self.store.path

    def wrap(self, llm: ChatModel) -> Recorded:
        """Return the model behind this ledger.

        Raises:
            ParameterError: `max_cost` is given, but no price for the model.
        """
        return Recorded(llm, self)

    def close(self) -> None:
        """Close the file."""
        self.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.store)

    def __repr__(self) -> str:
        limits = {"max_calls": self.max_calls, "max_cost": self.max_cost}
        shown = "".join(f", {k}={v!r}" for k, v in limits.items() if v is not None)
        return f"Ledger({str(self.path)!r}{', offline=True' if self.offline else ''}{shown})"

    def reserve(self, price: float) -> str:
        """Set a call's price aside, or return why the budget does not allow the call.

        Args:
            price: the most that it can cost.
        """
        with self._lock:
            spent = self.spent
            calls = spent.calls + self._reserved_calls + 1
            if self.max_calls is not None and calls > self.max_calls:
                return f"max_calls={self.max_calls} is reached ({spent.calls} calls are paid)"
            most = spent.price + self._reserved + price
            if self.max_cost is not None and not most <= self.max_cost:
                return (
                    f"max_cost={self.max_cost:g} could be exceeded ({spent.price:.6g} is paid, and "
                    f"the next call may cost {price:.2g})"
                )
            self._reserved_calls += 1
            self._reserved += price
        return ""

    def settle(self, price: float, paid: Completion | None, cost: float = 0.0) -> None:
        """End the reservation of a call, and count the call if it was answered.

        Args:
            price: what was set aside.
            paid: the answer; None: there is none to pay for.
            cost: the price of the answer.
        """
        with self._lock:
            self._reserved_calls -= 1
            self._reserved = self._reserved - price if self._reserved_calls else 0.0
            if paid is not None:
                self.spent = self.spent.plus(paid, cost)


# Calls under way in this process, by file and key: whoever comes second waits for the first.
_under_way: dict[tuple[Path, str], Event] = {}
_under_way_lock = Lock()


class Recorded(ChatModel):
    """A model behind a ledger; made by `Ledger.wrap`.

    Equal to the model behind another ledger: a ledger changes what is paid, not what is answered.

    Args:
        llm: the model.
        ledger: where answers are kept.

    Raises:
        ParameterError: the ledger has a `max_cost`, but no price for the model.
    """

    def __init__(self, llm: ChatModel, ledger: Ledger) -> None:
        inner: ChatModel = llm.llm if isinstance(llm, Recorded) else llm
        if ledger.max_cost is not None and not ledger.prices.known(inner):
            raise ParameterError(
                f"max_cost needs the price of {inner.name!r}, which is unknown: give "
                f"prices={{{inner.name!r}: (prompt, completion)}} per million tokens, or max_calls"
            )
        self.llm: ChatModel = inner
        self.ledger = ledger

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
        return f"Recorded({self.llm!r}, {self.ledger!r})"

    def check(self) -> None:
        """Raise if the model cannot be asked and nothing is recorded that could answer for it."""
        if not self.ledger.offline and not len(self.ledger):
            self.llm.check()

    def at_temperature(self, temperature: float) -> Recorded:
        """Return the model at another temperature, behind the same ledger."""
        return Recorded(self.llm.at_temperature(temperature), self.ledger)

    def key(self, chat: Chat) -> str:
        """Return what the ledger knows a call by."""
        facts = dict(chat.facts) if self.llm.reads_facts else {}
        messages = [list(message) for message in chat.messages]
        return digest([self.llm.name, self.llm.parameters(), messages, facts], 16)

    def estimate(self, chats: Sequence[Chat]) -> Estimate:
        """Return how many calls are to be paid for, their tokens and price, without any call."""
        distinct = {self.key(chat): chat for chat in chats}
        known = self.ledger.store.get(distinct)
        asked = [chat for key, chat in distinct.items() if key not in known]
        return estimate(self.llm, asked, len(known), self.ledger.prices)

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the recorded answers, then the new ones as they arrive, each committed before.

        Raises:
            OfflineError: a call is not in the ledger, and the ledger is offline.
            BudgetError: the budget does not allow the next call; all others were recorded.
            LLMError: no call to the model would succeed.
        """
        asked = list(chats)
        places: dict[str, list[int]] = {}
        for place, chat in enumerate(asked):
            places.setdefault(self.key(chat), []).append(place)
        while places:
            for key, answer in self.ledger.store.get(places).items():
                yield from ((place, answer) for place in places.pop(key))
            if not places:
                return
            first = {key: asked[found[0]] for key, found in places.items()}
            if self.ledger.offline:
                raise OfflineError(
                    f"{len(first)} calls to {self.name!r} are not in the ledger "
                    f"{self.ledger.path}, the first: {next(iter(first.values())).text[:80]!r}; run "
                    "without offline=True"
                )
            mine, others = self._claim(first)
            try:
                for key, outcome in self._pay({key: first[key] for key in mine}):
                    yield from ((place, outcome) for place in places.pop(key))
            finally:
                self._release(mine)
            for event in others:  # their answers are in the ledger then, or ours to ask for
                event.wait()

    def _claim(self, keys: Iterable[str]) -> tuple[list[str], list[Event]]:
        """Return the calls that are ours to make, and what tells that the others' are done."""
        mine, others = [], []
        with _under_way_lock:
            for key in keys:
                call = (self.ledger.path, key)
                if call in _under_way:
                    others.append(_under_way[call])
                else:
                    _under_way[call] = Event()
                    mine.append(key)
        return mine, others

    def _release(self, keys: Iterable[str]) -> None:
        with _under_way_lock:
            for key in keys:
                _under_way.pop((self.ledger.path, key)).set()

    def _pay(self, calls: dict[str, Chat]) -> Iterator[tuple[str, Outcome]]:
        """Make calls and yield committed answers and failures."""
        # another process, or a claim that ended just now, may have been faster
        for key, answer in self.ledger.store.get(calls).items():
            del calls[key]
            yield key, answer
        while (yield from self._pay_what_fits(calls)):
            # a running call counts as long as can be: what it did not cost is there for the next
            refused = self._refusal(next(iter(calls.values())))
            if refused:
                raise BudgetError(
                    f"stopped before a call to {self.name!r}: {refused}; all answers so far are in "
                    f"{self.ledger.path}: raise the limit and run again to go on"
                )

    def _refusal(self, chat: Chat) -> str:
        """Return why the budget does not allow a call, or an empty string."""
        price = self._most(chat)
        refused = self.ledger.reserve(price)
        if not refused:
            self.ledger.settle(price, None)
        return refused

    def _pay_what_fits(self, calls: dict[str, Chat]) -> Generator[tuple[str, Outcome], None, bool]:
        """Make calls as far as the budget allows, and take them out of `calls`.

        Returns:
            Whether the budget did not allow all of them at once.
        """
        keys, chats = list(calls), list(calls.values())
        most = [self._most(chat) for chat in chats]
        running: dict[int, float] = {}

        def affordable() -> Iterator[Chat]:
            for place, chat in enumerate(chats):
                if self.ledger.reserve(most[place]):
                    return
                running[place] = most[place]
                del calls[keys[place]]
                yield chat

        try:
            for place, outcome in self.llm.outcomes(affordable()):
                price, key = running.pop(place), keys[place]
                if isinstance(outcome, Failure):
                    self.ledger.settle(price, None)
                    yield key, outcome
                    continue
                cost = self.ledger.prices.of_completion(self.llm, outcome)
                self.ledger.settle(price, outcome, cost)
                yield key, self.ledger.store.put(key, self.llm, chats[place], outcome)
        finally:
            for price in running.values():
                self.ledger.settle(price, None)
        return bool(calls)

    def _most(self, chat: Chat) -> float:
        if self.ledger.max_cost is None:
            return 0.0
        return self.ledger.prices.of(
            self.llm, prompt_tokens(chat), most_completion_tokens(self.llm)
        )
