"""EE-R: expected exposure relevance."""

from __future__ import annotations

from typing import ClassVar

from fairtk.measures.ee.measure import PARAMETERS, ExpectedExposure
from fairtk.measures.params import Param


class ExpectedExposureRelevance(ExpectedExposure):
    """How much of the exposure goes where an ideal policy would put it.

    The inner product of expected exposure and target exposure (Diaz et al. 2020; Kim and Diaz,
    Towards Fair RAG, Eqs. 3 and 6), normalized by the ideal policy's value (Appendix C). In
    [0, 1] when normalized; higher is better. It is a measure of quality, not of fairness: one
    fixed ranking with useful documents on top has the same value as an even policy over them.

    With ``bounds="exact"`` the floor is the value of the worst fixed order, above 0 when useful
    documents cannot all be left out; undefined (NaN) where a ranking has fewer than min(k, n)
    documents. Under a cascade (GERR) other orders can have more than the ideal one, so there it is
    normalized by the largest value of any order. A query without a useful document is undefined;
    one that the run lacks gets 0. Samples estimate it without bias.

    With ``groups=...`` it is the inner product of the groups' exposure and the target (see `EE_L`).
    """

    NAME = "EE_R"
    PRETTY_NAME: ClassVar[str] = "Expected exposure relevance"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    PART: ClassVar[str] = "relevance"
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        name: param for name, param in PARAMETERS.items() if name != "estimator"
    }


EE_R = ExpectedExposureRelevance()
