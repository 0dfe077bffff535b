"""Measures of credit: AE_D, AE_R and AE_L, CreditAWRF, CreditGap, and citations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from fairtk.credit.frame import Credit, CreditShares, credit_shares, expected_credit
from fairtk.errors import ParameterError
from fairtk.exposure import BrowsingModel, sum_by_index
from fairtk.exposure.expected import Bounded, ExposureValues, sampling_excess
from fairtk.frames import (
    CREDIT,
    DOCNO,
    GROUP,
    LABEL,
    QID,
    RANK,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Run,
)
from fairtk.groups import UNKNOWN
from fairtk.groups.exposure import attention_matrix, group_exposure
from fairtk.groups.rows import SparseRows
from fairtk.measures import EE_R, FairMeasure, LabeledRun
from fairtk.measures.awrf import AttentionWeightedRankFairness
from fairtk.measures.ee import PARAMETERS
from fairtk.measures.expected_exposure import counts, refuse_one_sample
from fairtk.measures.params import BROWSING, GROUPS, Param, count
from fairtk.measures.scores import Scores
from fairtk.remarks import NO_CITATIONS

if TYPE_CHECKING:
    from fairtk.groups import Groups

SHARE = Param(bool, default=True, desc="whether to divide the credit of each ranking by its sum")
ESTIMATOR = Param(
    str,
    default="plain",
    choices=("plain", "unbiased"),
    desc="plain, or unbiased: without the bias by sampling",
)
NEGATIVE = Param(
    str,
    default="zero",
    choices=("zero", "refuse"),
    desc="how credit below 0 is handled: counted as 0, or an error",
)


def unbiased_reasons(
    measure: FairMeasure, judged: LabeledRun, shares: CreditShares
) -> list[tuple[str, BoolArray]]:
    """Return the reason why queries with a single ranking of defined credit are undefined.

    The list is empty for ``estimator="plain"`` and for rankings without samples.

    Raises:
        InputError: a query has a single sample.
    """
    if measure["estimator"] == "plain" or not judged.run.sampled:
        return []
    refuse_one_sample(repr(measure), judged.qids, shares.query)
    reason = "only one of its rankings has defined credit, and the unbiased estimate needs two"
    return [(reason, shares.n_defined == 1)]


NO_CREDIT = "no ranking with defined credit"


class AttributedExposure(FairMeasure):
    """Base class of the measures of attributed exposure: EE with credit instead of exposure."""

    CITATION: ClassVar[str] = "diaz2020evaluating kim2024fairrag"
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, CREDIT)
    is_by_query = True
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, LABEL)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": Param(
            int, desc="ranks of the target; all credit counts, at any rank", check=count
        ),
        **{name: PARAMETERS[name] for name in ("browsing", "normalize", "bounds", "graded", "rel")},
        "estimator": ESTIMATOR,
        "share": SHARE,
        "negative": NEGATIVE,
    }
    PART: ClassVar[str]  # the field of ExposureValues

    def check_params(self) -> None:
        """Raise an error if the parameters contradict each other."""
        if not self["share"] and self.params.get("normalize", True):
            raise ParameterError(f"{self.NAME}: share=False requires normalize=False")
        model: BrowsingModel = self["browsing"]
        if model.stop > 0:
            raise ParameterError(
                f"{self.NAME}: browsing={str(model)!r} is not supported; use MU, RBP, DCG or TREC"
            )
        of_target = ("cutoff", "browsing", "graded", "rel")
        self.of_target = EE_R(**{n: self.params[n] for n in of_target if n in self.params})

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query, NaN if undefined."""
        needs_cutoff = self["browsing"].needs_cutoff and self["cutoff"] is None
        if self.PART != "disparity" and needs_cutoff:
            raise ParameterError(
                f"{self.NAME}: a cutoff is required for browsing={str(self['browsing'])!r}, the "
                f"number of documents that the reader reads; write {self.NAME}@5"
            )
        present, n_queries = judged.present, len(judged.qids)
        options = self["share"], self["negative"]
        shares = credit_shares(judged, *options)
        useless = np.zeros(n_queries, dtype=bool)
        query, _, mean = shares.means
        square = sum_by_index(judged.query_of_run[query], mean**2, n_queries)
        values = ExposureValues(*[self._disparity(square, np.zeros(n_queries))] * 3)
        if self.PART != "disparity" or self["bounds"] != "paper":  # it needs labels
            of_target = tuple(self.of_target.params.items())
            settings = _Settings(*options, self["bounds"], of_target, self)
            values, useless = judged.derived(_attributed_values, settings)
        part: Bounded = getattr(values, self.PART)
        reasons = [(NO_CREDIT, shares.undefined)]
        if self.params.get("estimator") == "unbiased":
            reasons += unbiased_reasons(self, judged, shares)
            if judged.run.sampled:
                each = shares.query[shares.defined]
                excess = sampling_excess(square, shares.square(), each)
                part = replace(part, value=part.value - excess)
        if self.PART != "disparity":
            reasons.append(("no useful document in the labels", useless))
        if self["normalize"]:
            result = np.where(present, part.normalized(), part.worst_normalized)
            equal = present & np.isnan(result)
            reasons.append(("lower and upper bound are equal", equal))
        else:
            result = np.where(present, part.value, part.worst)
            no_worst = "it is missing from the run, and share=False has no worst value"
            reasons.append((no_worst, ~present & np.isnan(part.worst)))
        return Scores.of(result, reasons, shares.counts)

    def _disparity(self, value: FloatArray, lowest: FloatArray) -> Bounded:
        one = np.ones(len(value))
        return Bounded(value, lowest, one, one if self["share"] else one * np.nan, 1.0)

    def values_of_all(self, judged: LabeledRun) -> tuple[ExposureValues, BoolArray]:
        """Return the values of all queries, and whether a query has no useful document."""
        n_queries, query = len(judged.qids), judged.pair_query
        target = self.of_target.targets(judged)
        target = target / sum_by_index(query, target, n_queries)[query]
        credit = np.zeros(judged.n_pairs)
        credit[judged.pair_of_row] = judged.run.scores[judged.run.order]
        disparity, relevance, square = (
            sum_by_index(query, each, n_queries) for each in (credit**2, credit * target, target**2)
        )
        lowest = least = zero = np.zeros(n_queries)
        most = np.zeros(n_queries)
        np.maximum.at(most, query, target)
        if self["bounds"] == "exact":
            lowest = 1.0 / np.maximum(np.bincount(query, minlength=n_queries), 1)
            least = np.full(n_queries, np.inf)
            np.minimum.at(least, query, target)
        of_disparity = self._disparity(disparity, lowest)
        loss = disparity - 2 * relevance + square
        farthest = 1.0 - 2 * least + square
        values = ExposureValues(
            of_disparity,
            Bounded(relevance, least, most, zero, 0.0),
            Bounded(loss, zero, farthest, of_disparity.worst * farthest, 1.0),
        )
        useful = self.of_target.grades(judged.pair_label) > 0
        return values, counts(query, useful, n_queries) == 0


