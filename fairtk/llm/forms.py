"""The form in which a server takes a call: what it refused is left out, or sent by another name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from fairtk.llm.replies import detail

OTHER_NAME = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""One setting under two names: servers know the one, the other or both."""

REFUSABLE = ("max_tokens", "max_completion_tokens", "temperature", "seed")
"""What a call can do without; what else was asked for is not dropped silently."""

_REFUSED = (400, 422)
_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_UNKNOWN = re.compile(
    r"unsupported|not support|n['’]t support|unknown|unrecogni[sz]ed|unexpected|not (?:a )?valid|"
    r"not permitted|not allowed|not accepted|forbidden|not available|deprecated|removed|extra|"
    r"only the default|cannot be set|can['’]t be set|invalid (?:param|field|key|argument)|refuse|"
    r"reject|instead",
    re.IGNORECASE,
)


class CallForm:
    """What a server refused so far, shared by all temperatures of a model and all threads."""

    def __init__(self) -> None:
        self.refused: tuple[str, ...] = ()
        self._lock = Lock()

    def learn(self, names: Iterable[str]) -> None:
        """Note refused parameters; the same one twice changes nothing."""
        with self._lock:
            new = [name for name in names if name in REFUSABLE]
            self.refused = tuple(dict.fromkeys([*self.refused, *new]))

    def of(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters as the server takes them; what it refused is None or left out."""
        found = dict(parameters)
        for name in self.refused:
            value = found.get(name)
            if name not in OTHER_NAME:
                if value is not None:
                    found[name] = None
                continue
            found.pop(name, None)
            other = OTHER_NAME[name]
            if value is not None and other not in self.refused:
                found[other] = value
        return found

    def __reduce__(self) -> Any:
        return (_with_refused, (self.refused,))


def _with_refused(names: tuple[str, ...]) -> CallForm:
    form = CallForm()
    form.learn(names)
    return form


def refused_parameter(error: Exception, sent: Iterable[str]) -> str | None:
    """Return the parameter that a server refuses to take, by its own message; None: none.

    A parameter whose value alone is wrong (too long an answer for the window) is not refused.
    """
    if getattr(error, "status_code", None) not in _REFUSED:
        return None
    body = getattr(error, "body", None)
    about = body if isinstance(body, dict) else {}
    said = detail(error, 2000)
    if not (about.get("code") in _CODES or _UNKNOWN.search(said)):
        return None
    names = [name for name in sent if name in REFUSABLE]
    if about.get("param") in names:
        return str(about["param"])
    places = {m.start(): name for name in names if (m := re.search(rf"\b{name}\b", said))}
    return places[min(places)] if places else None
