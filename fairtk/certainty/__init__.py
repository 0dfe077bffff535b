"""How sure numbers are: what can be had without new samples, and how many samples are needed."""

from __future__ import annotations

from fairtk.certainty.off_policy import OffPolicyUtility, off_policy_utility
from fairtk.certainty.samples_needed import Precision, precision

__all__ = [
    "OffPolicyUtility",
    "Precision",
    "off_policy_utility",
    "precision",
]
