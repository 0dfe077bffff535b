"""Keyword refinement by a model: requests, a strict parser, and `QueryRefiner`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.errors import (
    ColumnError,
    InputError,
    ParameterError,
)
from fairtk.frames import DOCNO, GROUP, QID, QUERY, RANK, SCORE, require_topics
from fairtk.frames.answers import (
    CUT,
    EMPTY,
    FILTERED,
    REFUSED,
    THOUGHT_ONLY,
    UNREADABLE,
)
from fairtk.frames.texts import qids_of
from fairtk.frames.texts import words as words_of
from fairtk.llm import Chat, ChatModel, Completion, Failure, as_chat_model
from fairtk.llm.chat import Outcome, cost_of
from fairtk.llm.progress import progress_bar
from fairtk.llm.reading import after_thinking, read
from fairtk.llm.refinement import Refinement, RefinementPromptLike, as_refinement_prompt
from fairtk.remarks import NOT_REFINED
from fairtk.stage_context import leave_notes, remark
from fairtk.transformers.base import FairTransformer
from fairtk.wording import short

MOST_WORDS = 64
"""The maximum number of words in a list of keywords."""

_FENCE = re.compile(r"^```[\w-]*[ \t]*\n(.*?)\n?```$", re.DOTALL)
_FINAL = re.compile(r"<\|channel\|>\s*final\b[^<]*<\|message\|>(.*)", re.DOTALL | re.IGNORECASE)
"""The final channel of models that write in channels; the others contain reasoning."""
_BARE_FINAL = re.compile(r"^(?:analysis|commentary).*assistantfinal(.*)", re.DOTALL)
"""The same after the server removed the markup."""
_ENDS = re.compile(r"(?:\s*(?:<\|[\w-]+\|>|</s>|<eos>|<end_of_turn>))+\s*$")
"""Special tokens after an answer that a template should have removed."""
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
    """An answer is not a list of keywords."""


_REASONS = {
    CUT: "the answer was cut off at the maximum number of tokens",
    EMPTY: "the answer is empty",
    REFUSED: "the model refused to answer",
    FILTERED: "the server filtered the answer",
    THOUGHT_ONLY: "the model thought without an answer",
    UNREADABLE: "the response of the server is not text",
}


def parse_completion(
    completion: Completion,
    chat: Chat,
    find: Callable[[str], str] = str,
    before: str = "",
) -> str:
    """Return the keywords of a completion.

    Args:
        completion: the answer.
        chat: the prompt.
        find: returns the part of the text after thinking that contains the keywords.
        before: the keywords to refine; their number is added to the limit.

    Raises:
        AnswerError: there is no answer (`fairtk.llm.reading`), or `parse_keywords` rejects it.
    """
    # a cut prompt does not hide how the answer ended
    reading = read(completion, chat.text, of_server=False)
    if reading.status in _REASONS:
        raise AnswerError(_REASONS[reading.status])
    return parse_keywords(find(reading.answer), MOST_WORDS + len(words_of(before)))


def parse_keywords(text: str, most: int = MOST_WORDS) -> str:
    """Return the distinct keywords of an answer, separated by spaces.

    The parser accepts words separated by commas, semicolons, line breaks, bullets, numbers or
    spaces, a JSON list, and a JSON object with a list under a name such as ``keywords``, also
    within a code fence, within quotation marks, or after a label such as ``Final refined
    keywords:``. It ignores reasoning before ``</think>`` or ``[/THINK]`` and in channels other
    than the final one. Other markup is an error. Operators of query languages are removed.

    Args:
        text: the answer.
        most: the maximum number of words.

    Raises:
        AnswerError: the answer is empty, too long, a sentence or a refusal.
    """
    text = _ENDS.sub("", after_thinking(text)[0])
    final = _FINAL.search(text) or _BARE_FINAL.search(text)
    text = final.group(1) if final else text
    tag = _TAG.search(text)
    if tag:
        raise AnswerError(f"expected keywords, got markup ({_start(tag.group())!r})")
    if len(text) > 100 * most:
        raise AnswerError(f"expected at most {most} keywords, got {len(text.split())} words")
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
            raise AnswerError(f"expected keywords, got a sentence ({_start(part)!r})")
    words: dict[str, str] = {}
    for word in words_of(" ".join(parts).replace("_", " ")):
        words.setdefault(word.lower(), word)
    if not words or set(words) <= _NOTHING or body.lower().strip(" .") in _NOTHING:
        raise AnswerError("the answer has no keywords" if body else "the answer is empty")
    if len(words) > most:
        raise AnswerError(f"expected at most {most} keywords, got {len(words)} words")
    return " ".join(words.values())


def changes(before: str, after: str) -> tuple[list[str], list[str]]:
    """Return the added and the removed words of a refined query.

    Case is ignored. Words are in the order of their query.
    """
    old, new = _lowered(before), _lowered(after)
    return [w for k, w in new.items() if k not in old], [w for k, w in old.items() if k not in new]


def same_words(before: str, after: str) -> bool:
    """Return whether two queries have the same words, in any order and case."""
    return set(_lowered(before)) == set(_lowered(after))


def _lowered(query: str) -> dict[str, str]:
    return {word.lower(): word for word in words_of(query)}


def _unwrapped(text: str) -> tuple[str, bool]:
    """Return the text without fence, label or quotation marks, and whether it is a JSON list of
    several short items, which is neither a sentence nor a refusal.
    """
    body = text.strip().lstrip("﻿")
    fence = _FENCE.match(body)
    if fence:
        body = fence.group(1).strip()
    if "```" in body:
        raise AnswerError(f"expected one block of keywords, got several ({_start(body)!r})")
    body = _LABEL.sub("", body.strip("*` \n")).strip()
    if body[:1] + body[-1:] in ("[]", "{}"):
        return _listed(body)
    if body.startswith("{"):
        raise AnswerError(f"expected a list of keywords, got an object ({_start(body)!r})")
    return body.strip("\"'“”` "), False


def _listed(body: str) -> tuple[str, bool]:
    """Return the items of a JSON list, or of the list of keywords in a JSON object."""
    try:
        items: Any = json.loads(body)
    except (ValueError, RecursionError):
        if body.startswith("{"):
            raise AnswerError(f"the answer is not valid JSON ({_start(body)!r})") from None
        return body[1:-1], False
    if isinstance(items, dict):
        named = [value for key, value in items.items() if _KEY.fullmatch(key.strip())]
        if len(named) != 1:
            raise AnswerError(f"expected an object with one list of keywords, got {_start(body)!r}")
        items = named[0]
        if isinstance(items, str):
            return items.strip(), False
    if not (isinstance(items, list) and all(isinstance(item, str) for item in items)):
        raise AnswerError(f"expected a list of words, got {_start(body)!r}")
    short = len(items) > 1 and all(len(item.split()) <= 3 for item in items)
    return "\n".join(items), short


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


@dataclass(frozen=True)
class Refined:
    """The outcome of one step for one query.

    Attributes:
        query: the refined keywords, `None` if the step failed.
        reason: why the step failed, else empty.
        prompt_tokens: tokens of the prompt, `None` if unknown.
        completion_tokens: tokens of the answer, `None` if unknown.
        seconds: the duration of the call.
    """

    query: str | None
    reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0


def refine(
    llm: ChatModel, prompt: RefinementPromptLike, requests: Sequence[Refinement]
) -> list[Refined]:
    """Return one outcome for each request. Calls run concurrently if the model supports it.

    Progress is reported by a bar on a terminal after two seconds, else by a line each minute.

    Raises:
        LLMError: no call to the model would succeed.
        BudgetError: the ledger's budget does not allow the next call.
    """
    chats = [prompt(request) for request in requests]
    outcomes: dict[int, Outcome] = {}
    with progress_bar(f"calling {llm.name}", len(chats), "prompt") as progress:
        for index, outcome in llm.outcomes(chats):
            outcomes[index] = outcome
            progress(1)
    results = []
    for index, (request, chat) in enumerate(zip(requests, chats, strict=True)):
        outcome = outcomes.get(index, Failure("the model gave no answer"))
        if isinstance(outcome, Failure):
            results.append(Refined(None, outcome.reason))
            continue
        counts = (outcome.prompt_tokens, outcome.completion_tokens, outcome.seconds)
        try:
            query = parse_completion(outcome, chat, prompt.answer, request.keywords)
            results.append(Refined(query, "", *counts))
        except AnswerError as error:
            llm.reject(chat)
            results.append(Refined(None, str(error), *counts))
    return results


def topics_by_qid(inp: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the queries of a frame, indexed by qid as a string (errors: `require_topics`)."""
    topics = inp.drop(columns=[c for c in (DOCNO, SCORE, RANK) if c in inp.columns])
    topics.index = pd.Index([qid for qid, _ in require_topics(inp, where)], dtype=object)
    return topics


