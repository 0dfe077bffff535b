"""One refinement step for many queries: prompts out, parsed keywords or reasons back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from fairtk.fair_qr.parsing import AnswerError, parse_completion
from fairtk.llm import ChatModel, Estimate, Failure, Prices, Recorded
from fairtk.llm.budget import estimate
from fairtk.prompts.refine import Refinement, RefinementPromptLike


@dataclass(frozen=True)
class Refined:
    """The outcome of one step for one query.

    Attributes:
        query: the refined keywords; None if there are none.
        reason: why there are none, else empty.
        prompt_tokens: tokens of the prompt; None: unknown.
        completion_tokens: tokens of the answer; None: unknown.
        seconds: that the answer took.
    """

    query: str | None
    reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0


def refine(
    llm: ChatModel, prompt: RefinementPromptLike, requests: Sequence[Refinement]
) -> list[Refined]:
    """Return one outcome for each request; calls overlap as far as the model allows.

    On a terminal, how many calls are answered is shown after two seconds.

    Raises:
        LLMError: no call to the model would succeed.
        BudgetError: the ledger's budget does not allow the next call.
    """
    chats = [prompt(request) for request in requests]
    shown: Any = {"desc": f"asking {llm.name}", "unit": " calls", "delay": 2, "leave": False}
    outcomes = dict(tqdm(llm.outcomes(chats), total=len(chats), disable=None, **shown))
    results = []
    for place, (request, chat) in enumerate(zip(requests, chats, strict=True)):
        outcome = outcomes.get(place, Failure("the model gave no answer"))
        if isinstance(outcome, Failure):
            results.append(Refined(None, outcome.reason))
            continue
        counts = (outcome.prompt_tokens, outcome.completion_tokens, outcome.seconds)
        try:
            query = parse_completion(outcome, prompt.answer(outcome.text), request.keywords)
            results.append(Refined(query, "", *counts))
        except AnswerError as error:
            llm.reject(chat)
            results.append(Refined(None, str(error), *counts))
    return results


def estimate_at_most(
    llm: ChatModel, prompt: RefinementPromptLike, requests: Sequence[Refinement], rounds: int
) -> Estimate:
    """Return what some rounds of requests take at most, without any call.

    Args:
        llm: the model; behind a ledger, the ledger's prices count.
        prompt: the prompt.
        requests: the first round's requests, or ones as long.
        rounds: how often each query is refined at most.
    """
    inner, prices = (llm.llm, llm.ledger.prices) if isinstance(llm, Recorded) else (llm, Prices())
    chats = [prompt(request) for request in requests] * rounds
    return estimate(inner, chats, 0, prices)
