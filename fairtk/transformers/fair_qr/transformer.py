"""`FairQR`, which retrieves, measures, chooses a group and refines in a loop, and its trace."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from textwrap import fill
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display import despine, new_figure, series_style
from fairtk.display.tables import frame_html
from fairtk.errors import NotFoundError, ParameterError
from fairtk.exposure import BrowsingModel
from fairtk.frames import DOCNO, LABEL, QID, QUERY, FloatArray, ObjectArray, require_columns
from fairtk.frames.texts import words as words_of
from fairtk.groups import Divergence, Groups, Target
from fairtk.llm import ChatModel, Estimate, as_chat_model
from fairtk.llm.chat import cost_of
from fairtk.llm.ledger import estimate_all
from fairtk.llm.refinement import Refinement, RefinementPromptLike, as_refinement_prompt
from fairtk.plugins import as_position_model
from fairtk.plugins.registry import as_divergence
from fairtk.remarks import (
    IGNORED_WORDS,
    KEPT_FAILURES,
    NO_EFFECT,
    NO_GROUPED_DOCUMENT,
    NO_TARGET,
    NOT_REFINED,
    OFF_TOPIC,
)
from fairtk.stage_context import leave_notes, remark
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.candidates import Tokens, dropped_words, index_tokens
from fairtk.transformers.fair_qr.keywords import (
    Refined,
    changes,
    refine,
    same_words,
    topics_by_qid,
)
from fairtk.transformers.fair_qr.ordering import (
    CALL,
    DEEP,
    EXPOSURE,
    POOLS,
    RELEVANCE,
    RULES,
    SHARE,
    Meter,
    Ordering,
    bare_rankings,
    target_shares,
    under_represented,
    with_topics,
)
from fairtk.wording import short

_ABOUT = ["qid", "iteration", "query", "added", "dropped", "group"]


@dataclass
class Step:
    """One retrieval of one query, or a failed refinement.

    Attributes:
        iteration: 0 for the original query.
        query: the keywords; empty if the refinement failed.
        before: the keywords before the refinement; empty at iteration 0.
        group: the requested group; empty at iteration 0.
        values: measured values by column of the trace.
        kept: whether the list is kept.
        note: why the loop ended here, or the error.
        answer: the outcome of the call; `None` at iteration 0.
    """

    iteration: int
    query: str
    before: str = ""
    group: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    kept: bool = False
    note: str = ""
    answer: Refined | None = None

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
        target: target share of each group, all 0 if there is no target; shape (n_groups,).
        keywords: the keywords of the last kept list.
        steps: the steps, in order.
        lists: the iterations of the kept lists.
        active: whether the loop continues.
        missing: why the query has no result; empty if it has one.
        failure: why the last call failed, also if the query keeps its list; otherwise empty.
        problem: the kind of remark on a query whose first ranking cannot be improved, or empty.
    """

    qid: str
    original: str
    target: FloatArray
    keywords: str
    steps: list[Step]
    lists: list[int] = field(default_factory=list)
    active: bool = True
    missing: str = ""
    failure: str = ""
    problem: str = ""

    def at(self, iteration: int) -> Step:
        """Return the last step of an iteration, which has its list."""
        return next(step for step in reversed(self.steps) if step.iteration == iteration)

    def stop(self, note: str) -> None:
        """End the loop, with a note in the last step."""
        self.active = False
        self.steps[-1].note = note


def trace_frame(queries: Sequence[Progress], columns: Sequence[str]) -> pd.DataFrame:
    """Return one row per query and step."""
    rows = [{"qid": query.qid, **step.row()} for query in queries for step in query.steps]
    return pd.DataFrame(rows, columns=[*_ABOUT, *columns, "kept", "note"])


