"""Statistics over queries: paired tests, intervals, corrections, slopes and areas of curves."""

from __future__ import annotations

from fairtk.statistics.corrections import CORRECTIONS, correct
from fairtk.statistics.curves import CURVES, CurveValue, curve_values
from fairtk.statistics.intervals import INTERVALS, mean_intervals
from fairtk.statistics.paired import TESTS, PairedTest, cohens_dz, paired_test

__all__ = [
    "CORRECTIONS",
    "CURVES",
    "CurveValue",
    "INTERVALS",
    "PairedTest",
    "TESTS",
    "cohens_dz",
    "correct",
    "curve_values",
    "mean_intervals",
    "paired_test",
]
