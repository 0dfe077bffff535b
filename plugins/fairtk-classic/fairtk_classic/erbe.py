"""ERBE: rank-biased exposure of groups, equal shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fairtk.frames import FloatArray
from fairtk_classic.exposures import Exposures, Population
from fairtk_classic.rank_biased import RankBiasedExposure

if TYPE_CHECKING:
    from fairtk.measures import Judged


class RankBiasedEquality(RankBiasedExposure):
    """Whether all groups get the same exposure in total.

    ER(g) = (1 - gamma) sum over ranks k of gamma^(k - 1) [document k in g] (Kirnap et al. 2021, Eq.
    2), compared over the groups by ``combine``: ``"min/max"`` (default; in [0, 1], higher is more
    even), ``"max/min"``, ``"max-min"``, ``"max-deviation"``, ``"mean-deviation"``, ``"l2"`` and
    ``"variance"``, all lower is more even. ``gamma`` is 0.8 by default, this plugin's choice.

    A group without a document shown has an exposure of 0 and counts as such. Documents without a
    known group keep their ranks and belong to no group; one of several groups counts in part.
    Undefined (NaN): no document with a known group; ``"max/min"`` with 0 below. A query that the
    run lacks gets a value that none is worse than: 0 for ``"min/max"``, NaN for ``"max/min"``. On
    sampled runs the mean over samples; ``amortize=True`` averages exposure over the samples first.
    """

    NAME = "ERBE"
    PRETTY_NAME = "Rank-biased exposure, equal by group"
    SUPPORTED_PARAMS: ClassVar = {
        name: param
        for name, param in RankBiasedExposure.SUPPORTED_PARAMS.items()
        if name not in ("population", "empty")
    }

    def population(self, judged: Judged) -> Population:
        """Return 1 for each group: nothing is divided by its documents."""
        rows = judged.run
        n_rows = len(rows.qids) if self["amortize"] else rows.n_rankings
        ones = np.ones((n_rows, len(self.compared)))
        return Population(ones, ones, ones)

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure, to be divided by 1."""
        return self.scale * got.exposure, have.size

    def top(self) -> float:
        """Return the attention of all ranks together."""
        return 1.0


ERBE = RankBiasedEquality()
