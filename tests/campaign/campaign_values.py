"""The reference: what the values of a file may be, column by column."""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

from campaign_case import Refused

INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
IDS = ("qid", "docno")
NUMBERS = ("score", "label", "weight")
NEEDED = {
    "run": ("qid", "docno", "score"),
    "qrels": ("qid", "docno", "label"),
    "groups": ("docno", "group"),
    "target": ("group", "weight"),
    "answers": ("qid", "qanswer"),
    "gold": ("qid", "gold_answer"),
}
ODD = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@dataclass
class Reading:
    """What a file says.

    Attributes:
        records: a mapping per row; numbers are numbers, everything else is text.
        lines: the line of each record; None in Parquet.
        unsaid: why no rule demands this reading; empty: one does.
    """

    records: list[dict[str, Any]]
    lines: list[int | None]
    unsaid: list[str] = field(default_factory=list)


def typed(kind: str, form: str, found: Reading) -> None:
    """Make the values of a reading what their columns hold, or refuse them."""
    needed = NEEDED[kind]
    if form == "task":
        needed = ("qid", "docno")
    plain = form not in ("jsonl", "parquet")
    for record, line in zip(found.records, found.lines, strict=True):
        missing = [name for name in needed if name not in record]
        if missing:
            raise Refused(f"missing {missing}", None)
        for name, value in list(record.items()):
            if name in IDS:
                record[name] = _id(name, value, line, found)
            elif name in NUMBERS:
                record[name] = _number(name, value, line, plain, found)
            elif name == "rank" or (name == "sample" and form == "task"):
                record[name] = _integer(name, value, line, found)
            elif name == "sample":
                record[name] = _sample(value, line, found)
            elif name == "group":
                record[name] = _level(kind, value, line, found)
            elif name in ("qanswer", "gold_answer"):
                record[name] = _answer(name, value, line, found)


def _id(name: str, value: Any, line: int | None, found: Reading) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise Refused(f"{name} is {value!r}", line)
    if "\n" in value or "\r" in value:
        raise Refused(f"{name} has a line break", line)
    if value != value.strip(" \t"):
        raise Refused(f"spaces around {name}", line)
    if any(c in "\0\ufeff" or unicodedata.category(c) == "Cs" for c in value):
        raise Refused(f"NUL, byte order mark or half a character in {name}", line)
    if any(unicodedata.category(c) in ODD or (c.isspace() and c != " ") for c in value):
        found.unsaid.append(f"control characters or odd spaces in {name}")
    return value


def _number(name: str, value: Any, line: int | None, plain: bool, found: Reading) -> float:
    if isinstance(value, str):
        if not plain:
            found.unsaid.append(f"{name} is text")
        if value != value.strip():
            found.unsaid.append(f"spaces around {name}")
        if not NUMBER.fullmatch(value.strip()):
            raise Refused(f"{name} is {value!r}", line)
        value = float(value.strip())
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{name} is {value!r}", line)
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number != number or number in (float("inf"), float("-inf")):
        raise Refused(f"{name} is {value!r}", line)
    if name == "weight" and number < 0:
        raise Refused("negative weight", line)
    if name == "label" and (number < 0 or number >= 1 << 15):
        found.unsaid.append("a label out of the usual range")
    return number


def _integer(name: str, value: Any, line: int | None, found: Reading) -> int:
    if isinstance(value, str) and INTEGER.fullmatch(value) and len(value) < 300:
        number = int(value)
        if abs(number) >= 1 << 63:
            raise Refused(f"{name} is {value!r}", line)
        if abs(number) >= 1 << 53:
            found.unsaid.append(f"{name} is huge")
        return number
    number = _number(name, value, line, True, found)
    if number != int(number) or abs(number) >= 1 << 63:
        raise Refused(f"{name} is {value!r}", line)
    if isinstance(value, str | float):
        found.unsaid.append(f"{name} is {value!r}")
    return int(number)


def _sample(value: Any, line: int | None, found: Reading) -> Any:
    if value is None:
        raise Refused("sample is missing", line)
    if isinstance(value, str):
        return value
    number = _integer("sample", value, line, found)
    if number < 0:
        raise Refused(f"sample is {value!r}", line)
    return str(number)


def _level(kind: str, value: Any, line: int | None, found: Reading) -> str:
    if value is None or value == "":
        if kind == "target":
            raise Refused("the group is missing", line)
        return "@UNKNOWN"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Refused(f"group is {value!r}", line)
    if value != value.strip() or "\n" in value:
        found.unsaid.append("spaces around a level")
    return value


def _answer(name: str, value: Any, line: int | None, found: Reading) -> Any:
    if name == "gold_answer" and isinstance(value, list):
        if not value or not all(isinstance(v, str) for v in value):
            raise Refused(f"{name} is {value!r}", line)
        return value
    if not isinstance(value, str):
        if isinstance(value, int) and not isinstance(value, bool):
            found.unsaid.append(f"{name} is a number")
            return str(value)
        raise Refused(f"{name} is {value!r}", line)
    if name == "gold_answer" and value[:1] == "[":
        try:
            several = json.loads(value)
        except ValueError:
            return value
        if isinstance(several, list) and several and all(isinstance(v, str) for v in several):
            return several
    return value