@dataclass(frozen=True)
class _Settings:
    """The settings that AE_D, AE_R and AE_L share, and one of the measures that have them."""

    share: bool
    negative: str
    bounds: str
    of_target: tuple[tuple[str, Any], ...]
    measure: AttributedExposure = field(compare=False)


def _attributed_values(judged: LabeledRun, settings: _Settings) -> tuple[ExposureValues, BoolArray]:
    expected, _ = expected_credit(judged, settings.share, settings.negative)
    return settings.measure.values_of_all(expected)


class AttributedExposureDisparity(AttributedExposure):
    """How unevenly credit is distributed over documents.

    AE_D is the sum over documents of their squared expected credit. The expected credit of document
    d is the mean over a query's rankings of a_d / sum(a), with a_d its credit in one answer (frame
    C: `qid`, `sample`, `docno`, `credit`). It is EE_D with credit instead of exposure (Diaz et al.
    2020; Kim and Diaz, Towards Fair RAG, Eq. 5). In [0, 1]; lower is more even; 1 if all answers
    depend on the same document only. With ``bounds="exact"`` the lower bound is 1 / n, with n the
    number of judged documents and documents in rankings with defined credit. A cutoff does not
    truncate credit; it is the cutoff of `AE_R`'s target.

    Sampling increases it: from N rankings it is too large by (mean squared norm of one ranking's
    shares - AE_D) / N in expectation. ``estimator="unbiased"`` removes this bias; its values may be
    negative, one sample per query is an error, and a query with only one ranking of defined credit
    is undefined. The plain value of a frame without ``sample``, a deterministic policy, is exact.

    It does not say whether these documents are useful (see AE_R). A document without credit may
    have been read. A ranking whose credit is NaN, or sums to 0, is left out; a query without other
    rankings is undefined (NaN). A query missing from the frame gets 1.
    """

    identity_name = "fairtk.AE_D"
    output_version = 1
    NAME = "AE_D"
    PRETTY_NAME: ClassVar[str] = "Attributed exposure disparity"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 1.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    PART: ClassVar[str] = "disparity"


