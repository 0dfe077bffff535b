"""What a case of the campaign expects, and what it found.

A case applies one mutation to a small random world. A mutation is declared

* neutral: the values must be those without it,
* fatal: an error that names the place (file and line, or measure and id) must follow,
* meaningful: what an independent reader finds in the mutated file must give the same values, or an
  error if it refuses the file; a frame must give values or an error of one line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

NEUTRAL, FATAL, MEANINGFUL = "neutral", "fatal", "meaningful"


@dataclass
class Verdict:
    """The outcome of a case.

    Attributes:
        case: the mutated input and the name of the mutation.
        kind: neutral, fatal or meaningful.
        got: `value` or `error`.
        failure: what is wrong; empty if nothing is.
    """

    case: str
    kind: str
    got: str = ""
    failure: str = ""


class Refused(Exception):
    """The reference refuses an input.

    Args:
        reason: the reason.
        line: the 1-based line; `None` for the whole file.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line
        self.file: str | None = None


class Unspecified(Exception):
    """No rule specifies what an input means: the literal values and an error are both right.

    Args:
        reason: what is not specified.
        values: the values of the literal reading, if it has any.
    """

    def __init__(self, reason: str, values: Any = None) -> None:
        super().__init__(reason)
        self.values = values


def difference(expected: dict[Any, Any], values: dict[Any, Any]) -> str:
    """Return how two mappings to numbers or texts differ; an empty string if they do not."""
    if expected.keys() != values.keys():
        return f"other keys: {sorted(map(str, expected.keys() ^ values.keys()))[:6]}"
    for key, left in expected.items():
        if not _is_same(left, values[key]):
            return f"{key}: expected {left!r}, got {values[key]!r}"
    return ""


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return bool(left == right)
    left, right = (math.nan if value is None else value for value in (left, right))
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
