"""Statistics over queries: paired tests, intervals of means, corrections for many tests."""

from __future__ import annotations

from fairtk.statistics.corrections import CORRECTIONS, correct
from fairtk.statistics.intervals import INTERVALS, mean_intervals
from fairtk.statistics.paired import TESTS, PairedTest, cohens_dz, paired_test

__all__ = [
    "CORRECTIONS",
    "INTERVALS",
    "PairedTest",
    "TESTS",
    "cohens_dz",
    "correct",
    "mean_intervals",
    "paired_test",
]
