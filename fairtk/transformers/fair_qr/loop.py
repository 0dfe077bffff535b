"""The loop of FAIR-QR: retrieve, measure, choose a group, refine, retrieve again."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from fairtk.errors import DuplicateError, InputError
from fairtk.exposure import BrowsingModel, attention, normalized_gain, total
from fairtk.frames import (
    DOCNO,
    QID,
    QUERY,
    RANK,
    SCORE,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    ObjectArray,
    Qrels,
    encode_ids,
    encode_run,
    require,
)
from fairtk.groups import (
    Divergence,
    Groups,
    Memberships,
    Target,
    group_exposure,
    rank_fairness,
    shown_documents,
)
from fairtk.llm import (
    ChatModel,
    Estimate,
    Failure,
    Prices,
    Recorded,
    Refinement,
    RefinementPromptLike,
    estimate,
)
from fairtk.transformers.collection import Tokens
from fairtk.transformers.fair_qr.parsing import AnswerError, changes, parse_completion, same_words


@dataclass(frozen=True)
class Shares:
    """What rankings show, one row per query.

    Attributes:
        share: of each group, summing to 1, or all 0 where no document has a group; shape
            (n_queries, n_groups).
        divergence: of the shares from the target, 0 or above; NaN: no target, or no document with
            a group; shape (n_queries,).
        awrf: 1 - the Jensen-Shannon divergence of the unsplit exposure from the target, as
            `fairtk.AWRF`; same shape.
        retrieved: number of documents at the top; same shape.
    """

    share: FloatArray
    divergence: FloatArray
    awrf: FloatArray
    retrieved: IntArray


@dataclass(frozen=True)
class ShareMeter:
    """Measures rankings against a target.

    Attributes:
        groups: the groups.
        target: over the levels of `groups`.
        depth: how many ranks count.
        browsing: attention of each rank.
        divergence: of the shares from the target.
        unlabeled: what becomes of documents without a row; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
    """

    groups: Groups
    target: Target
    depth: int
    browsing: BrowsingModel
    divergence: Divergence
    unlabeled: str
    split: bool

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> Shares:
        """Return the shares that a run shows for some queries.

        Args:
            run: R, with qids as strings.
            qids: the queries, with or without rows in the run; shape (n_queries,).
        """
        ranked = encode_run(run[run[RANK] < self.depth], "FairQR")
        weight = attention(ranked, self.browsing, self.depth)
        memberships = self.groups.memberships(ranked.docnos, self.unlabeled)
        shown = shown_documents(ranked, weight)
        place = pd.Index(ranked.qids, dtype=object).get_indexer(qids).astype(np.int64)
        raw = group_exposure(shown, memberships).take(place)
        parts = _split(memberships) if self.split else memberships
        exposure = group_exposure(shown, parts).take(place).normalized()
        wanted = self.target.for_qids(qids)
        in_top = np.bincount(ranked.query[ranked.position < self.depth], minlength=len(ranked.qids))
        return Shares(
            exposure.dense(),
            self.divergence.between(exposure, wanted),
            rank_fairness(raw, wanted),
            np.append(in_top, 0)[place].astype(np.int64),
        )

    def targets(self, qids: ObjectArray) -> FloatArray:
        """Return the target of each query, 0 everywhere where there is none."""
        return self.target.for_qids(qids).expanded().normalized().dense()


def _split(memberships: Memberships) -> Memberships:
    """Return memberships that sum to 1 at most for each document."""
    owner = memberships.owner
    sums = total(owner, memberships.weight, len(memberships.size))
    return replace(memberships, weight=memberships.weight / np.maximum(sums, 1.0)[owner])


class RelevanceMeter:
    """nDCG of TREC Fair Ranking 2022 for frames of rankings; see `fairtk.exposure.expected`.

    Args:
        qrels: ``qid``, ``docno``, ``label``; above 0 is relevant.
        depth: how many ranks count.
        browsing: attention of each rank.
    """

    def __init__(self, qrels: pd.DataFrame, depth: int, browsing: BrowsingModel) -> None:
        self.qrels = Qrels(qrels, "FairQR: qrels")
        self.depth = depth
        self.browsing = browsing

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> FloatArray:
        """Return each query's nDCG; NaN where no document is relevant; shape (n_queries,)."""
        ranked = encode_run(run, "FairQR")
        relevant = self.qrels.query[self.qrels.labels > 0]
        counts = np.append(np.bincount(relevant, minlength=len(self.qrels.qids)), 0)
        value = normalized_gain(
            ranked,
            self.qrels.labels_of(ranked) > 0,
            pd.Index(qids, dtype=object).get_indexer(ranked.qids),
            counts[self.qrels.queries.find(Ids(qids))],
            self.browsing,
            attention(ranked, self.browsing, self.depth),
            self.depth,
        )
        return value


