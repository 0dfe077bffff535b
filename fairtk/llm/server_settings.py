"""Settings of servers, checked when a model is made: no message repeats what may be a key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from fairtk.errors import ParameterError

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
