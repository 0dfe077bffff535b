"""EE-L: expected exposure loss."""

from __future__ import annotations

from typing import ClassVar

from fairtk.measures.ee.measure import ExpectedExposure


class ExpectedExposureLoss(ExpectedExposure):
    """How far the exposure that documents get is from the exposure they should get.

    The squared distance of expected and target exposure (Diaz et al. 2020; Kim and Diaz, Towards
    Fair RAG, Eq. 3): EE_D - 2 EE_R + squared norm of the target, all unnormalized. Lower is
    better; 0 is reached by the ideal policy alone. The papers give no normalizer for it; here,
    with ``normalize=True``, it is divided by the sum of the upper bounds of EE_D and EE_R (as the
    code published with Fair RAG does), with ``bounds="exact"`` by the loss of the worst fixed
    order (NaN where a ranking has fewer than min(k, n) documents; under GERR a bound that cannot
    always be reached). A query without a useful document is undefined (NaN); one that the run
    lacks gets the upper bound. ``estimator="unbiased"`` takes away what sampling adds to EE_D.

    ``EE_L(groups=..., target=...)@20`` is the group form of TREC Fair Ranking 2022, Task 2: the
    exposure of groups, from useful documents alone, against the target distribution times the
    attention of the first 20 ranks (of ``@k``), whatever the length of the rankings; discount
    `TREC`, not normalized. ``variant="expeval"`` has the group form of that code, with its own
    target.
    """

    NAME = "EE_L"
    PRETTY_NAME: ClassVar[str] = "Expected exposure loss"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = 1.0
    PART: ClassVar[str] = "loss"


EE_L = ExpectedExposureLoss()
