"""The ledger: no answer is paid for twice, none is lost, and a budget is kept."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from fairtk.errors import ParameterError, advice
from fairtk.io import real_path
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
from fairtk.llm.chat import (
    BudgetError,
    Chat,
    ChatModel,
    Completion,
    DeferredError,
    Failure,
    OfflineError,
    Outcome,
    Row,
    answer_row,
    call_keys,
    now,
)
from fairtk.llm.local import as_chat_model
from fairtk.llm.store import AnswerStore, Database

_SHORTEST, _LONGEST = 0.02, 0.5  # seconds between two looks for what others ask for
_STANDSTILL = 60.0  # seconds of waiting before it is asked what is waited for


_LIMITS = ("max_tokens", "max_completion_tokens")


def _with_renamed_limit(parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the parameters with the limit under its other name, or `None` without a limit.

    Where a server refuses `max_tokens`, a warning says that `max_completion_tokens` is sent. A user
    who then renames the setting does not pay for the recorded answers again.
    """
    for name, other in (_LIMITS, _LIMITS[::-1]):
        if name in parameters:
            return {other if key == name else key: value for key, value in parameters.items()}
    return None


class Collector(Protocol):
    """Takes the calls that are not recorded, in place of the models."""

    def take(self, llm: Recorded, calls: Mapping[str, Chat]) -> None:
        """Take calls by key."""


collecting: ContextVar[Collector | None] = ContextVar("collecting", default=None)
"""Who takes what models behind ledgers would be asked; None: they are asked."""


