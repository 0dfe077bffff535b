"""FAIR-QR: queries are refined until the groups' exposure is near its target."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, InputError, ParameterError, listed
from fairtk.exposure.browsing import TREC, BrowsingModel
from fairtk.fair_qr import (
    Loop,
    Progress,
    RelevanceMeter,
    ShareMeter,
    as_refinement_prompt,
    refine,
)
from fairtk.fair_qr.asking import estimate_at_most
from fairtk.fair_qr.choosing import RULES
from fairtk.fair_qr.frames import asked, bare_rankings, topics_by_qid, with_topics
from fairtk.fair_qr.loop import label_texts
from fairtk.fair_qr.pools import (
    POOLS,
    by_first_scores,
    chosen_lists,
    in_pool_order,
    pooled,
)
from fairtk.fair_qr.progress import SHARE, trace_frame
from fairtk.fair_qr.shares import DIVERGENCES
from fairtk.frames.columns import DOCNO, LABEL, QID, QUERY, require
from fairtk.groups import Groups, Target
from fairtk.llm import ChatModel, Estimate, as_chat_model
from fairtk.plugins import registry
from fairtk.prompts.refine import Refinement, RefinementPromptLike
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.settings import whole

_MOST_GROUPS = 1 << 10
_CALL = ("prompt_tokens", "completion_tokens", "seconds")


class FairQR(FairTransformer):
    """Q -> R: FAIR-QR's whole loop (Chen & Fang 2025, arXiv 2503.21092).

    Retrieve; measure the groups' shares e of exposure in the top `depth`; while their divergence
    from the target is above `threshold`, and at most `max_iterations` times, choose the group that
    lacks most, ask the model for refined keywords, retrieve again. The list with the lowest
    divergence is kept: the loop of a query ends when the divergence does not fall. Then what was
    kept is put in the order of the original query. All queries take a step together: one retrieval
    and one round of overlapping calls per iteration.

    The target is known before the search: made from relevance judgments it is an oracle. Output:
    the columns of the input (``query`` is the original one), what the retriever adds, ``docno``,
    ``score``, ``rank``; at most `k` documents of each pooled list.

    A query whose call fails finally, or whose answer holds no keywords, is missing from the result
    (``failed="missing"``), named by a `DataWarning` and in `missing`. Queries without a target, or
    without a group among the top documents, keep the first list; so does, for an earlier list, one
    whose refined query finds nothing. Fewer than `depth` documents are measured as they are. The
    notes in `trace` say all this.

    The paper leaves much open; these are the defaults here, and why:

    Args:
        retriever: Q -> R: PISA, Terrier, dense, learned sparse; its columns are kept.
        groups: the groups of the documents.
        target: the exposure that they should have.
        llm: a `fairtk.llm.ChatModel`, or what `fairtk.llm.as_chat_model` takes.
        depth: ranks that are measured; 20, the cutoff of the paper's evaluation.
        k: documents of each kept list that are pooled; None: `depth`. Much more than `depth` lets
            the re-ranking bring the first list back: a refined query that keeps the original words
            finds the first list's documents again, somewhere.
        threshold: divergence from which on a query is near enough. 0.05 is about KL(0.65, 0.35
            against a half each); the paper gives none.
        max_iterations: the most refinements of a query; 5 as in the paper. 0: none.
        temperature: of the model, 0.3 as in the paper; None: the model's own.
        choose: ``"difference"``: the group with the largest target - share; ``"ratio"``: the
            largest target / share, which always takes tiny groups without exposure first. The
            unknown group is never chosen.
        divergence: ``"kl"``: KL(shares || target), as the paper writes its arguments;
            ``"reverse-kl"``; ``"js"``: Jensen-Shannon, without smoothing.
        smoothing: share in [0, 1) of a uniform distribution mixed into both before KL, so that a
            group outside the target, or outside the list, does not make it infinite. 0.01 moves
            no share by more than 0.01.
        pool: what is returned: ``"last"``: the kept list alone, which fits the paper's numbers
            best; ``"refined"``: all lists kept but the first; ``"union"``: these and the first.
        rerank: whether the pool is ordered by the original query.
        reranker: R -> R; None: the retriever's scores of the first retrieval. Documents that it
            did not return come last, which is right if it goes much deeper than `k` (its
            ``num_results``, often 1,000).
        prompt: a name or a refinement prompt; see `fairtk.prompts.refine`.
        qrels: ``qid``, ``docno``, ``label``: adds nDCG to the trace, and changes nothing else.
        discount: attention of each rank: a browsing model without a cascade, or its name; the
            track's 1 / log2(max(rank, 2)).
        missing_groups: what becomes of documents without groups; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
        failed: ``"missing"``, or ``"keep"``: a query whose call failed keeps the list it has.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: the target does not fit the groups.

    With ``pool="union"`` and the retriever's own scores the re-ranking gives back the first list:
    a `DataWarning` says so.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("retriever", "groups", "target", "llm", "depth", "k", "threshold", "max_iterations"),
        *("temperature", "choose", "divergence", "smoothing", "pool", "rerank", "reranker"),
        *("prompt", "qrels", "discount", "missing_groups", "split", "failed"),
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
        divergence: str = "kl",
        smoothing: float = 0.01,
        pool: str = "last",
        rerank: bool = True,
        reranker: Any = None,
        prompt: str | RefinementPromptLike = "refine",
        qrels: pd.DataFrame | None = None,
        discount: str | BrowsingModel | None = None,
        missing_groups: str = "drop",
        split: bool = True,
        failed: str = "missing",
    ) -> None:
        super().__init__()
        for name, value, known in (
            ("choose", choose, RULES),
            ("divergence", divergence, DIVERGENCES),
            ("pool", pool, POOLS),
            ("missing_groups", missing_groups, ("drop", "unknown", "uniform")),
            ("failed", failed, ("missing", "keep")),
        ):
            if value not in known:
                raise ParameterError(f"FairQR: {name} must be one of {known}; found {value!r}")
        if not (isinstance(threshold, int | float) and threshold >= 0):
            raise ParameterError(f"FairQR: threshold must be 0 or above; found {threshold!r}")
        if not (isinstance(smoothing, int | float) and 0 <= smoothing < 1):
            raise ParameterError(f"FairQR: smoothing must lie in [0, 1); found {smoothing!r}")
        for name, stage in (("retriever", retriever), ("reranker", reranker)):
            if not hasattr(stage, "transform") and not (name == "reranker" and stage is None):
                raise ParameterError(f"FairQR: {name} must be a transformer; found {stage!r}")
        for name, given, kind in (("groups", groups, Groups), ("target", target, Target)):
            if not isinstance(given, kind):
                raise ParameterError(
                    f"FairQR: {name} must be a fairtk.{kind.__name__}; found {given!r:.80}"
                )
        self.retriever = retriever
        self.groups = groups
        self.target = target.for_groups(groups)
        if groups.space.size > _MOST_GROUPS:
            raise ParameterError(
                f"FairQR: {groups.name!r} has {groups.space.size} groups, and at most "
                f"{_MOST_GROUPS} can be asked for: cross fewer attributes"
            )
        model = as_chat_model(llm)
        self.llm: ChatModel = model if temperature is None else model.at_temperature(temperature)
        self.depth = whole("depth", depth, "FairQR")
        self.k = self.depth if k is None else whole("k", k, "FairQR")
        self.threshold = float(threshold)
        self.max_iterations = whole("max_iterations", max_iterations, "FairQR", least=0)
        self.temperature = temperature
        self.choose = choose
        self.divergence = divergence
        self.smoothing = float(smoothing)
        self.pool = pool
        self.rerank = bool(rerank)
        self.reranker = reranker
        self.prompt = as_refinement_prompt(prompt, "FairQR")
        if qrels is not None:
            require(qrels, [QID, DOCNO, LABEL], "FairQR: qrels")
        self.qrels = qrels
        self.discount = _browsing(discount)
        self.missing_groups = missing_groups
        self.split = bool(split)
        self.failed = failed
        self._traces: list[pd.DataFrame] = []
        self._lost: dict[str, tuple[int, str]] = {}
        if pool == "union" and self.rerank and reranker is None:
            warnings.warn(
                "FairQR: pool='union' re-ranked by the retriever's own scores gives back the "
                "ranking of the original query; use pool='last' or 'refined', or another reranker",
                DataWarning,
                stacklevel=2,
            )

    @property
    def trace(self) -> pd.DataFrame:
        """What was done, one row per query and iteration; queries done again replace their rows.

        ``qid``, ``iteration`` (0: the original query), ``query``, ``added``, ``dropped`` (words,
        against the keywords that were refined), ``group`` (that was asked for), ``divergence``,
        ``AWRF`` (at `depth`), ``retrieved`` (documents in the top `depth`), the groups' shares of
        exposure (``share:<level>``), with `qrels` ``nDCG`` (the track's, at `depth`), the same
        after re-ranking (``AWRF_reranked``, ``nDCG_reranked``; with a `reranker` only if there are
        qrels), ``prompt_tokens``, ``completion_tokens``, ``seconds`` (of the call, as recorded),
        ``kept``, ``note``.
        """
        if not self._traces:
            return trace_frame([], self._columns())
        return pd.concat(self._traces, ignore_index=True)

    @property
    def missing(self) -> pd.DataFrame:
        """The queries without a result: ``qid``, ``iteration``, ``reason``."""
        rows = [(qid, *found) for qid, found in self._lost.items()]
        return pd.DataFrame(rows, columns=["qid", "iteration", "reason"])

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query.

        Args:
            inp: queries (Q), one row each; other columns are kept.

        Raises:
            ColumnError: a column is missing.
            DuplicateError: a qid occurs twice.
            InputError: a query is missing, or the retriever's rankings are broken.
            LLMError, BudgetError, OfflineError: the model cannot be asked; what was answered is in
                its ledger.
        """
        self.check_inputs(inp, [QID, QUERY])
        topics = topics_by_qid(inp, "FairQR")
        loop = Loop(
            lambda qids, texts: self._retrieve(topics, qids, texts),
            lambda requests: refine(self.llm, self.prompt, requests),
            self._meter(),
            self.threshold,
            self.max_iterations,
            self.choose,
            self.failed == "keep",
        )
        queries, runs = loop.run(list(topics.index), topics[QUERY].tolist())
        self._look_back(queries, runs, topics)
        self._remember(queries)
        lists = {q.qid: chosen_lists(q.kept, self.pool) for q in queries if not q.missing}
        ranked = self._ordered(pooled(runs, lists, self.k), runs[0], topics)
        return with_topics(ranked, topics)

    def estimate(self, topics: pd.DataFrame) -> Estimate:
        """Return the calls, tokens and price that queries take at most, without any call.

        Every query is counted with `max_iterations` refinements, and nothing as recorded: which
        groups will be asked for is not known before.

        Args:
            topics: queries (Q).
        """
        texts = topics_by_qid(topics, "FairQR")[QUERY].tolist()
        group = max(label_texts(self._meter()), key=len)
        requests = [Refinement(text, text, (group,), self.groups.name) for text in texts]
        return estimate_at_most(self.llm, self.prompt, requests, self.max_iterations)

    def plot_trace(self, qid: str) -> Any:
        """Return a matplotlib figure of one query's loop; see `trace`.

        Raises:
            NotFoundError: the trace does not have the query.
            MissingExtraError: matplotlib is not installed.
        """
        from fairtk.fair_qr.plot import plot_trace

        return plot_trace(self.trace, qid)

    # Rankings ----------------------------------------------------------------------------------

    def _retrieve(
        self, topics: pd.DataFrame, qids: Sequence[str], texts: Sequence[str]
    ) -> pd.DataFrame:
        """Return the rankings of queries, sorted, without the columns of the topics."""
        found = self.retriever.transform(asked(topics, qids, texts))
        out = bare_rankings(found, topics, f"FairQR: the output of {self.retriever!r}")
        return out[out[QID].isin(list(qids))]

    def _ordered(
        self, pool: pd.DataFrame, first: pd.DataFrame, topics: pd.DataFrame
    ) -> pd.DataFrame:
        """Return a pool in its final order."""
        if not self.rerank:
            return pool if self.pool == "last" else in_pool_order(pool)
        if self.reranker is None:
            return by_first_scores(pool, first)
        where = f"FairQR: the output of {self.reranker!r}"
        found = self.reranker.transform(with_topics(in_pool_order(pool), topics))
        out = bare_rankings(found, topics, where)
        lost = set(pool[QID]) - set(out[QID])
        if lost:
            raise InputError(
                f"{where} has no documents for the qids {listed(sorted(lost))}; a reranker must "
                "keep every query"
            )
        return out

    # The trace ---------------------------------------------------------------------------------

    def _meter(self) -> ShareMeter:
        return ShareMeter(
            *(self.groups, self.target, self.depth, self.discount),
            *(self.divergence, self.smoothing, self.missing_groups, self.split),
        )

    def _columns(self) -> list[str]:
        shares = [f"{SHARE}{level}" for level in label_texts(self._meter())]
        judged = ["nDCG"] if self.qrels is not None else []
        again = ["AWRF_reranked", *(f"{name}_reranked" for name in judged)]
        after = again if self._looks_again() else []
        return ["divergence", "AWRF", *judged, *after, "retrieved", *shares, *_CALL]

    def _looks_again(self) -> bool:
        return self.rerank and (self.reranker is None or self.qrels is not None)

    def _look_back(
        self, queries: Sequence[Progress], runs: Sequence[pd.DataFrame], topics: pd.DataFrame
    ) -> None:
        """Measure the list of each iteration, and what it would be after re-ranking."""
        judge = None
        if self.qrels is not None:
            judge = RelevanceMeter(self.qrels, self.depth, self.discount)
        for iteration, run in enumerate(runs):
            there = [q for q in queries if len(q.steps) > iteration and q.steps[iteration].query]
            qids = np.array([q.qid for q in there], dtype=object)
            found: dict[str, Any] = {}
            if judge is not None:
                found["nDCG"] = judge.measure(run, qids)
            if self._looks_again():
                before = {q.qid: [i for i in q.kept if i < iteration] for q in there}
                lists = {
                    qid: chosen_lists([*kept, iteration], self.pool) for qid, kept in before.items()
                }
                ranked = self._ordered(pooled(runs, lists, self.k), runs[0], topics)
                found["AWRF_reranked"] = self._meter().measure(ranked, qids).awrf
                if judge is not None:
                    found["nDCG_reranked"] = judge.measure(ranked, qids)
            for name, values in found.items():
                for query, value in zip(there, values.tolist(), strict=True):
                    if not math.isnan(query.steps[iteration].values.get("AWRF", math.nan)):
                        query.steps[iteration].values[name] = value

    def _remember(self, queries: Sequence[Progress]) -> None:
        done = {query.qid for query in queries}
        kept = [trace[~trace[QID].isin(done)] for trace in self._traces]
        if queries:
            kept.append(trace_frame(queries, self._columns()))
        self._traces = [trace for trace in kept if len(trace)]
        self._lost = {qid: v for qid, v in self._lost.items() if qid not in done}
        lost = {q.qid: (q.steps[-1].iteration, q.missing) for q in queries if q.missing}
        self._lost |= lost
        self._warn(lost, queries)

    def _warn(self, lost: dict[str, tuple[int, str]], queries: Sequence[Progress]) -> None:
        if lost:
            reasons = [f"{qid}: {reason}" for qid, (_, reason) in lost.items()]
            warnings.warn(
                f"FairQR: {len(lost)} of {len(queries)} queries have no result, because they could "
                f"not be refined ({listed(reasons, 5)}); see .missing",
                DataWarning,
                stacklevel=4,
            )
        bare = (
            f"no document of the top {self.depth} has a group",
            "groups and retriever",
            "docnos",
        )
        for what, who, ids in (bare, ("there is no target", "target and topics", "qids")):
            kept = [q.qid for q in queries if len(q.steps) == 1 and q.steps[0].note == what]
            if kept:
                warnings.warn(
                    f"FairQR: {what} for {len(kept)} of {len(queries)} queries ({listed(kept)}), "
                    f"which keep their first ranking; check that {who} use the same {ids}",
                    DataWarning,
                    stacklevel=4,
                )


def _browsing(given: str | BrowsingModel | None) -> BrowsingModel:
    model = TREC() if given is None else given
    if isinstance(model, str):
        model = registry.browsing_models.get(model)()
    if not isinstance(model, BrowsingModel) or model.stop > 0:
        raise ParameterError(
            "FairQR: discount must be a browsing model whose reader does not stop at useful "
            f"documents, such as TREC, DCG or RBP(p=0.8); found {given!r}"
        )
    return model
