"""ERBR: rank-biased exposure of groups, in proportion to their relevant documents."""

from __future__ import annotations

from fairtk.frames import FloatArray
from fairtk_classic.exposures import Exposures, Population
from fairtk_classic.rank_biased import RankBiasedExposure


class RankBiasedRelevance(RankBiasedExposure):
    """Whether all groups get exposure in proportion to their numbers of relevant documents.

    ER(g) of `ERBE` over the number of the group's documents with a label above 0 in ``population``
    (Kirnap et al. 2021), compared by ``combine`` as in `ERBE`: ``"min/max"`` (default) in [0, 1],
    higher is more in proportion; all others 0 or above, lower is. All documents that are shown
    count for the exposure, relevant or not.

    Undefined (NaN) also where a group has no relevant document (``empty="skip"`` compares the
    others). A query that the run lacks gets 0 with ``"min/max"`` and NaN otherwise. In all else as
    `ERBE`.
    """

    NAME = "ERBR"
    PRETTY_NAME = "Rank-biased exposure, proportional to relevant documents"
    EMPTY_REASON = "a group has no relevant document"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and number of relevant documents."""
        return self.scale * got.exposure, have.relevant


ERBR = RankBiasedRelevance()
