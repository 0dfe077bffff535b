"""How an answer is read from the text of a model, and whether it is an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from fairtk.errors import ParameterError
from fairtk.frames.answers import (
    CUT,
    EMPTY,
    FILTERED,
    OK,
    PROMPT_CUT,
    REFUSED,
    THOUGHT_ONLY,
    UNKNOWN,
    UNREADABLE,
)
from fairtk.llm.chat import Completion
from fairtk.wording import short

AnswerReader = str | Callable[[str], str]
"""``"plain"``, ``"after-thinking"``, ``"json:KEY"``, or a function from a text to an answer."""

_BY_FINISH = {
    "unreadable": UNREADABLE,
    "refusal": REFUSED,
    "content_filter": FILTERED,
    "thought only": THOUGHT_ONLY,
    "thought cut": THOUGHT_ONLY,
}
_OPENED = re.compile(r"<think(?:ing)?>|\[THINK\]", re.IGNORECASE)
_CLOSED = re.compile(r"</think(?:ing)?>|\[/THINK\]", re.IGNORECASE)


class Reading(NamedTuple):
    """What was read from the text of a model.

    Attributes:
        answer: the answer without surrounding white space; empty if it is absent.
        status: one of `STATUSES`.
        problem: why the text is unreadable; otherwise empty.
    """

    answer: str
    status: str
    problem: str = ""


def check_reader(answer: Any, where: str) -> AnswerReader:
    """Return a way to read answers, or raise a `ParameterError` if it is invalid."""
    is_key = isinstance(answer, str) and answer.startswith("json:") and answer[5:].strip()
    is_word = isinstance(answer, str) and answer in ("plain", "after-thinking")
    if is_word or is_key or callable(answer):
        return answer  # type: ignore[no-any-return]
    raise ParameterError(
        f"{where}: answer must be 'plain', 'after-thinking', 'json:KEY' or a function from a text "
        f"to an answer, got {short(answer)}"
    )


def read(
    completion: Completion,
    prompt: str,
    answer: AnswerReader = "after-thinking",
    of_server: bool = True,
) -> Reading:
    """Return the answer in a completion, and its status.

    Args:
        completion: the completion.
        prompt: the text that was sent.
        answer: how to read the text; see `fairtk.Generator`.
        of_server: whether a server counted the tokens of the prompt, which it may have cut. The
            vocabularies of some local models have one unknown token for several words.
    """
    finish = completion.finish
    if finish in ("unreadable", "thought only", "thought cut"):
        return Reading("", _BY_FINISH[finish])
    text, problem = _read_text(completion.text, answer)
    if of_server and is_prompt_cut(completion, prompt):
        status = PROMPT_CUT
    elif finish in _BY_FINISH:  # the text is the refusal, or what passed the filter
        return Reading(after_thinking(completion.text)[0], _BY_FINISH[finish])
    elif problem == THOUGHT_ONLY:
        status = THOUGHT_ONLY
    elif finish == "length":
        status = CUT
    elif not text:
        status = UNREADABLE if problem else EMPTY
    else:
        status = UNKNOWN if finish == "unknown" else OK
    return Reading(text, status, problem if status == UNREADABLE else "")


def is_cut(completion: Completion) -> bool:
    """Return whether a completion reached the maximum length, whatever its status."""
    return completion.finish in ("length", "thought cut")


def is_usable(completion: Completion, prompt: str, answer: AnswerReader = "after-thinking") -> bool:
    """Return whether a completion has an answer, read in a way."""
    return read(completion, prompt, answer).status in (OK, UNKNOWN)


def is_prompt_cut(completion: Completion, prompt: str) -> bool:
    """Return whether the server has read less than half of the words of a prompt.

    A word has at least one token in all tokenizers, so a prompt has more tokens than words, as far
    as the server reports tokens.
    """
    tokens = (completion.prompt_tokens or 0) + (completion.cached_tokens or 0)
    if not 0 < 2 * tokens < len(prompt):
        return False
    # white space is counted fast; few prompts need to be split
    text = prompt.encode(errors="surrogatepass")
    n_spaces = len(text) - len(text.translate(None, b" \n\t\r"))
    return 2 * tokens <= n_spaces and 2 * tokens < len(prompt.split())


def after_thinking(text: str) -> tuple[str, bool]:
    """Return the text after the last thought, and whether there is only a thought."""
    closed = [match.end() for match in _CLOSED.finditer(text)]
    rest = text[closed[-1] :].strip() if closed else text.strip()
    if _OPENED.search(rest):  # a thought without an end
        return "", True
    return rest, bool(closed) and not rest


def _read_text(text: str, answer: AnswerReader) -> tuple[str, str]:
    """Return the answer in a text, and why it is absent."""
    if answer == "plain":
        return text.strip(), ""
    if callable(answer):
        return _called(answer, text)
    rest, is_thought = after_thinking(text)
    if is_thought:
        return "", THOUGHT_ONLY
    if not isinstance(answer, str) or not answer.startswith("json:") or not rest:
        return rest, ""
    key = answer.removeprefix("json:").strip()
    for record in _objects(rest):
        if key in record:
            value = record[key]
            if isinstance(value, str):
                return value.strip(), ""
            if isinstance(value, int | float):
                return json.dumps(value), ""
            return "", f"{key!r} must be a text or a number, got {json.dumps(value):.60}"
    return "", f"no JSON object with {key!r}"


def _called(function: Callable[[str], Any], text: str) -> tuple[str, str]:
    try:
        value = function(text)
    except Exception as error:
        return "", f"{type(error).__name__}: {error}"
    if not isinstance(value, str):
        return "", f"answer() must return a text, got {value!r:.60}"
    return value.strip(), ""


_DECODER = json.JSONDecoder()


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text, in the order of their beginnings."""
    start = text.find("{")
    while start >= 0:
        try:
            record, _ = _DECODER.raw_decode(text, start)
            yield record
        except (ValueError, RecursionError):
            pass
        start = text.find("{", start + 1)
