"""Reading a model's answer as keywords, and as nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

from fairtk.errors import InputError
from fairtk.frames import words as words_of
from fairtk.llm import Completion

MOST_WORDS = 64
"""Longer answers are no keyword list, whatever they are."""

_FENCE = re.compile(r"^```[\w-]*[ \t]*\n(.*?)\n?```$", re.DOTALL)
_THOUGHTS = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_FINAL = re.compile(r"<\|channel\|>\s*final\b[^<]*<\|message\|>(.*)", re.DOTALL | re.IGNORECASE)
"""The last channel of models that write in channels: the rest is thoughts."""
_BARE_FINAL = re.compile(r"^(?:analysis|commentary).*assistantfinal(.*)", re.DOTALL)
"""The same, from who took the markup out and left the words."""
_ENDS = re.compile(r"(?:\s*(?:<\|[\w-]+\|>|</s>|<eos>|<end_of_turn>))+\s*$")
"""Marks behind an answer that a template should have taken off."""
_TAG = re.compile(r"</?[a-z][^<>\n]{0,80}>|<\|[^<>\n]{0,80}\|>", re.IGNORECASE)
_NAME = (
    r"(?:(?:my|the|your|final|refined|new|updated|revised|improved|expanded|extended|enhanced|"
    r"modified|adjusted|optimi[sz]ed|suggested|complete|full|search|query|keyword|output)[ _-]+)*"
    r"(?:keywords?|quer(?:y|ies)|(?:search[ _-])?terms|answer|output|result|response)"
    r"(?:[ _-]+(?:list|string|query))?"
)
_LABEL = re.compile(rf"^[#*\s]*{_NAME}\s*\**\s*[:：]\**\s*", re.IGNORECASE)
_KEY = re.compile(rf"{_NAME}", re.IGNORECASE)
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s+")
_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|cannot|can['’]?t|won['’]?t|unable to|not able to|as an ai)\b",
    re.IGNORECASE,
)
_SPEECH = re.compile(
    r"\b(?:i (?:am|can|could|have|will|would|think|suggest|recommend|need|added|did|do)|"
    r"i['’](?:m|ll|ve|d)|you|your|here (?:is|are)|here['’]s|sure|please|certainly|of course|"
    r"let me|this (?:is|query)|these|would|should|could)\b",
    re.IGNORECASE,
)
_VERBS = re.compile(
    r"\b(?:is|are|was|were|has|have|do|does|will|can|to|that|which)\b", re.IGNORECASE
)
_SHORTENED = re.compile(
    r"\b(mrs|messrs|dr|prof|rev|hon|gen|col|capt|sgt|maj|gov|sen|rep|pres|jr|sr|inc|ltd|corp|dept|"
    r"univ|assn|bros|ave|blvd|vol|etc|approx|est|feat)\.",
    re.IGNORECASE,
)
_END = re.compile(r"[^\W\d_]{3,}[.!?]['\"”]?(?:\s|$)")
_NOTHING = frozenset({"none", "n/a", "na", "nothing", "null", "no", "unknown", "empty"})


class AnswerError(InputError):
    """An answer that is not a list of keywords; the message says why."""


def parse_completion(completion: Completion, text: str | None = None, before: str = "") -> str:
    """Return the keywords of a completion.

    Args:
        completion: the answer.
        text: the part of it that holds the keywords; None: all.
        before: the keywords that were refined; as many more are allowed.

    Raises:
        AnswerError: it was cut off, withheld or refused, or `parse_keywords` rejects it.
    """
    if completion.finish == "length":
        raise AnswerError("the answer was cut off at the most tokens")
    if completion.finish in ("refusal", "content_filter"):
        raise AnswerError("the model refused to answer")
    if completion.finish == "unreadable":
        raise AnswerError("what the server sent is no text")
    most = MOST_WORDS + len(words_of(before))
    return parse_keywords(completion.text if text is None else text, most)


def parse_keywords(text: str, most: int = MOST_WORDS) -> str:
    """Return the keywords of an answer, separated by spaces, each word once.

    Accepted are lists with commas, semicolons, line breaks, bullets or numbers, a JSON list, a JSON
    object with one under a name such as ``keywords``, words with spaces between them; one code
    fence, quotation marks or a label such as ``Final refined keywords:`` around them. What a
    reasoning model writes before, between ``<think>`` and ``</think>`` or in another
    ``<|channel|>`` than the final one, does not count; other markup is an error. Signs that query
    languages give a meaning to are taken out.

    Args:
        text: the answer.
        most: the most words that count as a list of keywords.

    Raises:
        AnswerError: the answer is empty, too long, a sentence or a refusal.
    """
    text = _ENDS.sub("", _THOUGHTS.sub("", text))
    final = _FINAL.search(text) or _BARE_FINAL.search(text)
    text = final.group(1) if final else text
    tag = _TAG.search(text)
    if tag:
        raise AnswerError(f"the answer has markup, not keywords alone ({_start(tag.group())!r})")
    if len(text) > 100 * most:
        raise AnswerError(f"the answer has {len(text.split())} words; at most {most} are keywords")
    body, short_items = _unwrapped(text)
    if not short_items and _REFUSAL.search(body):
        raise AnswerError(f"the model refused to answer ({_start(body)!r})")
    parts = [_BULLET.sub("", line) for line in body.splitlines()]
    parts = [part.strip() for line in parts for part in re.split(r"[,;|]", line)]
    if len(parts) > 1:  # items of a list may end with a full stop: "Mrs. Dalloway."
        parts = [part.rstrip(".") if len(part.split()) <= 4 else part for part in parts]
    for part in () if short_items else filter(None, parts):
        part = _SHORTENED.sub(r"\1", part)
        if _SPEECH.search(part) or _END.search(part) or len(_VERBS.findall(part)) > 1:
            raise AnswerError(f"the answer has a sentence, not keywords alone ({_start(part)!r})")
    words: dict[str, str] = {}
    for word in words_of(" ".join(parts).replace("_", " ")):
        words.setdefault(word.lower(), word)
    if not words or set(words) <= _NOTHING or body.lower().strip(" .") in _NOTHING:
        raise AnswerError("the answer has no keywords" if body else "the answer is empty")
    if len(words) > most:
        raise AnswerError(f"the answer has {len(words)} words; at most {most} are keywords")
    return " ".join(words.values())


def changes(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the words that a refined query has more, and those that it has no longer.

    Case does not matter; the order is that of the query that has them.
    """
    old, new = _lowered(before), _lowered(after)
    return [w for k, w in new.items() if k not in old], [w for k, w in old.items() if k not in new]


