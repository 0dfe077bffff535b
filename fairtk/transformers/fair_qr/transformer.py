"""`FairQR`: the whole loop as a transformer, its settings, and a figure of its trace."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import pandas as pd

from fairtk import checks
from fairtk.errors import DataWarning, NotFoundError, ParameterError
from fairtk.exposure import BrowsingModel
from fairtk.frames import DOCNO, LABEL, QID, QUERY, require
from fairtk.groups import Divergence, Groups, Target
from fairtk.io import new_figure, open_axes, series
from fairtk.llm import (
    ChatModel,
    Estimate,
    Prices,
    Recorded,
    Refinement,
    RefinementPromptLike,
    as_chat_model,
    as_refinement_prompt,
    estimate,
)
from fairtk.plugins import as_divergence, as_position_model
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.fair_qr.keywords import topics_by_qid
from fairtk.transformers.fair_qr.loop import RULES, SHARE, Loop, Meter, Outcome, trace_frame
from fairtk.transformers.fair_qr.ordering import DEEP, EXPOSURE, POOLS, RELEVANCE, Ordering

UNLABELED = ("drop", "unknown", "uniform")
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
        where = "FairQR"
        for name, stage in (("retriever", retriever), ("reranker", reranker)):
            if not hasattr(stage, "transform") and not (name == "reranker" and stage is None):
                raise ParameterError(f"{where}: {name} must be a transformer; found {stage!r}")
        for name, value, kind in (("groups", groups, Groups), ("target", target, Target)):
            if not isinstance(value, kind):
                raise ParameterError(
                    f"{where}: {name} must be a fairtk.{kind.__name__}; found {value!r:.80}"
                )
        self.retriever = retriever
        self.groups = groups
        self.target = target.for_groups(groups)
        if groups.space.size > _MOST_GROUPS:
            raise ParameterError(
                f"{where}: {groups.name!r} has {groups.space.size} groups, and at most "
                f"{_MOST_GROUPS} can be asked for: cross fewer attributes"
            )
        model = as_chat_model(llm)
        self.llm: ChatModel = model if temperature is None else model.at_temperature(temperature)
        self.depth = checks.whole("depth", depth, where)
        self.rerank = RELEVANCE if rerank is True else rerank
        if self.rerank is not False and self.rerank not in (RELEVANCE, EXPOSURE):
            raise ParameterError(
                f"{where}: rerank must be True, False, 'relevance' or 'exposure'; found {rerank!r}"
            )
        exposed = self.rerank == EXPOSURE
        deep = max(DEEP, self.depth) if exposed else self.depth
        self.k = deep if k is None else checks.whole("k", k, where)
        self.threshold = checks.number("threshold", threshold, where, rule="be 0 or above")
        self.max_iterations = checks.whole("max_iterations", max_iterations, where, least=0)
        self.temperature = temperature
        self.choose = checks.choice("choose", choose, RULES, where)
        self.smoothing = checks.number("smoothing", smoothing, where, 0, 1, "[)")
        self.divergence = as_divergence(divergence, where, smoothing=smoothing)
        usual = "union" if exposed else "last"
        self.pool = usual if pool is None else checks.choice("pool", pool, POOLS, where)
        self.reranker = reranker
        self.weight = checks.number(
            "weight", weight, where, rule="be a finite number of 0 or above"
        )
        self.floor = checks.number("floor", floor, where, 0, 1, rule="be in [0, 1]")
        self.prompt = as_refinement_prompt(prompt, where)
        if qrels is not None:
            require(qrels, [QID, DOCNO, LABEL], "FairQR: qrels")
        self.qrels = qrels
        self.browsing = as_position_model(browsing, where)
        self.unlabeled = checks.choice("unlabeled", unlabeled, UNLABELED, where)
        self.split = bool(split)
        self.failed = checks.choice("failed", failed, ("missing", "keep"), where)
        again = bool(self.rerank) and (reranker is None or qrels is not None)
        meter = Meter(
            *(self.groups, self.target, self.depth, self.browsing, self.divergence),
            *(self.unlabeled, self.split, self.qrels, again),
        )
        self.ordering = Ordering(
            *(meter, self.rerank, self.pool, self.k, self.reranker, self.weight, self.floor)
        )
        self._last: Outcome | None = None
        if (self.pool, self.rerank, self.reranker) == ("union", RELEVANCE, None):
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
        if self._last is None:
            return trace_frame([], self.ordering.meter.columns)
        return self._last.trace

    @property
    def missing(self) -> pd.DataFrame:
        """The queries of the last call without a result: ``qid``, ``iteration``, ``reason``."""
        if self._last is None:
            return pd.DataFrame(columns=["qid", "iteration", "reason"])
        return self._last.missing

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

    def transform_with_notes(
        self, inp: pd.DataFrame
    ) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
        """Return the rankings, and what an experiment keeps of each query, as JSON values.

        By qid ``waited``, an even share of the seconds of waiting for the model, and ``trace``, the
        query's rows of `trace`. Arguments and errors are those of `transform`.
        """
        run = self.transform(inp)
        waited = 0.0 if self._last is None else self._last.waited / max(1, len(inp))
        notes = {
            str(qid): {"waited": waited, "trace": rows.to_dict("records")}
            for qid, rows in self.trace.groupby(QID, sort=False)
        }
        return run, notes

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
        return Loop(self, topics_by_qid(topics, "FairQR")).run()

    def estimate(self, topics: pd.DataFrame) -> Estimate:
        """Return the calls, tokens and price that queries take at most, without any call.

        Every query is counted with `max_iterations` refinements, and nothing as recorded: which
        groups will be asked for is not known before. Not counted: up to two refinements of a query
        that the index does not see, and that are asked for again.

        Args:
            topics: queries (Q).
        """
        texts = topics_by_qid(topics, "FairQR")[QUERY].tolist()
        group = max(self.ordering.meter.levels, key=len)
        requests = [Refinement(text, text, (group,), self.groups.name) for text in texts]
        chats = [self.prompt(request) for request in requests] * self.max_iterations
        if isinstance(self.llm, Recorded):  # the ledger's prices count
            return estimate(self.llm.llm, chats, 0, self.llm.ledger.prices)
        return estimate(self.llm, chats, 0, Prices())

    def plot_trace(self, qid: str) -> Any:
        """Return a matplotlib figure of one query's loop; see `trace`.

        Raises:
            NotFoundError: the trace does not have the query.
            MissingExtraError: matplotlib is not installed.
        """
        return plot_trace(self.trace, qid)


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
            for filled, fill in ((True, own.color), (False, "white")):
                part = rows[rows["kept"] == filled]
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