class AttributedExposureRelevance(AttributedExposure):
    """How much credit useful documents get.

    AE_R is the inner product of expected credit (see `AE_D`) and the target of EE divided by its
    sum: EE_R with credit instead of exposure (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG, Eq.
    6). It is normalized by its maximum, the value for all credit on a document with the highest
    target. In [0, 1]; higher is better. With labels of one grade and at least k useful documents,
    it is the share of credit of useful documents. With only m < k useful documents of n, the target
    leaves k - m ranks to the others (Eq. 6), so their credit counts (k - m) / (n - m) times as
    much; with n <= k it is always 1. A query without a useful document is undefined; a query
    missing from the frame gets 0.
    """

    identity_name = "fairtk.AE_R"
    output_version = 1
    NAME = "AE_R"
    PRETTY_NAME: ClassVar[str] = "Attributed exposure relevance"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    PART: ClassVar[str] = "relevance"
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        name: param
        for name, param in AttributedExposure.SUPPORTED_PARAMS.items()
        if name != "estimator"
    }


class AttributedExposureLoss(AttributedExposure):
    """The distance of credit from its target.

    AE_L is the squared distance between expected credit (see `AE_D`) and the target of EE divided
    by its sum: AE_D - 2 AE_R + squared norm of the target, all unnormalized. It is normalized by
    its maximum (``bounds="paper"``: 1 + squared norm of the target; ``"exact"``: the value for all
    credit on a document with the lowest target). In [0, 1]; lower is better. The unbiased
    `estimator` removes the bias by sampling, as in `AE_D`; its values may be negative. A query
    without a useful document is undefined; a query missing from the frame gets the upper bound.
    """

    identity_name = "fairtk.AE_L"
    output_version = 1
    NAME = "AE_L"
    PRETTY_NAME: ClassVar[str] = "Attributed exposure loss"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 1.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 1.0)
    PART: ClassVar[str] = "loss"


AE_D, AE_R, AE_L = (
    AttributedExposureDisparity(),
    AttributedExposureRelevance(),
    AttributedExposureLoss(),
)


class CreditRankFairness(AttentionWeightedRankFairness):
    """How close the groups' shares of credit are to a target distribution.

    CreditAWRF is `fairtk.AWRF` with the expected credit of documents (see `AE_D`) instead of their
    exposure: 1 - JSD(credit of the groups, target). Values are in [1 - ln 2, 1] = [0.307, 1], or in
    [0, 1] with ``base=2``; higher is closer to the target. All credit counts, at any rank, so it
    has no cutoff.

    A ranking whose credit is NaN, or sums to 0, is left out. A query without other rankings,
    without a target, or without a labeled document is undefined (NaN). A query missing from the
    frame gets 0.
    """

    identity_name = "fairtk.CreditAWRF"
    output_version = 1
    NAME = "CreditAWRF"
    PRETTY_NAME = "Rank fairness of credit"
    ABOUT = "how close the credit of each group of documents is to its target"
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, CREDIT)
    UNDEFINED = NO_CREDIT
    depends_on_length = False
    is_amortized = True
    supports_exact_exposure = False
    reason_for_labels = ""
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        name: AttentionWeightedRankFairness.SUPPORTED_PARAMS[name]
        for name in ("groups", "target", "base", "unlabeled")
    }

    def run_for_shares(
        self, judged: LabeledRun
    ) -> tuple[LabeledRun, BoolArray, dict[str, IntArray]]:
        """Return the run with the expected credit of documents as scores; see `AWRF`."""
        run, shares = expected_credit(judged)
        return run, shares.undefined, shares.counts

    def attention(self, judged: LabeledRun) -> FloatArray:
        """Return the expected credit of each sorted row of the run; shape (n_rows,)."""
        credit: FloatArray = judged.run.scores[judged.run.order]
        return credit


