"""EE_D, EE_R and EE_L: disparity, relevance and loss of expected exposure of documents.

For a query, let e be the exposure of each document: the attention on its rank, averaged over the
sampled rankings. Let t be its exposure under the ideal policy, which sorts documents by grade and
orders equal grades at random. Then::

    EE-D = sum(e ** 2)
    EE-R = sum(e * t)
    EE-L = sum((e - t) ** 2) = EE-D - 2 * EE-R + sum(t ** 2)

`ExposureOfDocuments.compute` returns all three and their bounds for all queries at once. Its arrays
have one number per pair of a query and a document that is labeled or retrieved: ``pair_query`` and
``pair_label`` of `LabeledRun`. `ExposureOfDocuments.score_all` returns the part of a measure,
normalized if requested, and the reasons for undefined values.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fairtk.errors import ColumnError, InputError
from fairtk.exposure.expected import DEEPEST, RankWeights, make_grades, values_and_bounds
from fairtk.frames import QID, BoolArray, FloatArray, IntArray, Qrels
from fairtk.measures.expected_exposure import (
    ESTIMATOR,
    GRADED,
    NO_USEFUL,
    NO_WORST,
    REL,
    Computed,
    ExpectedExposure,
    Reasons,
    counts,
)
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import BROWSING, CUTOFF, Param, count
from fairtk.measures.scores import Scores
from fairtk.wording import format_list

N_OF_RUN = "judged+retrieved"
"""The value of ``n`` for the number of labeled or retrieved documents of each run."""

PARAMETERS: dict[str, Param] = {
    "cutoff": CUTOFF,
    "browsing": BROWSING,
    "normalize": Param(bool, default=True, desc="min-max normalize by the bounds"),
    "bounds": Param(
        str,
        default="paper",
        choices=("paper", "exact"),
        desc="paper: EE-D and EE-R start at 0; exact: the bounds that a policy over n documents "
        "can reach",
    ),
    "estimator": ESTIMATOR,
    "n": Param(
        (str, int),
        default=N_OF_RUN,
        desc="the number n of documents: judged+retrieved, judged, a number, or a column of the "
        "qrels",
        check=count,
    ),
    "graded": GRADED,
    "rel": REL,
}

FORMER = {
    "variant": "paper",
    "complete": False,
    "groups": None,
    "target": None,
    "useful_only": True,
}
"""Former parameters with their defaults, which the identities of stored values have."""


class ExposureOfDocuments(ExpectedExposure):
    """Base of EE_D, EE_R and EE_L (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG)."""

    CITATION = "diaz2020evaluating kim2024fairrag"
    BOUNDS = (0.0, 1.0)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = PARAMETERS

    @classmethod
    def hint_for(cls, name: str) -> str:
        """Return the end of the message about an unknown parameter."""
        if name in ("groups", "target", "useful_only"):
            return f"; for groups, use Group{cls.NAME}(groups=..., target=...)"
        if name == "complete":
            return f"; use {cls.NAME}_expeval of the package fairtk-papers"
        if name == "variant":
            return (
                f"; for the definitions of published code, use {cls.NAME}_expeval or "
                f"{cls.NAME}_fair_rag of the package fairtk-papers"
            )
        return super().hint_for(name)

    @property
    def reason_for_labels(self) -> str:
        """The reason why it requires relevance labels; EE_D may not."""
        n = self["n"]
        if self.PART != "disparity" or self["browsing"].stop > 0:
            return super().reason_for_labels
        return f"n={n!r} reads them" if isinstance(n, str) and n != N_OF_RUN else ""

    @property
    def identity_settings(self) -> dict[str, Any]:
        """The value of each parameter, and of former ones, so that stored values are found."""
        return super().identity_settings | FORMER

    def compute(self, judged: LabeledRun) -> Computed:
        """Return the values of Towards Fair RAG, Eqs. 3 to 6 and Appendix C; Diaz et al. 2020.

        `values_and_bounds` has the sums, over all documents of a query: those without a label or a
        rank, up to n, have exposure 0 and the target of grade 0.
        """
        cutoff, exact = self["cutoff"], self["bounds"] == "exact"
        n, n_queries, query = n_documents(self, judged), len(judged.qids), judged.pair_query
        grade, exposure = self.grades(judged.pair_label), self.exposure(judged)
        values = values_and_bounds(
            exposure,
            query,
            make_grades(query, np.nan_to_num(grade), n_queries, n),
            self.ranks(n),
            cutoff,
            exact=exact,
            closed=self["n"] != N_OF_RUN,
        )
        useful = grade > 0
        n_useful = counts(query, useful, n_queries)
        no_value: Reasons = []
        if self["n"] == "judged":
            # documents without a label replace labeled ones that are not useful, if there are any
            read = counts(query, (exposure > 0) & ~useful, n_queries)
            reason = "the rankings contain more non-relevant documents than n='judged' counts"
            no_value.append((reason, read > n - n_useful))
        no_bounds: Reasons = []
        if exact:
            depth = n if cutoff is None else np.minimum(n, cutoff)
            short = np.diff(judged.run.ranking_start) < depth[judged.ranking_query]
            full = "n" if cutoff is None else f"min({cutoff}, n)"
            reason = (
                f"a ranking has fewer than {full} documents, so the exact bounds, those of full "
                "rankings, do not hold"
            )
            no_bounds.append((reason, counts(judged.ranking_query, short, n_queries) > 0))
        return Computed(values, no_value, [(NO_USEFUL, n_useful == 0)], no_bounds)

    def ranks(self, n: IntArray) -> RankWeights:
        """Return the attention on the first ranks, up to the cutoff or the largest n."""
        cutoff = self["cutoff"]
        is_few = cutoff is not None and cutoff <= DEEPEST
        return RankWeights.of(self["browsing"], cutoff, cutoff if is_few else int(n.max(initial=0)))

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        self.check_cutoff()
        computed, part = self.computed(judged), self.estimate(judged)
        reasons = [*([] if self.PART == "disparity" else computed.no_target), *computed.no_value]
        if self["normalize"]:
            result = np.where(judged.present, part.normalized(), part.worst_normalized)
            equal = ("lower and upper bound are equal", judged.present & np.isnan(result))
            return Scores.of(result, [*reasons, *computed.no_bounds, equal])
        result = np.where(judged.present, part.value, part.worst)
        no_worst = (NO_WORST, ~judged.present & np.isnan(part.worst))
        return Scores.of(result, [*reasons, no_worst])

    def targets(self, judged: LabeledRun) -> FloatArray:
        """Return the target exposure of each pair; shape (n_pairs,)."""
        n = n_documents(self, judged)
        grade = np.nan_to_num(self.grades(judged.pair_label))
        grades = make_grades(judged.pair_query, grade, len(judged.qids), n)
        return np.append(self.ranks(n).target(grades), 0.0)[grades.of_pair]

    def scales(self, judged: LabeledRun) -> FloatArray:
        """Return the factor that normalizes raw values; NaN if undefined, 0 for missing queries."""
        if not self["normalize"]:
            return super().scales(judged)
        return np.where(judged.present, 1.0 / self.widths(judged), 0.0)

    def reads_size(self, qrels: Qrels, n: IntArray) -> BoolArray:
        """Return whether each query's value depends on the number n of its documents.

        If useful documents fill the ranks, other documents have no target, so n does not matter.
        Exact bounds and those of a cascade depend on n in any case. With the paper's bounds, EE-D
        only depends on n if the cutoff exceeds it.
        """
        cutoff, exact = self["cutoff"], self["bounds"] == "exact"
        if self["n"] != N_OF_RUN:
            return np.zeros(len(n), dtype=bool)
        if self.PART == "disparity" and not exact and cutoff is not None:
            return np.asarray(n < cutoff)
        if exact or cutoff is None or self["browsing"].stop > 0:
            return np.ones(len(n), dtype=bool)
        useful = self.grades(qrels.labels) > 0
        return np.asarray(counts(qrels.query, useful, len(n)) < cutoff)


def n_documents(measure: ExposureOfDocuments, judged: LabeledRun) -> IntArray:
    """Return the number n of documents of each query, by the measure's parameter ``n``."""
    n_queries = len(judged.qids)
    pairs = np.bincount(judged.pair_query, minlength=n_queries)
    n = explicit_n(measure, judged.qrels)
    if n is None and measure["n"] == "judged":
        return counts(judged.pair_query, ~np.isnan(judged.pair_label), n_queries)
    if n is None:
        return pairs
    short = np.flatnonzero(n < pairs)
    if len(short):
        at = int(short[0])
        useful = counts(judged.pair_query, measure.grades(judged.pair_label) > 0, n_queries)
        raise InputError(
            f"{measure.text}: n must be at least the number of judged or retrieved documents, got "
            f"{n[at]} for qid {judged.qids[at]!r} with {pairs[at]} documents ({useful[at]} useful)"
        )
    return n


