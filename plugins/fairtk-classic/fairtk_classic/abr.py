"""ABR: attention bias ratio."""

from __future__ import annotations

from typing import ClassVar

from fairtk.frames import FloatArray
from fairtk_classic import parameters as p
from fairtk_classic.exp import first_attention
from fairtk_classic.exposures import CombinedExposure, Exposures, Population


class AttentionBiasRatio(CombinedExposure):
    """The smallest mean attention of a group, as a share of the largest.

    ABR = min over groups of mean attention / max over groups of mean attention (Ghosh, Dutt and
    Wilson 2021), the mean over the group's documents in the ranking (``population="ranked"``). In
    [0, 1]; higher is more even, 1: all groups get the same. Attention falls geometrically with the
    rank, ``browsing="RBP(p=0.5)"`` by default, a choice of this plugin.

    Documents without a known group keep their ranks and belong to no group; one of several groups
    counts in part. Undefined (NaN): a group of the attribute has no document in the ranking, which
    would look even if it were left out (``empty="skip"`` does so and compares the others, if there
    are two); no document with a known group. 0 for a query that the run lacks. On sampled runs the
    mean over samples; ``amortize=True`` averages attention over the samples first.
    """

    NAME = "ABR"
    PRETTY_NAME = "Attention bias ratio"
    CITATION = "ghosh2021fair"
    BETTER = "higher"
    MISSING = 0.0
    SUPPORTED_PARAMS: ClassVar = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "browsing": p.browsing("RBP(p=0.5)"),
        "population": p.population("ranked"),
        "unlabeled": p.UNLABELED,
        "amortize": p.amortize(False),
        "empty": p.EMPTY,
    }

    @property
    def combined(self) -> str:
        """How the groups are compared: always min / max."""
        return "min/max"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and number of documents."""
        return got.exposure, have.size

    def top(self) -> float:
        """Return the attention of the first rank."""
        return first_attention(self)


ABR = AttentionBiasRatio()
