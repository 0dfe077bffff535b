"""Keywords from a model: asking for them, reading them and nothing else, and `QueryRefiner`."""

from __future__ import annotations

import itertools
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyterrier as pt
from tqdm import tqdm

from fairtk.errors import (
    ColumnError,
    DataWarning,
    InputError,
    ParameterError,
    listed,
)
from fairtk.frames import DOCNO, GROUP, QID, QUERY, RANK, SCORE, topics_of
from fairtk.frames.texts import qids_of
from fairtk.frames.texts import words as words_of
from fairtk.llm import ChatModel, Completion, Failure, as_chat_model
from fairtk.llm.refinement import Refinement, RefinementPromptLike, as_refinement_prompt
from fairtk.transformers.base import FairTransformer

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
        items: Any = json.loads(body)
    except (ValueError, RecursionError):
        if body.startswith("{"):
            raise AnswerError(f"the answer is a broken object ({_start(body)!r})") from None
        return body[1:-1], False
    if isinstance(items, dict):
        named = [value for key, value in items.items() if _KEY.fullmatch(key.strip())]
        if len(named) != 1:
            raise AnswerError(
                f"the answer is an object without one list of keywords ({_start(body)!r})"
            )
        items = named[0]
        if isinstance(items, str):
            return items.strip(), False
    if not (isinstance(items, list) and all(isinstance(item, str) for item in items)):
        raise AnswerError(f"the answer is a list, but not of words ({_start(body)!r})")
    short = len(items) > 1 and all(len(item.split()) <= 3 for item in items)
    return "\n".join(items), short


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


@dataclass(frozen=True)
class Refined:
    """The outcome of one step for one query.

    Attributes:
        query: the refined keywords; None if there are none.
        reason: why there are none, else empty.
        prompt_tokens: tokens of the prompt; None: unknown.
        completion_tokens: tokens of the answer; None: unknown.
        seconds: that the answer took.
    """

    query: str | None
    reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0


def refine(
    llm: ChatModel, prompt: RefinementPromptLike, requests: Sequence[Refinement]
) -> list[Refined]:
    """Return one outcome for each request; calls overlap as far as the model allows.

    On a terminal, how many calls are answered is shown after two seconds.

    Raises:
        LLMError: no call to the model would succeed.
        BudgetError: the ledger's budget does not allow the next call.
    """
    chats = [prompt(request) for request in requests]
    bar: Any = {"desc": f"asking {llm.name}", "unit": " calls", "delay": 2, "leave": False}
    outcomes = dict(tqdm(llm.outcomes(chats), total=len(chats), disable=None, **bar))
    results = []
    for place, (request, chat) in enumerate(zip(requests, chats, strict=True)):
        outcome = outcomes.get(place, Failure("the model gave no answer"))
        if isinstance(outcome, Failure):
            results.append(Refined(None, outcome.reason))
            continue
        counts = (outcome.prompt_tokens, outcome.completion_tokens, outcome.seconds)
        try:
            query = parse_completion(outcome, prompt.answer(outcome.text), request.keywords)
            results.append(Refined(query, "", *counts))
        except AnswerError as error:
            llm.reject(chat)
            results.append(Refined(None, str(error), *counts))
    return results


