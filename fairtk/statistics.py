"""Statistics over queries: tests, intervals, corrections, power, slopes and areas of curves."""

from __future__ import annotations

from fairtk.report.curves import (
    CurveValue,
    TwoLevels,
    curve_values,
    power_of_test,
    queries_needed,
    two_levels,
)
from fairtk.report.statistics import (
    MarginTest,
    PairedTest,
    correct,
    equivalence_test,
    mean_intervals,
    non_inferiority_test,
    paired_test,
)

__all__ = [
    "CurveValue",
    "MarginTest",
    "PairedTest",
    "TwoLevels",
    "correct",
    "curve_values",
    "equivalence_test",
    "mean_intervals",
    "non_inferiority_test",
    "paired_test",
    "power_of_test",
    "queries_needed",
    "two_levels",
]
