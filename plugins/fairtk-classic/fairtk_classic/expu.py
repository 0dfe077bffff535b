"""EXPU: exposure of groups for their utility."""

from __future__ import annotations

from fairtk.frames import FloatArray
from fairtk_classic.exposures import CombinedExposure, Exposures, Population


class GroupExposureUtility(CombinedExposure):
    """Whether documents of all groups get exposure in proportion to their relevance.

    Mean attention of each group's documents over their mean label, in which their number cancels:
    sum of attention / sum of labels (disparate treatment of Singh and Joachims 2018), compared by
    ``combine`` as in `EXP`: ``"min/max"`` (default) in [0, 1], higher is more in proportion; all
    others 0 or above, lower is.

    Labels below 0 and documents without one count as 0. Undefined (NaN) where a group has no
    relevant document in ``population`` (``empty="skip"`` compares the others). A query that the run
    lacks gets 0 with ``"min/max"`` and NaN otherwise, since a quotient has no highest value. In all
    else as `EXP`.
    """

    NAME = "EXPU"
    PRETTY_NAME = "Group exposure by utility"
    CITATION = "singh2018fairness"
    BETTER = "higher"
    EMPTY_REASON = "a group has no relevant document"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and relevance."""
        return got.exposure, have.relevance


EXPU = GroupExposureUtility()
