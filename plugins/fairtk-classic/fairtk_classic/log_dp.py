"""logDP: demographic parity of exposure."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fairtk.frames import BoolArray, FloatArray
from fairtk.measures import Param
from fairtk_classic.exposures import Exposures, Population
from fairtk_classic.log_ratios import LogRatio

PER = Param(
    str,
    default="group",
    choices=("group", "document"),
    desc="compare the groups' total exposure, or the mean exposure of their documents",
)


class LogDemographicParity(LogRatio):
    """Whether protected documents get more or less exposure than the others, as a log ratio.

    logDP = ln(E_protected + d) - ln(E_others + d), d = 1e-6, with E_g the sum of the attention of a
    group's documents (demographic parity of Singh and Joachims 2018, in the form of Raj and
    Ekstrand 2022). 0: both get the same in total, whatever their numbers. ``per="document"``
    divides E_g by the number of the group's documents in ``population``, which is the constraint of
    Singh and Joachims. Below 0 the protected documents get less, above 0 more; better is closer to
    0, and ``absolute=True`` gives the distance, since values of queries on both sides cancel in a
    mean.

    The attention of a rank is 1 / log2(rank + 2), rank from 0, unless ``browsing`` says otherwise
    (a published code multiplies by the reciprocal, so that exposure grows with rank). A group that
    gets none gives a large but finite value, about -13 or 13, that rules a mean. Documents without
    a known group keep their ranks and belong to no side. Undefined (NaN): no document with a known
    group, ``per="document"`` for a side without documents, and a query that the run lacks (no value
    is the worst). On sampled runs exposure is averaged over samples first.
    """

    NAME = "logDP"
    PRETTY_NAME = "Log ratio of demographic parity"
    SUPPORTED_PARAMS: ClassVar = {**LogRatio.SUPPORTED_PARAMS, "per": PER}
    REASON = "the protected level or the others have no document"

    def sides(self, got: Exposures, have: Population) -> tuple[FloatArray, BoolArray]:
        """Return total or mean exposure."""
        if self["per"] == "group":
            return got.exposure, np.ones(len(got.query), dtype=bool)
        some = have.size > 0
        mean = np.divide(got.exposure, have.size, out=np.zeros_like(have.size), where=some)
        return mean, np.asarray(some.all(axis=1))


logDP = LogDemographicParity()  # noqa: N816 - the paper's name
