"""logEUR: exposure against relevance."""

from __future__ import annotations

from typing import ClassVar

from fairtk.frames import BoolArray, FloatArray
from fairtk_classic.exposures import Exposures, Population
from fairtk_classic.log_dp import PER
from fairtk_classic.log_ratios import LogRatio
from fairtk_classic.relevance import per_mean_relevance


class LogExposedUtility(LogRatio):
    """Whether protected documents get more or less exposure for their relevance than the others.

    logEUR = ln(E_protected / Y_protected + d) - ln(E_others / Y_others + d), d = 1e-6, with E_g the
    sum of the attention of a group's documents and Y_g the mean label of its documents in
    ``population`` (the disparate treatment ratio of Singh and Joachims 2018, in the form of Raj and
    Ekstrand 2022). ``per="document"`` takes the mean exposure for E_g, as Singh and Joachims do, so
    that the numbers of documents cancel. 0: alike; below 0 the protected documents get less; better
    is closer to 0.

    Labels below 0 and documents without one count as 0. Undefined (NaN) also where a side has no
    relevant document. In all else as `logDP`.
    """

    NAME = "logEUR"
    PRETTY_NAME = "Log ratio of exposed utility"
    SUPPORTED_PARAMS: ClassVar = {**LogRatio.SUPPORTED_PARAMS, "per": PER}
    REASON = "the protected level or the others have no relevant document"

    def sides(self, got: Exposures, have: Population) -> tuple[FloatArray, BoolArray]:
        """Return exposure over mean relevance."""
        return per_mean_relevance(got.exposure, have, self["per"])


logEUR = LogExposedUtility()  # noqa: N816 - the paper's name
