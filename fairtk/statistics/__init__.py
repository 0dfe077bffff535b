"""Statistics over queries: tests, intervals, corrections, power, slopes and areas of curves."""

from __future__ import annotations

from fairtk.statistics.corrections import CORRECTIONS, correct
from fairtk.statistics.curves import CURVES, CurveValue, area_under, curve_values
from fairtk.statistics.intervals import INTERVALS, mean_intervals
from fairtk.statistics.levels import TwoLevels, power_of_test, queries_needed, two_levels
from fairtk.statistics.margins import MarginTest, equivalence_test, non_inferiority_test
from fairtk.statistics.paired import TESTS, PairedTest, cohens_dz, paired_test

__all__ = [
    "CORRECTIONS",
    "CURVES",
    "CurveValue",
    "INTERVALS",
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