SHARE = "share:"
"""Prefix of the trace's columns with the groups' shares of exposure."""


@dataclass
class Step:
    """One retrieval of one query, or the failed attempt at one.

    Attributes:
        iteration: 0 for the original query.
        query: the keywords; empty if there are none.
        before: the keywords that were refined; empty at iteration 0.
        group: the group that was asked for; empty at iteration 0.
        values: measured values by column of the trace.
        kept: whether the list is kept.
        note: why the loop ended here, or what went wrong.
    """

    iteration: int
    query: str
    before: str = ""
    group: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    kept: bool = False
    note: str = ""


@dataclass
class Progress:
    """The state of one query's loop.

    Attributes:
        qid: the query.
        original: its text.
        keywords: the keywords of the list that is kept.
        steps: what was done, in order.
        kept: iterations whose lists are kept.
        active: whether the loop goes on.
        missing: why the query has no result; empty: it has one.
    """

    qid: str
    original: str
    keywords: str
    steps: list[Step] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    active: bool = True
    missing: str = ""

    def at(self, iteration: int) -> Step:
        """Return the step whose list an iteration has: the last one of that number."""
        return next(step for step in reversed(self.steps) if step.iteration == iteration)

    def stop(self, note: str) -> None:
        """End the loop, with a note at the last step."""
        self.active = False
        self.steps[-1].note = note


def trace_frame(queries: Sequence[Progress], columns: Sequence[str]) -> pd.DataFrame:
    """Return one row per query and iteration.

    Args:
        queries: the loops.
        columns: the measured values that steps have.
    """
    rows = []
    for query in queries:
        for step in query.steps:
            added, dropped = changes(step.before, step.query) if step.before else ([], [])
            rows.append(
                {
                    "qid": query.qid,
                    "iteration": step.iteration,
                    "query": step.query,
                    "added": " ".join(added),
                    "dropped": " ".join(dropped if step.query else []),
                    "group": step.group,
                    **{column: step.values.get(column, np.nan) for column in columns},
                    "kept": step.kept,
                    "note": step.note,
                }
            )
    names = ["qid", "iteration", "query", "added", "dropped", "group", *columns, "kept", "note"]
    return pd.DataFrame(rows, columns=names)


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
    shown: Any = {"desc": f"asking {llm.name}", "unit": " calls", "delay": 2, "leave": False}
    outcomes = dict(tqdm(llm.outcomes(chats), total=len(chats), disable=None, **shown))
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


def estimate_at_most(
    llm: ChatModel, prompt: RefinementPromptLike, requests: Sequence[Refinement], rounds: int
) -> Estimate:
    """Return what some rounds of requests take at most, without any call.

    Args:
        llm: the model; behind a ledger, the ledger's prices count.
        prompt: the prompt.
        requests: the first round's requests, or ones as long.
        rounds: how often each query is refined at most.
    """
    inner, prices = (llm.llm, llm.ledger.prices) if isinstance(llm, Recorded) else (llm, Prices())
    chats = [prompt(request) for request in requests] * rounds
    return estimate(inner, chats, 0, prices)


RULES = ("difference", "ratio")


def under_represented(
    share: FloatArray, target: FloatArray, known: BoolArray, rule: str
) -> IntArray:
    """Return the most under-represented group of each row, -1 where none is.

    A group lacks exposure if its share is below its target. The unknown level is never chosen: no
    keyword asks for it. Equal groups: the first one.

    Args:
        share: exposure of the groups, each row summing to 1; shape (n_rows, n_groups).
        target: what the groups should have; same shape.
        known: whether a group can be asked for; shape (n_groups,).
        rule: ``"difference"``: the largest target - share; ``"ratio"``: the largest target / share,
            which always prefers groups without any exposure, however small their target (of
            several such groups, the one with the largest target).
    """
    lack = np.where(known, target - share, 0.0)
    lack = np.where(lack > 1e-12, lack, 0.0)
    if rule == "ratio":
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(lack > 0, target / share, 0.0)
        best = ratio.max(axis=1, initial=0.0, keepdims=True)
        lack = np.where((ratio == best) & (lack > 0), target, 0.0)
    chosen = lack.argmax(axis=1)
    return np.where(lack.max(axis=1, initial=0.0) > 0, chosen, -1).astype(np.int64)


_ROUNDING = 1e-12  # a smaller fall of the divergence is none
_UNSEEN = "the index sees no new keywords: asked again"
AGAIN = 2
"""How often a query's refinement that the index does not see is asked for again."""


