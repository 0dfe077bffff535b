"""Prices, budgets and cost estimates."""

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
from fairtk.wording import short


class Payment(NamedTuple):
    """An answer that a process paid for."""

    number: int  # a later payment has a higher one
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    price: float | None  # `None` if unknown to the process that paid
    tokens: int | None  # of prompt and answer, estimated if unknown


class Most(NamedTuple):
    """The most that a call can cost, as far as a budget limits it."""

    price: float = 0.0
    tokens: int = 0


CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English, to estimate the tokens of prompts."""

_LIMITS = ("max_tokens", "max_completion_tokens", "max_new_tokens")

PriceTable = Mapping[str, tuple[float, float]]


class Price(NamedTuple):
    """Prices of a model's prompts and answers per million tokens, in any currency."""

    prompt: float
    completion: float


class Prices:
    """Prices by model. The price of a model that is not listed is NaN, not 0.

    Args:
        table: model to (prompt, completion) per million tokens, or a TSV file with the columns
            ``model``, ``prompt`` and ``completion``.

    Raises:
        ParameterError: a price is not a pair of finite numbers of at least 0.
        FormatError: the file is not such a table.
    """

    def __init__(self, table: PriceTable | str | PathLike[str] | None = None) -> None:
        if isinstance(table, str | PathLike):
            pairs = _read(table)
        else:
            pairs = {} if table is None else checks.mapping("prices", table)
        self._prices: dict[str, Price] = {}
        for model, pair in pairs.items():
            try:
                price = Price(*(float(value) for value in pair))
            except (TypeError, ValueError):
                raise ParameterError(
                    f"prices of {model!r} must be two numbers, (prompt, completion), got "
                    f"{short(pair)}"
                ) from None
            if not all(math.isfinite(value) and value >= 0 for value in price):
                raise ParameterError(
                    f"prices of {model!r} must be finite and at least 0, got {tuple(price)}"
                )
            self._prices[str(model)] = price

    def known(self, llm: ChatModel) -> bool:
        """Return whether calls to a model have a price."""
        return llm.free or llm.name in self._prices

    def of(self, llm: ChatModel, prompt: float | None, completion: float | None) -> float:
        """Return the price of a call; NaN if the model's price or a count is unknown.

        Args:
            llm: the model.
            prompt: tokens of the prompt; `None` if unknown.
            completion: tokens of the answer; `None` if unknown.
        """
        return 0.0 if llm.free else self.of_name(llm.name, prompt, completion)

    def of_name(self, model: str, prompt: float | None, completion: float | None) -> float:
        """Return the price of a call to a model by its name; NaN if unknown."""
        price = self._prices.get(model)
        if price is None or prompt is None or completion is None:
            return math.nan
        return (prompt * price.prompt + completion * price.completion) / 1e6


class Estimate(NamedTuple):
    """The estimated cost of calls.

    Attributes:
        calls: the number of calls to pay for; equal calls count once.
        recorded: the number of distinct calls whose answers are in the ledger.
        prompt_tokens: estimated from the length of the texts, four characters per token.
        completion_tokens: an upper bound, as if every answer had the maximum length; NaN if there
            is no known limit.
        price: the price of these tokens; NaN if unknown.
    """

    calls: int
    recorded: int
    prompt_tokens: int
    completion_tokens: float
    price: float


def prompt_tokens(chat: Chat) -> int:
    """Return the estimated number of tokens of a chat."""
    return estimated_tokens(m.content for m in chat.messages)


def estimated_tokens(texts: Iterable[str]) -> int:
    """Return the estimated number of tokens of the texts of a chat."""
    return -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN) + 4


def most_completion_tokens(llm: ChatModel) -> float:
    """Return the maximum number of tokens of a model's answer; NaN if there is no known limit."""
    if llm.free:
        return 0.0
    parameters = llm.parameters()
    limits = [parameters.get(name) for name in _LIMITS]
    return next((float(limit) for limit in limits if isinstance(limit, int | float)), math.nan)


def estimate(llm: ChatModel, chats: Sequence[Chat], recorded: int, prices: Prices) -> Estimate:
    """Return the estimate for distinct calls to pay for, and the number of recorded calls."""
    n_prompt = sum(map(prompt_tokens, chats))
    n_completion = len(chats) * most_completion_tokens(llm) if chats else 0.0
    is_paid = bool(chats) and (prices.known(llm) or not llm.local)
    price = prices.of(llm, n_prompt, n_completion) if is_paid else 0.0
    return Estimate(len(chats), recorded, n_prompt, n_completion, price)


