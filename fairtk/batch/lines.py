"""Lines of batch files: prompts, and answers of batch APIs and ``vllm run-batch``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairtk.errors import FormatError
from fairtk.llm.chat import Chat, Completion, Message, call_keys
from fairtk.llm.replies import BrokenReplyError, read_reply


def byte_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file."""
    try:
        with path.open("rb") as stream:
            yield from stream
    except OSError as error:
        raise FormatError(f"the file cannot be read ({error.strerror})", path) from None


def _json_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line, empty if the line is invalid."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# Prompts ----------------------------------------------------------------------------------------

_ID = re.compile(rb'\{"custom_id": "([0-9a-f]+(?:-\d+)?)"')
_ESCAPE = re.compile(r"\\(x00|ud[89a-f])")


def custom_id(key: str, round_number: int) -> str:
    """Return the id of a prompt's line, which differs between rounds."""
    return key if round_number == 1 else f"{key}-{round_number}"


def key_of(line_id: str) -> str:
    """Return the prompt's key in the ledger."""
    return line_id.partition("-")[0]


def prompt_line(line_id: str, url: str, body: Mapping[str, Any]) -> bytes:
    """Return the line of a prompt."""
    line = {"custom_id": line_id, "method": "POST", "url": url, "body": body}
    return json.dumps(line, ensure_ascii=False).encode() + b"\n"


def line_ids(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the id and the offset of each prompt in a file."""
    start = 0
    for line in byte_lines(path):
        if match := _ID.match(line):
            yield match[1].decode(), start
        start += len(line)


def prompt_at(folder: Path, file: Mapping[str, Any], start: int, key: str) -> Chat | None:
    """Return the prompt in a line, `None` if it was changed.

    Args:
        folder: the batch folder.
        file: the file's entry in the manifest.
        start: the offset of the line.
        key: the key of the prompt that was written.
    """
    with (folder / file["name"]).open("rb") as stream:
        stream.seek(start)
        body = _json_object(stream.readline()).get("body", {})
    joined = [{"role": "user", "content": body.get("prompt")}]  # of /v1/completions
    messages = [Message(one["role"], one["content"]) for one in body.get("messages", joined)]
    chat = Chat(tuple(messages))
    # the key cannot be computed from joined or escaped messages
    if "messages" not in body or _ESCAPE.search(chat.text):
        return chat
    return chat if [key] == call_keys(file["model"], file["parameters"], [chat]) else None


# Answers ----------------------------------------------------------------------------------------


class AnswerLine(NamedTuple):
    """A line of a file of answers."""

    place: str  # file, line number and id, for messages
    line_id: str
    answer: Completion | None
    model: str
    kind: str  # "broken", "cut", "error", or "" for an answer
    reason: str


def answer_lines(path: Path) -> Iterator[AnswerLine]:
    """Yield the lines of a file of answers, except blank lines."""
    for number, line in enumerate(byte_lines(path), 1):
        if line.strip():
            yield _answer_line(f"{path}:{number}", line)


def _answer_line(place: str, line: bytes) -> AnswerLine:
    def problem(kind: str, reason: str) -> AnswerLine:
        return AnswerLine(place, line_id, None, "", kind, reason)

    record = _json_object(line)
    line_id = record.get("custom_id", "")
    if not record and not line.endswith(b"\n"):
        return problem("cut", "the last line is incomplete")
    if not isinstance(line_id, str) or not line_id:
        return problem("broken", "expected a JSON object with a custom_id")
    place += f": {line_id}"
    if "body" in record and "method" in record:
        return problem("broken", "expected an answer, got a prompt")
    response, error = record.get("response"), record.get("error")
    body = response.get("body") if isinstance(response, dict) else None
    status = response.get("status_code", 200) if isinstance(response, dict) else None
    if error or status != 200 or not isinstance(body, dict):
        reason = _error_message(error) or _error_message(body) or f"no answer (status {status})"
        return problem("error", reason)
    try:
        answer = read_reply(json.dumps(body).encode(), 0.0)
    except BrokenReplyError as broken:
        if broken.answer is None:
            return problem("error", str(broken))
        answer = broken.answer
    return AnswerLine(place, line_id, answer, str(body.get("model") or ""), "", "")


def _error_message(error: Any) -> str:
    while isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]
    if not isinstance(error, dict):
        return str(error) if error else ""
    parts = [error.get("code"), error.get("message")]
    return ": ".join(str(part) for part in parts if part)


_VERSION = re.compile(r"(?::.*|[-@]\d[\d.-]*)?")


def is_same_model(answered: str, requested: str, others: Sequence[str]) -> bool:
    """Return whether an answer's model is the requested one, a version of it, or one of others."""
    if not answered or answered in others:
        return True
    return answered.startswith(requested) and bool(_VERSION.fullmatch(answered[len(requested) :]))
