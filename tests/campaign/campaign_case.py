"""What a case of the campaign expects, what it got, and the words for both.

A case is a family (``files``, ``frames``) and a seed; everything else follows from the two. Each
case applies one mutation to a small random world. A mutation is declared

* neutral: the value must be that of the world without it,
* fatal: an error that says where (file and line, or measure and what it found),
* meaningful: the value of the reference, an independent reading of the mutated input, or an error
  where the reference refuses the input, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

NEUTRAL, FATAL, MEANINGFUL = "neutral", "fatal", "meaningful"

OK = "ok"
WRONG = "wrong value"
SILENT = "not refused"
REFUSED = "refused for no reason"
FOREIGN = "foreign exception"
PLACELESS = "error without a place"
CHANGED = "input changed"
ABORT = "abort"
HANG = "hang"
MEMORY = "out of memory"
CAMPAIGN = "the campaign contradicts itself"
FAILURES = (
    WRONG, SILENT, REFUSED, FOREIGN, PLACELESS, CHANGED, ABORT, HANG, MEMORY, CAMPAIGN,
)  # fmt: skip


@dataclass
class Verdict:
    """What became of a case.

    Attributes:
        family: the family.
        seed: the seed.
        room: what was mutated, for the table: ``run trec``, ``frame EE_D``.
        mutation: the name of the mutation.
        kind: neutral, fatal or meaningful.
        outcome: `OK`, or one of `FAILURES`.
        got: ``value`` or ``error``, or nothing.
        detail: what was expected and what was found.
    """

    family: str
    seed: int
    room: str = ""
    mutation: str = ""
    kind: str = ""
    outcome: str = OK
    got: str = ""
    detail: str = ""


class Refused(Exception):
    """The reference refuses an input.

    Args:
        why: the reason.
        line: the 1-based line; None: the file as a whole.
    """

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why)
        self.line = line
        self.file: str | None = None
        self.exact = False  # whether that line must be named, or any


class Unsaid(Exception):
    """No rule says what this input means: a value of the literal text and an error are both right.

    Args:
        why: what is not said.
        values: the literal reading's values, where there is one.
    """

    def __init__(self, why: str, values: Any = None) -> None:
        super().__init__(why)
        self.values = values


@dataclass
class Mutated:
    """What a mutation did.

    Attributes:
        content: the mutated input.
        line: for fatal ones, the only line that is wrong; None: not a single one.
    """

    content: Any
    line: int | None = None
    more: dict[str, Any] = field(default_factory=dict)


def same_values(one: dict[Any, Any], two: dict[Any, Any], tolerance: float = 1e-9) -> str:
    """Return how two mappings to numbers differ; an empty string: not at all."""
    if one.keys() != two.keys():
        return f"other keys: {sorted(map(str, one.keys() ^ two.keys()))[:6]}"
    for key, left in one.items():
        right = two[key]
        if not same_number(left, right, tolerance):
            return f"{key}: expected {left!r}, found {right!r}"
    return ""


def same_number(left: Any, right: Any, tolerance: float = 1e-9) -> bool:
    """Return whether two values are equal, or numbers that are nearly; NaN equals NaN and None."""
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return left == right or (_is_nan(left) and _is_nan(right))
    if _is_nan(left) or _is_nan(right):
        return _is_nan(left) and _is_nan(right)
    return math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance)


def _is_nan(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