def _read(path: str | PathLike[str]) -> dict[str, tuple[float, float]]:
    rows = read_table(path)
    rows.require(["model", "prompt", "completion"], "a table of prices")
    rows.as_ids("model")
    rows.as_numbers("prompt", "completion")
    rows.unique(["model"], "duplicate model")
    columns = (rows.frame[name].tolist() for name in ("model", "prompt", "completion"))
    return {model: (prompt, completion) for model, prompt, completion in zip(*columns, strict=True)}


@dataclass(frozen=True)
class Spending:
    """Calls, tokens and money that were paid for.

    Attributes:
        calls: the number of paid answers; failed calls do not count.
        prompt_tokens: the known tokens of prompts.
        completion_tokens: the known tokens of answers.
        price: the total price; NaN if one price is unknown.
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
    """The limits of a ledger, and the spending so far.

    Payments of other processes with the same file count from the time when this ledger was opened.

    Attributes:
        own: the spending of this ledger.
        after: the number of the latest counted payment.

    Raises:
        ParameterError: a limit is negative or not a number.
    """

    def __init__(
        self, max_calls: int | None, max_cost: float | None, max_tokens: int | None, prices: Prices
    ) -> None:
        for name, limit in (("max_calls", max_calls), ("max_tokens", max_tokens)):
            if limit is not None:
                checks.integer(f"`{name}`", limit, "Ledger", least=0)
        if max_cost is not None:
            checks.number("`max_cost`", max_cost, "Ledger")
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.max_tokens = max_tokens
        self.prices = prices
        self.own = Spending()
        self.after = 0
        self._calls = 0  # of all processes
        self._price = 0.0
        self._tokens = 0
        self._has_guesses = False
        self._lock = Lock()

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return any(limit is not None for limit in self.limits.values())

    @property
    def limits(self) -> dict[str, float | None]:
        """The limits by name; `None` for no limit."""
        names = ("max_calls", "max_cost", "max_tokens")
        return {name: getattr(self, name) for name in names}

    def most(self, llm: ChatModel, chat: Chat) -> Most:
        """Return the most that a call can cost; what is not limited is 0."""
        n_prompt, n_answer = prompt_tokens(chat), most_completion_tokens(llm)
        price = 0.0 if self.max_cost is None else self.prices.of(llm, n_prompt, n_answer)
        is_counted = self.max_tokens is not None and not llm.free
        return Most(price, n_prompt + int(n_answer) if is_counted else 0)

    def add(self, payments: Iterable[Payment]) -> None:
        """Count payments of all processes."""
        for number, model, *counts, price, tokens in payments:
            self._calls += 1
            self._tokens += tokens or 0
            self._price += self.prices.of_name(model, *counts) if price is None else price
            self.after = number

    def refusal(self, running: int, reserved: Most, most: Most) -> str:
        """Return why one more call is not allowed, or an empty string.

        Args:
            running: the number of calls under way.
            reserved: the most that these calls can cost.
            most: the most that one more call can cost.
        """
        others = self._calls - self.own.calls
        by = f", {others} of them by other processes" if others > 0 else ""
        if self.max_calls is not None and self._calls + running + 1 > self.max_calls:
            return f"max_calls={self.max_calls} is reached ({self._calls} calls so far{by})"
        if (
            self.max_cost is not None
            and not self._price + reserved.price + most.price <= self.max_cost
        ):
            guesses = "; without token counts of the server, the maximum length is counted"
            return (
                f"max_cost={self.max_cost:g} could be exceeded ({self._price:.6g} so far{by}, the "
                f"next call may cost {most.price:.2g}{guesses * self._has_guesses})"
            )
        tokens = self._tokens + reserved.tokens + most.tokens
        if self.max_tokens is not None and tokens > self.max_tokens:
            running_calls = f", {reserved.tokens} for the calls under way" * bool(reserved.tokens)
            return (
                f"max_tokens={self.max_tokens} could be exceeded ({self._tokens} so far{by}"
                f"{running_calls}, the next call may have {most.tokens})"
            )
        return ""

    def spend(self, llm: ChatModel, answer: Completion, most: float) -> float | None:
        """Count an answer of this process, and return its price, `None` if unknown.

        `most` is its maximum price, which counts if there is a limit and the price is unknown.
        """
        price = self.prices.of(llm, answer.prompt_tokens, answer.completion_tokens)
        if math.isnan(price) and self.max_cost is not None:
            price = most
            self._has_guesses = True
        self.count(answer.prompt_tokens, answer.completion_tokens, price)
        return None if math.isnan(price) else price

    def count(self, prompt: int | None, completion: int | None, price: float) -> None:
        """Count an answer of this process by its tokens and its price, NaN if unknown."""
        with self._lock:
            self.own = self.own.plus(prompt, completion, price)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())