@dataclass
class Loop:
    """Refines many queries side by side: one retrieval and one round of calls per iteration.

    Attributes:
        retrieve: rankings (R, ranks from 0, qids as strings) for queries given by qid and text; and
            whether they are the original ones.
        refine: one outcome for each request.
        meter: measures rankings.
        threshold: a query whose divergence is not above it is done.
        max_iterations: the most refinements of a query.
        choose: how the group is chosen; see `under_represented`.
        tokens: what the index sees of a text; None: that is not known.
        keep_failed: whether a query whose call failed keeps the list it has, or is missing.
        waited: seconds that `refine` took so far.
    """

    retrieve: Callable[[Sequence[str], Sequence[str], bool], pd.DataFrame]
    refine: Callable[[Sequence[Refinement]], list[Refined]]
    meter: ShareMeter
    threshold: float
    max_iterations: int
    choose: str
    keep_failed: bool
    tokens: Tokens | None = None
    waited: float = 0.0

    def run(
        self, qids: Sequence[str], texts: Sequence[str]
    ) -> tuple[list[Progress], list[pd.DataFrame]]:
        """Return what was done for each query, and the rankings of each iteration."""
        queries = [Progress(q, t, t) for q, t in zip(qids, texts, strict=True)]
        for query in queries:
            query.steps.append(Step(0, query.original))
        runs = [self.retrieve(qids, texts, True)]
        self._first(queries, self._measured(queries, runs[0]))
        for iteration in range(1, self.max_iterations + 1):
            asked = self._ask(queries, iteration)
            if not asked:
                break
            texts = [q.steps[-1].query for q in asked]
            runs.append(self.retrieve([q.qid for q in asked], texts, False))
            self._judge(asked, self._measured(asked, runs[-1]))
        for query in queries:
            if query.active:
                query.stop("max_iterations reached")
        return queries, runs

    def _measured(self, queries: Sequence[Progress], run: pd.DataFrame) -> Shares:
        """Return what a run shows, written into the last steps of its queries, too."""
        found = self.meter.measure(run, _qids(queries))
        levels = label_texts(self.meter)
        for place, query in enumerate(queries):
            values = query.steps[-1].values
            values["divergence"] = found.divergence[place]
            values["AWRF"] = found.awrf[place]
            values["retrieved"] = int(found.retrieved[place])
            defined = found.share[place].any()
            for level, share in zip(levels, found.share[place].tolist(), strict=True):
                values[f"{SHARE}{level}"] = share if defined else math.nan
        return found

    def _first(self, queries: Sequence[Progress], found: Shares) -> None:
        has_target = self.meter.targets(_qids(queries)).sum(axis=1) > 0
        for place, query in enumerate(queries):
            query.steps[-1].kept = True
            query.kept.append(0)
            if not found.retrieved[place]:
                query.stop("nothing was retrieved")
            elif not has_target[place]:
                query.stop("there is no target")
            elif np.isnan(found.divergence[place]):
                query.stop(f"no document of the top {self.meter.depth} has a group")
            else:
                self._done(query, found.divergence[place])

    def _done(self, query: Progress, divergence: float) -> None:
        if divergence <= self.threshold:
            query.stop("divergence at most the threshold")

    def _ask(self, queries: Sequence[Progress], iteration: int) -> list[Progress]:
        """Refine the active queries; return those that are to be retrieved again."""
        active = [query for query in queries if query.active]
        cells = self._chosen(active)
        for query, cell in zip(active, cells.tolist(), strict=True):
            if cell < 0:
                query.stop("no known group has less than its target")
        asked = [(q, c) for q, c in zip(active, cells.tolist(), strict=True) if c >= 0]
        if not asked:
            return []
        open_ones = [(query, self._parts(cell)) for query, cell in asked]
        while open_ones:
            attribute = " and ".join(self.meter.groups.space.names)
            requests = [Refinement(q.original, q.keywords, g, attribute) for q, g in open_ones]
            begin = time.perf_counter()
            refined = self.refine(requests)
            self.waited += time.perf_counter() - begin
            for (query, group), answer in zip(open_ones, refined, strict=True):
                self._take(query, iteration, " & ".join(group), answer)
            open_ones = [(q, g) for q, g in open_ones if q.active and self._unseen(q)]
        return [query for query, _ in asked if query.active]

    def _unseen(self, query: Progress) -> bool:
        """Return whether to ask again, as the index sees nothing new; that is no iteration."""
        step = query.steps[-1]
        if self.tokens is None or Counter(self.tokens(step.query)) != Counter(
            self.tokens(step.before)
        ):
            return False
        query.keywords = step.query
        unseen = sum(s.note == _UNSEEN for s in query.steps)
        if unseen == AGAIN:
            query.stop("the index sees no new keywords")
            return False
        step.note = _UNSEEN
        return True

    def _chosen(self, active: Sequence[Progress]) -> IntArray:
        space = self.meter.groups.space
        levels = label_texts(self.meter)
        if not active:
            return np.zeros(0, dtype=np.int64)
        shares = np.array(
            [[q.at(q.kept[-1]).values[f"{SHARE}{level}"] for level in levels] for q in active]
        )
        known = space.known(np.arange(space.size))
        return under_represented(shares, self.meter.targets(_qids(active)), known, self.choose)

    def _parts(self, cell: int) -> tuple[str, ...]:
        label = self.meter.groups.space.label(cell)
        return (label,) if isinstance(label, str) else tuple(label)

    def _take(self, query: Progress, iteration: int, group: str, answer: Refined) -> None:
        step = Step(iteration, answer.query or "", query.keywords, group)
        step.values = {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "seconds": answer.seconds,
        }
        earlier = [s.query for s in query.steps if s.query]
        query.steps.append(step)
        if answer.query is None:
            query.stop(answer.reason)
            query.missing = "" if self.keep_failed else answer.reason
        elif any(same_words(text, answer.query) for text in earlier):
            query.stop("no new keywords")

    def _judge(self, asked: Sequence[Progress], found: Shares) -> None:
        for place, query in enumerate(asked):
            step = query.steps[-1]
            best = query.at(query.kept[-1]).values["divergence"]
            now = found.divergence[place]
            if not found.retrieved[place]:
                query.stop("nothing was retrieved; the earlier list is kept")
            elif np.isnan(now):
                query.stop(f"no document of the top {self.meter.depth} has a group")
            elif not now < best - _ROUNDING:
                query.stop("divergence did not fall; the earlier list is kept")
            else:
                step.kept = True
                query.kept.append(step.iteration)
                query.keywords = step.query
                self._done(query, now)


