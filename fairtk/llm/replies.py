"""What a server sends, however odd: bodies of any size, refusals, answers that are no text."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from fairtk.errors import printable
from fairtk.llm.chat import Completion


class BodyError(ValueError):
    """What a server sends is too long, or packed in a way that was not asked for."""


@cache
def bounded_client(openai: Any) -> tuple[Any, Any]:
    """Return a class of HTTP clients that read so many bytes and follow no redirect, and what
    servers are known by: read once, as that takes longer than all else of a call.
    """

    class _Bounded(openai.DefaultAsyncHttpxClient):  # type: ignore[misc]
        def __init__(self, most: int, **options: Any) -> None:
            super().__init__(**options)
            self.most = most

        async def send(self, request: Any, **options: Any) -> Any:
            options |= {"stream": True, "follow_redirects": False}
            response = await super().send(request, **options)
            try:
                content = await _read(response, self.most)
            finally:
                await response.aclose()
            # as bytes: a server may send more than ASCII
            headers = [(k, v) for k, v in response.headers.raw if k.lower() not in _OF_THE_WAY]
            return type(response)(
                response.status_code, headers=headers, content=content, request=request
            )

    http = sys.modules[openai.DefaultAsyncHttpxClient.__base__.__module__]  # httpx or httpx2
    return _Bounded, http.create_ssl_context()


_OF_THE_WAY = (b"content-encoding", b"content-length", b"transfer-encoding")
_PIECE = 1 << 16  # bytes that are unpacked at once


async def _read(response: Any, most: int) -> bytes:
    """Return the body of a response, unpacked piece by piece.

    Raises:
        BodyError: it has more bytes, or is packed otherwise than with zlib.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    plain = encoding in ("", "identity")
    if not plain and encoding not in ("gzip", "x-gzip", "deflate"):
        raise BodyError(f"it is encoded as {encoding[:40]!r}, which was not asked for")
    unpacking = zlib.decompressobj(32 + zlib.MAX_WBITS)
    content = bytearray()
    async for piece in response.aiter_raw():
        while piece:
            if plain:
                content += piece
                piece = b""
            else:
                try:
                    content += unpacking.decompress(piece, _PIECE)
                except zlib.error as error:
                    raise BodyError(f"it is not encoded as {encoding!r}: {error}") from None
                piece = unpacking.unconsumed_tail
            if len(content) > most:
                raise BodyError(f"it has more than max_bytes={most} bytes")
    return bytes(content)


_NAMED = r"(?:^|[\"'`:\[(] ?|(?:arg|field|for|invalid|parameter|support|unknown|value)\w* ){}\b"
_UNKNOWN = re.compile(
    r"unsupported|not (?:be )?(?:support|permitt|allow|accept|availabl|set\b|a valid)|n['’]t |"
    r"unknown|unrecogni[sz]ed|unexpected|extra|deprecated|removed|only|must|invalid|instead",
    re.IGNORECASE,
)


def refused_parameter(error: Exception, sent: Mapping[str, Any]) -> str | None:
    """Return the parameter that a server refuses to take, by its own message; None: none.

    A limit that is too large for a prompt and the window is not refused: other prompts may fit.
    """
    if getattr(error, "status_code", None) not in (400, 422):
        return None
    body = getattr(error, "body", None)
    about = body if isinstance(body, dict) else {}
    text = one_line(detail(error), 2000)
    names = {name: name for name in sent if name != "extra_body"}
    names |= dict.fromkeys(sent.get("extra_body") or {}, "extra_body")
    limits = "too large" in text or "context" in text
    if about.get("param") in names and not limits:
        return names[about["param"]]
    if limits or not (about.get("code") or _UNKNOWN.search(text)):
        return None
    # a word such as "seed" may be the prompt's, which some servers repeat
    places = {
        m.start(): names[n] for n in names if (m := re.search(_NAMED.format(re.escape(n)), text))
    }
    return places[min(places)] if places else None


_SECRET = re.compile(r"\b(?:sk|key|Bearer)[-_ ][\w*.-]{4,}", re.IGNORECASE)
SHORTEST_KEY = 16  # characters; "EMPTY" and "none" are words, and no secrets


def detail(error: Exception) -> str:
    """Return the message of an error that a server sent."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    if isinstance(message, str):
        return message
    text = str(error)
    # some servers put what is wrong where the client does not look
    return text if not body or str(body) in text else f"{text}: {body}"


def headers_of(error: Exception) -> Mapping[str, str]:
    """Return the headers of an error that a server sent."""
    return getattr(getattr(error, "response", None), "headers", None) or {}


def model_names(content: bytes) -> list[str]:
    """Return the models in a server's list.

    Raises:
        ValueError: the content is no such list.
    """
    try:
        models = json.loads(content)["data"]
        # llama.cpp takes any name
        return [str(m["id"]) for m in models if m.get("owned_by") != "llamacpp"]
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no list of models: {error}") from None


def one_line(text: str, longest: int = 200) -> str:
    """Return a text in one line that is safe on a terminal, cut off if it is long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[:longest]}..."


def without_keys(text: str, key: str) -> str:
    """Return a server's text without anything that looks like a key, or is the one it got.

    Of a text that is cut off afterwards no part of a key is left.
    """
    if len(key.strip()) > 3:
        text = text.replace(key.strip(), "<hidden>")
    return _SECRET.sub("<hidden>", text)


_UNREADABLE = 10_000  # characters of what cannot be read, kept as it came


def keyless(answer: Completion, key: str) -> Completion:
    """Return an answer without the key; one that is no text may repeat all that was sent."""
    if answer.finish == "unreadable":
        text = without_keys(answer.text, key)
        return dataclasses.replace(answer, text=text[:_UNREADABLE])
    if len(key) < SHORTEST_KEY or key not in f"{answer.text}\n{answer.finish}":
        return answer
    text, finish = (part.replace(key, "<hidden>") for part in (answer.text, answer.finish))
    return dataclasses.replace(answer, text=text, finish=finish)


class BrokenReplyError(ValueError):
    """A reply that is no chat completion; another attempt may do better.

    If none does, `answer` stands for it; None: nothing was answered.
    """

    def __init__(self, message: str, answer: Completion | None = None) -> None:
        super().__init__(message)
        self.answer = answer


def read_reply(content: bytes, seconds: float) -> Completion:
    """Return the completion in the body of a reply that took so many seconds.

    An answer of another type than text was paid for like any other: it is ``"unreadable"``, and
    asking again would pay again. Its text is the whole body.

    Raises:
        BrokenReplyError: the body is no JSON, says that there was an error, or has no choices.
    """
    raw = content.decode("utf-8", "replace")
    unreadable = Completion(raw, seconds=seconds, finish="unreadable")
    try:
        body = json.loads(content, parse_int=_integer)
    except RecursionError:
        return unreadable
    except ValueError as error:
        raise BrokenReplyError(f"no JSON: {error}") from None
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