class Ledger:
    """Keeps every answer of a language model in a file, and answers equal calls from it.

        llm = Ledger("answers.sqlite", max_calls=500).wrap(OpenAICompatible("gpt-4o"))

    Calls are equal when model, parameters and prompt are. Each answer is committed before it is
    used, so a killed run goes on where it stopped. Equal calls at the same time are made once, in
    all threads and processes that have the file open: the others wait for the answer. The file
    holds prompts and answers, and no keys.

    Args:
        path: the SQLite file; made when it is not there. One that is damaged is kept under another
            name, with a warning, and what it and its backup hold is taken over.
        offline: whether a call that is not in the ledger is an error; the file need not be
            writable.
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
        FormatError: the file cannot be opened, is of another format, or is damaged, and nothing of
            it can be saved; or the prices cannot be read.
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
        self.since = now() if retry_unusable else ""
        self._open(path)
        self.budget.after = self.claims.last_payment()

    def _open(self, path: str | PathLike[str]) -> None:
        if self.offline and not Path(path).exists():
            raise OfflineError(f"offline=True needs a ledger that exists; there is none at {path}")
        self.store = AnswerStore(Database(real_path(path), offline=self.offline))
        self.claims = Claims(self.store)

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
        return self.store.get(keys, self.since)

    def claim(self, llm: ChatModel, calls: Mapping[str, Chat]) -> list[Claim]:
        """Claim calls by key, those that are not answered, under way elsewhere, or beyond the
        budget; there is a claim for each up to the first that is refused.
        """
        prices = {key: self.most(llm, chat) for key, chat in calls.items()}
        budget = self.budget if self.budget.limited else None
        return self.claims.claim(prices, self.since, budget)

    def pay(
        self, llm: ChatModel, calls: Mapping[str, Chat], answers: Mapping[str, Completion]
    ) -> dict[str, Completion]:
        """Commit the answers of claimed calls, by key, and return them as they are kept."""
        prices = [
            self.budget.spend(llm, answer, self.most(llm, calls[key]))
            for key, answer in answers.items()
        ]
        parameters = llm.parameters()
        rows = [
            self.row(key, llm.name, parameters, calls[key], answer, llm.local)
            for key, answer in answers.items()
        ]
        return dict(zip(answers, self.claims.pay(rows, prices), strict=True))

    def row(self, *call: Any) -> Row:
        """Return the row of an answer that has just come, as `answer_row` does.

        It is none of those that are to be asked again, even where the clock was set back.
        """
        row = answer_row(*call)
        if row.created < self.since:
            row = row._replace(created=self.since)
            row = row._replace(checksum=row.expected)
        return row

    def most(self, llm: ChatModel, chat: Chat) -> float:
        """Return the most that a call can cost; 0 without a limit of money."""
        if self.budget.max_cost is None:
            return 0.0
        return self.prices.of(llm, prompt_tokens(chat), most_completion_tokens(llm))

    def wrap(self, llm: Any) -> Recorded:
        """Return a model behind this ledger.

        Args:
            llm: a `ChatModel`, or what `fairtk.llm.as_chat_model` takes: a backend, a function.

        Raises:
            ParameterError: `max_cost` is given, but no price for the model.
        """
        return Recorded(as_chat_model(llm), self)

    def close(self) -> None:
        """Close the file."""
        self.claims.close()
        self.store.close()

    def __len__(self) -> int:
        return len(self.store)

    def __getstate__(self) -> dict[str, Any]:
        # another process opens the file itself, and shares the budget from where it began here
        state = {k: v for k, v in vars(self).items() if k not in ("store", "claims", "seen")}
        return {**state, "path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        path = state.pop("path")
        self.__dict__.update(state)
        self._open(path)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        limits = {"max_calls": self.budget.max_calls, "max_cost": self.budget.max_cost}
        settings = [f", {k}={v!r}" for k, v in limits.items() if v is not None]
        flags = [f", {n}=True" for n in ("offline", "retry_unusable") if getattr(self, n)]
        return f"Ledger({str(self.path)!r}{''.join(flags + settings)})"


class Recorded(ChatModel):
    """A model behind a ledger; made by `Ledger.wrap`.

    Equal to the model behind another ledger: a ledger changes what is paid, not what is answered.

    Args:
        llm: the model.
        ledger: where answers are kept.

    Raises:
        ParameterError: the ledger has a `max_cost`, but no price for the model.
    """

    identity_name = "fairtk.Recorded"
    output_version = 1

    def __init__(self, llm: ChatModel, ledger: Ledger) -> None:
        inner: ChatModel = llm.llm if isinstance(llm, Recorded) else llm
        if ledger.budget.max_cost is not None and not ledger.prices.known(inner):
            raise ParameterError(
                f"max_cost needs the price of {inner.name!r}, which is unknown: give "
                + advice(
                    f"prices={{{inner.name!r}: (prompt, completion)}} per million tokens, "
                    "or max_calls",
                    f"--prices FILE with a line for {inner.name!r}, or --max-calls",
                )
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

    @property
    def concurrency(self) -> int:  # type: ignore[override]
        """The most calls at a time."""
        return self.llm.concurrency

    @property
    def local(self) -> bool:
        """Whether the model is one of this machine."""
        return self.llm.local

    def digest(self) -> str:
        """Return the model's digest."""
        return self.llm.digest()

    def __repr__(self) -> str:
        return f"Recorded({self.llm!r}, {self.ledger!r})"

    def check(self) -> None:
        """Raise if the model cannot be asked and nothing is recorded that could answer for it."""
        if collecting.get() is not None and self.writable:
            return
        if not self.ledger.offline and not self.ledger.store.has(self.name):
            self.llm.check()

    @property
    def writable(self) -> bool:
        """Whether the model's requests can be written to files, for others to answer."""
        return hasattr(self.llm, "body")

    def at_temperature(self, temperature: float) -> Recorded:
        """Return the model at another temperature, behind the same ledger."""
        return Recorded(self.llm.at_temperature(temperature), self.ledger)

    def key(self, chat: Chat) -> str:
        """Return what the ledger knows a call by."""
        return self._keys([chat])[0]

    def reject(self, chat: Chat) -> None:
        """Note that an answer is of no use; see `Ledger`'s `retry_unusable`."""
        self.ledger.store.reject(self.key(chat))

    def estimate(self, chats: Sequence[Chat]) -> Estimate:
        """Return how many calls are to be paid for, their tokens and price, without any call."""
        calls = dict(zip(self._keys(chats), chats, strict=True))
        answers = self._recorded(calls)
        asked = [chat for key, chat in calls.items() if key not in answers]
        return estimate(self.llm, asked, len(answers), self.ledger.prices)

    def outcomes(self, chats: Iterable[Chat]) -> Iterator[tuple[int, Outcome]]:
        """Yield the recorded answers, then the new ones as they arrive, each committed before.

        Raises:
            OfflineError: a call is not in the ledger, and the ledger is offline.
            BudgetError: the budget does not allow the next call; all others were recorded.
            DeferredError: calls are out in a batch, or were just taken for one.
            LLMError: no call to the model would succeed.
        """
        asked = list(chats)
        places: dict[str, list[int]] = {}
        for place, key in enumerate(self._keys(asked)):
            places.setdefault(key, []).append(place)
        calls = {key: asked[same[0]] for key, same in places.items()}
        answers, waited = self._recorded(calls), 0.0
        while True:
            for key, answer in answers.items():
                del calls[key]
                yield from ((place, answer) for place in places[key])
                waited = 0.0
            if not calls:
                return
            collector = collecting.get()
            if collector is not None and self.writable:
                collector.take(self, calls)
                raise DeferredError(f"{len(calls)} prompts to {self.name!r} are to be answered")
            if self.ledger.offline:
                some, are = (f"{len(calls)} calls", "are") if len(calls) > 1 else ("1 call", "is")
                raise OfflineError(
                    f"{some} to {self.name!r} {are} not in the ledger "
                    f"{self.ledger.path}, the first: {next(iter(calls.values())).text[:80]!r}; run "
                    f"without {advice('offline=True', '--offline')}"
                )
            left, refused = len(calls), Claim("")
            batched: dict[str, str] = {}
            made = self._made(dict(calls), batched)
            while True:
                try:
                    key, outcome = next(made)
                except StopIteration as end:
                    refused = end.value
                    break
                del calls[key]
                yield from ((place, outcome) for place in places[key])
            if len(calls) < left:
                waited = 0.0
            elif len(batched) == len(calls):
                folder = next(iter(batched.values()))
                raise DeferredError(
                    f"{len(calls)} prompts to {self.name!r} are out in the batch {folder} and are "
                    "not asked twice: read its answers "
                    f"({advice('Batches.read', 'fairtk prompts read')}), or give it up "
                    f"({advice('Batches.drop', 'fairtk prompts drop')})"
                )
            elif refused.reason and not refused.running:
                raise BudgetError(
                    f"stopped before a call to {self.name!r}: {refused.reason}; all answers so far "
                    f"are in {self.ledger.path}: raise the limit and run again to go on"
                )
            else:  # a running call counts as long as can be: what it leaves is there for the next
                waited += self._wait(waited, calls)
            answers = self.ledger.recorded(calls)

    def _keys(
        self, chats: Iterable[Chat], parameters: Mapping[str, Any] | None = None
    ) -> list[str]:
        parameters = self.parameters() if parameters is None else parameters
        return call_keys(self.name, parameters, chats, self.llm.reads_facts)

    def _recorded(self, calls: Mapping[str, Chat]) -> dict[str, Completion]:
        """Return recorded answers by key, also those of the same limit under its other name."""
        answers = self.ledger.recorded(calls)
        renamed = _with_renamed_limit(self.parameters())
        if renamed is not None and len(answers) < len(calls):
            missing = {key: chat for key, chat in calls.items() if key not in answers}
            keys = dict(zip(self._keys(missing.values(), renamed), missing, strict=True))
            answers |= {keys[key]: answer for key, answer in self.ledger.recorded(keys).items()}
        return answers

    def _made(
        self, calls: Mapping[str, Chat], batched: dict[str, str]
    ) -> Generator[tuple[str, Outcome], None, Claim]:
        """Make the calls that nobody else makes, as the budget allows; return a refused claim.

        `batched` gets those that are out in batches, with the folder of each.
        """
        keys: list[str] = []
        under_way: set[str] = set()
        refused = Claim("")

        def claimed() -> Iterator[Chat]:
            nonlocal refused
            left = list(calls)[::-1]
            while left:
                # as many as can start: answers that came together leave room for as many
                room = max(1, self.llm.concurrency - len(under_way))
                part = {key: calls[key] for key in left[-room:][::-1]}
                del left[-room:]
                mine = []
                for key, claim in zip(part, self.ledger.claim(self.llm, part), strict=False):
                    if claim.state == "refused":
                        refused = claim
                        left = []
                    elif claim.state == "batched":
                        batched[key] = claim.reason
                    elif claim.state == "mine":
                        mine.append(key)
                under_way.update(mine)
                for key in mine:
                    keys.append(key)
                    yield calls[key]

        arrivals = self.llm.arrivals(claimed())
        try:
            for together in arrivals:
                outcomes = {keys[number]: outcome for number, outcome in together}
                answers = {k: one for k, one in outcomes.items() if isinstance(one, Completion)}
                self.ledger.claims.release(key for key in outcomes if key not in answers)
                if answers:
                    outcomes |= self.ledger.pay(self.llm, calls, answers)
                under_way.difference_update(outcomes)
                yield from outcomes.items()
            for key in list(under_way):
                under_way.discard(key)
                self.ledger.claims.release([key])
                yield key, Failure("the model gave no answer")
        finally:
            arrivals.close()
            self.ledger.claims.release(under_way)
        return refused

    def _wait(self, waited: float, keys: Iterable[str]) -> float:
        """Wait for calls that others make, the longer the longer it took; return the seconds."""
        seconds = min(_LONGEST, max(_SHORTEST, waited / 4))
        time.sleep(seconds)
        if waited < _STANDSTILL <= waited + seconds:
            self.ledger.claims.warn_of_standstill(keys)
        return seconds
