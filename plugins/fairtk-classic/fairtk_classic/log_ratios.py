"""The log-ratio measures of exposure: what logDP, logEUR and logRUR share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk.frames import BoolArray, FloatArray
from fairtk.measures import Param
from fairtk_classic import parameters as p
from fairtk_classic.exposures import ExposureMeasure, Exposures, Population
from fairtk_classic.group_measure import NOTHING_KNOWN, BinaryMeasure, Scored

if TYPE_CHECKING:
    from fairtk.measures import Judged

DELTA = 1e-6
"""Added to both sides, so that a group without exposure has a finite logarithm."""

ABSOLUTE = Param(bool, default=False, desc="take the distance from 0: lower is better")


class LogRatio(ExposureMeasure, BinaryMeasure):
    """Base of the three; a subclass defines `sides`."""

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
        """Return the two values that are compared, and whether both are defined.

        Args:
            got: what the protected level and the others get; shape (n_rows, 2).
            have: their documents; same shape.
        """
        raise NotImplementedError

    def per_ranking(self, judged: Judged) -> Scored:
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
