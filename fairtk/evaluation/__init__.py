"""Measuring and comparing runs: what the commands ``fairtk evaluate`` and ``compare`` call."""

from __future__ import annotations

from fairtk.evaluation.comparing import COLUMNS, Comparison, compare, tested
from fairtk.evaluation.evaluating import evaluate
from fairtk.evaluation.values import EvaluatedRuns

__all__ = ["COLUMNS", "Comparison", "EvaluatedRuns", "compare", "evaluate", "tested"]