def topics_by_qid(inp: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the queries of a frame, indexed by qid as a string; raises as `topics_of`."""
    topics = inp.drop(columns=[c for c in (DOCNO, SCORE, RANK) if c in inp.columns])
    topics.index = pd.Index([qid for qid, _ in topics_of(inp, where)], dtype=object)
    return topics


class QueryRefiner(FairTransformer):
    """Q -> Q: asks a model once for keywords that find more documents of a group.

    The first step of FAIR-QR without its loop (Chen & Fang 2025, section 2.2). The earlier query
    is kept as ``query_0`` (one that was there as ``query_1``, and so on), as PyTerrier does it; the
    prompt names the earliest query as the original one and ``query`` as the current keywords, so
    that two refiners in a row refine further. Other columns stay.

    A query whose call fails finally, or whose answer is not a list of keywords (a sentence, a
    refusal, an empty answer), is left out, and a `DataWarning` names it and the reason: it is
    missing, never silently unrefined (`missing` has those of the last call: ``qid``, ``reason``).

    Args:
        llm: a `fairtk.llm.ChatModel`, or anything that `fairtk.llm.as_chat_model` takes.
        group: the group, for all queries; or one for each qid; None: the column ``group``.
        prompt: a name (``"refine"``, ``"refine-few-shot"``, ``"refine-chain-of-thought"``, a
            plugin's) or a refinement prompt.
        attribute: what the groups are about, e.g. ``"gender"``, for the prompt.
        temperature: of the model; None: the model's own.

    Raises:
        ParameterError: a setting is none of these.
    """

    identity_name = "fairtk.QueryRefiner"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = ("llm", "group", "prompt", "attribute", "temperature")
    missing: pd.DataFrame | None = None

    def __init__(
        self,
        llm: Any,
        group: str | Mapping[str, str] | None = None,
        prompt: str | RefinementPromptLike = "refine",
        attribute: str = "",
        temperature: float | None = None,
    ) -> None:
        super().__init__()
        if group is not None and not isinstance(group, str | Mapping):
            raise ParameterError(
                f"QueryRefiner: group must be a name, a mapping from qid to name, or None for the "
                f"column {GROUP!r}; found {group!r}"
            )
        model = as_chat_model(llm)
        self.llm: ChatModel = model if temperature is None else model.at_temperature(temperature)
        self.group = group
        self.prompt = as_refinement_prompt(prompt, "QueryRefiner")
        self.attribute = attribute
        self.temperature = temperature

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the queries with refined keywords in ``query``.

        Args:
            inp: queries (Q), one row each.

        Raises:
            ColumnError: a column is missing, or the frame has documents.
            DuplicateError: a qid occurs twice.
            InputError: a query or its group is missing; names the qid.
            LLMError: no call to the model would succeed.
        """
        self.check_inputs(inp, [QID, QUERY, *([GROUP] if self.group is None else [])])
        if DOCNO in inp.columns:
            raise ColumnError(
                "QueryRefiner takes queries, but its input has the column 'docno': put it before "
                "the retriever"
            )
        out = pt.model.push_queries(inp)
        out.insert(list(inp.columns).index(QUERY), QUERY, out["query_0"])
        if inp.empty:
            return out
        qids = qids_of(inp, "QueryRefiner")
        results = refine(self.llm, self.prompt, self._requests(inp, qids))
        lost = {q: r.reason for q, r in zip(qids, results, strict=True) if r.query is None}
        self.missing = pd.DataFrame({QID: list(lost), "reason": list(lost.values())})
        if lost:
            reasons = [f"{qid}: {reason}" for qid, reason in lost.items()]
            warnings.warn(
                f"QueryRefiner: {len(lost)} of {len(qids)} queries could not be refined and are "
                f"left out ({listed(reasons, 5)})",
                DataWarning,
                stacklevel=2,
            )
        out[QUERY] = pd.Series([r.query for r in results], index=out.index, dtype="str")
        return out[[r.query is not None for r in results]].reset_index(drop=True)

    def _requests(self, inp: pd.DataFrame, qids: list[str]) -> list[Refinement]:
        earlier = itertools.takewhile(
            lambda name: name in inp.columns, (f"query_{n}" for n in itertools.count())
        )
        earliest = [QUERY, *earlier][-1]
        columns = [inp[QUERY].tolist(), inp[earliest].tolist(), self._groups(inp, qids)]
        requests = []
        for qid, keywords, query, group in zip(qids, *columns, strict=True):
            for name, value in ((QUERY, keywords), (earliest, query), (GROUP, group)):
                if not isinstance(value, str) or not value.strip():
                    raise InputError(
                        f"QueryRefiner: qid {qid!r} needs a text as {name!r}; found {value!r}"
                    )
            requests.append(Refinement(query, keywords, (group,), self.attribute))
        return requests

    def _groups(self, inp: pd.DataFrame, qids: list[str]) -> list[Any]:
        if self.group is None:
            column: list[Any] = inp[GROUP].tolist()
            return column
        if isinstance(self.group, str):
            return [self.group] * len(qids)
        return [self.group.get(qid) for qid in qids]
