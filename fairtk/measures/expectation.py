"""E(measure): the expectation of any measure over sampled rankings."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from ir_measures.measures.base import MeanAgg

from fairtk.errors import ParameterError
from fairtk.exposure.browsing import DCG
from fairtk.exposure.expected import average
from fairtk.frames.arrays import FloatArray, IntArray, ObjectArray
from fairtk.measures.base import FairMeasure
from fairtk.measures.evidence import Evidence
from fairtk.measures.foreign import means_over_samples, values_by_sample, values_of
from fairtk.measures.group_means import NoMean
from fairtk.measures.kernels import (
    KERNELS,
    LabeledRankings,
    exact_ndcg,
    kernel_of,
)
from fairtk.measures.params import MeasureParam, Param
from fairtk.measures.trec_eval import whole_labels


class Expectation(FairMeasure):
    """The mean of a measure over the sampled rankings of each query.

    ``E(nDCG@5)`` is the expected nDCG@5 of a stochastic ranking policy, estimated from its samples
    (the sum over rankings in Eq. 7 of Towards Fair RAG, with any measure as the utility). Plain
    measures read the samples of a query as one ranking, so on a sampled run they are an error. On
    a run without samples it is the measure itself, ties included; the ranks of a sampled run
    decide its order. Range, direction, and how queries are aggregated are those of the measure.
    The cutoff is the measure's own: ``E(nDCG@5)``, and ``E(nDCG)@5`` means the same.
    """

    NAME = "E"
    PRETTY_NAME: ClassVar[str] = "Expectation over samples"
    CITATION: ClassVar[str] = "kim2024fairrag"
    BETTER: ClassVar[str] = "higher"
    MISSING: ClassVar[float] = 0.0
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "measure": MeasureParam("any measure of ir_measures or fairtk, e.g. 'nDCG@5'")
    }
    POSITIONAL: ClassVar[tuple[str, ...]] = ("measure",)

    def __matmul__(self, at_param: Any) -> Expectation:
        inner = self.inner
        if inner.params.get(inner.AT_PARAM) is not None:
            raise ParameterError(f"{self!r} has its cutoff inside already; drop @{at_param}")
        found: Expectation = self(inner @ at_param)
        return found

    @property
    def inner(self) -> Any:
        """The measure whose expectation is taken."""
        return self.needed("measure", "a measure: write E(nDCG@5)")

    @property
    def parts(self) -> list[Any]:
        """The measures that this one is made of."""
        return [self.inner]

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X: nDCG alone is linear in the exposure of a browsing model."""
        return self.inner.NAME == "nDCG" and kernel_of(self.inner) is not None

    @property
    def better(self) -> str:
        """The measure's direction; ir_measures' own are taken to be higher-is-better."""
        return getattr(self.inner, "better", self.BETTER)

    @property
    def notes(self) -> str:
        """Which measures are computed for all samples at once, and what becomes of the others."""
        names = []
        for name, (_, params) in sorted(KERNELS.items()):
            names.append(f"{name} ({', '.join(params)})")
        return (
            f"For all samples at once: {'; '.join(names)}. Other measures, and these with other "
            "parameters, go to their providers sample by sample."
        )

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the expectation for each query; what the run lacks gets the measure's default."""
        wanted = evidence.cache.setdefault("expectations", [self])
        if self not in wanted:
            wanted = [self]
        key = ("expectation", tuple(map(repr, wanted)))
        if key not in evidence.cache:
            evidence.cache[key] = _expectations([m.inner for m in wanted], evidence)
        result: FloatArray = evidence.cache[key][self.inner]
        if not isinstance(self.inner, FairMeasure):
            why = f"{self.inner!r} gives it no value"
            self.warn_undefined(evidence.qids[np.isnan(result)], len(result), why)
        return result

    def wrapped(self, values: FloatArray, qids: ObjectArray) -> list[float]:
        """Return the values; those of a measure that is no mean over queries warn of plain ones."""
        inner = self.inner
        if isinstance(inner, FairMeasure):
            return inner.wrapped(values, qids)
        plain = values.tolist()
        mean = type(inner.aggregator()) is MeanAgg
        why = (
            f"{self!r} is no mean over queries, but its values are being averaged here "
            "(pt.Experiment divides by the number of queries); use ir_measures.calc_aggregate "
            "or fairtk evaluate"
        )
        return plain if mean else [NoMean(v, why) for v in plain]

    def aggregator(self) -> Any:
        """Return what turns per-query values into one, as the measure does: NumRet's is a sum."""
        inner = self.inner.aggregator()
        return inner if type(inner) is MeanAgg else Floats(inner)


class Floats:
    """An aggregator that sees plain numbers, whatever else values know."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def add(self, value: float) -> None:
        """Add a query's value."""
        self.inner.add(float(value) if isinstance(value, NoMean) else value)

    def result(self) -> float:
        """Return the aggregate."""
        return self.inner.result()  # type: ignore[no-any-return]


def _expectations(measures: list[Any], evidence: Evidence) -> dict[Any, FloatArray]:
    distinct = list(dict.fromkeys(measures))
    if evidence.exact is not None:
        return {m: _of_exposure(m, evidence) for m in distinct}
    if not evidence.is_sampled:
        return values_of(distinct, evidence)
    kernels = {m: kernel for m in distinct if (kernel := kernel_of(m)) is not None}
    others = [m for m in distinct if m not in kernels]
    result = means_over_samples(others, evidence) if others else {}
    if kernels:
        # as strict as the providers
        whole_labels(list(kernels), evidence.qrels.labels, evidence.where)
        rankings = LabeledRankings.of(evidence)
        for measure, kernel in kernels.items():
            mean = average(rankings.query, kernel(rankings), rankings.n_queries)
            result[measure] = np.where(evidence.present, mean, measure.DEFAULT)
    return result


def _of_exposure(measure: Any, evidence: Evidence) -> FloatArray:
    """Return the expectation of nDCG from a frame X; 0 for queries that it lacks."""
    cutoff = measure.params.get(measure.AT_PARAM)
    exposure = evidence.exposure_of_rows(f"E({measure!r})", DCG(), cutoff)
    whole_labels([measure], evidence.qrels.labels, evidence.where)
    rankings = LabeledRankings.of(evidence)
    result = np.full(len(evidence.qids), float(measure.DEFAULT))
    result[rankings.query] = exact_ndcg(rankings, cutoff, exposure)
    return result


def values_of_samples(measure: Any, evidence: Evidence) -> tuple[IntArray, FloatArray]:
    """Return the query and the value of each ranking of a sampled run."""
    kernel = kernel_of(measure)
    if kernel is None:
        return values_by_sample(measure, evidence)
    whole_labels([measure], evidence.qrels.labels, evidence.where)
    rankings = LabeledRankings.of(evidence)
    return rankings.query, kernel(rankings)


E = Expectation()
