"""EE-D, EE-R and EE-L as in the code published with Towards Fair RAG."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure import MU, expected_exposure, sum_by_index
from fairtk.measures import CUTOFF, FairMeasure, LabeledRun, Param, Scores
from fairtk_papers.published_code.expeval import PARAMETERS
from fairtk_papers.published_code.values import NO_USEFUL, PublishedValues


class FairRagExposure(FairMeasure):
    """Base of the three measures of the code published with Towards Fair RAG (machine user)."""

    CITATION = "kim2024fairrag"
    BOUNDS = (0.0, math.inf)
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": CUTOFF,
        "normalize": PARAMETERS["normalize"],
        "rel": PARAMETERS["rel"],
    }
    is_by_query = True
    depends_on_length = True
    supports_exact_exposure = True

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        cutoff = self["cutoff"]
        if cutoff is None:
            raise ParameterError(
                f"{self.text}: a cutoff is required, the number of documents that the machine user "
                f"reads; write {self.text}@5"
            )
        values, no_useful = judged.derived(fair_rag_values, cutoff, self["rel"])
        reasons = [] if self.NAME.startswith("EE_D") else [(NO_USEFUL, no_useful)]
        return values[self.NAME[:4]].scores(judged, self["normalize"], reasons)


def fair_rag_values(
    judged: LabeledRun, cutoff: int, rel: float | None
) -> tuple[dict[str, PublishedValues], np.ndarray]:
    """Return the values of EE_D, EE_R and EE_L, and whether a query has no useful document.

    It departs from the paper: documents that are not useful have no target, but the bound of EE-R
    counts them; n is the number of labeled documents, even if others are retrieved; the cutoff is
    not limited to n; EE-L is divided by the sum of the bounds of EE-R and EE-D. If all n documents
    are useful and n is at most the cutoff, the code divides by zero; this function returns NaN.

    Args:
        judged: the labels and the run.
        cutoff: the number k of documents that the machine user reads.
        rel: the smallest label of a useful document; `None` for any above 0.
    """
    query, label, n_queries = judged.pair_query, judged.pair_label, len(judged.qids)
    useful = label > 0 if rel is None else label >= rel
    n = np.bincount(query[~np.isnan(label)], minlength=n_queries)
    m = np.bincount(query[useful], minlength=n_queries).astype(np.float64)
    attention = judged.attention(judged.where, MU(), cutoff)
    samples = judged.run.n_samples[judged.run.query]
    exposure = expected_exposure(attention, judged.pair_of_row, judged.n_pairs, samples)

    target = np.minimum(1.0, cutoff / np.maximum(m, 1.0))  # of each useful document
    disparity = sum_by_index(query, exposure**2, n_queries)
    relevance = sum_by_index(query, exposure * target[query] * useful, n_queries)
    square = m * target**2
    loss = disparity - 2 * relevance + square
    rest = n - m
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = m + (cutoff - m) ** 2 / rest
        highest = np.where(m <= cutoff, np.where(rest > 0, fits, np.nan), cutoff**2 / m)
    zero, all_read = np.zeros(n_queries), np.full(n_queries, float(cutoff))
    worst_loss = np.where(np.isnan(highest), square, highest) + cutoff
    why = "all n documents are useful, so the upper bound of EE_R is a division by 0"
    values = {
        "EE_D": PublishedValues(disparity, zero, all_read, all_read, 1.0),
        "EE_R": PublishedValues(relevance, zero, highest, zero, 0.0, why=why),
        "EE_L": PublishedValues(loss, zero, highest + cutoff, worst_loss, 1.0, why=why),
    }
    return values, m == 0


class FairRagDisparity(FairRagExposure):
    """Disparity of exposure as in the code published with Towards Fair RAG.

    EE_D_fair_rag is the squared norm of the expected exposure for a machine user, divided by the
    cutoff k, also for a query with fewer than k documents, where `EE_D` divides by their number.
    Lower is more even. A query missing from the run gets 1.
    """

    identity_name = "fairtk_papers.EE_D_fair_rag"
    output_version = 1
    NAME = "EE_D_fair_rag"
    PRETTY_NAME = "Expected exposure disparity, code of Towards Fair RAG"
    BETTER = "lower"
    MISSING = 1.0


class FairRagRelevance(FairRagExposure):
    """Relevance of exposure as in the code published with Towards Fair RAG.

    EE_R_fair_rag is the inner product of expected exposure and a target in which only useful
    documents count, divided by a bound that also counts the others. So the ideal policy has a value
    below 1 if a query has fewer than k useful documents. n is the number of labeled documents.
    Higher is better. A query without a useful document is undefined (NaN), and so is one whose
    labeled documents are all useful and at most k: the code divides by 0. A query missing from the
    run gets 0.
    """

    identity_name = "fairtk_papers.EE_R_fair_rag"
    output_version = 1
    NAME = "EE_R_fair_rag"
    PRETTY_NAME = "Expected exposure relevance, code of Towards Fair RAG"
    BETTER = "higher"
    MISSING = 0.0


class FairRagLoss(FairRagExposure):
    """Loss of exposure as in the code published with Towards Fair RAG.

    EE_L_fair_rag is the squared distance of expected exposure and a target in which only useful
    documents count, divided by the sum of the code's bounds of EE-R and EE-D. Lower is better. It
    is undefined (NaN) for the same queries as `EE_R_fair_rag`. A query missing from the run gets
    the upper bound.
    """

    identity_name = "fairtk_papers.EE_L_fair_rag"
    output_version = 1
    NAME = "EE_L_fair_rag"
    PRETTY_NAME = "Expected exposure loss, code of Towards Fair RAG"
    BETTER = "lower"
    MISSING = 1.0


EE_D_fair_rag, EE_R_fair_rag, EE_L_fair_rag = FairRagDisparity(), FairRagRelevance(), FairRagLoss()
