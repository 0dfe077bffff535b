"""Mutations of JSON files and of studies in TOML."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from campaign_case import FATAL, MEANINGFUL, NEUTRAL

NESTED = 200_000


class Broken(Exception):
    """The mutation finds no occasion."""


@dataclass(frozen=True)
class ByteMutation:
    """A mutation of a file's bytes: its class, its kind and what it does."""

    name: str
    kind: str
    change: Callable[[random.Random, bytes], bytes]


JSON_MUTATIONS: list[ByteMutation] = []
STUDY_MUTATIONS: list[ByteMutation] = []


def add(kind: str, *lists: list[ByteMutation]) -> Callable[[Any], Any]:
    """Return a decorator that adds a mutation named after the function."""

    def added(change: Callable[[random.Random, bytes], bytes]) -> Any:
        for each in lists or (JSON_MUTATIONS, STUDY_MUTATIONS):
            each.append(ByteMutation(change.__name__.replace("_", " "), kind, change))
        return change

    return added


def _records(raw: bytes) -> list[Any]:
    return [json.loads(line) for line in raw.splitlines()]


def _written(records: list[Any], **options: Any) -> bytes:
    return b"".join(json.dumps(r, **options).encode() + b"\n" for r in records)


def _places(value: Any, parent: Any = None, key: Any = None) -> list[tuple[Any, Any]]:
    """Return container and key of every value inside a JSON value."""
    found = [] if parent is None else [(parent, key)]
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for inner, one in list(items):
            found += _places(one, value, inner)
    return found


def _at_random(rng: random.Random, raw: bytes, change: Callable[[Any, Any], None]) -> bytes:
    records = _records(raw)
    container, key = rng.choice(_places(records))
    change(container, key)
    return _written(records)


@add(NEUTRAL)
def nothing(rng: random.Random, raw: bytes) -> bytes:
    return raw


@add(NEUTRAL, JSON_MUTATIONS)
def byte_order_mark_first(rng: random.Random, raw: bytes) -> bytes:
    return b"\xef\xbb\xbf" + raw


@add(NEUTRAL, JSON_MUTATIONS)
def escaped_and_spaced(rng: random.Random, raw: bytes) -> bytes:
    return _written(_records(raw), separators=(" ,  ", " :\t"), ensure_ascii=True)


@add(NEUTRAL, JSON_MUTATIONS)
def blank_lines(rng: random.Random, raw: bytes) -> bytes:
    return b"\n  \n" + raw + b"\n\n"


@add(NEUTRAL, STUDY_MUTATIONS)
def comments_and_blank_lines(rng: random.Random, raw: bytes) -> bytes:
    return b"# a study\n\n" + raw.replace(b"\n\n", b"  # more\n\n\n")


@add(NEUTRAL, STUDY_MUTATIONS)
def windows_line_ends(rng: random.Random, raw: bytes) -> bytes:
    return raw.replace(b"\n", b"\r\n")


@add(MEANINGFUL, JSON_MUTATIONS)
def a_value_of_another_kind(rng: random.Random, raw: bytes) -> bytes:
    value = rng.choice([None, True, 1.5, 7, [], {}, "", "text", [1], {"a": 1}, "x/y", -1])

    def change(container: Any, key: Any) -> None:
        container[key] = value

    return _at_random(rng, raw, change)


@add(MEANINGFUL, JSON_MUTATIONS)
def a_value_is_gone(rng: random.Random, raw: bytes) -> bytes:
    def change(container: Any, key: Any) -> None:
        del container[key]

    return _at_random(rng, raw, change)


@add(MEANINGFUL, JSON_MUTATIONS)
def a_value_twice(rng: random.Random, raw: bytes) -> bytes:
    def change(container: Any, key: Any) -> None:
        if not isinstance(container, list):
            raise Broken
        container.append(container[key])

    return _at_random(rng, raw, change)


@add(MEANINGFUL)
def cut_off(rng: random.Random, raw: bytes) -> bytes:
    return raw[: rng.randrange(1, len(raw) - 1)]


@add(MEANINGFUL)
def signs_replaced(rng: random.Random, raw: bytes) -> bytes:
    text = list(raw.decode())
    for _ in range(rng.randint(1, 2)):
        text[rng.randrange(len(text))] = rng.choice("0123456789ax\"'{}[]:,.=-# \\\n")
    return "".join(text).encode()


@add(MEANINGFUL)
def signs_removed(rng: random.Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw))
    return raw[:at] + raw[at + rng.choice([1, 1, 4]) :]


@add(FATAL)
def a_byte_that_is_no_text(rng: random.Random, raw: bytes) -> bytes:
    at = rng.randrange(1, len(raw) - 2)
    return raw[:at] + b"\xff" + raw[at:]


@add(FATAL)
def a_nul(rng: random.Random, raw: bytes) -> bytes:
    at = rng.randrange(1, len(raw) - 2)
    return raw[:at] + b"\0" + raw[at:]


@add(FATAL)
def utf_16(rng: random.Random, raw: bytes) -> bytes:
    return raw.decode().encode("utf-16")


@add(FATAL, JSON_MUTATIONS)
def nested_deep(rng: random.Random, raw: bytes) -> bytes:
    deep = b"[" * NESTED + b"]" * NESTED
    at = raw.index(b"{") + 1
    return raw[:at] + b'"deep": ' + deep + b", " + raw[at:]


@add(FATAL, JSON_MUTATIONS)
def an_integer_of_5000_digits(rng: random.Random, raw: bytes) -> bytes:
    at = raw.index(b"{") + 1
    return raw[:at] + b'"big": ' + b"1" * 5000 + b", " + raw[at:]


@add(FATAL)
def nothing_at_all(rng: random.Random, raw: bytes) -> bytes:
    return b""


@add(FATAL, STUDY_MUTATIONS)
def a_setting_that_is_none(rng: random.Random, raw: bytes) -> bytes:
    wrong = [
        b"cutof = 5", b"cutoff = 0", b'cutoff = "5"', b"cutoff = 2.5", b"seed = -1", b"folds = 1",
        b'ndcg = "none"', b"correction = 1", b'systems = "bm25"', b'systems = ["bm26"]',
        b'attributes = ["colour"]', b"attributes = []", b"level = 2.0", b"candidates = 1",
        b'split = "dev"', b"folder = 1", b'folder = "nowhere"', b"output = []",
    ]  # fmt: skip
    line = rng.choice(wrong)
    name = line.partition(b" ")[0] + b" ="
    kept = [row for row in raw.splitlines() if not row.startswith(name)]
    return b"\n".join([line, *kept, b""])


@add(FATAL, STUDY_MUTATIONS)
def a_table_that_is_none(rng: random.Random, raw: bytes) -> bytes:
    return raw + rng.choice([
        b"\n[nothing]\nx = 1\n", b"\n[bm25]\nk1 = 1.0\n", b"\n[llm]\nbackend = 3\n",
        b'\n[llm]\nbackend = "none"\n', b"\n[ledger]\nmax_calls = -1\n",
        b"\n[ledger]\nx = 1\n", b"\n[options]\nbm25 = 1\n",
    ])  # fmt: skip


@add(FATAL, STUDY_MUTATIONS)
def a_variation_that_is_none(rng: random.Random, raw: bytes) -> bytes:
    return raw + rng.choice([b"max_iterations = 3\n", b"colour = [1]\n", b'pool = "last"\n',
                             b"depth = [-1]\n", b'pool = ["none"]\n'])  # fmt: skip
