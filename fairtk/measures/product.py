"""Product: the product of two measures, query by query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from fairtk.errors import ParameterError
from fairtk.measures.base import FairMeasure, value_bounds
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import Param
from fairtk.measures.parsing import MeasureParam, has_cutoff, with_cutoff
from fairtk.measures.scores import Scores


class MeasureProduct(FairMeasure):
    """The product of two measures, computed for each query before the mean.

    ``nDCG@20 * AWRF(...)@20`` rewards systems that are both relevant and fair, as the score of TREC
    Fair Ranking 2022 does. Report the factors, too: the mean of products is not the product of
    means. Both factors must have the same direction, which is that of the product. Python reads the
    expression as ``(nDCG@20 * AWRF(...))@20``, so the cutoff applies to factors without a cutoff;
    if both have one, it is an error. On a sampled run, a factor of ir_measures must be inside
    ``E(...)``. A query missing from the run gets the product of the factors' values.
    """

    identity_name = "fairtk.Product"
    output_version = 1
    NAME = "Product"
    PRETTY_NAME = "Product of measures"
    CITATION = "ekstrand2022overview"
    BETTER = "higher"
    ABOUT = "the product of two measures"
    CAVEAT = "it does not show which of the two changed"
    is_by_query = True
    MISSING = 0.0
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "left": MeasureParam("a measure, e.g. 'nDCG@20'"),
        "right": MeasureParam("a measure"),
    }

    @property
    def factors(self) -> list[Any]:
        """The two measures."""
        remedy = "left and right, two measures: write nDCG@20 * EE_R@20"
        return [self.require_param("left", remedy), self.require_param("right", remedy)]

    @property
    def better(self) -> str:
        """The common direction of the factors."""
        return _direction(self.factors)

    @property
    def bounds(self) -> tuple[float, float]:
        """The product of the factors' bounds; infinite if a factor may be negative."""
        (low, high), (other_low, other_high) = (value_bounds(factor) for factor in self.factors)
        if min(low, other_low) < 0:
            return -math.inf, math.inf
        return low * other_low, high * other_high

    def check_params(self) -> None:
        """Raise a `ParameterError` if the directions differ, or a factor compares queries."""
        if "left" in self.params and "right" in self.params:
            _direction(self.factors)
            for factor in self.factors:
                if getattr(factor, "compares_queries", False):
                    raise ParameterError(
                        f"{factor!r} compares groups of queries, so it has no values of queries "
                        "to multiply"
                    )

    def __matmul__(self, at_param: Any) -> MeasureProduct:
        left, right = self.factors
        if has_cutoff(left) and has_cutoff(right):
            raise ParameterError(f"{self!r}: duplicate cutoff; drop @{at_param}")
        left = left if has_cutoff(left) else with_cutoff(left, at_param)
        right = right if has_cutoff(right) else with_cutoff(right, at_param)
        return type(self)(left=left, right=right)

    def validate_params(self) -> None:
        """Raise a `ParameterError` if a factor is not set."""
        _ = self.factors

    def combine(self, parts: Sequence[Scores], judged: LabeledRun) -> Scores:
        """Return the product for each query; NaN if a factor is NaN."""
        left, right = parts
        return Scores.combined(left.values * right.values, parts)


def _direction(factors: list[Any]) -> str:
    directions = [getattr(f, "better", "higher") for f in factors]
    if directions[0] != directions[1]:
        raise ParameterError(
            "the factors of a product must have the same direction, got "
            f"{factors[0]!r} ({directions[0]} is better) and {factors[1]!r} "
            f"({directions[1]} is better)"
        )
    return str(directions[0])


Product = MeasureProduct()