def build_trace(
    queries: Sequence[Progress],
    runs: Sequence[pd.DataFrame],
    topics: pd.DataFrame,
    ordering: Ordering,
) -> pd.DataFrame:
    """Return the trace, with the values that only the trace contains.

    Args:
        queries: the loops.
        runs: the rankings of each iteration.
        topics: the queries' frame.
        ordering: the order of the result, with its meter.
    """
    meter, labels = ordering.meter, ordering.meter.labels
    for iteration, run in enumerate(runs):
        active = [q for q in queries if q.steps[-1].iteration >= iteration]
        active = [q for q in active if q.at(iteration).query]
        qids = _qids(active)
        columns: dict[str, list[float]] = {}
        if labels is not None:
            columns["nDCG"] = meter.gain(run, qids, labels)
        if meter.reranked:
            lists = {q.qid: [*(i for i in q.lists if i < iteration), iteration] for q in active}
            ranked = ordering.order(runs, topics, lists)
            columns["AWRF_reranked"] = meter.measure(ranked, qids)["AWRF"]
            if labels is not None:
                columns["nDCG_reranked"] = meter.gain(ranked, qids, labels)
        for index, query in enumerate(active):
            values = query.at(iteration).values
            if not math.isnan(values.get("AWRF", math.nan)):
                values.update((name, column[index]) for name, column in columns.items())
    return trace_frame(queries, meter.columns)


@dataclass(frozen=True)
class FairQROutcome:
    """The result of one call.

    Attributes:
        run: one ranking per query (R), except for missing queries.
        missing: the queries without a result: ``qid``, ``iteration``, ``reason``.
        kept: the queries whose call failed and that kept their list, with the same columns.
        waited: seconds of waiting for the model; calls overlap.
        look: a function that computes the trace on first use.
        costs: ``calls``, ``seconds`` and ``tokens`` of the calls by qid.
    """

    run: pd.DataFrame
    missing: pd.DataFrame
    kept: pd.DataFrame
    waited: float
    look: Callable[[], pd.DataFrame]
    costs: Mapping[str, Mapping[str, Any]]

    @cached_property
    def trace(self) -> pd.DataFrame:
        """The steps of each query; see `fairtk.FairQR.trace`."""
        return self.look()

    def __repr__(self) -> str:
        n, n_missing = self.trace["qid"].nunique(), len(self.missing)
        return f"<FAIR-QR of {n} queries, {n_missing} of them missing: .run, .trace, .missing>"

    def _repr_html_(self) -> str:
        return frame_html(self.trace, repr(self))


_STEP = 1e-12  # minimum decrease of the divergence
_RETRIED = "the index sees no new keywords: retried"
RETRIES = 2


