"""Statistics over queries: tests, intervals, corrections, power, slopes and areas of curves."""

from __future__ import annotations

from fairtk.report.curves import (
    CURVES,
    CurveValue,
    TwoLevels,
    area_under,
    curve_values,
    power_of_test,
    queries_needed,
    two_levels,
)
from fairtk.report.statistics import (
    CORRECTIONS,
    TESTS,
    MarginTest,
    PairedTest,
    cohens_dz,
    correct,
    equivalence_test,
    mean_intervals,
    non_inferiority_test,
    paired_test,
)

__all__ = [
    "CORRECTIONS",
    "CURVES",
    "CurveValue",
    "MarginTest",
    "PairedTest",
    "TESTS",
    "TwoLevels",
    "area_under",
    "cohens_dz",
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