def explicit_n(measure: ExposureOfDocuments, qrels: Qrels) -> IntArray | None:
    """Return n if it is a number or a column of the qrels; shape (n_queries,)."""
    rule, frame = measure["n"], qrels.frame
    if rule in (N_OF_RUN, "judged"):
        return None
    if isinstance(rule, int):
        return np.full(len(qrels.qids), rule)
    if rule not in frame.columns:
        raise ColumnError(
            f"{measure.text}: n must be 'judged+retrieved', 'judged', a number or a column of "
            f"the qrels ({format_list(frame.columns)}), got {rule!r}"
        )
    values = frame[rule].to_numpy(dtype=np.float64, na_value=np.nan)
    n = np.full(len(qrels.qids), np.nan)
    n[qrels.query] = values
    wrong = ~(n[qrels.query] == values) | (values != np.floor(values))
    if wrong.any():
        bad = format_list(dict.fromkeys(str(q) for q in frame[QID].to_numpy()[wrong]))
        raise InputError(
            f"{measure.text}: column {rule!r} of the qrels must have one integer per query "
            f"(wrong for qid {bad})"
        )
    return n.astype(np.int64)


class ExpectedExposureDisparity(ExposureOfDocuments):
    """How unevenly a ranking policy spreads exposure over documents.

    EE-D is the squared norm of expected exposure (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG,
    Eqs. 3 and 5), divided by that of a deterministic ranking, the largest value (Appendix C).
    Values are in [0, 1] when normalized; lower is more even. EE-D does not tell whether the exposed
    documents are useful (see `EE_R`), or whether groups are treated equally (see `AWRF` and
    `GroupEE_D`).

    ``bounds="paper"`` has the lower bound 0, which no policy reaches: a uniform one has k / n.
    ``bounds="exact"`` has (sum of weights)^2 / n; a query is then undefined (NaN) if every ranking
    shows all documents equally, or if a ranking has fewer than min(k, n) documents. Under a cascade
    (`GERR`), the largest value is that with the useful documents last. A query missing from the run
    gets the largest value, 1 when normalized.

    N samples overestimate EE-D by (1 - EE-D) / N in expectation. ``estimator="unbiased"`` subtracts
    this; its values may be outside [0, 1], and N = 1 is an error. A run without ``sample`` is a
    deterministic policy.
    """

    identity_name = "fairtk.EE_D"
    output_version = 2
    NAME = "EE_D"
    PRETTY_NAME = "Expected exposure disparity"
    BETTER = "lower"
    ABOUT = "how unevenly exposure is spread over the documents of a query, useful or not"
    CAVEAT = "it does not show which documents deserve exposure"
    MISSING = 1.0
    PART = "disparity"


