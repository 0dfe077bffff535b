"""nDCG_AWRF: the score of TREC Fair Ranking 2022, nDCG x AWRF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ir_measures import nDCG

from fairtk.measures.awrf import AWRF, AttentionWeightedRankFairness
from fairtk.measures.base import FairMeasure
from fairtk.measures.expectation import E
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.ndcg_trec import nDCG_TREC
from fairtk.measures.params import CUTOFF, Param
from fairtk.measures.scores import Scores


class NDCGxAWRF(FairMeasure):
    """Relevance times closeness to the groups' target: the score of TREC Fair Ranking 2022.

    This is nDCG x AWRF for each query, in [0, 1]; higher is better. With ``ndcg="TREC"`` (see
    `nDCG_TREC`) it is the official score of Task 1; ``ndcg="trec_eval"`` uses ir_measures' nDCG.
    Report both factors, too: the mean of products is not the product of means. A query is undefined
    (NaN) if a factor is; one missing from the run gets 0.
    """

    identity_name = "fairtk.nDCG_AWRF"
    output_version = 2
    NAME = "nDCG_AWRF"
    PRETTY_NAME = "nDCG x AWRF"
    CITATION = "ekstrand2022overview sapiezynski2019quantifying"
    BETTER = "higher"
    ABOUT = "relevance for readers times closeness of group exposure to its target"
    CAVEAT = "it does not show which of the two changed"
    MISSING = 0.0
    BOUNDS = (0.0, 1.0)
    is_by_query = True
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "cutoff": CUTOFF,
        "ndcg": Param(
            str,
            default="TREC",
            choices=("TREC", "trec_eval"),
            desc="TREC: the track's nDCG; trec_eval: ir_measures' nDCG, with another discount",
        ),
        **AttentionWeightedRankFairness.SUPPORTED_PARAMS,
    }

    @property
    def parts(self) -> list[FairMeasure]:
        """The two factors."""
        cutoff = {} if self["cutoff"] is None else {"cutoff": self["cutoff"]}
        shared = {n: self[n] for n in AWRF.SUPPORTED_PARAMS if n in self.params}
        relevance: Any = E(nDCG(**cutoff)) if self["ndcg"] == "trec_eval" else nDCG_TREC(**cutoff)
        return [relevance, AWRF(**shared)]

    def check_params(self) -> None:
        """Raise an `InputError` if groups and target do not match."""
        if "groups" in self.params:
            _ = self.parts

    @property
    def supports_exact_exposure(self) -> bool:
        """Whether both factors accept frames X."""
        return all(part.supports_exact_exposure for part in self.parts)

    def combine(self, parts: Sequence[Scores], judged: LabeledRun) -> Scores:
        """Return the product for each query."""
        relevance, awrf = parts
        return Scores.combined(relevance.values * awrf.values, parts)


nDCG_AWRF = NDCGxAWRF()
