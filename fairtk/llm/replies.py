"""Reading what a server with OpenAI's chat protocol said, however odd it is."""

from __future__ import annotations

import json
import re
from typing import Any

from fairtk.llm.chat import Completion

_SECRET = re.compile(r"\b(?:sk|key|Bearer)[-_ ][\w*.-]{4,}", re.IGNORECASE)


def detail(error: Exception, longest: int = 200) -> str:
    """Return the message of an error that a server sent, at most so many characters of it."""
    body = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return one_line(body["message"], longest)
    said = str(error)
    # some servers put what is wrong where the client does not look
    return one_line(said if not body or str(body) in said else f"{said}: {body}", longest)


def one_line(text: str, longest: int = 200) -> str:
    """Return a text in one line, cut off if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}..."


def without_keys(text: str, key: str) -> str:
    """Return a server's text without anything that looks like a key, or is the one it got."""
    if len(key.strip()) > 3:
        text = text.replace(key.strip(), "<hidden>")
    return _SECRET.sub("<hidden>", text)


_LONGEST = 10_000  # characters of what cannot be read, kept as it came


class BrokenReplyError(ValueError):
    """A reply that is no chat completion; another attempt may do better.

    If none does, `kept` stands for the answer; None: nothing was answered.
    """

    def __init__(self, message: str, kept: Completion | None = None) -> None:
        super().__init__(message)
        self.kept = kept


def read_reply(content: bytes, seconds: float) -> Completion:
    """Return the completion in the body of a reply that took so many seconds.

    An answer of another type than text was paid for like any other: it is ``"unreadable"``, and
    asking again would pay again.

    Raises:
        BrokenReplyError: the body is no JSON, says that there was an error, or has no choices.
    """
    raw = content[: 4 * _LONGEST].decode("utf-8", "replace")[:_LONGEST]
    unreadable = Completion(raw, seconds=seconds, finish="unreadable")
    try:
        body = json.loads(content, parse_int=_integer)
    except RecursionError:
        return unreadable
    except ValueError as error:
        raise BrokenReplyError(f"no JSON: {error}") from None
    if isinstance(body, dict) and body.get("error"):
        raise BrokenReplyError(f"an error: {body['error']!r:.200}")
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        raise BrokenReplyError("no choices", unreadable)
    choice, usage = choices[0], body.get("usage")
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise BrokenReplyError("a choice without a message", unreadable)
    counts = usage if isinstance(usage, dict) else {}
    refusal, text = message.get("refusal"), _text(message.get("content"))
    finish = choice.get("finish_reason")
    if refusal and isinstance(refusal, str):
        text, finish = refusal, "refusal"
    elif text is None:
        text, finish = raw, "unreadable"
    return Completion(
        text,
        counts.get("prompt_tokens"),
        counts.get("completion_tokens"),
        seconds,
        finish if finish and isinstance(finish, str) else "stop",
    )


def _text(content: Any) -> str | None:
    """Return the text of a message: a string, nothing, or parts with texts."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if len(texts) == len(parts) else None
    return None


def _integer(digits: str) -> int | None:
    # Python refuses thousands of digits; no count has more than 64 bits
    return int(digits) if len(digits) < 20 else None
