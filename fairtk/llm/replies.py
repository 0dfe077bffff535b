"""Parse the responses of servers: answers and error messages."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from fairtk.llm.chat import Completion
from fairtk.wording import printable


class ResponseTooLongError(ValueError):
    """A response has more than `max_bytes` bytes."""


def bounded_client(max_bytes: int, **options: Any) -> Any:
    """Return an HTTP client that follows no redirects and reads at most `max_bytes` bytes."""
    return _client_class()(max_bytes, follow_redirects=False, timeout=None, **options)


@cache
def _client_class() -> Any:
    import httpx2
    import openai

    class BoundedClient(openai.DefaultAsyncHttpxClient):  # type: ignore[misc]
        def __init__(self, max_bytes: int, **options: Any) -> None:
            super().__init__(**options)
            self.max_bytes = max_bytes

        async def send(self, request: Any, **options: Any) -> Any:
            response = await super().send(request, **{**options, "stream": True})
            content = bytearray()
            try:
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > self.max_bytes:
                        raise ResponseTooLongError(
                            f"the response has more than max_bytes={self.max_bytes} bytes"
                        )
            finally:
                await response.aclose()
            headers = response.headers.copy()
            for name in ("content-encoding", "content-length", "transfer-encoding"):
                headers.pop(name, None)  # the content is decoded
            return httpx2.Response(
                response.status_code, headers=headers, content=bytes(content), request=request
            )

    return BoundedClient


_PARAMETER = r"(?:^|[\"'`:\[(] ?|(?:arg|field|for|invalid|parameter|support|unknown|value)\w* ){}\b"
_UNSUPPORTED = re.compile(
    r"unsupported|not (?:be )?(?:support|permitt|allow|accept|availabl|set\b|a valid)|n['’]t |"
    r"unknown|unrecogni[sz]ed|unexpected|extra|deprecated|removed|only|must|invalid|instead",
    re.IGNORECASE,
)


def refused_parameter(error: Any, sent: Mapping[str, Any]) -> str | None:
    """Return the parameter that an error reports as unsupported, or `None`.

    A limit that exceeds the context window is supported: other prompts may fit.
    """
    if error.status_code not in (400, 422):
        return None
    body = error.body if isinstance(error.body, dict) else {}
    text = one_line(error_message(error), 2000)
    names = {name: name for name in sent if name != "extra_body"}
    names |= dict.fromkeys(sent.get("extra_body") or {}, "extra_body")
    limits = "too large" in text or "context" in text
    if limits:
        return None
    if body.get("param") in names:
        return names[body["param"]]
    if not (body.get("code") or _UNSUPPORTED.search(text)):
        return None
    # Some servers repeat the prompt, and a word such as "seed" may be in it.
    matches = {n: re.search(_PARAMETER.format(re.escape(n)), text) for n in names}
    positions = {match.start(): names[n] for n, match in matches.items() if match}
    return positions[min(positions)] if positions else None


_NO_SYSTEM = re.compile(
    r"\b(?:system|developer) (?:role|prompt|message|instruction)s?\b.{0,40}\bnot\b"
    r"|only user(?: and|,) assistant roles|roles must alternate user"
    r"|role\W.{0,20}\bnot support\b.{0,10}\bsystem\b",
    re.IGNORECASE,
)


def refuses_system(error: Any) -> bool:
    """Return whether an error says that the role of the system is not supported."""
    text = one_line(error_message(error), 2000)
    return error.status_code in (400, 422, 500) and bool(_NO_SYSTEM.search(text))


_CODES = {
    **dict.fromkeys(("invalid_api_key", "authentication_error", "access_terminated"), "key"),
    **dict.fromkeys(("model_not_found", "invalid_model"), "model"),
    **dict.fromkeys(
        ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"), "quota"
    ),
}
_TEXTS = {
    "key": re.compile(r"api key (?:is )?(?:not valid|invalid|expired)|invalid api key", re.I),
    "model": re.compile(
        r"\bmodels?\b.{0,80}\bnot (?:exist|found|a valid)"
        r"|invalid model|not a valid model|no such model",
        re.I,
    ),
}


def refusal_of_all(error: Any, model: str) -> str:
    """Return why a server would refuse all calls: ``"key"``, ``"model"`` or ``"quota"``.

    It is empty if the error may be about one prompt, or can pass.
    """
    by_status = {401: "key", 402: "quota", 403: "key", 404: "model"}
    if error.status_code in by_status:
        return by_status[error.status_code]
    if error.status_code not in (400, 422, 429):
        return ""
    body = error.body if isinstance(error.body, dict) else {}
    for name in ("code", "type"):
        if (cause := _CODES.get(str(body.get(name)))) is not None:
            return cause
    text = error_message(error)
    if error.status_code == 429:
        return ""
    if _TEXTS["key"].search(text):
        return "key"
    # a server may repeat the prompt, so its message must be about this model
    is_short = len(text) < 40
    is_about_model = is_short or model in text
    return "model" if is_about_model and _TEXTS["model"].search(text) else ""


_SECRET = re.compile(r"\b(?:sk|key|Bearer)[-_ ][\w*.-]{4,}", re.IGNORECASE)
SHORTEST_KEY = 16  # characters; "EMPTY" and "none" are not secrets


def error_message(error: Any) -> str:
    """Return the message of an error response."""
    message = error.body.get("message") if isinstance(error.body, dict) else None
    if isinstance(message, str):
        return message
    text = str(error)
    # Some servers put the message where the client does not look for it.
    return text if not error.body or str(error.body) in text else f"{text}: {error.body}"


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in the header ``Retry-After`` (a number or a date), or `None`."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def model_names(content: bytes) -> list[str]:
    """Return the names in a server's list of models.

    Raises:
        ValueError: the content is not such a list.
    """
    try:
        models = json.loads(content)["data"]
        # llama.cpp accepts any name.
        return [str(m["id"]) for m in models if m.get("owned_by") != "llamacpp"]
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a list of models: {error}") from None


def one_line(text: str, longest: int = 200) -> str:
    """Return a text in one line that is safe on a terminal, truncated if it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[:longest]}..."


