"""What may be paid: prices that the user gives, limits, estimates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from threading import Lock
from typing import Any, NamedTuple

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.io.rows import read_table
from fairtk.llm.chat import Chat, ChatModel, Completion


class Payment(NamedTuple):
    """An answer that a process paid for."""

    number: int  # a later payment has a higher one
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    price: float | None  # `None`: unknown to the process that paid


CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English: what prompts are measured by before a server has counted."""

_LIMITS = ("max_tokens", "max_completion_tokens", "max_new_tokens")

PriceTable = Mapping[str, tuple[float, float]]


class Price(NamedTuple):
    """Prices of a model's prompts and answers, in any one currency, per million tokens."""

    prompt: float
    completion: float


class Prices:
    """Prices by model; the price of a model that is not listed is unknown, NaN and not 0.

    Args:
        table: model to (prompt, completion) per million tokens, or a TSV file with the columns
            ``model``, ``prompt`` and ``completion``.

    Raises:
        ParameterError: a price is negative or not finite, or is no pair.
        FormatError: the file is not such a table.
    """

    def __init__(self, table: PriceTable | str | PathLike[str] | None = None) -> None:
        pairs = _read(table) if isinstance(table, str | PathLike) else dict(table or {})
        self._prices: dict[str, Price] = {}
        for model, pair in pairs.items():
            try:
                price = Price(*(float(value) for value in pair))
            except (TypeError, ValueError):
                raise ParameterError(
                    f"prices of {model!r} must be two numbers, (prompt, completion); found {pair!r}"
                ) from None
            if not all(math.isfinite(value) and value >= 0 for value in price):
                raise ParameterError(
                    f"prices must be finite and not negative; found {tuple(price)} for {model!r}"
                )
            self._prices[str(model)] = price

    def known(self, llm: ChatModel) -> bool:
        """Return whether calls to a model have a price."""
        return llm.free or llm.name in self._prices

    def of(self, llm: ChatModel, prompt: float | None, completion: float | None) -> float:
        """Return the price of a call; NaN if the model's price or a count is unknown.

        Args:
            llm: the model.
            prompt: tokens of the prompt; None: unknown.
            completion: tokens of the answer; None: unknown.
        """
        return 0.0 if llm.free else self.of_name(llm.name, prompt, completion)

    def of_name(self, model: str, prompt: float | None, completion: float | None) -> float:
        """Return the price of a call to a model that is known by its name alone."""
        price = self._prices.get(model)
        if price is None or prompt is None or completion is None:
            return math.nan
        return (prompt * price.prompt + completion * price.completion) / 1e6


class Estimate(NamedTuple):
    """What work will take, before it is begun.

    Attributes:
        calls: calls to pay for; equal ones count once.
        recorded: distinct calls whose answers are in the ledger.
        prompt_tokens: about so many, by the length of the texts (`CHARACTERS_PER_TOKEN`).
        completion_tokens: at most so many: every answer as long as allowed; NaN: no limit known.
        price: at most about so much; NaN: the price is unknown.
    """

    calls: int
    recorded: int
    prompt_tokens: int
    completion_tokens: float
    price: float


def prompt_tokens(chat: Chat) -> int:
    """Return about how many tokens a chat has."""
    return -(-sum(len(m.content) for m in chat.messages) // CHARACTERS_PER_TOKEN) + 4


def most_completion_tokens(llm: ChatModel) -> float:
    """Return the most tokens of a model's answer; NaN if no limit is known."""
    if llm.free:
        return 0.0
    parameters = llm.parameters()
    limits = [parameters.get(name) for name in _LIMITS]
    return next((float(limit) for limit in limits if isinstance(limit, int | float)), math.nan)


def estimate(llm: ChatModel, chats: Sequence[Chat], recorded: int, prices: Prices) -> Estimate:
    """Return the estimate for distinct calls to pay for; so many more are recorded."""
    asked = sum(map(prompt_tokens, chats))
    told = len(chats) * most_completion_tokens(llm) if chats else 0.0
    price = prices.of(llm, asked, told) if chats else 0.0
    return Estimate(len(chats), recorded, asked, told, price)


def _read(path: str | PathLike[str]) -> dict[str, tuple[float, float]]:
    rows = read_table(path)
    rows.require(["model", "prompt", "completion"], "a table of prices")
    rows.as_ids("model")
    rows.as_numbers("prompt", "completion")
    rows.unique(["model"], "a model has two prices")
    columns = (rows.frame[name].tolist() for name in ("model", "prompt", "completion"))
    return {model: (asked, told) for model, asked, told in zip(*columns, strict=True)}


@dataclass(frozen=True)
class Spending:
    """What was paid for.

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

    def plus(self, prompt: int | None, completion: int | None, price: float) -> Spending:
        """Return the spending after one more answer."""
        return Spending(
            self.calls + 1,
            self.prompt_tokens + (prompt or 0),
            self.completion_tokens + (completion or 0),
            self.price + price,
        )


class Budget:
    """The limits of a ledger, and what is left of them.

    Answers that other processes pay for, in the same file, count from when this one began.

    Attributes:
        own: what was paid through this ledger.
        after: the number of the latest payment that is counted.

    Raises:
        ParameterError: a limit is negative or not a number.
    """

    def __init__(self, max_calls: int | None, max_cost: float | None, prices: Prices) -> None:
        for name, limit in (("max_calls", max_calls), ("max_cost", max_cost)):
            if limit is not None:
                checks.number(name, limit, "Ledger", rule="be finite and not negative")
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.prices = prices
        self.own = Spending()
        self.after = 0
        self._calls = 0  # of all processes
        self._price = 0.0
        self._has_guesses = False
        self._lock = Lock()

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_calls is not None or self.max_cost is not None

    def add(self, payments: Iterable[Payment]) -> None:
        """Count payments of all processes."""
        for number, model, *counts, price in payments:
            self._calls += 1
            self._price += self.prices.of_name(model, *counts) if price is None else price
            self.after = number

    def refusal(self, running: int, reserved: float, price: float) -> str:
        """Return why one more call is not allowed, or an empty string.

        Args:
            running: calls that are being made.
            reserved: the most that these can cost.
            price: the most that one more can cost.
        """
        others = self._calls - self.own.calls
        by = f", {others} of them by other processes" if others > 0 else ""
        if self.max_calls is not None and self._calls + running + 1 > self.max_calls:
            return f"max_calls={self.max_calls} is reached ({self._calls} calls are paid{by})"
        if self.max_cost is not None and not self._price + reserved + price <= self.max_cost:
            guesses = "; the server reports no token counts: each call counts as long as possible"
            return (
                f"max_cost={self.max_cost:g} could be exceeded ({self._price:.6g} is paid{by}, and "
                f"the next call may cost {price:.2g}{guesses * self._has_guesses})"
            )
        return ""

    def spend(self, llm: ChatModel, answer: Completion, most: float) -> float | None:
        """Count an answer of this process, and return its price, `None` if unknown.

        `most` is what it could cost, which counts if there is a limit and the price is unknown.
        """
        price = self.prices.of(llm, answer.prompt_tokens, answer.completion_tokens)
        if math.isnan(price) and self.max_cost is not None:
            price = most
            self._has_guesses = True
        self.count(answer, price)
        return None if math.isnan(price) else price

    def count(self, answer: Completion, price: float) -> None:
        """Count an answer of this process at a price, NaN if unknown."""
        with self._lock:
            self.own = self.own.plus(answer.prompt_tokens, answer.completion_tokens, price)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())
