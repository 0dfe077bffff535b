"""The loop of FAIR-QR: retrieve, measure, choose a group, refine, retrieve again; and its trace."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, listed
from fairtk.exposure import BrowsingModel, attention, normalized_gain
from fairtk.frames import (
    DOCNO,
    QID,
    QUERY,
    RANK,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    ObjectArray,
    Qrels,
    Run,
)
from fairtk.groups import (
    Divergence,
    Groups,
    Memberships,
    Target,
    attention_matrix,
    group_exposure,
    rank_fairness,
)
from fairtk.io import frame_html
from fairtk.llm import Refinement
from fairtk.transformers.collection import Tokens, dropped_words, index_tokens
from fairtk.transformers.fair_qr.keywords import Refined, changes, refine, same_words
from fairtk.transformers.fair_qr.ordering import Ordering, bare_rankings, with_topics

if TYPE_CHECKING:
    from fairtk.transformers.fair_qr.transformer import FairQR

SHARE = "share:"
"""Prefix of the trace's columns with the groups' shares of exposure."""

_ABOUT = ["qid", "iteration", "query", "added", "dropped", "group"]
_CALL = ["prompt_tokens", "completion_tokens", "seconds"]


@dataclass(frozen=True, eq=False)
class Meter:
    """Measures rankings against a target, and against labels.

    Attributes:
        groups: the groups.
        target: over the levels of `groups`.
        depth: how many ranks count.
        browsing: attention of each rank.
        divergence: of the shares from the target.
        unlabeled: what becomes of documents without a row; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
        qrels: ``qid``, ``docno``, ``label``, for nDCG; None: it is not measured.
        again: whether a trace measures lists as they would be returned, too.
    """

    groups: Groups
    target: Target
    depth: int
    browsing: BrowsingModel
    divergence: Divergence
    unlabeled: str
    split: bool
    qrels: pd.DataFrame | None
    again: bool

    @cached_property
    def levels(self) -> list[str]:
        """The levels as texts: parts of crossed ones are joined by ``&``."""
        labels = self.groups.levels
        return [label if isinstance(label, str) else " & ".join(label) for label in labels]

    @cached_property
    def labels(self) -> Qrels | None:
        """The labels; None: there are none."""
        return None if self.qrels is None else Qrels(self.qrels, "FairQR: qrels")

    @property
    def columns(self) -> list[str]:
        """The measured values of each step, as columns of the trace."""
        gain = ["nDCG"] if self.qrels is not None else []
        after = [f"{name}_reranked" for name in ("AWRF", *gain)] if self.again else []
        shares = [f"{SHARE}{level}" for level in self.levels]
        return ["divergence", "AWRF", *gain, *after, "retrieved", *shares, *_CALL]

    def measure(self, run: pd.DataFrame, qids: ObjectArray) -> dict[str, Any]:
        """Return what a run shows for some queries: lists of their values, by column of the trace.

        Of each level its share of exposure (the shares sum to 1; NaN: no document has a group),
        ``divergence`` of the shares from the target (NaN: one of them lacks), ``AWRF`` of the
        unsplit exposure, as `fairtk.AWRF`, and ``retrieved``, the documents at the top.

        Args:
            run: R as `bare_rankings` gives it, of these queries only.
            qids: the queries, with or without rows in the run; shape (n_queries,).
        """
        top = run[run[RANK] < self.depth]
        query = pd.Index(qids, dtype=object).get_indexer(top[QID]).astype(np.int64)
        weight = self.browsing.weights(top[RANK].to_numpy(dtype=np.int64))
        memberships = self.groups.memberships(top[DOCNO].to_numpy(dtype=object), self.unlabeled)
        seen = np.flatnonzero(weight)
        shape = (len(qids), len(top))
        documents = attention_matrix(query[seen], seen, weight[seen], shape)
        whole = group_exposure(documents, memberships)
        exposure = whole
        if self.split:
            exposure = group_exposure(documents, _split(memberships))
        exposure = exposure.normalized()
        target = self.target.for_qids(qids)
        share = exposure.dense()
        share[~share.any(axis=1)] = math.nan
        return {
            "divergence": self.divergence.between(exposure, target).tolist(),
            "AWRF": rank_fairness(whole, target).tolist(),
            "retrieved": np.bincount(query, minlength=len(qids)).tolist(),
            **{
                f"{SHARE}{level}": own
                for level, own in zip(self.levels, share.T.tolist(), strict=True)
            },
        }

    def gain(self, run: pd.DataFrame, qids: ObjectArray, labels: Qrels) -> list[float]:
        """Return each query's nDCG of TREC Fair Ranking 2022; NaN where no document is relevant.

        Arguments are those of `measure`; labels above 0 are relevant.
        """
        ranked = Run(run, "FairQR")
        relevant = labels.query[labels.labels > 0]
        counts = np.append(np.bincount(relevant, minlength=len(labels.qids)), 0)
        gain: list[float] = normalized_gain(
            ranked,
            labels.labels_of(ranked) > 0,
            pd.Index(qids, dtype=object).get_indexer(ranked.qids),
            counts[labels.queries.find(Ids(qids))],
            self.browsing,
            attention(ranked, self.browsing, self.depth),
            self.depth,
        ).tolist()
        return gain


def _split(memberships: Memberships) -> Memberships:
    """Return memberships that sum to 1 at most for each document."""
    sums = np.maximum(memberships.total(), 1.0)
    return memberships.weighted(memberships.weight / sums[memberships.row])


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

    def row(self) -> dict[str, Any]:
        """Return the step as a row of the trace."""
        added, dropped = changes(self.before, self.query) if self.before else ([], [])
        return {
            "iteration": self.iteration,
            "query": self.query,
            "added": " ".join(added),
            "dropped": " ".join(dropped if self.query else []),
            "group": self.group,
            **self.values,
            "kept": self.kept,
            "note": self.note,
        }


@dataclass
class Progress:
    """The state of one query's loop.

    Attributes:
        qid: the query.
        original: its text.
        target: what each group should have, 0 everywhere if there is no target; (n_groups,).
        keywords: the keywords of the list that is kept.
        steps: what was done, in order.
        lists: iterations whose lists are kept.
        active: whether the loop goes on.
        missing: why the query has no result; empty: it has one.
    """

    qid: str
    original: str
    target: FloatArray
    keywords: str
    steps: list[Step]
    lists: list[int] = field(default_factory=list)
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
    """Return one row per query and step, with the measured values that steps have."""
    rows = [{"qid": query.qid, **step.row()} for query in queries for step in query.steps]
    return pd.DataFrame(rows, columns=[*_ABOUT, *columns, "kept", "note"])


def look_back(
    queries: Sequence[Progress],
    runs: Sequence[pd.DataFrame],
    topics: pd.DataFrame,
    ordering: Ordering,
) -> pd.DataFrame:
    """Return the trace, with what is measured for it alone.

    Args:
        queries: the loops.
        runs: the rankings of each iteration.
        topics: the queries' frame.
        ordering: how lists are returned, and their meter.
    """
    meter, labels = ordering.meter, ordering.meter.labels
    for iteration, run in enumerate(runs):
        reached = [q for q in queries if q.steps[-1].iteration >= iteration]
        there = [q for q in reached if q.at(iteration).query]
        qids = _qids(there)
        columns: dict[str, list[float]] = {}
        if labels is not None:
            columns["nDCG"] = meter.gain(run, qids, labels)
        if meter.again:
            lists = {q.qid: [*(i for i in q.lists if i < iteration), iteration] for q in there}
            ranked = ordering.order(runs, topics, lists)
            columns["AWRF_reranked"] = meter.measure(ranked, qids)["AWRF"]
            if labels is not None:
                columns["nDCG_reranked"] = meter.gain(ranked, qids, labels)
        for place, query in enumerate(there):
            values = query.at(iteration).values
            if not math.isnan(values.get("AWRF", math.nan)):
                values.update((name, column[place]) for name, column in columns.items())
    return trace_frame(queries, meter.columns)


@dataclass(frozen=True)
class Outcome:
    """The result of one call.

    Attributes:
        run: one ranking per query (R); queries that are missing have none.
        missing: the queries without a result: ``qid``, ``iteration``, ``reason``.
        waited: seconds of waiting for the model; calls overlap.
        look: measures what was done: who does not ask for the trace does not wait for it.
    """

    run: pd.DataFrame
    missing: pd.DataFrame
    waited: float
    look: Callable[[], pd.DataFrame]

    @cached_property
    def trace(self) -> pd.DataFrame:
        """What was done; see `fairtk.FairQR.trace`."""
        return self.look()

    def __repr__(self) -> str:
        n, lost = self.trace["qid"].nunique(), len(self.missing)
        return f"<FAIR-QR of {n} queries, {lost} of them missing: .run, .trace, .missing>"

    def _repr_html_(self) -> str:
        return frame_html(self.trace, repr(self))


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


class Loop:
    """Refines many queries side by side: one retrieval and one round of calls per iteration.

    Args:
        system: whose settings say how.
        topics: the queries, indexed by qid.
    """

    def __init__(self, system: FairQR, topics: pd.DataFrame) -> None:
        self._system, self._topics = system, topics
        self._meter = system.ordering.meter
        self._tokens = index_tokens(system.retriever)  # what the index sees of a text, if known
        qids = topics.index.to_numpy(dtype=object)
        targets = self._meter.target.for_qids(qids).expanded().normalized().dense()
        self._queries = [
            Progress(qid, text, target, text, [Step(0, text)])
            for qid, text, target in zip(qids, topics[QUERY].tolist(), targets, strict=True)
        ]
        self._runs: list[pd.DataFrame] = []
        self._waited = 0.0

    def run(self) -> Outcome:
        """Return what comes of it."""
        system, queries = self._system, self._queries
        self._retrieve(queries)
        for iteration in range(1, system.max_iterations + 1):
            if not (asked := self._ask(iteration)):
                break
            self._retrieve(asked)
        for query in queries:
            if query.active:
                query.stop("max_iterations reached")
        results = {query.qid: query.lists for query in queries if not query.missing}
        ranked = with_topics(system.ordering.order(self._runs, self._topics, results), self._topics)
        rows = [(q.qid, q.steps[-1].iteration, q.missing) for q in queries if q.missing]
        missing = pd.DataFrame(rows, columns=["qid", "iteration", "reason"])
        self._warn(missing)
        look = partial(look_back, queries, self._runs, self._topics, system.ordering)
        return Outcome(ranked, missing, self._waited, look)

    def _retrieve(self, queries: Sequence[Progress]) -> None:
        """Retrieve by the last steps of queries, measure what comes, and keep it or stop.

        Of the first rankings all is kept, for its scores, of later ones what is looked at.
        """
        system, qids = self._system, _qids(queries)
        frame = self._topics.loc[qids].reset_index(drop=True)
        texts = [query.steps[-1].query for query in queries]
        frame[QUERY] = pd.Series(texts, dtype=self._topics[QUERY].dtype)
        most = max(system.k, system.depth) if self._runs else None
        where = f"FairQR: the output of {system.retriever!r}"
        run = bare_rankings(system.retriever.transform(frame), self._topics, where, most)
        self._runs.append(run[run[QID].isin(qids)])
        columns = self._meter.measure(self._runs[-1], qids)
        for place, query in enumerate(queries):
            query.steps[-1].values.update((name, own[place]) for name, own in columns.items())
            self._judge(query)

    def _judge(self, query: Progress) -> None:
        step, first = query.steps[-1], not query.lists
        divergence = step.values["divergence"]
        before = math.inf if first else query.at(query.lists[-1]).values["divergence"]
        nearer = divergence < before - _ROUNDING
        if first or nearer:
            step.kept = True
            query.lists.append(step.iteration)
            query.keywords = step.query
        if not step.values["retrieved"]:
            query.stop(f"nothing was retrieved{'' if first else '; the earlier list is kept'}")
        elif first and not query.target.any():
            query.stop("there is no target")
        elif math.isnan(divergence):
            query.stop(f"no document of the top {self._meter.depth} has a group")
        elif not (first or nearer):
            query.stop("divergence did not fall; the earlier list is kept")
        elif divergence <= self._system.threshold:
            query.stop("divergence at most the threshold")

    def _ask(self, iteration: int) -> list[Progress]:
        """Refine the active queries; return those that are to be retrieved again."""
        system = self._system
        asked = []
        for query, level in self._chosen():
            if level < 0:
                query.stop("no known group has less than its target")
            else:
                label = system.groups.space.label(level)
                asked.append((query, (label,) if isinstance(label, str) else tuple(label)))
        open_ones = asked
        while open_ones:
            attribute = " and ".join(system.groups.space.names)
            requests = [Refinement(q.original, q.keywords, g, attribute) for q, g in open_ones]
            begin = time.perf_counter()
            answers = refine(system.llm, system.prompt, requests)
            self._waited += time.perf_counter() - begin
            for (query, group), answer in zip(open_ones, answers, strict=True):
                self._take(query, iteration, " & ".join(group), answer)
            open_ones = [(q, g) for q, g in open_ones if q.active and self._unseen(q)]
        return [query for query, _ in asked if query.active]

    def _chosen(self) -> list[tuple[Progress, int]]:
        """Return the active queries, and the level that each lacks most; -1: none."""
        active = [query for query in self._queries if query.active]
        if not active:
            return []
        columns = [f"{SHARE}{level}" for level in self._meter.levels]
        best = [query.at(query.lists[-1]).values for query in active]
        shares = np.array([[values[column] for column in columns] for values in best])
        targets = np.array([query.target for query in active])
        known = self._system.groups.space.known(np.arange(len(columns)))
        levels = under_represented(shares, targets, known, self._system.choose)
        return list(zip(active, levels.tolist(), strict=True))

    def _take(self, query: Progress, iteration: int, group: str, answer: Refined) -> None:
        step = Step(iteration, answer.query or "", query.keywords, group)
        step.values = {name: getattr(answer, name) for name in _CALL}
        earlier = [s.query for s in query.steps if s.query]
        query.steps.append(step)
        if answer.query is None:
            query.stop(answer.reason)
            query.missing = "" if self._system.failed == "keep" else answer.reason
        elif any(same_words(text, answer.query) for text in earlier):
            query.stop("no new keywords")

    def _unseen(self, query: Progress) -> bool:
        """Return whether to ask again, as the index sees nothing new; that is no iteration."""
        step, tokens = query.steps[-1], self._tokens
        if tokens is None or Counter(tokens(step.query)) != Counter(tokens(step.before)):
            return False
        query.keywords = step.query
        if sum(s.note == _UNSEEN for s in query.steps) == AGAIN:
            query.stop("the index sees no new keywords")
            return False
        step.note = _UNSEEN
        return True

    def _warn(self, missing: pd.DataFrame) -> None:
        """Warn of queries without a result, those that were not measured, and words in vain."""
        n, texts = len(self._queries), []
        if len(missing):
            reasons = [f"{q}: {r}" for q, r in zip(missing["qid"], missing["reason"], strict=True)]
            texts.append(
                f"{len(missing)} of {n} queries have no result, because they could not be "
                f"refined ({listed(reasons, 5)}); see .missing"
            )
        for what, who, ids in (
            (f"no document of the top {self._meter.depth} has a group", "groups and retriever",
             "docnos"),
            ("there is no target", "target and topics", "qids"),
        ):  # fmt: skip
            bare = [q.qid for q in self._queries if len(q.steps) == 1 and q.steps[0].note == what]
            if bare:
                texts.append(
                    f"{what} for {len(bare)} of {n} queries ({listed(bare)}), which keep their "
                    f"first ranking; check that {who} use the same {ids}"
                )
        words = {} if self._tokens is None else _dropped(self._queries, self._tokens)
        if words:
            qids = {qid for own in words.values() for qid in own}
            texts.append(
                f"the retriever drops words that were added for {len(qids)} of {n} queries, mostly "
                f"as stop words: {listed(sorted(words))}; they find nothing, so leave them out of "
                "the table of terms or the prompt"
            )
        for text in texts:
            warnings.warn(f"FairQR: {text}", DataWarning, stacklevel=6)


def _dropped(queries: Sequence[Progress], tokens: Tokens) -> dict[str, list[str]]:
    """Return the queries by words that were added to them, and that the retriever drops."""
    words: dict[str, list[str]] = {}
    for query in queries:
        texts = " ".join(step.query for step in query.steps if step.iteration)
        original = set(dropped_words(query.original, tokens))
        for word in dropped_words(texts, tokens):
            if word not in original:
                words.setdefault(word, []).append(query.qid)
    return words


def _qids(queries: Sequence[Progress]) -> ObjectArray:
    return np.array([query.qid for query in queries], dtype=object)
