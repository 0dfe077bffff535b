"""What a server said, however odd it is, and the settings with which it is asked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from fairtk.errors import ParameterError
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


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_address(url: str) -> None:
    """Raise a `ParameterError` unless it is the address of a server, without secrets."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ParameterError(
            "OpenAICompatible: base_url must be an address that begins with http:// or "
            "https://, e.g. 'http://127.0.0.1:8000/v1'"
        )
    if address.username or address.password or address.query or address.fragment:
        raise ParameterError(
            "OpenAICompatible: base_url must not carry a user, a password or parameters; put "
            "the key into an environment variable and name it in api_key_env"
        )


def check_number(name: str, value: Any, least: float) -> None:
    """Raise a `ParameterError` unless it is a number of at least `least`, whole if that is an
    int.
    """
    whole = isinstance(least, int)
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not (right and math.isfinite(value) and value >= least) or (whole and int(value) != value):
        kind = "an integer" if whole else "a number"
        raise ParameterError(
            f"OpenAICompatible: {name} must be {kind} of at least {least}; found {value!r}"
        )


def check_key_name(name: str | None) -> None:
    """Raise a `ParameterError` unless it is the name of an environment variable, or None."""
    if name is not None and not _VARIABLE.fullmatch(str(name)):
        raise ParameterError(  # what was given may be a key, and is not repeated
            "OpenAICompatible: api_key_env must be the name of an environment variable, such "
            "as OPENAI_API_KEY, and never the key itself"
        )


def checked_effort(effort: Any) -> str | None:
    """Return the effort of reasoning, a word, or None."""
    if effort is not None and not (isinstance(effort, str) and effort.strip()):
        raise ParameterError(
            "OpenAICompatible: reasoning_effort must be a word such as 'low', or None; found "
            f"{effort!r}"
        )
    return effort


def checked_body(body: Any) -> dict[str, Any] | None:
    """Return more of a request's body, JSON values that are settings of an answer, or None."""
    if body is None:
        return None
    try:
        if not isinstance(body, Mapping):
            raise TypeError
        found: dict[str, Any] = json.loads(json.dumps(dict(body), allow_nan=False))
    except (TypeError, ValueError):
        raise ParameterError(
            "OpenAICompatible: extra_body must be a mapping of JSON values, e.g. {'top_p': 0.9}"
        ) from None
    for name in ("model", "messages", "stream", "n"):
        if name in found:
            raise ParameterError(f"OpenAICompatible: extra_body must not set {name!r}")
    return found or None
