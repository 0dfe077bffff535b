"""Texts of messages: lists, counts, suggestions, and what is safe to print."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from os.path import commonprefix

__all__ = ["did_you_mean", "format_list"]


def install_hint(extra: str = "") -> str:
    """Return the command that installs fairtk with an extra, from a checkout."""
    return f"pip install '.[{extra}]'" if extra else "pip install ."


_ALLOWED_CONTROLS = frozenset("\t\n")
_SHOWN = 200  # characters of a value; paths must stay readable
_CODES = 4
"""The number of code points that a message shows of a text."""


def printable(text: str) -> str:
    r"""Return a text with escapes such as ``\x1b`` and ``\u202e``, safe on a terminal.

    Control characters, bidirectional marks and unpaired surrogates are escaped; tabs and line
    breaks are not.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii")
        if c not in _ALLOWED_CONTROLS and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else c
        for c in text
    )


def did_you_mean(name: str, known: Iterable[str], limit: int = 12) -> str:
    """Return the end of a message about an unknown name.

    It suggests the nearest known name; if none is near, it lists at most `limit` names.
    """
    names = sorted({str(k) for k in ([known] if isinstance(known, str) else known)})
    near = difflib.get_close_matches(name.lower(), {n.lower() for n in names}, n=1, cutoff=0.6)
    if near:
        matches = [n for n in names if n.lower() == near[0]]  # names that differ in case
        nearest = max(matches, key=lambda n: difflib.SequenceMatcher(None, name, n).ratio())
        return f"; did you mean {apart(name, nearest)[1]}?"
    if not names:
        return "; known: none"
    tail = ", ..." if len(names) > limit else ""
    return f"; known: {', '.join(names[:limit])}{tail}"


def missing_columns(missing: Iterable[object], expected: str, columns: Iterable[object]) -> str:
    """Return a message about missing columns: ``missing column 'a'; expected 'a', 'b', got 'b'``.

    Args:
        missing: the missing columns.
        expected: the required columns, as a list in words.
        columns: all columns of the frame or file.
    """
    names = list(missing)
    such = "column" if len(names) == 1 else "columns"
    present = format_list(columns, 12) or "no columns"
    return f"missing {such} {format_list(names, 9)}; expected {expected}, got {present}"


def rename_hint(missing: Sequence[object], expected: str, columns: Iterable[object]) -> str:
    """Return how to name a missing column; ``""`` unless another column can have its values."""
    if len(missing) != 1 or all(repr(name) in expected for name in columns):
        return ""
    return f"; if another column has its values, rename it to {missing[0]!r}"


def short(value: object) -> str:
    """Return the repr of a value on one line, truncated; a frame or an array can be large."""
    text = " ".join(repr(value).split()) if not isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def such(count: int, noun: str = "row") -> str:
    """Return a count in words: ``"1 such row"``, ``"7 such queries"``."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count} such {noun if count == 1 else plural}"


def count_text(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, e.g. ``"1 query"``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def format_list(items: Iterable[object], limit: int = 5) -> str:
    """Return the first items of a list as text: ``'a', 'b', 'c' and 17 more``."""
    values = [items] if isinstance(items, str) else list(items)
    text = ", ".join(repr(v) for v in values[:limit])
    rest = len(values) - limit
    return f"{text} and {rest} more" if rest > 0 else text


def apart(first: str, second: str) -> tuple[str, str]:
    """Return two different texts in quotes, with code points if they may look alike.

    Code points are those of the characters that differ, if one of them is a space or not ASCII:
    ``'Café' (U+00E9)`` and ``'Café' (U+0065 U+0301)``.
    """
    start = len(commonprefix([first, second]))
    rest = first[start:], second[start:]
    end = len(commonprefix([text[::-1] for text in rest]))
    parts = [text[: len(text) - end] for text in rest]
    differing = "".join(parts)
    if differing.isascii() and not any(map(str.isspace, differing)):
        return repr(first), repr(second)
    codes = [" ".join(f"U+{ord(c):04X}" for c in part[:_CODES]) or "nothing" for part in parts]
    return f"{first!r} ({codes[0]})", f"{second!r} ({codes[1]})"
