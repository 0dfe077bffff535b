"""logRUR: realized utility against relevance."""

from __future__ import annotations

from typing import ClassVar

from fairtk.frames import BoolArray, FloatArray
from fairtk_classic.exposures import Exposures, Population
from fairtk_classic.log_dp import PER
from fairtk_classic.log_ratios import LogRatio
from fairtk_classic.relevance import per_mean_relevance


class LogRealizedUtility(LogRatio):
    """Whether protected documents get more or less clicks for their relevance than the others.

    logRUR = ln(C_protected / Y_protected + d) - ln(C_others / Y_others + d), d = 1e-6, with C_g the
    sum of attention times label over a group's documents, a model of clicks, and Y_g the mean label
    of its documents in ``population`` (the disparate impact ratio of Singh and Joachims 2018, in
    the form of Raj and Ekstrand 2022). ``per="document"`` takes the mean for C_g, as Singh and
    Joachims do. 0: alike; below 0 the protected documents get less; better is closer to 0.

    Labels below 0 and documents without one count as 0. Undefined (NaN) also where a side has no
    relevant document. In all else as `logDP`.
    """

    NAME = "logRUR"
    PRETTY_NAME = "Log ratio of realized utility"
    SUPPORTED_PARAMS: ClassVar = {**LogRatio.SUPPORTED_PARAMS, "per": PER}
    REASON = "the protected level or the others have no relevant document"

    def sides(self, got: Exposures, have: Population) -> tuple[FloatArray, BoolArray]:
        """Return attention times label over mean relevance."""
        return per_mean_relevance(got.gain, have, self["per"])


logRUR = LogRealizedUtility()  # noqa: N816 - the paper's name
