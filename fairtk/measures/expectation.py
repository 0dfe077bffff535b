"""E: the expectation of any measure over sampled rankings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from ir_measures.measures.base import MeanAgg

from fairtk.errors import ParameterError, warn
from fairtk.exposure import DCG
from fairtk.exposure.expected import average
from fairtk.frames import FloatArray, IntArray, ObjectArray
from fairtk.measures.base import FairMeasure, value_bounds
from fairtk.measures.kernels import exact_ndcg, kernel_of
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import Param
from fairtk.measures.parsing import MeasureParam, check_params, with_cutoff
from fairtk.measures.provider import integer_labels, values_by_ranking, values_of


class Expectation(FairMeasure):
    """The mean of a measure over the sampled rankings of each query.

    ``E(nDCG@5)``, or ``E(nDCG)@5``, is the expected nDCG@5 of a stochastic ranking policy,
    estimated from its samples (Eq. 7 of Towards Fair RAG, with any measure as the utility). Plain
    measures of ir_measures expect one ranking per query and raise an error on a sampled run. On a
    run without samples, E(...) equals the measure; on a sampled run, ranks decide the order. Range,
    direction, aggregation and the value of a missing query are those of the measure.
    """

    identity_name = "fairtk.E"
    output_version = 1
    NAME = "E"
    PRETTY_NAME = "Expectation over samples"
    CITATION = "kim2024fairrag"
    BETTER = "higher"
    is_by_query = True
    MISSING = 0.0
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "measure": MeasureParam("any measure of ir_measures or fairtk, e.g. 'nDCG@5'")
    }
    POSITIONAL = ("measure",)

    def __matmul__(self, at_param: Any) -> Expectation:
        inner = self.inner
        if inner.params.get(inner.AT_PARAM) is not None:
            raise ParameterError(f"{self!r}: duplicate cutoff; drop @{at_param}")
        cut: Expectation = self(with_cutoff(inner, at_param))
        return cut

    @property
    def inner(self) -> Any:
        """The measure inside."""
        return self.require_param("measure", "a measure: write E(nDCG@5)")

    @property
    def supports_exact_exposure(self) -> bool:
        """Whether it accepts frames X: only for nDCG, which is linear in exposure."""
        return self.inner.NAME == "nDCG" and kernel_of(self.inner) is not None

    @property
    def better(self) -> str:
        """The direction of the measure inside; higher for measures of ir_measures."""
        return getattr(self.inner, "better", self.BETTER)

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the measure inside."""
        return value_bounds(self.inner)

    def score_all(self, judged: LabeledRun) -> FloatArray:
        """Return the expectation for each query; a missing query gets the measure's default."""
        values = judged.cache.setdefault("expectations", {})
        if self.inner not in values:  # compute all E(...) of a call together
            measures = [*judged.cache.get("inside E", ()), self.inner]
            values |= _expectations([m for m in measures if m not in values], judged)
        result: FloatArray = values[self.inner]
        if not isinstance(self.inner, FairMeasure):
            why = f"{self.inner!r} returned no value for it"
            self.warn_undefined(judged.qids[np.isnan(result)], len(result), why)
        return result

    def aggregator(self) -> Any:
        """Return the measure's aggregator over queries, e.g. a sum for NumRet."""
        return self.inner.aggregator()

    def aggregate(self, values: FloatArray, qids: ObjectArray) -> float:
        """Return the measure's aggregate of the values of queries."""
        if isinstance(self.inner, FairMeasure):
            return self.inner.aggregate(values, qids)
        return super().aggregate(values, qids)

    def per_query(self, values: FloatArray) -> FloatArray:
        """Return the values; warn if the aggregate is not a mean over queries."""
        if isinstance(self.inner, FairMeasure):
            return self.inner.per_query(values)
        if type(self.aggregator()) is not MeanAgg:
            warn(
                f"{self!r} is not a mean over queries, so means of its per-query values "
                "(pt.Experiment) are wrong; use ir_measures.calc_aggregate or fairtk evaluate"
            )
        return values


def _expectations(measures: list[Any], judged: LabeledRun) -> dict[Any, FloatArray]:
    distinct = list(dict.fromkeys(measures))
    if judged.exact is not None:
        return {m: _expected_ndcg(m, judged) for m in distinct}
    if not judged.run.is_sampled:
        return values_of(distinct, judged)
    values, absent = _by_ranking(distinct, judged)
    return {
        m: np.where(judged.present, average(judged.ranking_query, v, len(judged.qids)), absent[m])
        for m, v in values.items()
    }


def _by_ranking(measures: list[Any], judged: LabeledRun) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Return the values of rankings and of missing queries, from kernels and providers."""
    kernels = {m: kernel for m in measures if (kernel := kernel_of(m)) is not None}
    others = [m for m in measures if m not in kernels]
    values, absent = values_by_ranking(others, judged) if others else ({}, {})
    if kernels:
        # the same checks as in the providers
        integer_labels(list(kernels), judged.qrels.labels, judged.where)
    for measure, kernel in kernels.items():
        values[measure], absent[measure] = kernel(judged), measure.DEFAULT
    return values, absent


def _expected_ndcg(measure: Any, judged: LabeledRun) -> FloatArray:
    """Return the expectation of nDCG from a frame X."""
    cutoff = measure.params.get(measure.AT_PARAM)
    exposure = judged.attention(f"E({measure!r})", DCG(), cutoff)
    integer_labels([measure], judged.qrels.labels, judged.where)
    result = np.full(len(judged.qids), float(measure.DEFAULT))
    result[judged.ranking_query] = exact_ndcg(judged, cutoff, exposure)
    return result


def values_of_samples(measure: Any, judged: LabeledRun) -> tuple[IntArray, FloatArray]:
    """Return the query and the value of each ranking of a sampled run."""
    check_params(measure)  # ir_measures checks only on request
    return judged.ranking_query, _by_ranking([measure], judged)[0][measure]


E = Expectation()
