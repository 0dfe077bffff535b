"""What calls cost, from a table that the user gives: prices change, so none are packaged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import NamedTuple

from fairtk.errors import ParameterError
from fairtk.files import read_table
from fairtk.llm.chat import Chat, ChatModel, Completion

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
        given = _read(table) if isinstance(table, str | PathLike) else dict(table or {})
        self._prices: dict[str, Price] = {}
        for model, pair in given.items():
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

    def of_completion(self, llm: ChatModel, completion: Completion) -> float:
        """Return the price of an answer; NaN if it is unknown."""
        return self.of(llm, completion.prompt_tokens, completion.completion_tokens)


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
    parameters = llm.sent_parameters()
    found = [parameters.get(name) for name in _LIMITS]
    return next((float(limit) for limit in found if isinstance(limit, int | float)), math.nan)


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
    rows.as_numbers("prompt")
    rows.as_numbers("completion")
    rows.unique(["model"], "a model has two prices")
    columns = (rows.frame[name].tolist() for name in ("model", "prompt", "completion"))
    return {model: (asked, told) for model, asked, told in zip(*columns, strict=True)}
