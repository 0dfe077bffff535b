"""Ids of the same thing that are spelled differently in two sources."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from fairtk.wording import apart

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_BEFORE_NUMBER = re.compile(r"^\D+(?=\d+$)")
_SUFFIX = re.compile(r"\.[A-Za-z]{2,5}$")
_SIGNS = re.compile(r"\W|_")
_LAST_NUMBER = re.compile(r"^.*?0*(\d+)(\.0)?$")


class _Rule(NamedTuple):
    """A difference between two spellings of an id.

    Attributes:
        characters: a regular expression; where no id has such a character, the rule changes
            nothing, or only what a rule before it changes, too. It saves most of the time.
        spell: the function that removes the difference.
    """

    characters: str
    spell: Callable[[str], str]


_CERTAIN = {
    "Unicode is normalized (NFC)": _Rule(
        r"[^\x00-\x7f]", lambda name: unicodedata.normalize("NFC", name)
    ),
    "special and invisible spaces count as spaces or are dropped": _Rule(
        rf"\s|{_INVISIBLE.pattern}", lambda name: " ".join(_INVISIBLE.sub("", name).split())
    ),
    "letters are compared in lower case": _Rule(r"[A-Z]|[^\x00-\x7f]", str.lower),
    "leading zeros are dropped": _Rule("0", lambda name: name.lstrip("0") or "0"),
    "a '.0' at the end is dropped": _Rule(r"\.", lambda name: name.removesuffix(".0")),
}
_FOLDERS = "the part up to the last '/' is dropped"
_LETTERS = "letters in front of a number are dropped"
_NUMBER = "only the number at the end counts"
_ONE_SIDED = (_FOLDERS, _LETTERS, _NUMBER)
"""If other ids match as they are, a/1 and b/1 are different documents; a/1 and 1 may be one."""
_LIKELY = {
    "white space is dropped": _Rule(r"\s", lambda name: "".join(name.split())),
    _FOLDERS: _Rule("/", lambda name: name.rpartition("/")[2]),
    _LETTERS: _Rule(r"\D", lambda name: _BEFORE_NUMBER.sub("", name)),
    "a suffix such as .txt or .html is dropped": _Rule(r"\.", lambda name: _SUFFIX.sub("", name)),
    "signs other than letters and digits are dropped": _Rule(
        _SIGNS.pattern, lambda name: _SIGNS.sub("", name)
    ),
    _NUMBER: _Rule(r"\D", lambda name: _LAST_NUMBER.sub(r"\1", name.lower())),
}
SPELLINGS = _CERTAIN | _LIKELY
"""Common differences between two spellings of an id.

A rule of `_CERTAIN` needs one match. The others match ids of different things, too, so they need
two matches and half of the ids.
"""
_HALF = 0.5

Key = tuple[str, str]
"""A scope, within which ids are compared, e.g. the qid of a docno; and an id."""


def respelled(
    first: Sequence[Key],
    second: Sequence[Key],
    known_first: Iterable[Key] = (),
    known_second: Iterable[Key] = (),
) -> tuple[str, dict[Key, str]]:
    """Return the rule of `SPELLINGS` that explains why ids do not match, and the pairs.

    A rule explains nothing if it makes two ids of one source equal.

    Args:
        first: the distinct ids of one source that are missing from the other.
        second: the same of the other source.
        known_first: other ids of the first source.
        known_second: other ids of the second source.

    Returns:
        The rule in words, ``""`` if none explains them; and the id of the other source by each
        matched key.
    """
    fewer = min(len(first), len(second))
    if not fewer:
        return "", {}
    sources = [*first, *known_first], [*second, *known_second]
    has_others = len(sources[0]) > len(first) or len(sources[1]) > len(second)
    one_sided = _ONE_SIDED if has_others else ()
    characters = "".join(name for _, name in (*first, *second))
    for words, (changed, spell) in SPELLINGS.items():
        if not re.search(changed, characters):
            continue
        of_second = {(scope, spell(name)): name for scope, name in second}
        pairs = {
            (scope, name): of_second[scope, key]
            for scope, name in first
            if (scope, key := spell(name)) in of_second
            and (words not in one_sided or key in (name, of_second[scope, key]))
        }
        least = 1 if words in _CERTAIN else max(2, _HALF * fewer)
        if len(pairs) >= least and all(_keeps_apart(spell, keys) for keys in sources):
            return words, pairs
    return "", {}


def _keeps_apart(spell: Callable[[str], str], keys: Sequence[Key]) -> bool:
    """Return whether a rule makes no two ids of one scope equal."""
    distinct = {*keys}
    return len({(scope, spell(name)) for scope, name in distinct}) == len(distinct)


def spelling_text(words: str, pairs: Mapping[Key, str], run: str = "run") -> str:
    """Return a rule and its first pair in words, for the end of a sentence; ``""`` if none does.

    Args:
        words: the rule.
        pairs: the result of `respelled`, whose first source is the run.
        run: the name of the first source.
    """
    if not words:
        return ""
    (_, name), other = next(iter(pairs.items()))
    ids = "1 id matches" if len(pairs) == 1 else f"{len(pairs)} ids match"
    mine, others = apart(name, other)
    return f"; {ids} if {words} ({mine} in the {run}, {others} in the qrels)"