class Loop:
    """The loop over all queries: one retrieval and one round of calls per iteration.

    Args:
        system: the transformer with the settings.
        topics: the queries, indexed by qid.
    """

    def __init__(self, system: FairQR, topics: pd.DataFrame) -> None:
        self._system, self._topics = system, topics
        self._meter = system.ordering.meter
        self._tokens = index_tokens(system.retriever)
        qids = topics.index.to_numpy(dtype=object)
        targets = self._meter.target.for_qids(qids).expanded().normalized().dense()
        self._queries = [
            Progress(qid, text, target, text, [Step(0, text)])
            for qid, text, target in zip(qids, topics[QUERY].tolist(), targets, strict=True)
        ]
        self._runs: list[pd.DataFrame] = []
        self._waited = 0.0

    def run(self) -> FairQROutcome:
        """Run the loop and return its outcome."""
        system, queries = self._system, self._queries
        self._retrieve(queries)
        for iteration in range(1, system.max_iterations + 1):
            if not (refined := self._refine(iteration)):
                break
            self._retrieve(refined)
        for query in queries:
            if query.active:
                query.stop("max_iterations reached")
        results = {query.qid: query.lists for query in queries if not query.missing}
        ranked = with_topics(system.ordering.order(self._runs, self._topics, results), self._topics)
        self._remark()
        return self.outcome(ranked)

    def outcome(self, ranked: pd.DataFrame, interrupted: str = "") -> FairQROutcome:
        """Return the outcome with these rankings.

        Args:
            ranked: the rankings.
            interrupted: the error that interrupted the loop, the reason why all queries are
                missing; empty if it ended.
        """
        queries = self._queries
        reasons = [(q, q.missing or interrupted) for q in queries if q.missing or interrupted]
        rows = [(q.qid, q.steps[-1].iteration, reason) for q, reason in reasons]
        failed = [q for q in queries if q.failure and not q.missing]
        failures = [(q.qid, q.steps[-1].iteration, q.failure) for q in failed]
        columns = ["qid", "iteration", "reason"]
        frames = pd.DataFrame(rows, columns=columns), pd.DataFrame(failures, columns=columns)
        look = partial(build_trace, queries, self._runs, self._topics, self._system.ordering)
        costs = {q.qid: cost_of(s.answer for s in q.steps if s.answer) for q in queries}
        return FairQROutcome(ranked, *frames, self._waited, look, costs)

    def _retrieve(self, queries: Sequence[Progress]) -> None:
        """Retrieve with the keywords of the last steps, measure, and keep the list or stop.

        The first rankings are kept in full, for their scores; later ones are truncated.
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
        for index, query in enumerate(queries):
            values = query.steps[-1].values
            values.update((name, column[index]) for name, column in columns.items())
            self._judge(query)

    def _judge(self, query: Progress) -> None:
        step, first = query.steps[-1], not query.lists
        divergence = step.values["divergence"]
        before = math.inf if first else query.at(query.lists[-1]).values["divergence"]
        nearer = divergence < before - _STEP
        if first or nearer:
            step.kept = True
            query.lists.append(step.iteration)
            query.keywords = step.query
        if not step.values["retrieved"]:
            query.stop(f"nothing was retrieved{'' if first else '; the earlier list is kept'}")
        elif first and not query.target.any():
            query.stop("there is no target")
            query.problem = NO_TARGET
        elif math.isnan(divergence):
            query.stop(f"no document of the top {self._meter.depth} has a group")
            query.problem = NO_GROUPED_DOCUMENT if first else ""
        elif not (first or nearer):
            query.stop("divergence did not fall; the earlier list is kept")
        elif divergence <= self._system.threshold:
            query.stop("divergence at most the threshold")

    def _refine(self, iteration: int) -> list[Progress]:
        """Refine the active queries, and return those to retrieve again."""
        system = self._system
        chosen = []
        for query, level in self._chosen():
            if level < 0:
                query.stop("no known group has less than its target")
            else:
                label = system.groups.levels[level]
                chosen.append((query, (label,) if isinstance(label, str) else tuple(label)))
        waiting = chosen
        while waiting:
            attribute = " and ".join(system.groups.space.names)
            requests = [Refinement(q.original, q.keywords, g, attribute) for q, g in waiting]
            begin = time.perf_counter()
            answers = refine(system.llm, system.prompt, requests)
            self._waited += time.perf_counter() - begin
            for (query, group), answer in zip(waiting, answers, strict=True):
                self._add_step(query, iteration, " & ".join(group), answer)
            waiting = [(q, g) for q, g in waiting if q.active and self._must_retry(q)]
        return [query for query, _ in chosen if query.active]

    def _chosen(self) -> list[tuple[Progress, int]]:
        """Return the active queries with their most under-represented level, -1 if none."""
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

    def _add_step(self, query: Progress, iteration: int, group: str, answer: Refined) -> None:
        step = Step(iteration, answer.query or "", query.keywords, group)
        step.answer = answer
        step.values = {name: getattr(answer, name) for name in CALL}
        earlier = [s.query for s in query.steps if s.query]
        query.steps.append(step)
        if answer.query is None:
            query.stop(answer.reason)
            query.failure = answer.reason
            query.missing = "" if self._system.failed == "keep" else answer.reason
        elif any(same_words(text, answer.query) for text in earlier):
            query.stop("no new keywords")

    def _must_retry(self, query: Progress) -> bool:
        """Return whether to retry within the iteration, because the index sees no new tokens."""
        step, tokens = query.steps[-1], self._tokens
        if tokens is None or Counter(tokens(step.query)) != Counter(tokens(step.before)):
            return False
        query.keywords = step.query
        if sum(s.note == _RETRIED for s in query.steps) == self._system.retries:
            query.stop("the index sees no new keywords")
            return False
        step.note = _RETRIED
        return True

    def _remark(self) -> None:
        """Remark on missing queries, unmeasured queries, and added words without tokens."""
        queries, tokens = self._queries, self._tokens
        system = self._system
        missing = [[f"{q.qid}: {q.missing}"] if q.missing else [] for q in queries]
        failures = [
            [f"{q.qid}: {q.failure}"] if q.failure and not q.missing else [] for q in queries
        ]
        words = [[] if tokens is None else _ignored_words(query, tokens) for query in queries]
        has_no_effect = (system.pool, system.rerank, system.reranker) == ("union", RELEVANCE, None)
        examples = [answer for _, answer in getattr(system.prompt, "examples", ())]
        strange = [_off_topic(query, examples) for query in queries]
        for kind, numbers, detail in (
            (NO_EFFECT, [has_no_effect for _ in queries], ""),
            (NOT_REFINED, [len(of_query) for of_query in missing], missing),
            (KEPT_FAILURES, [len(of_query) for of_query in failures], failures),
            (OFF_TOPIC, [len(of_query) for of_query in strange], strange),
            (
                NO_GROUPED_DOCUMENT,
                [query.problem == NO_GROUPED_DOCUMENT for query in queries],
                str(self._meter.depth),
            ),
            (NO_TARGET, [query.problem == NO_TARGET for query in queries], ""),
            (IGNORED_WORDS, [len(ignored) for ignored in words], words),
        ):
            remark(kind, "FairQR", numbers, _qids(queries), detail, stacklevel=6)


def _ignored_words(query: Progress, tokens: Tokens) -> list[str]:
    """Return the added words of a query that the retriever ignores, as text."""
    texts = " ".join(step.query for step in query.steps if step.iteration)
    original = set(dropped_words(query.original, tokens))
    return [repr(word) for word in dropped_words(texts, tokens) if word not in original]


def _off_topic(query: Progress, examples: Sequence[str]) -> list[str]:
    """Return the refinements without a word of the query, or with the words of an example."""
    original = {word.lower() for word in words_of(query.original)}
    return [
        f"{query.qid}: {step.query}"
        for step in query.steps
        if step.iteration and step.query
        if original.isdisjoint(word.lower() for word in words_of(step.query))
        or any(same_words(step.query, example) for example in examples)
    ]


def _qids(queries: Sequence[Progress]) -> ObjectArray:
    return np.array([query.qid for query in queries], dtype=object)


_MOST_GROUPS = 1 << 10


class FairQR(FairTransformer):
    """Q -> R: the FAIR-QR loop (Chen & Fang 2025, arXiv 2503.21092).

    The loop retrieves documents and measures the groups' shares of exposure in the top `depth`.
    While their divergence from the target is above `threshold`, it chooses the most
    under-represented group, refines the keywords with a model, and retrieves again. It ends when
    the divergence does not fall. The best list is then ordered by relevance to the original query.
    All queries run together, with concurrent calls. A query whose call fails is missing, with a
    warning; one that cannot be measured keeps its first list (`trace` has the reason). A target
    from judgments is an oracle.

    The paper leaves many details open; the arguments name the choices and their defaults.

    Args:
        retriever: Q -> R; its columns are kept.
        groups: the groups of the documents.
        target: the target exposure of the groups.
        llm: a `fairtk.llm.ChatModel`, or any argument of `fairtk.llm.as_chat_model`.
        depth: the number of ranks to measure; 20 is the cutoff of the paper's evaluation.
        k: the number of pooled documents of each kept list; `None` for `depth`, or 200 with
            ``rerank="exposure"``.
        threshold: the divergence to stop at; 0.05 is about KL(0.65, 0.35 || 0.5, 0.5).
        max_iterations: the maximum number of refinements of a query; 5 as in the paper.
        temperature: the temperature of the model, 0.3 as in the paper; `None` to keep the model's.
        choose: ``"difference"``: the group with the largest target - share, except the unknown
            group; ``"ratio"``: the largest target / share, which prefers tiny groups without
            exposure.
        divergence: ``"kl"``, KL(shares || target), with the arguments in the paper's order;
            ``"reverse-kl"``; ``"js"``; a plugin's; or a `fairtk.groups.Divergence`.
        smoothing: the weight in [0, 1) of a uniform distribution mixed into both arguments of KL,
            so that it is finite.
        pool: ``"last"``: the last kept list, closest to the paper's numbers; ``"refined"``: all
            kept lists but the first; ``"union"``: all kept lists; `None` for ``"last"``, or
            ``"union"`` with ``rerank="exposure"``.
        rerank: the order of the pool: ``"relevance"`` (or True) to the original query; False for
            the pool's own order; ``"exposure"`` (not in the paper) for relevance times closeness to
            the target.
        reranker: R -> R; `None` for the scores of the first retrieval, with other documents last.
        weight: for ``"exposure"``: the weight of closeness, at least 0.
        floor: for ``"exposure"``: the minimum expected relevance, as a share in [0, 1] of the
            maximum.
        prompt: a name or a refinement prompt; see `fairtk.llm.refinement`.
        qrels: ``qid``, ``docno``, ``label``: adds nDCG to the trace, and has no other effect.
        browsing: the browsing model, without a cascade, e.g. ``"RBP(p=0.8)"``; default: the
            track's.
        unlabeled: how documents without groups are handled; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
        failed: ``"missing"``, or ``"keep"`` to return the last kept list of a query whose call
            failed.
        retries: the maximum number of retries of a query, over all iterations, for answers without
            a new word in the index, e.g. with only stop words.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: the target does not fit the groups.
    """

    identity_name = "fairtk.FairQR"
    output_version = 2
    leaves_notes = True
    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("retriever", "groups", "target", "llm", "depth", "k", "threshold", "max_iterations"),
        *("temperature", "choose", "divergence", "smoothing", "pool", "rerank", "reranker"),
        *("weight", "floor"),
        *("prompt", "qrels", "browsing", "unlabeled", "split", "failed", "retries"),
    )

    def __init__(
        self,
        retriever: Any,
        groups: Groups,
        target: Target,
        llm: Any,
        depth: int = 20,
        k: int | None = None,
        threshold: float = 0.05,
        max_iterations: int = 5,
        temperature: float | None = 0.3,
        choose: str = "difference",
        divergence: str | Divergence = "kl",
        smoothing: float = 0.01,
        pool: str | None = None,
        rerank: bool | str = True,
        reranker: Any = None,
        weight: float = 1.0,
        floor: float = 0.9,
        prompt: str | RefinementPromptLike = "refine",
        qrels: pd.DataFrame | None = None,
        browsing: str | BrowsingModel = "TREC",
        unlabeled: str = "drop",
        split: bool = True,
        failed: str = "missing",
        retries: int = RETRIES,
    ) -> None:
        super().__init__()
        where = "FairQR"
        for name, stage in (("retriever", retriever), ("reranker", reranker)):
            if not hasattr(stage, "transform") and not (name == "reranker" and stage is None):
                raise ParameterError(f"{where}: {name} must be a transformer, got {short(stage)}")
        for name, value, kind in (("groups", groups, Groups), ("target", target, Target)):
            if not isinstance(value, kind):
                raise ParameterError(
                    f"{where}: {name} must be a fairtk.{kind.__name__}, got {value!r:.80}"
                )
        self.retriever = retriever
        self.groups = groups
        self.target = target.for_groups(groups)
        if groups.space.size > _MOST_GROUPS:
            raise ParameterError(
                f"{where}: expected at most {_MOST_GROUPS} groups, got {groups.space.size} in "
                f"{groups.name!r}; cross fewer attributes"
            )
        if temperature is not None:
            checks.number("temperature", temperature, where)
        model = as_chat_model(llm)
        self.llm: ChatModel = model if temperature is None else model.at_temperature(temperature)
        self.depth = checks.integer("depth", depth, where)
        self.rerank = RELEVANCE if rerank is True else rerank
        is_known = isinstance(self.rerank, str) and self.rerank in (RELEVANCE, EXPOSURE)
        if self.rerank is not False and not is_known:
            raise ParameterError(
                f"{where}: rerank must be True, False, 'relevance' or 'exposure', got "
                f"{short(rerank)}"
            )
        by_exposure = self.rerank == EXPOSURE
        default_k = max(DEEP, self.depth) if by_exposure else self.depth
        self.k = default_k if k is None else checks.integer("k", k, where)
        self.threshold = checks.number("threshold", threshold, where)
        self.max_iterations = checks.integer("max_iterations", max_iterations, where, least=0)
        self.temperature = temperature
        self.choose = checks.choice("choose", choose, RULES, where)
        self.smoothing = checks.number("smoothing", smoothing, where, 0, 1, "[)")
        self.divergence = as_divergence(divergence, where, smoothing=smoothing)
        default_pool = "union" if by_exposure else "last"
        self.pool = default_pool if pool is None else checks.choice("pool", pool, POOLS, where)
        self.reranker = reranker
        self.weight = checks.number("weight", weight, where)
        self.floor = checks.share("floor", floor, where)
        self.prompt = as_refinement_prompt(prompt, where)
        if qrels is not None:
            require_columns(qrels, [QID, DOCNO, LABEL], "FairQR: qrels")
        self.qrels = qrels
        self.browsing = as_position_model(browsing, where)
        self.unlabeled = checks.choice(
            "unlabeled", unlabeled, ("drop", "unknown", "uniform"), where
        )
        self.split = checks.boolean("split", split, where)
        self.failed = checks.choice("failed", failed, ("missing", "keep"), where)
        self.retries = checks.integer("retries", retries, where, least=0)
        reranked = bool(self.rerank) and (reranker is None or qrels is not None)
        meter = Meter(
            *(self.groups, self.target, self.depth, self.browsing, self.divergence),
            *(self.unlabeled, self.split, self.qrels, reranked),
        )
        self.ordering = Ordering(
            *(meter, self.rerank, self.pool, self.k, self.reranker, self.weight, self.floor)
        )
        self._last: FairQROutcome | None = None

    def settings(self) -> dict[str, Any]:
        """Return the settings by name, without the default of `retries`."""
        settings = super().settings()
        if self.retries == RETRIES:
            del settings["retries"]
        return settings

    @property
    def trace(self) -> pd.DataFrame:
        """The steps of the last call, one row per query and step.

        If the last call raised an error, e.g. because the budget of a ledger is spent, they are the
        steps before it.

        The columns are ``qid``, ``iteration`` (0 for the original query), ``query``, ``added`` and
        ``dropped`` (words, compared with the previous keywords), ``group`` (the requested group),
        ``divergence``, ``AWRF`` (at `depth`), ``nDCG`` (with `qrels`: the track's, at `depth`),
        ``AWRF_reranked`` and ``nDCG_reranked`` (after re-ranking; with a `reranker` only if there
        are qrels), ``retrieved`` (documents in the top `depth`), ``share:<level>`` (the groups'
        shares of exposure), ``prompt_tokens``, ``completion_tokens``, ``seconds`` (of the recorded
        call), ``kept`` and ``note``.
        """
        if self._last is None:
            return trace_frame([], self.ordering.meter.columns)
        return self._last.trace

    @property
    def missing(self) -> pd.DataFrame:
        """The queries of the last call without a result: ``qid``, ``iteration``, ``reason``.

        These are all queries if the last call raised an error.
        """
        if self._last is None:
            return pd.DataFrame(columns=["qid", "iteration", "reason"])
        return self._last.missing

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query; see also `trace` and `missing`.

        In an experiment, its note on each query has ``waited`` (the seconds of waiting for the
        model, divided evenly among the queries), ``trace`` (the query's rows of `trace`), and the
        costs ``calls``, ``seconds`` and ``tokens``.

        Args:
            inp: queries (Q), one row each; other columns are kept.

        Raises:
            InputError: see `refine`.
            LLMError: see `refine`.
        """
        loop = self._loop(inp)
        try:
            self._last = loop.run()
        except Exception as error:
            self._last = loop.outcome(inp.iloc[:0], str(error))
            raise
        waited = self._last.waited / max(1, len(inp))
        rows_by_qid = self._last.trace.groupby(QID, sort=False)
        notes = {
            str(qid): {"waited": waited, "trace": trace.to_dict("records"), **self._last.costs[qid]}
            for qid, trace in rows_by_qid
        }
        leave_notes(self, notes)
        return self._last.run

    def refine(self, topics: pd.DataFrame) -> FairQROutcome:
        """Return rankings, trace and missing queries, without changing the transformer.

        Args:
            topics: queries (Q), one row each; other columns are kept.

        Raises:
            ColumnError: a column is missing.
            DuplicateError: duplicate qid.
            InputError: a query is missing, or the retriever's rankings are invalid.
            LLMError: no call would succeed, or the budget is spent.
            OfflineError: an answer is missing, and the ledger is offline.
        """
        return self._loop(topics).run()

    def _loop(self, topics: pd.DataFrame) -> Loop:
        self.check_inputs(topics, [QID, QUERY])
        return Loop(self, topics_by_qid(topics, "FairQR"))

    def estimate(self, topics: pd.DataFrame) -> Estimate:
        """Estimate the maximum number of calls, their tokens and price, without any call.

        Each query counts with `max_iterations` refinements, without `retries`. Recorded answers are
        not subtracted, because the groups are not known in advance.

        Args:
            topics: queries (Q).
        """
        texts = topics_by_qid(topics, "FairQR")[QUERY].tolist()
        group = max(self.ordering.meter.levels, key=len)
        requests = [Refinement(text, text, (group,), self.groups.name) for text in texts]
        chats = [self.prompt(request) for request in requests] * self.max_iterations
        return estimate_all(self.llm, chats)

    def plot_trace(self, qid: str) -> Any:
        """Return a matplotlib figure of one query's `trace`.

        Raises:
            NotFoundError: the query is missing from the trace.
            MissingExtraError: matplotlib is not installed.
        """
        meter = self.ordering.meter
        return plot_trace(self.trace, qid, target_shares(meter.groups, meter.target, str(qid)))


_NAMES = {"nDCG_reranked": "nDCG re-ranked"}


def plot_trace(
    trace: pd.DataFrame, qid: str, target: Mapping[str, float] | None = None, most_groups: int = 8
) -> Any:
    """Return a figure with divergence, AWRF and nDCG, and the groups' shares, by iteration.

    Lists that were not kept have hollow markers; thin lines are the groups' targets.

    Args:
        trace: `fairtk.FairQR.trace`.
        qid: the query.
        target: the target share of each group, by its name; `None` to not draw targets.
        most_groups: the maximum number of groups, those with the largest shares or targets.

    Raises:
        NotFoundError: the query is missing from the trace.
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure((6, 5.4), "plot_trace")
    rows = trace[(trace["qid"] == str(qid)) & trace["retrieved"].notna()]
    if rows.empty:
        raise NotFoundError("query", qid, trace["qid"].unique())
    above, below = figure.subplots(2, 1, sharex=True)
    names = [n for n in ("divergence", "AWRF", "nDCG", "nDCG_reranked") if n in rows.columns]
    targets = {f"{SHARE}{level}": share for level, share in (target or {}).items()}
    shares = rows[[c for c in rows.columns if c.startswith(SHARE)]].max().fillna(0.0)
    largest = shares.combine(pd.Series(targets, dtype=float).reindex(shares.index), np.fmax)
    for axis, columns in ((above, names), (below, largest.nlargest(most_groups).index)):
        for index, column in enumerate(columns):
            label = fill(_NAMES.get(column, column.removeprefix(SHARE)), 20)
            style = series_style(index)
            color = style.color
            axis.plot(rows["iteration"], rows[column], ls=style.dash, color=color, label=label)
            for is_kept, face in ((True, color), (False, "white")):
                part = rows[rows["kept"] == is_kept]
                axis.plot(
                    *(part["iteration"], part[column], "o"),
                    **{"color": color, "markerfacecolor": face},
                )
            if column in targets:
                axis.axhline(targets[column], color=color, linewidth=0.7, alpha=0.7, zorder=1)
        axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    despine(above, below)
    above.set_title(fill(f"query {qid}: {rows['query'].iloc[0]}", 64), fontsize="medium")
    above.set_ylabel("divergence and quality")
    below.set_ylabel("share of exposure" + ("; thin: target" if targets else ""))
    below.set_xlabel("iteration (hollow: not kept)")
    below.set_xticks(rows["iteration"].tolist())
    return figure