def same_words(before: str, after: str) -> bool:
    """Return whether two queries have the same words, in any order and case."""
    return set(_lowered(before)) == set(_lowered(after))


def _lowered(query: str) -> dict[str, str]:
    return {word.lower(): word for word in words_of(query)}


def _unwrapped(text: str) -> tuple[str, bool]:
    """Return the text without the fence, label or marks around it.

    And whether it was a JSON list of several short items: nobody speaks or refuses so.
    """
    body = text.strip().lstrip("﻿")
    fence = _FENCE.match(body)
    if fence:
        body = fence.group(1).strip()
    if "```" in body:
        raise AnswerError(f"the answer has more than one block of keywords ({_start(body)!r})")
    body = _LABEL.sub("", body.strip("*` \n")).strip()
    if body[:1] + body[-1:] in ("[]", "{}"):
        return _listed(body)
    if body.startswith("{"):
        raise AnswerError(f"the answer is an object, not a list of keywords ({_start(body)!r})")
    return body.strip("\"'“”` "), False


def _listed(body: str) -> tuple[str, bool]:
    """Return the items of a JSON list, or of the one in an object that has a name of keywords."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        if body.startswith("{"):
            raise AnswerError(f"the answer is a broken object ({_start(body)!r})") from None
        return body[1:-1], False
    if isinstance(found, dict):
        named = [value for key, value in found.items() if _KEY.fullmatch(key.strip())]
        if len(named) != 1:
            raise AnswerError(
                f"the answer is an object without one list of keywords ({_start(body)!r})"
            )
        found = named[0]
        if isinstance(found, str):
            return found.strip(), False
    if not (isinstance(found, list) and all(isinstance(item, str) for item in found)):
        raise AnswerError(f"the answer is a list, but not of words ({_start(body)!r})")
    short = len(found) > 1 and all(len(item.split()) <= 3 for item in found)
    return "\n".join(found), short


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
