"""What may be paid: limits of calls and money, over all processes that share a ledger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from fairtk.errors import ParameterError
from fairtk.llm.chat import ChatModel, Completion
from fairtk.llm.claims import Payment
from fairtk.llm.prices import Prices


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
    """The limits of a ledger, and what they leave.

    Answers that other processes pay for, in the same file, count from when this one began.

    Raises:
        ParameterError: a limit is negative or no number.
    """

    def __init__(self, max_calls: int | None, max_cost: float | None, prices: Prices) -> None:
        for name, limit in (("max_calls", max_calls), ("max_cost", max_cost)):
            right = isinstance(limit, int | float) and not isinstance(limit, bool)
            if limit is not None and not (right and math.isfinite(limit) and limit >= 0):
                raise ParameterError(
                    f"Ledger: {name} must be finite and not negative; found {limit!r}"
                )
        self.max_calls = max_calls
        self.max_cost = max_cost
        self.prices = prices
        self.own = Spending()
        self.after = 0
        self.guessed = False
        self._all = Spending()
        self._lock = Lock()

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.max_calls is not None or self.max_cost is not None

    def refusal(self, new: Sequence[Payment], running: int, reserved: float, price: float) -> str:
        """Return why one more call is not allowed, or an empty string.

        Args:
            new: payments after `after`, of all processes.
            running: how many calls are under way.
            reserved: the most that these can cost.
            price: the most that one more can cost.
        """
        with self._lock:
            for payment in new:
                self._all = self._all.plus(None, None, self._price(payment))
                self.after = payment.number
            paid, others = self._all, self._all.calls - self.own.calls
        by = f", {others} of them by other processes" if others > 0 else ""
        if self.max_calls is not None and paid.calls + running + 1 > self.max_calls:
            return f"max_calls={self.max_calls} is reached ({paid.calls} calls are paid{by})"
        if self.max_cost is not None and not paid.price + reserved + price <= self.max_cost:
            guessed = (
                "; the server does not say what answers use, so that each counts as long as it "
                "can be" * self.guessed
            )
            return (
                f"max_cost={self.max_cost:g} could be exceeded ({paid.price:.6g} is paid{by}, and "
                f"the next call may cost {price:.2g}{guessed})"
            )
        return ""

    def spend(self, llm: ChatModel, answer: Completion, most: float) -> float | None:
        """Count an answer, and return its price; None: unknown.

        `most` is what it could cost, which counts if there is a limit and the price is unknown.
        """
        price = self.prices.of_completion(llm, answer)
        if math.isnan(price) and self.max_cost is not None:
            price = most
            self.guessed = True
        with self._lock:
            self.own = self.own.plus(answer.prompt_tokens, answer.completion_tokens, price)
        return None if math.isnan(price) else price

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())

    def _price(self, payment: Payment) -> float:
        if payment.price is not None:
            return payment.price
        counts = (payment.prompt_tokens, payment.completion_tokens)
        return self.prices.of_name(payment.model, *counts)
