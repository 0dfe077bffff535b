"""What a server said, fit for a message: one line, without keys."""

from __future__ import annotations

import re

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
