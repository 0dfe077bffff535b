"""What FAIR-QR returns: rankings, the trace of the loop, and the queries without a result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import DataWarning, NotFoundError, ParameterError, listed
from fairtk.exposure import BrowsingModel
from fairtk.frames import DOCNO, LABEL, QID, QUERY, require
from fairtk.groups import Divergence, Groups, Target
from fairtk.io import frame_html, new_figure, open_axes, series
from fairtk.llm import (
    ChatModel,
    Estimate,
    Refinement,
    RefinementPromptLike,
    as_chat_model,
    as_refinement_prompt,
)
from fairtk.plugins import as_divergence, as_position_model
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.collection import Tokens, dropped_words, index_tokens
from fairtk.transformers.fair_qr.loop import (
    RULES,
    SHARE,
    Loop,
    Progress,
    RelevanceMeter,
    ShareMeter,
    asked,
    bare_rankings,
    estimate_at_most,
    label_texts,
    refine,
    topics_by_qid,
    trace_frame,
    with_topics,
)
from fairtk.transformers.fair_qr.ordering import DEEP, EXPOSURE, Ordering, chosen_lists


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


def missing_frame(queries: Sequence[Progress]) -> pd.DataFrame:
    """Return the queries without a result, and why."""
    rows = [(q.qid, q.steps[-1].iteration, q.missing) for q in queries if q.missing]
    return pd.DataFrame(rows, columns=["qid", "iteration", "reason"])


def warn_of_dropped(queries: Sequence[Progress], tokens: Tokens | None) -> None:
    """Warn of added words that the retriever drops."""
    if tokens is None:
        return
    found: dict[str, list[str]] = {}
    for query in queries:
        texts = " ".join(step.query for step in query.steps if step.iteration)
        original = set(dropped_words(query.original, tokens))
        for word in dropped_words(texts, tokens):
            if word not in original:
                found.setdefault(word, []).append(query.qid)
    if found:
        qids = {qid for own in found.values() for qid in own}
        warnings.warn(
            f"FairQR: the retriever drops words that were added for {len(qids)} of {len(queries)} "
            f"queries, mostly as stop words: {listed(sorted(found))}; they find nothing, so leave "
            "them out of the table of terms or the prompt",
            DataWarning,
            stacklevel=4,
        )


def warn_of_gaps(queries: Sequence[Progress], missing: pd.DataFrame, depth: int) -> None:
    """Warn of queries without a result, and of those that could not be measured."""
    told = []
    if len(missing):
        reasons = [f"{q}: {r}" for q, r in zip(missing["qid"], missing["reason"], strict=True)]
        told.append(
            f"{len(missing)} of {len(queries)} queries have no result, because they could not be "
            f"refined ({listed(reasons, 5)}); see .missing"
        )
    for what, who, ids in (
        (f"no document of the top {depth} has a group", "groups and retriever", "docnos"),
        ("there is no target", "target and topics", "qids"),
    ):
        kept = [q.qid for q in queries if len(q.steps) == 1 and q.steps[0].note == what]
        if kept:
            told.append(
                f"{what} for {len(kept)} of {len(queries)} queries ({listed(kept)}), which keep "
                f"their first ranking; check that {who} use the same {ids}"
            )
    for text in told:
        warnings.warn(f"FairQR: {text}", DataWarning, stacklevel=5)


_CALL = ("prompt_tokens", "completion_tokens", "seconds")


@dataclass(frozen=True)
class LookingBack:
    """Measures the lists of a loop.

    Attributes:
        meter: measures the groups' shares.
        qrels: for nDCG; None: it is not measured.
        again: whether lists are measured as they would be returned, too.
    """

    meter: ShareMeter
    qrels: pd.DataFrame | None
    again: bool

    @property
    def columns(self) -> list[str]:
        """The measured values of each step, as columns of the trace."""
        shares = [f"{SHARE}{level}" for level in label_texts(self.meter)]
        judged = ["nDCG"] if self.qrels is not None else []
        after = ["AWRF_reranked", *(f"{name}_reranked" for name in judged)] if self.again else []
        return ["divergence", "AWRF", *judged, *after, "retrieved", *shares, *_CALL]

    def back(
        self,
        queries: Sequence[Progress],
        runs: Sequence[pd.DataFrame],
        pool: str,
        returned: Callable[[dict[str, list[int]]], pd.DataFrame],
    ) -> pd.DataFrame:
        """Return the trace, with the values of each iteration's lists in the steps of its queries.

        Args:
            queries: the loops.
            runs: the rankings of each iteration.
            pool: which lists are returned.
            returned: the rankings that lists, by qid, are returned as.
        """
        judge = None
        if self.qrels is not None:
            judge = RelevanceMeter(self.qrels, self.meter.depth, self.meter.browsing)
        for iteration, run in enumerate(runs):
            reached = [q for q in queries if q.steps[-1].iteration >= iteration]
            there = [q for q in reached if q.at(iteration).query]
            qids = np.array([q.qid for q in there], dtype=object)
            found: dict[str, Any] = {}
            if judge is not None:
                found["nDCG"] = judge.measure(run, qids)
            if self.again:
                kept = {q.qid: [i for i in q.kept if i < iteration] for q in there}
                lists = {
                    q: chosen_lists([*earlier, iteration], pool) for q, earlier in kept.items()
                }
                ranked = returned(lists)
                found["AWRF_reranked"] = self.meter.measure(ranked, qids).awrf
                if judge is not None:
                    found["nDCG_reranked"] = judge.measure(ranked, qids)
            for name, values in found.items():
                for query, value in zip(there, values.tolist(), strict=True):
                    values_of = query.at(iteration).values
                    if not math.isnan(values_of.get("AWRF", math.nan)):
                        values_of[name] = value
        return trace_frame(queries, self.columns)


_NAMES = {"nDCG_reranked": "nDCG re-ranked"}


def plot_trace(trace: pd.DataFrame, qid: str, most_groups: int = 8) -> Any:
    """Return a figure: divergence, AWRF and nDCG above, the groups' shares below, by iteration.

    Lists that were not kept are hollow.

    Args:
        trace: `fairtk.FairQR.trace`.
        qid: the query.
        most_groups: how many groups are drawn: those with the largest shares.

    Raises:
        NotFoundError: the trace does not have the query.
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure((8.5, 6), "plot_trace")
    rows = trace[(trace["qid"] == str(qid)) & trace["retrieved"].notna()]
    if rows.empty:
        raise NotFoundError("query of the trace", qid, trace["qid"].unique())
    above, below = figure.subplots(2, 1, sharex=True)
    names = [n for n in ("divergence", "AWRF", "nDCG", "nDCG_reranked") if n in rows.columns]
    shares = [c for c in rows.columns if c.startswith(SHARE)]
    largest = rows[shares].max().fillna(0.0).nlargest(most_groups).index
    for axis, columns in ((above, names), (below, list(largest))):
        for place, column in enumerate(columns):
            label = _NAMES.get(column, column.removeprefix(SHARE))
            own = series(place)
            axis.plot(rows["iteration"], rows[column], ls=own.dash, color=own.color, label=label)
            for kept, fill in ((True, own.color), (False, "white")):
                part = rows[rows["kept"] == kept]
                axis.plot(
                    *(part["iteration"], part[column], "o"),
                    **{"color": own.color, "markerfacecolor": fill},
                )
        axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    open_axes(above, below)
    above.set_title(f"query {qid}: {rows['query'].iloc[0]}", fontsize="medium")
    below.set_ylabel("share of exposure")
    below.set_xlabel("iteration (hollow: not kept)")
    below.set_xticks(rows["iteration"].tolist())
    return figure


