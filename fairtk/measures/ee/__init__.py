"""EE-D, EE-R and EE-L: one declaration for all three, one object for each form of them."""

from __future__ import annotations

from fairtk.measures.ee.ee_d import EE_D
from fairtk.measures.ee.ee_l import EE_L, ExpectedExposureLoss
from fairtk.measures.ee.ee_r import EE_R
from fairtk.measures.ee.measure import ExpectedExposure

__all__ = [
    "EE_D",
    "EE_L",
    "EE_R",
    "ExpectedExposure",
    "ExpectedExposureLoss",
]