CreditAWRF = CreditRankFairness()


class CreditExposureGap(FairMeasure):
    """The distance between the credit and the exposure of documents or groups.

    CreditGap is the squared distance over documents, or with ``groups=...`` over groups, between
    the mean credit share a_d / sum(a) and the mean exposure share of a query's rankings. The
    exposure share is the attention of a document's rank divided by the ranking's total, under
    `browsing` (`MU`: equal for the first k documents). With v the difference in one ranking, the
    plain value is ||mean v||^2, and ``estimator="unbiased"`` is (N ||mean v||^2 - mean ||v||^2) /
    (N - 1) for N rankings, without the bias by sampling. Lower is closer; 0 if credit is
    proportional to exposure. The plain value is in [0, 2], or up to twice the largest squared norm
    of a document's memberships if the weights of `groups` are not normalized. An unbiased value may
    be below 0. The measure does not say whether credit or exposure is fair. `per_group` returns the
    signed differences.

    With groups, each document also belongs to ``@UNKNOWN``, with weight 1 minus the sum of its
    weights. The frame C must have ``rank`` or ``score``, and a row for each document of a ranking.
    A ranking without defined credit is left out of both means. A query is undefined (NaN) if none
    of its rankings has defined credit, if only one has (for the unbiased estimate), or, with
    `groups`, if no document with credit or exposure has a group. A query missing from the frame
    gets the upper bound.

    References:
        Kim and Diaz, Towards Fair RAG (attribution of exposure); fairtk defines the distance.
    """

    identity_name = "fairtk.CreditGap"
    output_version = 1
    NAME = "CreditGap"
    PRETTY_NAME: ClassVar[str] = "Gap between credit and exposure"
    CITATION: ClassVar[str] = "kim2024fairrag"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 2.0
    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 2.0)
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, CREDIT, RANK)
    is_by_query = True
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID,)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "groups": GROUPS,
        "cutoff": Param(
            int, desc="ranks with exposure; all credit counts, at any rank", check=count
        ),
        "browsing": BROWSING,
        "estimator": ESTIMATOR,
        "negative": NEGATIVE,
    }
    POSITIONAL: ClassVar[tuple[str, ...]] = ("groups",)
    GROUPS_ARE_OPTIONAL: ClassVar[bool] = True

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """0 and the largest plain value, which is also the value of a missing query."""
        groups = self["groups"]
        if groups is None:
            return self.BOUNDS
        members, *_ = _with_unknown(groups, groups.docnos)
        return 0.0, 2.0 * max(1.0, float(members.square().max(initial=0.0)))

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        gap = _Gap(judged, self)
        difference = gap.vectors(gap.value - gap.exposure)
        value = gap.mean(difference).square()
        present = judged.present
        reasons = [(NO_CREDIT, gap.undefined)]
        reasons += unbiased_reasons(self, judged, gap)
        if self["estimator"] == "unbiased" and judged.run.sampled:
            value = value - sampling_excess(value, difference.square(), gap.query[gap.defined])
        if self["groups"] is not None:
            reason = "none of its documents with credit or exposure has a group"
            reasons.append((reason, present & ~gap.labeled()))
        result = value if present.all() else np.where(present, value, self.bounds[1])
        return Scores.of(result, reasons, gap.counts)

    def per_group(self, run: pd.DataFrame) -> pd.DataFrame:
        """Return the signed differences: ``qid``, ``group`` (or ``docno``), both shares, ``gap``.

        Args:
            run: the frame C with ``rank``.

        Returns:
            A row for each query and group (document) with credit or exposure; ``gap`` is credit
            minus exposure.
        """
        checked = Run(run, f"{self!r} (run)", either=True)
        qids = pd.DataFrame({QID: checked.qids})
        gap = _Gap(LabeledRun(Qrels(qids, repr(self)), checked, repr(self)), self)
        name = DOCNO if self["groups"] is None else GROUP
        shares = {}
        for column, share in (("credit", gap.value), ("exposure", gap.exposure)):
            means = gap.mean(gap.vectors(share))
            index = pd.MultiIndex.from_arrays(
                [means.row, gap.names(means.level)], names=[QID, name]
            )
            shares[column] = pd.Series(means.weight, index)
        parts = pd.DataFrame(shares).fillna(0.0).sort_index(kind="stable").reset_index()
        parts[QID] = checked.qids[parts[QID]]
        return parts.assign(gap=parts["credit"] - parts["exposure"])


