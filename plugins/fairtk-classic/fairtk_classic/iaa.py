"""IAA: inequity of amortized attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairtk.errors import ParameterError
from fairtk.exposure import attention, expected_exposure, sum_by_index
from fairtk.frames import FloatArray, IntArray
from fairtk.measures import FairMeasure, Scores
from fairtk_classic import parameters as p

if TYPE_CHECKING:
    from fairtk.measures import LabeledRun


class AmortizedAttention(FairMeasure):
    """Whether documents get attention in proportion to their relevance, over many rankings.

    IAA = sum over documents of |A_d - R_d|, with A_d the attention that a document gets over all
    rankings of its query and R_d its relevance, each divided by its sum over the query's documents
    (Biega, Gummadi and Weikum 2018). In [0, 2]; lower is closer, 0 if attention is proportional to
    relevance. The rankings are the samples of a sampled run. The relevance is the label; labels
    below 0 and unlabeled documents count as 0. IAA measures documents, not groups. A single ranking
    reaches 0 only if relevance falls as fast as attention.

    Attention falls geometrically with the rank, as in the paper: ``browsing="RBP(p=0.5)"`` by
    default. The value is undefined (NaN) if the labels have no relevant document, or no document
    gets attention. A query missing from the run gets 2.
    """

    identity_name = "fairtk_classic.IAA"
    output_version = 1
    NAME = "IAA"
    PRETTY_NAME = "Inequity of amortized attention"
    CITATION = "biega2018equity"
    BETTER = "lower"
    MISSING = 2.0
    SUPPORTED_PARAMS: ClassVar = {"cutoff": p.CUTOFF, "browsing": p.browsing("RBP(p=0.5)")}

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        ranked, model = judged.run, self["browsing"]
        if model.needs_cutoff and self["cutoff"] is None:
            raise ParameterError(
                f"{self!r}: a cutoff is required for browsing={str(model)!r}; write {self!r}@5"
            )
        relevance = np.maximum(np.nan_to_num(judged.pair_label), 0.0)
        weight = attention(ranked, model, self["cutoff"], relevance[judged.pair_of_row] > 0)
        expected = expected_exposure(
            weight, judged.pair_of_row, judged.n_pairs, ranked.n_samples[ranked.query]
        )
        value = distance(expected, relevance, judged.pair_query, len(judged.qids))
        open_ = sum_by_index(judged.pair_query, relevance, len(value)) == 0
        value = np.where(judged.present, value, self.MISSING)
        reasons = [
            ("no relevant document in the labels", open_),
            ("no document gets attention", np.isnan(value)),
        ]
        return Scores.of(value, reasons)


def distance(
    attention_: FloatArray, relevance: FloatArray, query: IntArray, n_queries: int
) -> FloatArray:
    """Return the sum of |share of attention - share of relevance| of each query; (n_queries,).

    Args:
        attention_: attention of each (query, document) pair; shape (n_pairs,).
        relevance: relevance of each pair; same shape.
        query: query of each pair; same shape.
        n_queries: number of queries.
    """
    shares = []
    for amount in (attention_, relevance):
        amount_sum = sum_by_index(query, amount, n_queries)[query]
        shares.append(
            np.divide(amount, amount_sum, out=np.full(len(amount), np.nan), where=amount_sum > 0)
        )
    return sum_by_index(query, np.abs(shares[0] - shares[1]), n_queries)


IAA = AmortizedAttention()
