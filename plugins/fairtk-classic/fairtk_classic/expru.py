"""EXPRU: realized utility of groups for their utility."""

from __future__ import annotations

from fairtk.frames import FloatArray
from fairtk_classic.exposures import CombinedExposure, Exposures, Population


class GroupRealizedUtility(CombinedExposure):
    """Whether documents of all groups get clicks in proportion to their relevance.

    Mean attention times label of each group's documents, a model of clicks, over their mean label,
    in which their number cancels: sum of attention x label / sum of labels (disparate impact of
    Singh and Joachims 2018), compared by ``combine`` as in `EXP`: ``"min/max"`` (default) in [0,
    1], higher is more in proportion; all others 0 or above, lower is.

    Labels below 0 and documents without one count as 0. Undefined (NaN) where a group has no
    relevant document in ``population`` (``empty="skip"`` compares the others). In all else as
    `EXP`.
    """

    NAME = "EXPRU"
    PRETTY_NAME = "Group realized utility"
    CITATION = "singh2018fairness"
    BETTER = "higher"
    EMPTY_REASON = "a group has no relevant document"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return attention times label and relevance."""
        return got.gain, have.relevance


EXPRU = GroupRealizedUtility()