class _Gap(CreditShares):
    """Shares of credit and of exposure of the documents in each ranking."""

    exposure: FloatArray  # exposure of each frame row; shape (n_rows,)

    def __init__(self, judged: LabeledRun, measure: CreditExposureGap) -> None:
        model, cutoff = measure["browsing"], measure["cutoff"]
        if cutoff is None:
            raise ParameterError(
                f"{measure.NAME}: a cutoff is required, the number of displayed documents; write "
                f"{measure!r}@5"
            )
        if model.stop > 0:
            raise ParameterError(
                f"{measure.NAME}: browsing={str(model)!r} is not supported; use MU, RBP, DCG or "
                "TREC"
            )
        super().__init__(judged, True, measure["negative"])
        weight = np.append(model.checked_weights(np.arange(cutoff, dtype=np.int64)), 0.0)
        attention = self.by_document(weight[np.minimum(self.positions, cutoff)])
        self.exposure = attention / np.maximum(self.sums(attention), 1e-300)[self.ranking]
        docnos, groups = self.run.docnos.text, measure["groups"]
        self.members: SparseRows | None = None
        self.names: Callable[[IntArray], Any] = docnos.__getitem__
        if groups is not None:
            self.members, self.unknown, self.names = _with_unknown(groups, docnos)

    def vectors(self, share: FloatArray) -> SparseRows:
        """Return shares by document or group, with a row per ranking with defined credit."""
        rows = self.defined[self.ranking]
        row = (np.cumsum(self.defined) - 1)[self.ranking[rows]]
        shape = (int(self.defined.sum()), len(self.run.docnos))
        matrix = attention_matrix(row, self.run.frame_doc[rows], share[rows], shape)
        return SparseRows(matrix) if self.members is None else group_exposure(matrix, self.members)

    def mean(self, vectors: SparseRows) -> SparseRows:
        """Return the mean over each query's rankings, with a row per query."""
        from scipy import sparse

        query = self.query[self.defined]
        entries = (1.0 / self.n_defined[query], (query, np.arange(len(query))))
        mean = sparse.csr_array(entries, shape=(len(self.n_defined), len(query)))
        return SparseRows((mean @ vectors.matrix).tocsr())

    def labeled(self) -> BoolArray:
        """Return whether a document with credit or exposure has a group, for each query.

        Without these documents, a query would get 0, the best value.
        """
        members: Any = self.members
        known = np.zeros(len(self.run.docnos), dtype=bool)
        known[members.row[members.level != self.unknown]] = True
        has_share = self.defined[self.ranking] & ((self.value > 0) | (self.exposure > 0))
        rows = has_share & known[self.run.frame_doc]
        return np.bincount(self.query[self.ranking[rows]], minlength=len(self.n_defined)) > 0


def _with_unknown(
    groups: Groups, docnos: ObjectArray
) -> tuple[SparseRows, int, Callable[[IntArray], Any]]:
    """Return memberships with the level ``@UNKNOWN`` for the rest of each document.

    Returns:
        The memberships, a row per document; the index of the unknown level; and a function from
        level indices to names.
    """
    from scipy import sparse

    members = groups.memberships(docnos, "drop")
    rest = np.maximum(1.0 - members.total(), 0.0)
    levels = list(groups.levels) if not groups.space.crossed else []
    unknown = levels.index(UNKNOWN) if UNKNOWN in levels else members.n_levels
    rows = np.flatnonzero(rest > 1e-12)
    shape = (members.n_rows, members.n_levels + 1)
    added = sparse.csr_array((rest[rows], (rows, np.full(len(rows), unknown))), shape=shape)
    matrix = members.matrix.copy()
    matrix.resize(shape)

    def names(numbers: IntArray) -> list[Any]:
        return [UNKNOWN if n == members.n_levels else groups.levels[n] for n in numbers]

    return SparseRows((matrix + added).tocsr()), unknown, names


