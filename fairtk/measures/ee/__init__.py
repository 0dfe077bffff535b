"""EE-D, EE-R and EE-L: one declaration for all three, one object for each form of them."""

from __future__ import annotations

from fairtk.measures.ee.measure import EE_D, EE_L, EE_R, ExpectedExposure, ExpectedExposureLoss

__all__ = [
    "EE_D",
    "EE_L",
    "EE_R",
    "ExpectedExposure",
    "ExpectedExposureLoss",
]
