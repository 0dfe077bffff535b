"""Does the order of systems hold, whatever was chosen on the way; and what trade-offs are there?"""

from __future__ import annotations

from fairtk.robustness.entry import sensitivity
from fairtk.robustness.orders import Sensitivity
from fairtk.robustness.sweeping import frontier
from fairtk.robustness.tradeoffs import Frontier
from fairtk.robustness.varying import CHOICES

__all__ = ["CHOICES", "Frontier", "Sensitivity", "frontier", "sensitivity"]
