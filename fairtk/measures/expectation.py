"""E: the expectation of any measure over sampled rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ir_measures
import numpy as np
from ir_measures.measures.base import MeanAgg

from fairtk.errors import ParameterError
from fairtk.exposure import DCG
from fairtk.exposure.expected import average
from fairtk.frames import FloatArray, IntArray, ObjectArray
from fairtk.measures.base import FairMeasure, about_and_caveat, value_bounds
from fairtk.measures.evaluation import checked_aggregate, evaluate, evaluate_rankings
from fairtk.measures.foreign import integer_labels
from fairtk.measures.kernels import exact_ndcg, kernel_of
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.params import Param
from fairtk.measures.parsing import MeasureParam, check_params, with_cutoff
from fairtk.measures.scores import Scores


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
        is_ndcg = isinstance(self.inner, type(ir_measures.nDCG))
        return is_ndcg and kernel_of(self.inner) is not None

    @property
    def better(self) -> str:
        """The direction of the measure inside; higher for measures of ir_measures."""
        return getattr(self.inner, "better", self.BETTER)

    @property
    def full_name(self) -> str:
        """The full name of the measure inside."""
        return str(getattr(self.inner, "full_name", None) or self.inner.PRETTY_NAME or "")

    @property
    def about(self) -> str:
        """What the measure inside is about."""
        return f"{about_and_caveat(self.inner)[0]} (mean over the sampled rankings)"

    @property
    def caveat(self) -> str:
        """What the measure inside does not show."""
        return about_and_caveat(self.inner)[1]

    @property
    def of_sample(self) -> Any:
        """The measure inside."""
        return self.inner

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of the measure inside."""
        return value_bounds(self.inner)

    @classmethod
    def score_together(cls, measures: Sequence[Any], judged: LabeledRun) -> dict[Any, Scores]:
        """Return the expectations for each query; a missing query gets the measure's default."""
        scores = _expectations(list(dict.fromkeys(m.inner for m in measures)), judged)
        return {measure: scores[measure.inner] for measure in measures}

    def aggregator(self) -> Any:
        """Return the measure's aggregator over queries, e.g. a sum for NumRet."""
        return self.inner.aggregator()

    def aggregate(self, values: FloatArray, qids: ObjectArray) -> float:
        """Return the measure's aggregate of the values of queries."""
        if isinstance(self.inner, FairMeasure):
            return checked_aggregate(self.inner, values, qids)
        return super().aggregate(values, qids)

    def per_query(self, values: FloatArray) -> FloatArray:
        """Return the per-query values of the measure inside."""
        if isinstance(self.inner, FairMeasure):
            return self.inner.per_query(values)
        return values

    @property
    def compares_queries(self) -> bool:
        """Whether the measure inside compares groups of queries."""
        return getattr(self.inner, "compares_queries", False)

    @property
    def is_mean(self) -> bool:
        """Whether its aggregate is the mean over queries."""
        if isinstance(self.inner, FairMeasure):
            return self.inner.is_mean
        return type(self.aggregator()) is MeanAgg


def _expectations(measures: list[Any], judged: LabeledRun) -> dict[Any, Scores]:
    if judged.exact is not None:
        return {m: Scores(_expected_ndcg(m, judged)) for m in measures}
    if not judged.run.is_sampled:
        return {m: _explained(m, scores) for m, scores in evaluate(measures, judged).items()}
    values, samples = _by_ranking(measures, judged)
    scores = {}
    for measure, value in values.items():
        parts = samples.get(measure, [])
        absent = parts[-1].values if parts else measure.DEFAULT
        mean = average(judged.ranking_query, value, len(judged.qids))
        mean = np.where(judged.present, mean, absent)
        scores[measure] = _explained(measure, Scores.combined(mean, parts))
    return scores


def _explained(measure: Any, scores: Scores) -> Scores:
    if isinstance(measure, FairMeasure):
        return scores
    return Scores.of(scores.values, [(f"{measure!r} returned no value", np.isnan(scores.values))])


def _by_ranking(
    measures: list[Any], judged: LabeledRun
) -> tuple[dict[Any, FloatArray], dict[Any, list[Scores]]]:
    """Return the values of rankings, and the scores of samples without a kernel."""
    kernels = {m: kernel for m in measures if (kernel := kernel_of(m)) is not None}
    others = [m for m in measures if m not in kernels]
    values, samples = evaluate_rankings(others, judged) if others else ({}, {})
    if kernels:
        # the same checks as in the providers
        integer_labels(list(kernels), judged.qrels.labels, judged.where)
        judged = judged.first_passages
    return values | {m: kernel(judged) for m, kernel in kernels.items()}, samples


def _expected_ndcg(measure: Any, judged: LabeledRun) -> FloatArray:
    """Return the expectation of nDCG from a frame X."""
    cutoff = measure.params.get(measure.AT_PARAM)
    exposure = judged.first_passages.attention(f"E({measure!r})", DCG(), cutoff)
    integer_labels([measure], judged.qrels.labels, judged.where)
    result = np.full(len(judged.qids), float(measure.DEFAULT))
    result[judged.ranking_query] = exact_ndcg(judged, cutoff, exposure)
    return result


def values_of_samples(measure: Any, judged: LabeledRun) -> tuple[IntArray, FloatArray]:
    """Return the query and the value of each ranking of a sampled run."""
    check_params(measure)  # ir_measures checks only on request
    return judged.ranking_query, _by_ranking([measure], judged)[0][measure]


E = Expectation()
