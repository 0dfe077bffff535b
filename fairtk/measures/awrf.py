"""AWRF: attention-weighted rank fairness; nDCG x AWRF and the nDCG of TREC Fair Ranking 2022."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from ir_measures import nDCG

from fairtk.errors import InputError, ParameterError, listed, warn
from fairtk.exposure import TREC, BrowsingModel, attention, average, normalized_gain
from fairtk.frames import CREDIT, DOCNO, QID, BoolArray, FloatArray, IntArray
from fairtk.groups.distances import (
    SparseRows,
    document_attention,
    group_exposure,
    jensen_shannon_bounds,
    js_divergence,
)
from fairtk.groups.groups import coverage_of, unreachable
from fairtk.measures.base import FairMeasure, Judged
from fairtk.measures.composed import E
from fairtk.measures.params import (
    AMORTIZE,
    CUTOFF,
    GROUPS,
    TARGET,
    UNLABELED,
    ObjectParam,
    Param,
    count,
)
from fairtk.plugins import read_browsing, registry

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target

BASE = Param((str, int, float), default="e", desc="base of the logarithm: 'e' (TREC) or 2")
OF = Param(
    str,
    default="exposure",
    choices=("exposure", "credit"),
    desc="what is shared out: exposure of ranks, or the credit of a frame C (see AE_D)",
    later=True,
)
TREC_BROWSING = ObjectParam(
    read_browsing, BrowsingModel, default=TREC(), desc="browsing model: attention of each rank"
)


class AttentionWeightedRankFairness(FairMeasure):
    """How close the groups' shares of attention are to a target distribution.

    1 - JSD(exposure of the groups, target), with the attention of each rank spread over the groups
    of its document (Sapiezynski et al. 2019; TREC Fair Ranking 2022, Task 1). Higher is closer to
    the target. With natural logarithm (the track's) in [1 - ln 2, 1] = [0.307, 1]; with
    ``base=2`` in [0, 1]. Documents without a row in the groups are dropped, as in the track, and
    the others keep their ranks; `unlabeled` has other policies, among them the ``best`` and
    ``worst`` value over all ways to complete what is unknown. On a sampled run exposure is
    averaged over samples before it is compared (``amortize=True``); otherwise the value of each
    sample is averaged, and a policy gets no credit for evening out over time.

    Undefined (NaN) for a query without a target, or with no labeled document in its ranking (of
    samples: in all of them, with ``amortize=False`` in one). A query that the run lacks gets 0. It
    compares with a target that somebody chose, on labels that have limits of their own; it does not
    say that the target is right.
    """

    identity_name = "fairtk.AWRF"
    output_version = 1
    NAME = "AWRF"
    PRETTY_NAME: ClassVar[str] = "Attention-weighted rank fairness"
    CITATION: ClassVar[str] = "sapiezynski2019quantifying ekstrand2022overview"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": CUTOFF,
        "groups": GROUPS,
        "target": TARGET,
        "base": BASE,
        "browsing": TREC_BROWSING,
        "unlabeled": UNLABELED,
        "amortize": AMORTIZE,
        "of": OF,
    }

    def check_params(self) -> None:
        """Raise if groups and target do not fit, or the base is none."""
        if self.settings["of"] == "credit":
            self.RUN_COLUMNS = (QID, DOCNO, CREDIT)  # type: ignore[misc]
            for name in ("cutoff", "browsing", "amortize"):
                if name in self.params:
                    raise ParameterError(
                        f"AWRF: {name} is about ranks, and of='credit' has none; drop it"
                    )
        base = self.settings["base"]
        if base != "e" and (isinstance(base, str) or base <= 1):
            raise ParameterError(f"AWRF: base must be 'e' or a number above 1; found {base!r}")
        if "groups" in self.params and "target" in self.params:
            self.target_for(self.groups)

    @property
    def groups(self) -> Groups:
        """The groups."""
        groups: Groups = self.needed("groups", "groups: write AWRF(groups=..., target=...)@20")
        return groups

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X: unless it compares the samples one by one."""
        return bool(self.settings["amortize"])

    @property
    def labels_for(self) -> str:
        """What it needs relevance labels for: a cascade alone stops at useful documents."""
        cascade = self.settings["browsing"].stop > 0
        return f"browsing={str(self['browsing'])!r} stops at useful documents" if cascade else ""

    def target_for(self, groups: Groups) -> Target:
        """Return the target over the levels of the groups."""
        target: Target = self.needed(
            "target",
            "a target: write AWRF(groups=..., target=...)@20, e.g. with "
            "target=Target.uniform(groups) or Target.from_qrels(qrels, groups)",
        )
        return target.for_groups(groups)

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the value of each query."""
        groups, target = self.groups, self.target_for(self.groups)
        judged, undefined = self.shared_out(judged)
        ranked = judged.run
        n_queries = len(judged.qids)
        rows_query = judged.query_of_run
        if not self.settings["amortize"]:
            rows_query = rows_query[ranked.ranking_query]
        unlabeled = self.settings["unlabeled"]
        policy = "bounds" if unlabeled in ("best", "worst") else unlabeled
        memberships = groups.memberships(ranked.docnos, policy)
        fairness = self._fairness(judged, memberships, target, rows_query)
        value = np.where(judged.present, average(rows_query, fairness, n_queries), self.MISSING)
        why = "no ranking of it has defined credit"
        self.warn_undefined(judged.qids[undefined], n_queries, why)
        untargeted = _untargeted(judged, target, value)
        self.warn_undefined(judged.qids[untargeted], n_queries, "there is no target")
        without = np.isnan(value) & ~untargeted
        why = "none of the documents in the ranking has a group"
        self.warn_undefined(judged.qids[without], n_queries, why)
        value[untargeted | undefined] = np.nan
        lost, levels = unreachable(groups, target.distributions)
        if levels:
            warn(
                f"{self!r}: up to {lost:.2g} of the target lies on groups that no document has, "
                f"so that no ranking reaches 1 ({len(levels)} such: {listed(levels, 3)})"
            )
        warn_of_thin_labels(self, judged, groups, memberships if unlabeled == "drop" else None)
        return value

    def shared_out(self, judged: Judged) -> tuple[Judged, BoolArray]:
        """Return the run whose scores or ranks are shared out, and the queries without any.

        With ``of="credit"`` its scores are the expected credit of documents.
        """
        if self.settings["of"] == "exposure":
            return judged, np.zeros(len(judged.qids), dtype=bool)
        # through the registry, because fairtk.credit is an optional subpackage
        shared: tuple[Judged, BoolArray] = registry.measures.get("AE_D").expected_credit(
            judged, repr(self)
        )
        return shared

    def _fairness(
        self, judged: Judged, memberships: SparseRows, target: Target, rows_query: IntArray
    ) -> FloatArray:
        settings, space = self.settings, target.space
        unlabeled, base = settings["unlabeled"], settings["base"]
        documents = document_attention(
            judged.run, self.attention_of(judged), amortize=settings["amortize"]
        )
        system = group_exposure(documents, memberships)
        masses = target.for_qids(judged.qids[rows_query])
        if unlabeled not in ("best", "worst"):
            return 1.0 - js_divergence(system, masses, base)
        labeled = space.known(np.arange(space.size))
        free = documents @ self.groups.unknown_shares(judged.run.docnos)
        lowest, highest = jensen_shannon_bounds(system, free, masses, labeled, base)
        return 1.0 - (lowest if unlabeled == "best" else highest)

    def attention_of(self, judged: Judged) -> FloatArray:
        """Return the attention of each sorted row of the run; shape (n_rows,)."""
        model, useful = self.settings["browsing"], None
        if self.settings["of"] == "credit":
            credit: FloatArray = judged.run.scores[judged.run.order]
            return credit
        if judged.exact is not None:
            return judged.exposure_of_rows(self.text, model, self.settings["cutoff"])
        if model.stop > 0:
            useful = (judged.pair_label > 0)[judged.pair_of_row]
        return attention(judged.run, model, self.settings["cutoff"], useful)


def _untargeted(judged: Judged, target: Target, value: FloatArray) -> BoolArray:
    """Return which queries have no target, of those that may lack one; shape (n_queries,)."""
    untargeted = np.isnan(value) | ~judged.present
    some = np.flatnonzero(untargeted)
    untargeted[some] = target.for_qids(judged.qids[some]).total() == 0
    return untargeted


def warn_of_thin_labels(
    measure: FairMeasure, judged: Judged, groups: Groups, memberships: Any = None
) -> None:
    """Warn, with counts, of queries where under half of the ranks have a known group.

    Args:
        measure: the measure; its cutoff says which ranks are looked at.
        judged: the run.
        groups: the groups.
        memberships: those of ``judged.run.docnos`` with ``unlabeled="drop"``, if they are at
            hand; they are looked up otherwise.
    """
    coverage = coverage_of(groups, judged.run, measure["cutoff"], memberships)
    thin = coverage[coverage["label_share"] < 0.5]
    if len(thin):
        worst = thin.loc[thin["label_share"].idxmin()]
        warn(
            f"{measure!r}: groups are known for under half of the documents of {len(thin)} of "
            f"{len(coverage)} queries ({listed(thin['qid'].tolist(), 3)}; {worst['with_label']} "
            f"of {worst['retrieved']} for qid {worst['qid']!r}); see groups.coverage(run)"
        )


AWRF = AttentionWeightedRankFairness()
AWRF_PARAMS = {k: v for k, v in AWRF.SUPPORTED_PARAMS.items() if k != "cutoff"}
"""The parameters of AWRF other than the cutoff, for measures that contain it."""


IDEAL = Param(
    int,
    default=500,
    desc="without @k: number of documents that were asked for, which the ideal ranking has",
    check=count,
)
REL = Param((int, float), default=1, desc="smallest label of a useful document")


class TRECnDCG(FairMeasure):
    """How relevant a ranking is, by the discounted cumulative gain of TREC Fair Ranking 2022.

    Binary gains, discount 1 / log2(max(rank, 2)) with ranks from 1, so that the first two ranks
    weigh the same; the ideal ranking has the length that was asked for (``@k``, or `ideal` without
    a cutoff) even where the run is shorter (Task 1 guidelines and metric code). trec_eval's nDCG
    uses 1 / log2(rank + 1) and gives other numbers. In [0, 1], higher is better. On a sampled run,
    the mean over samples. A query without a useful document is undefined (NaN); one that the run
    lacks gets 0. Without a cutoff, a ranking longer than `ideal` is an error, as in the track.
    """

    identity_name = "fairtk.nDCG_TREC"
    output_version = 1
    NAME = "nDCG_TREC"
    PRETTY_NAME: ClassVar[str] = "nDCG (TREC Fair Ranking 2022)"
    CITATION: ClassVar[str] = "ekstrand2022overview"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {"cutoff": CUTOFF, "ideal": IDEAL, "rel": REL}

    takes_exposure = True

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the value of each query."""
        ranked, cutoff = judged.run, self["cutoff"]
        n_queries = len(judged.qids)
        useful = judged.pair_label >= self["rel"]  # unjudged: NaN, not useful
        length = cutoff if cutoff is not None else self["ideal"]
        beyond = np.flatnonzero(ranked.position >= length)
        if cutoff is None and len(beyond):
            raise InputError(
                f"{self!r}: a ranking is longer than the {length} documents asked for "
                f"({ranked.describe(int(beyond[0]))}); set the cutoff, e.g. {self.NAME}@{length}"
            )
        n_useful = np.bincount(judged.pair_query[useful], minlength=n_queries)
        if judged.exact is not None:
            weight = judged.exposure_of_rows(self.text, TREC(), cutoff)
        else:
            weight = attention(ranked, TREC(), cutoff)
        hit = useful[judged.pair_of_row]
        value = normalized_gain(ranked, hit, judged.query_of_run, n_useful, TREC(), weight, length)
        empty = judged.qids[n_useful == 0]
        self.warn_undefined(empty, n_queries, "no useful document in the labels")
        return value


nDCG_TREC = TRECnDCG()


WHICH = Param(
    str,
    default="TREC",
    choices=("TREC", "trec_eval"),
    desc="TREC: the track's nDCG; trec_eval: ir_measures' nDCG, with another discount",
)


class NDCGxAWRF(FairMeasure):
    """Relevance times closeness to the groups' target: the score of TREC Fair Ranking 2022.

    nDCG x AWRF for each query, then the mean. With ``ndcg="TREC"`` (the track's, see nDCG_TREC) it
    is the official score of Task 1; ``ndcg="trec_eval"`` uses the usual nDCG and gives other
    numbers. Report the two factors too: many pairs of them have the same product, and the mean
    of products is not the product of means. In [0, 1], higher is better. Undefined (NaN) where a
    factor is; a query that the run lacks gets 0.
    """

    identity_name = "fairtk.nDCG_AWRF"
    output_version = 1
    NAME = "nDCG_AWRF"
    PRETTY_NAME: ClassVar[str] = "nDCG x AWRF"
    CITATION: ClassVar[str] = "ekstrand2022overview sapiezynski2019quantifying"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {"cutoff": CUTOFF, "ndcg": WHICH, **AWRF_PARAMS}

    @property
    def factors(self) -> list[FairMeasure]:
        """The two measures whose product this is."""
        cutoff = {} if self["cutoff"] is None else {"cutoff": self["cutoff"]}
        shared = {name: self[name] for name in AWRF_PARAMS if name in self.params}
        relevance: Any = E(nDCG(**cutoff)) if self["ndcg"] == "trec_eval" else nDCG_TREC(**cutoff)
        return [relevance, AWRF(**cutoff, **shared)]

    def check_params(self) -> None:
        """Raise if groups and target do not fit."""
        if "groups" in self.params:
            _ = self.factors

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X: if both factors do."""
        return all(getattr(factor, "takes_exposure", False) for factor in self.factors)

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the product for each query."""
        relevance, awrf = self.factors
        return relevance.score_all(judged) * awrf.score_all(judged)


nDCG_AWRF = NDCGxAWRF()
