"""Measuring and comparing runs: what the commands ``fairtk evaluate`` and ``compare`` call."""

from __future__ import annotations

from fairtk.evaluation.comparing import Comparison, compare
from fairtk.evaluation.evaluating import evaluate
from fairtk.evaluation.values import EvaluatedRuns

__all__ = ["Comparison", "EvaluatedRuns", "compare", "evaluate"]