class QueryRefiner(FairTransformer):
    """Q -> Q: refine each query once with a model, to find more documents of a group.

    This is one step of FAIR-QR without its loop (Chen & Fang 2025, section 2.2). As in PyTerrier,
    the earlier query becomes ``query_0`` (an existing ``query_0`` becomes ``query_1``, and so on).
    The prompt contains the earliest query as the original query and ``query`` as the current
    keywords, so a second refiner continues the first. Other columns are kept.

    A query is left out, with a remark, if its call fails or the answer is not a list of
    keywords (a sentence, a refusal, an empty answer). `missing` has the failures of the last call
    (``qid``, ``reason``).

    Args:
        llm: a `fairtk.llm.ChatModel`, or any argument of `fairtk.llm.as_chat_model`.
        group: the group of all queries, or a mapping from qid to group; `None` for the column
            ``group``.
        prompt: a name (``"refine"``, ``"refine-few-shot"``, ``"refine-chain-of-thought"``, a
            plugin's) or a refinement prompt.
        attribute: the attribute of the groups for the prompt, e.g. ``"gender"``.
        temperature: the temperature of the model; `None` to keep the model's.

    Raises:
        ParameterError: a setting has the wrong type.
    """

    identity_name = "fairtk.QueryRefiner"
    output_version = 1
    leaves_notes = True
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
                f"column {GROUP!r}, got {short(group)}"
            )
        if temperature is not None:
            checks.number("temperature", temperature, "QueryRefiner")
        model = as_chat_model(llm)
        self.llm: ChatModel = model if temperature is None else model.at_temperature(temperature)
        self.group = group
        self.prompt = as_refinement_prompt(prompt, "QueryRefiner")
        if not isinstance(attribute, str):
            raise ParameterError(
                f"QueryRefiner: attribute must be a string, got {short(attribute)}"
            )
        self.attribute = attribute
        self.temperature = temperature

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the queries with refined keywords in ``query``.

        Args:
            inp: queries (Q), one row each.

        Raises:
            ColumnError: a column is missing, or the frame has documents.
            DuplicateError: duplicate qid.
            InputError: a query or its group is missing; names the qid.
            LLMError: no call to the model would succeed.
        """
        self.check_inputs(inp, [QID, QUERY, *([GROUP] if self.group is None else [])])
        if DOCNO in inp.columns:
            raise ColumnError(
                "QueryRefiner expected queries, got documents (column 'docno'): put it before the "
                "retriever"
            )
        out = pt.model.push_queries(inp)
        out.insert(list(inp.columns).index(QUERY), QUERY, out["query_0"])
        if inp.empty:
            return out
        qids = qids_of(inp, "QueryRefiner")
        results = refine(self.llm, self.prompt, self._requests(inp, qids))
        leave_notes(self, {q: cost_of([r]) for q, r in zip(qids, results, strict=True)})
        reasons = {q: r.reason for q, r in zip(qids, results, strict=True) if r.query is None}
        self.missing = pd.DataFrame({QID: list(reasons), "reason": list(reasons.values())})
        details = [[f"{qid}: {reasons[qid]}"] if qid in reasons else [] for qid in qids]
        remark(NOT_REFINED, "QueryRefiner", [*map(len, details)], qids, details, stacklevel=3)
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
                        f"QueryRefiner: {name!r} of qid {qid!r} must be a text, got {value!r}"
                    )
            requests.append(Refinement(query, keywords, (group,), self.attribute))
        return requests

    def _groups(self, inp: pd.DataFrame, qids: list[str]) -> list[Any]:
        if self.group is None:
            column: list[Any] = inp[GROUP].tolist()
            return column
        if isinstance(self.group, str):
            return [self.group] * len(qids)
        groups = {str(qid): group for qid, group in self.group.items()}
        return [groups.get(qid) for qid in qids]
