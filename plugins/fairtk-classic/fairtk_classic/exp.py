"""EXP: exposure of groups."""

from __future__ import annotations

from fairtk.frames import FloatArray
from fairtk_classic.exposures import CombinedExposure, Exposures, Population


class GroupExposure(CombinedExposure):
    """Whether documents of all groups get the same exposure on average.

    The mean attention of each group's documents, sum of attention / number of documents (Singh and
    Joachims 2018), compared by ``combine``: ``"min/max"`` (default; in [0, 1], higher is more even,
    1 if all groups get the same), ``"max/min"``, ``"max-min"``, ``"max-deviation"``,
    ``"mean-deviation"``, ``"l2"`` and ``"variance"``, all lower is more even. The Euclidean norm
    ``"l2"`` is not 0 for even groups, and no exposure at all would have the lowest.

    The attention of a rank is 1 / log2(rank + 2), rank from 0, unless ``browsing`` says otherwise.
    Documents of a group that are not shown count with 0 in its mean: ``population`` says which
    documents there are, by default all that are labeled for the query or shown (those shown are
    counted in each ranking; where samples are averaged, so are the counts). Documents without a
    known group keep their ranks and belong to no group; one of several groups counts in part.

    Undefined (NaN): no document with a known group is shown; a group of the attribute has no
    document in the population (``empty="skip"`` compares the others, if there are two); a ratio
    with 0 below. A query that the run lacks gets a value that none is worse than: 0 for
    ``"min/max"``, NaN for ``"max/min"``. On sampled runs exposure is averaged over samples first.
    """

    NAME = "EXP"
    PRETTY_NAME = "Group exposure"
    CITATION = "singh2018fairness"
    BETTER = "higher"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and number of documents."""
        return got.exposure, have.size

    def top(self) -> float:
        """Return the attention of the first rank."""
        return first_attention(self)


def first_attention(measure: CombinedExposure) -> float:
    """Return the attention of the first rank, the highest mean that a group can have."""
    import numpy as np

    return float(measure.model.weights(np.zeros(1, dtype=np.int64))[0])


EXP = GroupExposure()
