"""Rank-biased exposure of groups: what ERBE, ERBP and ERBR share."""

from __future__ import annotations

from typing import Any, ClassVar

from fairtk.exposure import RBP
from fairtk.measures import Param
from fairtk_classic import parameters as p
from fairtk_classic.exposures import CombinedExposure

GAMMA = Param(
    (int, float),
    default=0.8,
    desc="patience: the probability of going on to the next rank",
    check=lambda value: "" if 0 < value < 1 else "must lie between 0 and 1",
)


class RankBiasedExposure(CombinedExposure):
    """Base of the three: attention (1 - gamma) gamma^(k - 1), k from 1."""

    CITATION = "kirnap2021estimation"
    BETTER = "higher"
    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "gamma": GAMMA,
        "combine": p.COMBINE,
        "population": p.population("judged+ranked"),
        "unlabeled": p.UNLABELED,
        "amortize": p.amortize(False),
        "empty": p.EMPTY,
    }

    @property
    def model(self) -> RBP:
        """The browsing model, gamma^rank."""
        return RBP(p=float(self["gamma"]))

    @property
    def scale(self) -> float:
        """The factor 1 - gamma, which makes the attention of all ranks sum to 1."""
        return 1.0 - float(self["gamma"])
