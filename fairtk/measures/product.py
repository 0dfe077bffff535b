"""Product of two measures, query by query."""

from __future__ import annotations

from typing import Any, ClassVar

from fairtk.errors import ParameterError
from fairtk.frames.arrays import FloatArray
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence
from fairtk.measures.foreign import values_for
from fairtk.measures.params import MeasureParam, Param


class MeasureProduct(FairMeasure):
    """The product of two measures, taken for each query before any mean.

    ``nDCG @ 20 * AWRF(...) @ 20`` rewards a system that is both relevant and even: it is the form
    of TREC Fair Ranking 2022's score. The mean of products is not the product of means, so report
    the factors too. `*` and `@` bind alike in Python, so that expression arrives as
    ``(nDCG @ 20 * AWRF(...)) @ 20``: the cutoff goes to the factors that have none, and is an
    error if all have one. On a sampled run a factor of ir_measures must stand inside ``E(...)``. A
    query that the run lacks gets the product of the factors' values for it.
    """

    NAME = "Product"
    PRETTY_NAME: ClassVar[str] = "Product of measures"
    CITATION: ClassVar[str] = "ekstrand2022overview"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "left": MeasureParam("a measure, e.g. 'nDCG@20'"),
        "right": MeasureParam("a measure"),
    }

    @property
    def factors(self) -> list[Any]:
        """The two measures."""
        remedy = "two measures: write nDCG@20 * EE_R@20"
        return [self.needed("left", remedy), self.needed("right", remedy)]

    @property
    def parts(self) -> list[Any]:
        """The measures that this one is made of."""
        return self.factors

    @property
    def better(self) -> str:
        """The direction that the factors share."""
        return _direction(self.factors)

    def check_params(self) -> None:
        """Raise if the factors' directions differ: their product would have none."""
        if "left" in self.params and "right" in self.params:
            _direction(self.factors)

    def __matmul__(self, at_param: Any) -> MeasureProduct:
        left, right = self.factors
        if _has_cutoff(left) and _has_cutoff(right):
            raise ParameterError(f"{self!r}: both factors have a cutoff already; drop @{at_param}")
        left = left if _has_cutoff(left) else left @ at_param
        right = right if _has_cutoff(right) else right @ at_param
        return type(self)(left=left, right=right)

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X: if both factors do."""
        return all(getattr(factor, "takes_exposure", False) for factor in self.factors)

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the product for each query; NaN where a factor is."""
        left, right = (values_for(m, evidence) for m in self.factors)
        return left * right


def _direction(factors: list[Any]) -> str:
    directions = [getattr(f, "better", "higher") for f in factors]
    if directions[0] != directions[1]:
        raise ParameterError(
            f"a product of {factors[0]!r} ({directions[0]} is better) and {factors[1]!r} "
            f"({directions[1]} is better) has no direction; multiply measures of one direction"
        )
    return str(directions[0])


def _has_cutoff(measure: Any) -> bool:
    if isinstance(measure, MeasureProduct):
        return all(_has_cutoff(f) for f in measure.factors)
    inner = getattr(measure, "inner", measure)  # E(nDCG@5) has its cutoff inside
    return inner.params.get(inner.AT_PARAM) is not None


Product = MeasureProduct()
