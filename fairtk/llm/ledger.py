"""The ledger: no answer is paid for twice, none is lost, and a budget is kept."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from fairtk.errors import ParameterError
from fairtk.frames import digest
from fairtk.llm.budget import (
    Budget,
    Claim,
    Claims,
    Estimate,
    Prices,
    PriceTable,
    Spending,
    estimate,
    most_completion_tokens,
    prompt_tokens,
)
from fairtk.llm.chat import BudgetError, Chat, ChatModel, Completion, Failure, OfflineError, Outcome
from fairtk.llm.local import as_chat_model
from fairtk.llm.store import AnswerStore, answer_row, now


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


_SHORTEST, _LONGEST = 0.02, 0.5  # seconds between two looks for what others ask for
_STANDSTILL = 60.0  # seconds of waiting before it is asked what is waited for


class Recorded(ChatModel):
    """A model behind a ledger; made by `Ledger.wrap`.

    Equal to the model behind another ledger: a ledger changes what is paid, not what is answered.

    Args:
        llm: the model.
        ledger: where answers are kept.

    Raises:
        ParameterError: the ledger has a `max_cost`, but no price for the model.
    """

    identity_name: ClassVar[str] = "fairtk.llm.recorded.Recorded"
    """As in the keys of answers that are kept; never changed."""

    def __init__(self, llm: ChatModel, ledger: Account) -> None:
        inner: ChatModel = llm.llm if isinstance(llm, Recorded) else llm
        if ledger.budget.max_cost is not None and not ledger.prices.known(inner):
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

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return self.llm.tokenizer

    def parameters(self) -> dict[str, Any]:
        """Return the model's parameters."""
        return self.llm.parameters()

    def sent_parameters(self) -> dict[str, Any]:
        """Return the parameters that calls are made with."""
        return self.llm.sent_parameters()

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
        return digest([self.llm.name, self.llm.sent_parameters(), messages, facts], 16)

    def reject(self, chat: Chat) -> None:
        """Note that an answer is of no use; see `Ledger`'s `retry_unusable`."""
        self.ledger.store.reject(self.key(chat))

    def estimate(self, chats: Sequence[Chat]) -> Estimate:
        """Return how many calls are to be paid for, their tokens and price, without any call."""
        distinct = {self.key(chat): chat for chat in chats}
        known = self.ledger.recorded(distinct)
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
        form, looked = self.llm.refused, False
        places = self._places(asked, range(len(asked)))
        waited = 0.0
        while True:
            if self.llm.refused != form:  # calls have another form now, and other keys
                form = self.llm.refused
                places = self._places(asked, (p for found in places.values() for p in found))
            for key, answer in self.ledger.recorded(places).items():
                yield from ((place, answer) for place in places.pop(key))
                waited = 0.0
            if not places:
                return
            if not looked:
                looked = True
                self.llm.learn(self.ledger.store.refused(self.name))
                continue
            left = {key: asked[found[0]] for key, found in places.items()}
            if self.ledger.offline:
                raise OfflineError(
                    f"{len(left)} calls to {self.name!r} are not in the ledger {self.ledger.path}, "
                    f"the first: {next(iter(left.values())).text[:80]!r}; run without offline=True"
                )
            made, refused = 0, Claim("")
            calls = self._made(left)
            while True:
                try:
                    key, outcome = next(calls)
                except StopIteration as end:
                    refused = end.value
                    break
                made += 1
                yield from ((place, outcome) for place in places.pop(key))
            if made:
                waited = 0.0
                continue
            # a running call counts as long as can be: what it does not cost is there for the next
            if refused.reason and not refused.running:
                raise BudgetError(
                    f"stopped before a call to {self.name!r}: {refused.reason}; all answers so far "
                    f"are in {self.ledger.path}: raise the limit and run again to go on"
                )
            waited += self._wait(waited, left)

    def _places(self, chats: Sequence[Chat], wanted: Iterable[int]) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place in wanted:
            places.setdefault(self.key(chats[place]), []).append(place)
        return places

    def _made(self, calls: dict[str, Chat]) -> Generator[tuple[str, Outcome], None, Claim]:
        """Make the calls that nobody else makes, as the budget allows; return a refused claim."""
        keys: list[str] = []
        open_calls: set[str] = set()
        refused = Claim("")
        form = self.llm.refused

        def claimed() -> Iterator[Chat]:
            nonlocal refused
            for key, chat in calls.items():
                if self.llm.refused != form:  # the rest has other keys now
                    return
                claim = self.ledger.claim(key, self.llm, chat)
                if claim.state == "refused":
                    refused = claim
                    return
                if claim.state == "mine":
                    keys.append(key)
                    open_calls.add(key)
                    yield chat

        outcomes = self.llm.outcomes(claimed())
        try:
            for number, outcome in outcomes:
                key = keys[number]
                kept = outcome
                if isinstance(outcome, Failure):
                    self.ledger.claims.release([key])
                else:
                    # by what was sent at last: a server may have refused the first form
                    kept = self.ledger.pay(self.key(calls[key]), self.llm, calls[key], outcome)
                    if self.llm.refused != form:
                        self.ledger.claims.release([key])
                open_calls.discard(key)
                yield key, kept
            for key in list(open_calls):
                open_calls.discard(key)
                self.ledger.claims.release([key])
                yield key, Failure("the model gave no answer")
        finally:
            close = getattr(outcomes, "close", None)
            if close is not None:
                close()
            self.ledger.claims.release(open_calls)
        return refused

    def _wait(self, waited: float, keys: Iterable[str]) -> float:
        """Wait for calls that others make, the longer the longer it took; return the seconds."""
        seconds = min(_LONGEST, max(_SHORTEST, waited / 4))
        time.sleep(seconds)
        if waited < _STANDSTILL <= waited + seconds:
            self.ledger.claims.warn_of_standstill(keys)
        return seconds


class Ledger(Account):
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
        super().__init__(path, Budget(max_calls, max_cost, Prices(prices)), offline, retry_unusable)

    def wrap(self, llm: Any) -> Recorded:
        """Return a model behind this ledger.

        Args:
            llm: a `ChatModel`, or what `fairtk.llm.as_chat_model` takes: a backend, a function.

        Raises:
            ParameterError: `max_cost` is given, but no price for the model.
        """
        return Recorded(as_chat_model(llm), self)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        limits = {"max_calls": self.budget.max_calls, "max_cost": self.budget.max_cost}
        shown = "".join(f", {k}={v!r}" for k, v in limits.items() if v is not None)
        flags = [f", {n}=True" for n in ("offline", "retry_unusable") if getattr(self, n)]
        return f"Ledger({str(self.path)!r}{''.join(flags)}{shown})"
