"""ERBP: rank-biased exposure of groups, in proportion to their size."""

from __future__ import annotations

from fairtk.frames import FloatArray
from fairtk_classic.exposures import Exposures, Population
from fairtk_classic.rank_biased import RankBiasedExposure


class RankBiasedProportionality(RankBiasedExposure):
    """Whether all groups get exposure in proportion to their numbers of documents.

    ER(g) of `ERBE` over the number of the group's documents (Kirnap et al. 2021), compared by
    ``combine`` as in `ERBE`: ``"min/max"`` (default) in [0, 1], higher is more in proportion; all
    others 0 or above, lower is. ``population`` says which documents there are: all that are labeled
    for the query or shown (default), or ``"collection"``: all that have groups.

    Undefined (NaN) also where a group of the attribute has no document there (``empty="skip"``
    compares the others). In all else as `ERBE`.
    """

    NAME = "ERBP"
    PRETTY_NAME = "Rank-biased exposure, proportional to group size"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and number of documents."""
        return self.scale * got.exposure, have.size

    def top(self) -> float:
        """Return the attention of the first rank, the highest mean that a group can have."""
        return self.scale


ERBP = RankBiasedProportionality()
