"""nDCG as TREC Fair Ranking 2022 defines it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fairtk.errors import InputError
from fairtk.exposure.browsing import TREC
from fairtk.exposure.expected import attention
from fairtk.exposure.ndcg import normalized_gain
from fairtk.frames.arrays import FloatArray
from fairtk.frames.rankings import describe
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence
from fairtk.measures.params import CUTOFF, Param, at_least

IDEAL = Param(
    int,
    default=500,
    desc="without @k: number of documents that were asked for, which the ideal ranking has",
    check=at_least(1),
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

    NAME = "nDCG_TREC"
    PRETTY_NAME: ClassVar[str] = "nDCG (TREC Fair Ranking 2022)"
    CITATION: ClassVar[str] = "ekstrand2022overview"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {"cutoff": CUTOFF, "ideal": IDEAL, "rel": REL}

    takes_exposure = True

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the value of each query."""
        ranked, pairs, cutoff = evidence.rankings, evidence.pairs, self["cutoff"]
        n_queries = len(evidence.qids)
        useful = pairs.label >= self["rel"]  # unjudged: NaN, not useful
        length = cutoff if cutoff is not None else self["ideal"]
        beyond = np.flatnonzero(ranked.position >= length)
        if cutoff is None and len(beyond):
            raise InputError(
                f"{self!r}: a ranking is longer than the {length} documents asked for "
                f"({describe(ranked, int(beyond[0]))}); set the cutoff, e.g. {self.NAME}@{length}"
            )
        n_useful = np.bincount(pairs.query[useful], minlength=n_queries)
        if evidence.exact is not None:
            weight = evidence.exposure_of_rows(self.text, TREC(), cutoff)
        else:
            weight = attention(ranked, TREC(), cutoff)
        value = normalized_gain(
            ranked, useful[pairs.of_row], evidence.query_of_run, n_useful, TREC(), weight, length
        )
        empty = evidence.qids[n_useful == 0]
        self.warn_undefined(empty, n_queries, "no useful document in the labels")
        return value


nDCG_TREC = TRECnDCG()