def label_texts(meter: ShareMeter) -> list[str]:
    """Return the levels as texts: parts of crossed ones are joined by ``&``."""
    labels = meter.groups.levels
    return [label if isinstance(label, str) else " & ".join(label) for label in labels]


def _qids(queries: Sequence[Progress]) -> ObjectArray:
    return np.array([query.qid for query in queries], dtype=object)


def topics_by_qid(inp: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the queries of a frame, indexed by qid as a string.

    Raises:
        DuplicateError: a qid occurs twice.
        InputError: a qid is none, or a query is missing.
    """
    topics = inp.drop(columns=[c for c in (DOCNO, SCORE, RANK) if c in inp.columns])
    topics.index = pd.Index(qids_of(inp, where), dtype=object)
    for qid, text in zip(topics.index, topics[QUERY].tolist(), strict=True):
        if not isinstance(text, str):
            raise InputError(f"{where}: qid {qid!r} needs a text as 'query'; found {text!r}")
    return topics


def qids_of(topics: pd.DataFrame, where: str) -> list[str]:
    """Return the qid of each query as text.

    Raises:
        DuplicateError: a qid occurs twice.
        InputError: a qid is none.
    """
    code, distinct = encode_ids(topics[QID], QID, where)
    qids: list[str] = distinct[code].tolist()
    twice = pd.Series(code).duplicated()
    if twice.any():
        raise DuplicateError(
            f"{where}: qid {qids[int(twice.argmax())]!r} occurs twice; one row per query is needed"
        )
    return qids


def asked(topics: pd.DataFrame, qids: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    """Return the topics of some queries, with other texts."""
    frame = topics.loc[list(qids)].reset_index(drop=True)
    frame[QUERY] = pd.Series(list(texts), dtype=topics[QUERY].dtype)
    return frame


def bare_rankings(
    found: pd.DataFrame, topics: pd.DataFrame, where: str, most: int | None = None
) -> pd.DataFrame:
    """Return rankings in order, with ranks from 0 and qids as strings, without topics' columns.

    Args:
        found: what a retriever or reranker returned (R).
        topics: the queries.
        where: who returned it, for messages.
        most: how many documents of each query are kept; None: all.

    Raises:
        InputError: the rankings are broken.
    """
    require(found, [QID, DOCNO, SCORE], where)
    run = encode_run(found, where)
    known = {*topics.columns, QID, RANK, QUERY}
    own = [c for c in found.columns if c not in known and not c.startswith("query_")]
    kept = slice(None) if most is None else run.position < most
    out = found[own].iloc[run.order[kept]].reset_index(drop=True)
    out.insert(0, QID, run.qids[run.query[kept]])
    out[RANK] = run.position[kept]
    return out


def with_topics(ranked: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Return rankings with the columns of their topics before them."""
    left = topics.iloc[topics.index.get_indexer(ranked[QID])].reset_index(drop=True)
    return pd.concat([left, ranked.drop(columns=QID).reset_index(drop=True)], axis=1)
