"""Does the order of systems hold, whatever was chosen on the way?"""

from __future__ import annotations

from fairtk.robustness.entry import sensitivity
from fairtk.robustness.orders import Sensitivity
from fairtk.robustness.varying import CHOICES

__all__ = ["CHOICES", "Sensitivity", "sensitivity"]
