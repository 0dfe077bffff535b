"""nDCG_TREC: the nDCG of TREC Fair Ranking 2022."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import InputError
from fairtk.exposure import TREC
from fairtk.exposure.expected import normalized_gain
from fairtk.measures.base import RELEVANCE, FairMeasure
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import CUTOFF, Param, count
from fairtk.measures.scores import Scores


class TRECnDCG(FairMeasure):
    """How relevant a ranking is, by the normalized DCG of TREC Fair Ranking 2022.

    Gains are binary. The discount is 1 / log2(max(rank, 2)) with ranks from 1; trec_eval's nDCG has
    1 / log2(rank + 1). The ideal ranking has the requested length (``@k``, or ``ideal`` without a
    cutoff), even if the run is shorter (Task 1 guidelines and metric code). Values are in [0, 1];
    higher is better. On a sampled run, it is the mean over samples. A query without a useful
    document is undefined (NaN); one missing from the run gets 0. Without a cutoff, a ranking longer
    than ``ideal`` is an error, as in the track.
    """

    identity_name = "fairtk.nDCG_TREC"
    output_version = 1
    NAME = "nDCG_TREC"
    PRETTY_NAME = "nDCG (TREC Fair Ranking 2022)"
    CITATION = "ekstrand2022overview"
    BETTER = "higher"
    ABOUT = RELEVANCE[0]
    CAVEAT = RELEVANCE[1]
    MISSING = 0.0
    BOUNDS = (0.0, 1.0)
    is_by_query = True
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": CUTOFF,
        "ideal": Param(
            int,
            default=500,
            desc="without @k: the requested number of documents, the length of the ideal ranking",
            check=count,
        ),
        "rel": Param(
            (int, float),
            default=1,
            desc="smallest label of a useful document",
            check=checks.positive,
        ),
    }
    supports_exact_exposure = True

    def score_all(self, judged: LabeledRun) -> Scores:
        """Return the value of each query."""
        judged, cutoff = judged.first_passages, self["cutoff"]
        ranked = judged.run
        n_queries = len(judged.qids)
        useful = judged.pair_label >= self["rel"]  # false for NaN, unjudged
        length = cutoff if cutoff is not None else self["ideal"]
        beyond = np.flatnonzero(ranked.position >= length)
        if cutoff is None and len(beyond):
            raise InputError(
                f"{self!r}: a ranking must have at most {length} documents, got more "
                f"({ranked.describe(int(beyond[0]))}); set the cutoff, e.g. {self.NAME}@{length}"
            )
        n_useful = np.bincount(judged.pair_query[useful], minlength=n_queries)
        weight = judged.attention(self.text, TREC(), cutoff)
        hit = useful[judged.pair_of_row]
        value = normalized_gain(ranked, hit, judged.query_of_run, n_useful, TREC(), weight, length)
        return Scores.of(value, [("no useful document in the labels", n_useful == 0)])


nDCG_TREC = TRECnDCG()
