"""logDP, logEUR and logRUR: log ratios of the exposure of protected and other documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk.frames import BoolArray, FloatArray
from fairtk.measures import Param
from fairtk_classic import parameters as p
from fairtk_classic.exposures import ExposureMeasure, Exposures, Population, per_mean_relevance
from fairtk_classic.group_measure import NOTHING_KNOWN, BinaryMeasure, Scored

if TYPE_CHECKING:
    from fairtk.measures import LabeledRun


DELTA = 1e-6
"""Added to both sides, so that a group without exposure has a finite logarithm."""

ABSOLUTE = Param(bool, default=False, desc="take the distance from 0: lower is better")


class LogRatio(ExposureMeasure, BinaryMeasure):
    """Base class of logDP, logEUR and logRUR; a subclass defines `sides`."""

    CITATION = "singh2018fairness raj2022measuring"
    BETTER = "higher"
    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "protected": p.PROTECTED,
        "browsing": p.browsing("DCG"),
        "absolute": ABSOLUTE,
        "population": p.population("judged+ranked"),
        "unlabeled": p.UNLABELED,
        "amortize": p.amortize(True),
    }
    REASON: ClassVar[str] = ""

    @property
    def better(self) -> str:
        """``"lower"`` for the distance from 0; ``"higher"``, up to 0, for the signed value."""
        return "lower" if self["absolute"] else "higher"

    def sides(self, got: Exposures, have: Population) -> tuple[FloatArray, BoolArray]:
        """Return the values of both sides, shape (n_rows, 2), and whether both are defined.

        Args:
            got: the exposure of the protected level and of the others; shape (n_rows, 2).
            have: their documents; same shape.
        """
        raise NotImplementedError

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each row."""
        every, have = self.exposures(judged), self.population(judged)
        got = Exposures(every.query, self.two(every.exposure), self.two(every.gain), every.known)
        parts = (have.size, have.relevance, have.relevant)
        rows = Population(*(self.two(part) for part in parts))
        sides, defined = self.sides(got, rows)
        usable = got.known & defined
        logs = np.log(np.where(usable[:, None], sides, 1.0) + DELTA)
        value = np.where(usable, logs[:, 0] - logs[:, 1], np.nan)
        return Scored(
            got.query,
            np.abs(value) if self["absolute"] else value,
            ((NOTHING_KNOWN, ~got.known), (self.REASON, ~defined)),
        )


PER = Param(
    str,
    default="group",
    choices=("group", "document"),
    desc="compare the groups' total exposure, or the mean exposure of their documents",
)


class LogDemographicParity(LogRatio):
    """Whether protected documents get more or less exposure than the others, as a log ratio.

    logDP = ln(E_protected + d) - ln(E_others + d), d = 1e-6, with E_g the total attention of a
    group's documents (demographic parity of Singh and Joachims 2018, in the form of Raj and
    Ekstrand 2022). It is 0 if both sides get the same total, whatever their numbers of documents,
    below 0 if the protected documents get less, and above 0 if they get more. ``per="document"``
    divides E_g by the number of the group's documents in ``population``, which is the constraint of
    Singh and Joachims. Closer to 0 is better; because values on both sides of 0 cancel in a mean,
    ``absolute=True`` gives the distance from 0.

    The attention of a rank is 1 / log2(rank + 2), rank from 0, unless ``browsing`` is set. A group
    without exposure gives a large but finite value, about -13 or 13, that dominates a mean.
    Documents without a known group keep their ranks and belong to no side. The value is undefined
    (NaN) if no document has a known group, for ``per="document"`` if a side has no documents, and
    for a query missing from the run, because no value is the worst. On sampled runs, exposure is
    averaged over samples first.
    """

    identity_name = "fairtk_classic.logDP"
    output_version = 1
    NAME = "logDP"
    PRETTY_NAME = "Log ratio of demographic parity"
    SUPPORTED_PARAMS: ClassVar = {**LogRatio.SUPPORTED_PARAMS, "per": PER}
    REASON = "the protected level or the others have no document"

    def sides(self, got: Exposures, have: Population) -> tuple[FloatArray, BoolArray]:
        """Return total or mean exposure."""
        if self["per"] == "group":
            return got.exposure, np.ones(len(got.query), dtype=bool)
        has_documents = have.size > 0
        mean = np.divide(got.exposure, have.size, out=np.zeros_like(have.size), where=has_documents)
        return mean, np.asarray(has_documents.all(axis=1))


logDP = LogDemographicParity()  # noqa: N816 - the paper's name


class LogExposedUtility(LogRatio):
    """Whether protected documents get more or less exposure for their relevance than the others.

    logEUR = ln(E_protected / Y_protected + d) - ln(E_others / Y_others + d), d = 1e-6, with E_g the
    total attention of a group's documents and Y_g the mean label of its documents in ``population``
    (the disparate treatment ratio of Singh and Joachims 2018, in the form of Raj and Ekstrand
    2022). With ``per="document"``, E_g is the mean exposure, as in Singh and Joachims, so the
    numbers of documents cancel. It is 0 if both sides are equal, and below 0 if the protected
    documents get less; closer to 0 is better.

    Labels below 0 and unlabeled documents count as 0. The value is also undefined (NaN) if a side
    has no relevant document. Otherwise like `logDP`.
    """

    identity_name = "fairtk_classic.logEUR"
    output_version = 1
    NAME = "logEUR"
    PRETTY_NAME = "Log ratio of exposed utility"
    SUPPORTED_PARAMS: ClassVar = {**LogRatio.SUPPORTED_PARAMS, "per": PER}
    REASON = "the protected level or the others have no relevant document"

    def sides(self, got: Exposures, have: Population) -> tuple[FloatArray, BoolArray]:
        """Return exposure over mean relevance."""
        return per_mean_relevance(got.exposure, have, self["per"])


logEUR = LogExposedUtility()  # noqa: N816 - the paper's name


class LogRealizedUtility(LogRatio):
    """Whether protected documents get more or less clicks for their relevance than the others.

    logRUR = ln(C_protected / Y_protected + d) - ln(C_others / Y_others + d), d = 1e-6, with C_g the
    total clicks (attention times label) of a group's documents and Y_g the mean label of its
    documents in ``population`` (the disparate impact ratio of Singh and Joachims 2018, in the form
    of Raj and Ekstrand 2022). With ``per="document"``, C_g is the mean, as in Singh and Joachims.
    It is 0 if both sides are equal, and below 0 if the protected documents get less; closer to 0 is
    better.

    Labels below 0 and unlabeled documents count as 0. The value is also undefined (NaN) if a side
    has no relevant document. Otherwise like `logDP`.
    """

    identity_name = "fairtk_classic.logRUR"
    output_version = 1
    NAME = "logRUR"
    PRETTY_NAME = "Log ratio of realized utility"
    SUPPORTED_PARAMS: ClassVar = {**LogRatio.SUPPORTED_PARAMS, "per": PER}
    REASON = "the protected level or the others have no relevant document"

    def sides(self, got: Exposures, have: Population) -> tuple[FloatArray, BoolArray]:
        """Return attention times label over mean relevance."""
        return per_mean_relevance(got.gain, have, self["per"])


logRUR = LogRealizedUtility()  # noqa: N816 - the paper's name