CreditGap = CreditExposureGap()


class CitationMeasure(FairMeasure):
    """Base class of measures of citations, the documents with credit above 0."""

    CITATION: ClassVar[str] = "gao2023alce"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    RUN_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, CREDIT)
    is_by_query = True
    QREL_COLUMNS: ClassVar[tuple[str, ...]] = (QID, DOCNO, LABEL)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {"rel": PARAMETERS["rel"]}

    def counts(self, judged: LabeledRun) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Return numbers of documents.

        Returns:
            For each ranking its query, and the numbers of cited and of useful cited documents; and
            the number of useful documents for each query.
        """
        rel = self["rel"]
        labels = judged.qrels
        useful = labels.labels >= rel if rel else labels.labels > 0
        query = judged.query_of_run
        credit = Credit(judged.run)
        n = len(credit.ranking_query)
        width = max(1, judged.run.docnos.size)
        doc = judged.run.docnos.find(labels.docnos)[labels.doc]
        run_query = judged.run.qids.find(labels.qids)[labels.query]
        keys = (run_query * width + doc)[useful & (run_query >= 0) & (doc >= 0)]
        is_useful = np.isin(judged.run.frame_query * width + judged.run.frame_doc, keys)
        cited = credit.credit > 0
        return (
            query[credit.ranking_query],
            np.bincount(credit.ranking[cited], minlength=n).astype(np.float64),
            np.bincount(credit.ranking[cited & is_useful], minlength=n).astype(np.float64),
            np.bincount(labels.query[useful], minlength=len(judged.qids)).astype(np.float64),
        )


class PrecisionOfCitations(CitationMeasure):
    """The share of cited documents that are useful.

    Documents with credit above 0 (a frame C of `fairtk.credit.Citations`) are cited, and useful
    with a label of at least `rel`. The value is the mean precision over a query's answers. In
    [0, 1], higher is better. The labels do not say whether a document supports the sentence that
    cites it, as in ALCE (Gao et al. 2023). An answer without citations is left out, with a warning;
    a query without other answers is undefined (NaN). A query missing from the frame gets 0.
    """

    identity_name = "fairtk.CitationPrecision"
    output_version = 1
    NAME = "CitationPrecision"
    PRETTY_NAME: ClassVar[str] = "Precision of citations"

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        query, cited, useful_cited, _ = self.counts(judged)
        has_citations, n = cited > 0, len(judged.qids)
        count = np.bincount(query[has_citations], minlength=n)
        precision = useful_cited[has_citations] / cited[has_citations]
        summed = np.bincount(query[has_citations], weights=precision, minlength=n)
        result = np.where(judged.present, summed / np.maximum(count, 1), self.MISSING)
        undefined = judged.present & (count == 0)
        left_out = ~has_citations & (count > 0)[query]
        counts = {NO_CITATIONS: np.bincount(query[left_out], minlength=n)}
        return Scores.of(result, [("no answer has citations", undefined)], counts)


class RecallOfCitations(CitationMeasure):
    """The share of useful documents that are cited.

    Documents with credit above 0 (a frame C of `fairtk.credit.Citations`) are cited, and useful
    with a label of at least `rel`. The value is the mean over a query's answers of useful cited
    documents divided by useful documents, in the prompt or not. In [0, 1], higher is better. An
    answer without citations has recall 0. A query without a useful document is undefined (NaN); a
    query missing from the frame gets 0.
    """

    identity_name = "fairtk.CitationRecall"
    output_version = 1
    NAME = "CitationRecall"
    PRETTY_NAME: ClassVar[str] = "Recall of citations"

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        query, _, useful_cited, useful = self.counts(judged)
        n = len(judged.qids)
        count = np.bincount(query, minlength=n)
        mean = np.bincount(query, weights=useful_cited, minlength=n) / np.maximum(count, 1)
        result = np.where(judged.present, mean / np.maximum(useful, 1.0), self.MISSING)
        return Scores.of(result, [("no useful document in the labels", useful == 0)])


CitationPrecision, CitationRecall = PrecisionOfCitations(), RecallOfCitations()