_MOST_GROUPS = 1 << 10


class FairQR(FairTransformer):
    """Q -> R: FAIR-QR's whole loop (Chen & Fang 2025, arXiv 2503.21092).

    Retrieve; measure the groups' shares of exposure in the top `depth`; while their divergence from
    the target is above `threshold`, choose the group that lacks most, ask for refined keywords,
    retrieve again. A query's loop ends when the divergence does not fall; the best list is put in
    the order of the original query. Queries step together, their calls overlap. The target is
    known before the search: made from judgments it is an oracle. A query whose call fails finally
    is missing, and named; one that cannot be measured keeps its first list (`trace` says why).

    The paper leaves much open; these are the defaults here, and why:

    Args:
        retriever: Q -> R; its columns are kept.
        groups: the groups of the documents.
        target: the exposure that they should have.
        llm: a `fairtk.llm.ChatModel`, or what `fairtk.llm.as_chat_model` takes.
        depth: ranks that are measured; 20, the cutoff of the paper's evaluation.
        k: documents of each kept list that are pooled; None: `depth`, or 200 by exposure. Ordered
            by relevance, much more brings the first list back.
        threshold: divergence that is near enough; 0.05 is about KL(0.65, 0.35 || a half each).
        max_iterations: the most refinements of a query; 5 as in the paper. 0: none.
        temperature: of the model, 0.3 as in the paper; None: the model's own.
        choose: ``"difference"``: the largest target - share, never the unknown group; ``"ratio"``:
            the largest target / share, which takes tiny groups without exposure first.
        divergence: ``"kl"``, KL(shares || target), as the paper writes its arguments;
            ``"reverse-kl"``; ``"js"``; a plugin's; or a `fairtk.groups.Divergence`.
        smoothing: share in [0, 1) of a uniform distribution mixed into both before KL, so that no
            group makes it infinite; 0.01 moves no share by more.
        pool: ``"last"``: the kept list, which fits the paper's numbers best; ``"refined"``: all
            kept lists but the first; ``"union"``: these and the first; None: ``"last"``, or
            ``"union"`` by exposure.
        rerank: ``"relevance"`` (or True): the pool is ordered by the original query; False: not;
            ``"exposure"``, not the paper's: by relevance to it times closeness to the target.
        reranker: R -> R; None: the scores of the first retrieval, what it lacks last.
        weight: by exposure: of closeness, 0 or above; see `fairtk.transformers.fair_qr.ordering`.
        floor: by exposure: the share of the expected relevance of the order by relevance, 0 to 1,
            that is never given up.
        prompt: a name or a refinement prompt; see `fairtk.llm.refinement`.
        qrels: ``qid``, ``docno``, ``label``: adds nDCG to the trace, and changes nothing else.
        browsing: attention of each rank, without a cascade: ``"RBP(p=0.8)"``; the track's.
        unlabeled: what becomes of documents without groups; see `fairtk.Groups.memberships`.
        split: whether a document of several groups is divided among them.
        failed: ``"missing"``, or ``"keep"``: a query whose call failed keeps the list it has.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: the target does not fit the groups.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = (
        *("retriever", "groups", "target", "llm", "depth", "k", "threshold", "max_iterations"),
        *("temperature", "choose", "divergence", "smoothing", "pool", "rerank", "reranker"),
        *("weight", "floor"),
        *("prompt", "qrels", "browsing", "unlabeled", "split", "failed"),
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
    ) -> None:
        super().__init__()
        rerank = "relevance" if rerank is True else rerank
        exposed = rerank == EXPOSURE
        pool = ("union" if exposed else "last") if pool is None else pool
        self._ordering = Ordering(rerank, pool, reranker, weight, floor)
        for name, value, known in (
            ("choose", choose, RULES),
            ("unlabeled", unlabeled, ("drop", "unknown", "uniform")),
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
        self.depth = checks.whole("depth", depth, "FairQR")
        deep = max(DEEP, self.depth) if exposed else self.depth
        self.k = deep if k is None else checks.whole("k", k, "FairQR")
        self.threshold = float(threshold)
        self.max_iterations = checks.whole("max_iterations", max_iterations, "FairQR", least=0)
        self.temperature = temperature
        self.choose = choose
        self.divergence = as_divergence(divergence, "FairQR", smoothing=smoothing)
        self.smoothing = float(smoothing)
        self.pool = pool
        self.rerank = rerank
        self.reranker = reranker
        self.weight = float(weight)
        self.floor = float(floor)
        self.prompt = as_refinement_prompt(prompt, "FairQR")
        if qrels is not None:
            require(qrels, [QID, DOCNO, LABEL], "FairQR: qrels")
        self.qrels = qrels
        self.browsing = as_position_model(browsing, "FairQR")
        self.unlabeled = unlabeled
        self.split = bool(split)
        self.failed = failed
        self._last: Outcome | None = None
        if self._ordering.no_op:
            warnings.warn(
                "FairQR: pool='union' re-ranked by the retriever's own scores gives back the "
                "ranking of the original query; use pool='last' or 'refined', or another reranker",
                DataWarning,
                stacklevel=2,
            )

    @property
    def trace(self) -> pd.DataFrame:
        """What the last call did, one row per query and iteration; `refine` returns it, too.

        ``qid``, ``iteration`` (0: the original query), ``query``, ``added``, ``dropped`` (words,
        against the keywords that were refined), ``group`` (that was asked for), ``divergence``,
        ``AWRF`` (at `depth`), ``retrieved`` (documents in the top `depth`), the groups' shares of
        exposure (``share:<level>``), with `qrels` ``nDCG`` (the track's, at `depth`), the same
        after re-ranking (``AWRF_reranked``, ``nDCG_reranked``; with a `reranker` only if there are
        qrels), ``prompt_tokens``, ``completion_tokens``, ``seconds`` (of the call, as recorded),
        ``kept``, ``note``.
        """
        return trace_frame([], self._looking().columns) if self._last is None else self._last.trace

    @property
    def missing(self) -> pd.DataFrame:
        """The queries of the last call without a result: ``qid``, ``iteration``, ``reason``."""
        return missing_frame([]) if self._last is None else self._last.missing

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query; what else came of it is in `trace` and `missing`.

        Args:
            inp: queries (Q), one row each; other columns are kept.

        Raises:
            InputError: as `refine`.
            LLMError: as `refine`.
        """
        self._last = self.refine(inp)
        return self._last.run

    def refine(self, topics: pd.DataFrame) -> Outcome:
        """Return rankings, trace and missing queries; nothing is kept on the transformer.

        Args:
            topics: queries (Q), one row each; other columns are kept.

        Raises:
            ColumnError: a column is missing.
            DuplicateError: a qid occurs twice.
            InputError: a query is missing, or the retriever's rankings are broken.
            LLMError, BudgetError, OfflineError: the model cannot be asked; what was answered is in
                its ledger.
        """
        self.check_inputs(topics, [QID, QUERY])
        asked_for = topics_by_qid(topics, "FairQR")
        looking = self._looking()
        loop = Loop(
            partial(self._retrieve, asked_for),
            lambda requests: refine(self.llm, self.prompt, requests),
            looking.meter,
            self.threshold,
            self.max_iterations,
            self.choose,
            self.failed == "keep",
            index_tokens(self.retriever),
        )
        queries, runs = loop.run(list(asked_for.index), asked_for[QUERY].tolist())
        order = partial(self._ordering.order, runs, self.k, asked_for, looking.meter)
        ranked = order({q.qid: chosen_lists(q.kept, self.pool) for q in queries if not q.missing})
        missing = missing_frame(queries)
        warn_of_gaps(queries, missing, self.depth)
        warn_of_dropped(queries, loop.tokens)
        look = partial(looking.back, queries, runs, self.pool, order)
        return Outcome(with_topics(ranked, asked_for), missing, loop.waited, look)

    def estimate(self, topics: pd.DataFrame) -> Estimate:
        """Return the calls, tokens and price that queries take at most, without any call.

        Every query is counted with `max_iterations` refinements, and nothing as recorded: which
        groups will be asked for is not known before. Not counted: up to two refinements of a query
        that the index does not see, and that are asked for again.

        Args:
            topics: queries (Q).
        """
        texts = topics_by_qid(topics, "FairQR")[QUERY].tolist()
        group = max(label_texts(self._looking().meter), key=len)
        requests = [Refinement(text, text, (group,), self.groups.name) for text in texts]
        return estimate_at_most(self.llm, self.prompt, requests, self.max_iterations)

    def plot_trace(self, qid: str) -> Any:
        """Return a matplotlib figure of one query's loop; see `trace`.

        Raises:
            NotFoundError: the trace does not have the query.
            MissingExtraError: matplotlib is not installed.
        """
        return plot_trace(self.trace, qid)

    def _looking(self) -> LookingBack:
        meter = ShareMeter(
            *(self.groups, self.target, self.depth, self.browsing),
            *(self.divergence, self.unlabeled, self.split),
        )
        again = bool(self.rerank) and (self.reranker is None or self.qrels is not None)
        return LookingBack(meter, self.qrels, again)

    def _retrieve(
        self, topics: pd.DataFrame, qids: Sequence[str], texts: Sequence[str], first: bool
    ) -> pd.DataFrame:
        """Return the rankings of queries, sorted, without the columns of the topics.

        Of the first ones all is kept, for its scores, of later ones what is looked at.
        """
        found = self.retriever.transform(asked(topics, qids, texts))
        most = None if first else max(self.k, self.depth)
        out = bare_rankings(found, topics, f"FairQR: the output of {self.retriever!r}", most)
        return out[out[QID].isin(list(qids))]
