"""Exposure: browsing models, expected exposure of documents and groups, targets and bounds."""

from __future__ import annotations

from fairtk.exposure.bounds import (
    Bounded,
    ExposureValues,
    cascade_relevance,
    values_and_bounds,
    worst_relevance,
)
from fairtk.exposure.browsing import DCG, GERR, MU, RBP, TREC, BrowsingModel
from fairtk.exposure.expected import (
    Grades,
    RankWeights,
    attention,
    expected_exposure,
    make_grades,
    target_exposure,
    total,
)
from fairtk.exposure.ndcg import ideal_gain, normalized_gain
from fairtk.exposure.published import expeval_values, fair_rag_values

__all__ = [
    "Bounded",
    "BrowsingModel",
    "DCG",
    "ExposureValues",
    "GERR",
    "Grades",
    "MU",
    "RBP",
    "RankWeights",
    "TREC",
    "attention",
    "cascade_relevance",
    "expected_exposure",
    "expeval_values",
    "fair_rag_values",
    "ideal_gain",
    "make_grades",
    "normalized_gain",
    "target_exposure",
    "total",
    "values_and_bounds",
    "worst_relevance",
]
