"""Statistics over queries: tests, intervals, corrections, power, slopes and areas of curves."""

from __future__ import annotations

from fairtk.report.curves import (
    CurveValue,
    TwoLevelMean,
    curve_values,
    power_of_test,
    queries_needed,
    two_level_mean,
)
from fairtk.report.statistics import (
    MarginTest,
    PairedTest,
    correct_p_values,
    equivalence_test,
    mean_intervals,
    no_interval,
    non_inferiority_test,
    paired_test,
    percentile_interval,
)

__all__ = [
    "CurveValue",
    "MarginTest",
    "PairedTest",
    "TwoLevelMean",
    "correct_p_values",
    "curve_values",
    "equivalence_test",
    "mean_intervals",
    "no_interval",
    "non_inferiority_test",
    "paired_test",
    "percentile_interval",
    "power_of_test",
    "queries_needed",
    "two_level_mean",
]