def without_keys(text: str, key: str) -> str:
    """Return a server's text without the key or anything that looks like a key.

    Call this before truncating the text, so that no part of a key remains.
    """
    if len(key.strip()) > 3:
        text = text.replace(key.strip(), "<hidden>")
    return _SECRET.sub("<hidden>", text)


_MAX_UNREADABLE = 10_000  # characters of an unreadable response that are recorded


def keyless(answer: Completion, key: str) -> Completion:
    """Return an answer without the key; an unreadable response may repeat the request."""
    if answer.finish == "unreadable":
        text = without_keys(answer.text, key)
        return dataclasses.replace(answer, text=text[:_MAX_UNREADABLE])
    if len(key) < SHORTEST_KEY or key not in f"{answer.text}\n{answer.finish}":
        return answer
    text, finish = (part.replace(key, "<hidden>") for part in (answer.text, answer.finish))
    return dataclasses.replace(answer, text=text, finish=finish)


class BrokenReplyError(ValueError):
    """A response that is not a completion. Another attempt may succeed.

    `answer` is recorded if no attempt succeeds; `None` if there is no answer.
    """

    def __init__(self, message: str, answer: Completion | None = None) -> None:
        super().__init__(message)
        self.answer = answer


def read_reply(content: bytes, seconds: float) -> Completion:
    """Return the completion in the body of a response.

    An answer that is not text is also paid. Its `finish` is ``"unreadable"``, and its text is the
    body.

    Raises:
        BrokenReplyError: the body is not JSON, contains an error, or has no choices.
    """
    raw = content.decode("utf-8", "replace")
    unreadable = Completion(raw, seconds=seconds, finish="unreadable")
    try:
        body = json.loads(content, parse_int=_integer)
    except RecursionError:
        return unreadable
    except ValueError as error:
        raise BrokenReplyError(f"not JSON: {error}") from None
    if isinstance(body, dict) and body.get("error"):
        raise BrokenReplyError(f"an error: {body['error']!r}")
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        raise BrokenReplyError("no choices", unreadable)
    choice, usage = choices[0], body.get("usage")
    message = choice.get("message") if isinstance(choice, dict) else None
    if message is None and isinstance(choice, dict) and isinstance(choice.get("text"), str):
        message = {"content": choice["text"]}  # of /v1/completions
    if not isinstance(message, dict):
        raise BrokenReplyError("a choice without a message", unreadable)
    counts = usage if isinstance(usage, dict) else {}
    refusal, text = message.get("refusal"), _text(message.get("content"))
    finish = _finish(choice.get("finish_reason"))
    if refusal and isinstance(refusal, str):
        text, finish = refusal, "refusal"
    elif text is None:
        text, finish = raw, "unreadable"
    elif not text.strip() and _has_thought(message) and finish in ("stop", "length"):
        finish = "thought only" if finish == "stop" else "thought cut"
    return Completion(
        text,
        counts.get("prompt_tokens"),
        counts.get("completion_tokens"),
        seconds,
        finish,
        cached_tokens=_cached_tokens(counts),
    )


_FINISHES = {
    **dict.fromkeys(("max_tokens", "max_length", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("safety", "prohibited_content", "blocklist", "recitation"), "content_filter"),
}
"""The reasons of some servers, in lower case, and those of OpenAI."""


def _finish(reason: Any) -> str:
    """Return why an answer ended, `Completion.finish`."""
    if not reason or not isinstance(reason, str):
        return "stop"
    return _FINISHES.get(reason.lower(), reason.lower())


_THOUGHTS = ("thinking", "reasoning", "thought", "redacted_thinking", "reasoning_content")
"""The types of the parts of a message that are thoughts, and the names of fields with thoughts."""


def _has_thought(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(message.get(name) for name in _THOUGHTS) or any(map(_is_thought, parts))


def _is_thought(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _THOUGHTS


def _text(content: Any) -> str | None:
    """Return the text of a message: a string, `None`, or a list of parts, without thoughts."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        answer = [part for part in content if not _is_thought(part)]
        parts = [part.get("text") if isinstance(part, dict) else None for part in answer]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if len(texts) == len(parts) else None
    return None


def _cached_tokens(counts: Mapping[str, Any]) -> int | None:
    """Return the tokens of a prompt that a server did not read again, `None` if not reported.

    Some servers count them in ``prompt_tokens``, too.
    """
    details = counts.get("prompt_tokens_details")
    reported = [details.get("cached_tokens") if isinstance(details, dict) else None]
    names = ("cache_read_input_tokens", "cache_creation_input_tokens", "prompt_cache_hit_tokens")
    reported += [counts.get(name) for name in names]
    numbers = [n for n in reported if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
    return sum(numbers) if numbers else None


def _integer(digits: str) -> int | None:
    # Python refuses thousands of digits; counts have at most 64 bits
    return int(digits) if len(digits) < 20 else None
