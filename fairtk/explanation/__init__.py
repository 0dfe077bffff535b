"""Where the cost of a group measure comes from: groups, rank bands and queries."""

from __future__ import annotations

from fairtk.explanation.entry import explain
from fairtk.explanation.result import Explanation

__all__ = ["Explanation", "explain"]