class ExpectedExposureRelevance(ExposureOfDocuments):
    """How much of the exposure goes where an ideal policy would put it.

    EE-R is the inner product of expected and target exposure (Diaz et al. 2020; Kim and Diaz,
    Towards Fair RAG, Eqs. 3 and 6), divided by the ideal policy's value (Appendix C). Values are in
    [0, 1] when normalized; higher is better. EE-R measures quality, not fairness: a deterministic
    ranking with the useful documents on top has the same value as an even policy over them.

    With ``bounds="exact"``, the lower bound is the value of the worst order, which is above 0 if
    useful documents cannot all be left out; a query is then undefined (NaN) if a ranking has fewer
    than min(k, n) documents. Under a cascade (`GERR`), values are divided by the largest value of
    any order, which may exceed the ideal policy's. A query without a useful document is undefined;
    one missing from the run gets 0. Samples estimate EE-R without bias.
    """

    identity_name = "fairtk.EE_R"
    output_version = 1
    NAME = "EE_R"
    PRETTY_NAME = "Expected exposure relevance"
    BETTER = "higher"
    ABOUT = "how much of the exposure goes to useful documents"
    CAVEAT = "it does not show whether equally useful documents get equal exposure"
    MISSING = 0.0
    PART = "relevance"
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        name: param for name, param in PARAMETERS.items() if name != "estimator"
    }


class ExpectedExposureLoss(ExposureOfDocuments):
    """How far the exposure of documents is from their target exposure.

    EE-L is the squared distance of expected and target exposure (Diaz et al. 2020; Kim and Diaz,
    Towards Fair RAG, Eq. 3): EE_D - 2 EE_R + squared norm of the target, all unnormalized. Lower is
    better; only the ideal policy reaches 0. Values are in [0, 1] when normalized. The papers do not
    normalize EE-L; ``normalize=True`` divides it by the sum of the upper bounds of EE_D and EE_R,
    as the code of Towards Fair RAG does. ``bounds="exact"`` divides it by the loss of the worst
    order (under `GERR`, by an upper bound of it); a query is then undefined (NaN) if a ranking has
    fewer than min(k, n) documents. A query without a useful document is undefined; one missing from
    the run gets the upper bound. ``estimator="unbiased"`` subtracts the excess of EE_D from
    sampling.
    """

    identity_name = "fairtk.EE_L"
    output_version = 2
    NAME = "EE_L"
    PRETTY_NAME = "Expected exposure loss"
    BETTER = "lower"
    ABOUT = "how far exposure is from equal exposure for equally useful documents"
    CAVEAT = "it does not show which documents get too little"
    MISSING = 1.0
    PART = "loss"


EE_D, EE_R, EE_L = ExpectedExposureDisparity(), ExpectedExposureRelevance(), ExpectedExposureLoss()
