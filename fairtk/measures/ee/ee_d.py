"""EE-D: expected exposure disparity."""

from __future__ import annotations

from typing import ClassVar

from fairtk.measures.ee.measure import ExpectedExposure


class ExpectedExposureDisparity(ExpectedExposure):
    """How unevenly a ranking policy spreads exposure over documents.

    The squared norm of expected exposure (Diaz et al. 2020; Kim and Diaz, Towards Fair RAG,
    Eqs. 3 and 5), normalized by its largest value, that of one fixed ranking (Appendix C). In
    [0, 1] when normalized; lower is more even. It does not say whether the documents that get the
    exposure are useful (that is EE_R), nor whether groups of documents are treated alike.

    With ``bounds="paper"`` the floor is taken as 0, but no policy reaches it: a uniform one has
    k / n. ``bounds="exact"`` uses (sum of weights)^2 / n; undefined (NaN) where every ranking
    shows all documents alike, and where a ranking has fewer than min(k, n) documents. Under a
    cascade (GERR) the largest value is that with the useful documents last. A query that the run
    lacks gets 1 (the largest value).

    Estimated from N samples, EE-D is too large by (1 - EE-D) / N in expectation.
    ``estimator="unbiased"`` takes that away, and may leave [0, 1] by what is chance; N = 1 is an
    error. A run without samples is a policy of its own: one ranking, always.

    With ``groups=...`` it is the squared norm of the groups' exposure (see `EE_L`). With
    ``variant="expeval"`` and a cascade (GERR) that can leave [0, 1], because that code's bounds are
    those of documents.
    """

    NAME = "EE_D"
    PRETTY_NAME: ClassVar[str] = "Expected exposure disparity"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 1.0
    PART: ClassVar[str] = "disparity"


EE_D = ExpectedExposureDisparity()
