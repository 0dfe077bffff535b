"""Measures of measures: expectations over samples (array kernels where there is one), products,
and values by group.

They agree with trec_eval's values of each ranking (pytrec_eval, MS MARCO's script for ``RR@k``,
cwl_eval for RBP), for rankings in the order of their ranks: a document without a label, or with a
negative one, has no gain, and a query without relevant documents has the value 0. A measure that
is not here, or has a parameter that is not, goes to its provider. A new kernel is one function and
one line in `KERNELS`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from ir_measures.measures.base import MeanAgg
from ir_measures.providers.base import NOT_PROVIDED

from fairtk.errors import ParameterError, UndefinedWarning
from fairtk.exposure import DCG, average
from fairtk.frames import GROUP, QID, BoolArray, FloatArray, IntArray, ObjectArray, Qrels
from fairtk.measures.base import (
    FairMeasure,
    GroupMeans,
    NoMean,
    ValueOfGroups,
    compared,
    means_of_groups,
)
from fairtk.measures.foreign import (
    means_over_samples,
    values_by_sample,
    values_for,
    values_of,
    whole_labels,
)
from fairtk.measures.judged import Evidence
from fairtk.measures.params import GROUPS, MeasureParam, Param


@dataclass(frozen=True)
class LabeledRankings:
    """All rankings of a run beside their labels."""

    label: FloatArray  # of each sorted row of the run, 0 without label; shape (n_rows,)
    position: IntArray  # 0-based rank of each row inside its ranking; shape (n_rows,)
    start: IntArray  # first row of each ranking, and n_rows at the end; shape (n_rankings + 1,)
    query: IntArray  # query of each ranking; shape (n_rankings,)
    judged_query: IntArray  # query of each label; shape (n_labels,)
    judged_label: FloatArray  # the labels; shape (n_labels,)
    n_queries: int  # number of queries

    @classmethod
    def of(cls, evidence: Evidence) -> LabeledRankings:
        """Return the rankings of a run and the labels of its queries."""
        ranked, pairs = evidence.rankings, evidence.pairs
        judged = evidence.qrels
        return cls(
            label=np.nan_to_num(pairs.label)[pairs.of_row],
            position=ranked.position,
            start=ranked.ranking_start,
            query=evidence.query_of_run[ranked.ranking_query],
            judged_query=judged.query,
            judged_label=judged.labels,
            n_queries=len(evidence.qids),
        )

    @cached_property
    def ideal(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Query, label and 0-based place of each positive label, the best first."""
        useful = self.judged_label > 0
        query, label = self.judged_query[useful], self.judged_label[useful]
        order = np.lexsort((-label, query))
        query, label = query[order], label[order]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        return query, label, place

    def total(self, value: npt.NDArray[Any]) -> FloatArray:
        """Return the sum of the rows of each ranking; shape (n_rankings,)."""
        # no ranking is empty, so each segment starts where the one before it ends
        return np.asarray(np.add.reduceat(value.astype(np.float64), self.start[:-1]))

    def hits(self, rel: int, cutoff: int | None) -> BoolArray:
        """Return which rows are relevant and not cut off; shape (n_rows,)."""
        hit: BoolArray = self.label >= rel
        return hit if cutoff is None else np.logical_and(hit, self.position < cutoff)

    def relevant(self, rel: int) -> FloatArray:
        """Return the number of relevant labels of each ranking's query; shape (n_rankings,)."""
        known = self.judged_query[self.judged_label >= rel]
        count: FloatArray = np.bincount(known, minlength=self.n_queries).astype(np.float64)
        return count[self.query]


def _share(part: FloatArray, whole: npt.NDArray[Any]) -> FloatArray:
    return np.asarray(np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0))


def _dcg(gain: FloatArray, position: IntArray) -> FloatArray:
    return np.asarray(gain / np.log2(np.arange(position.max(initial=0) + 1) + 2.0)[position])


def ndcg(rankings: LabeledRankings, cutoff: int | None) -> FloatArray:
    """Return nDCG with gains as labeled and log2 discounts, of each ranking."""
    gain = np.maximum(rankings.label, 0.0)
    if cutoff is not None:
        gain = gain * (rankings.position < cutoff)
    return _by_ideal(rankings.total(_dcg(gain, rankings.position)), rankings, cutoff)


def exact_ndcg(rankings: LabeledRankings, cutoff: int | None, exposure: FloatArray) -> FloatArray:
    """Return the expectation of nDCG, which is linear in exposure under `DCG`; (n_rankings,).

    Rankings are those of a frame X, one per query.
    """
    gain = np.maximum(rankings.label, 0.0)
    return _by_ideal(rankings.total(gain * exposure), rankings, cutoff)


def _by_ideal(gain: FloatArray, rankings: LabeledRankings, cutoff: int | None) -> FloatArray:
    query, label, place = rankings.ideal
    best = _dcg(label, place)
    if cutoff is not None:
        best = best * (place < cutoff)
    ideal = np.bincount(query, weights=best, minlength=rankings.n_queries)
    return _share(gain, ideal[rankings.query])


def precision(rankings: LabeledRankings, rel: int, cutoff: int) -> FloatArray:
    """Return the relevant share of the first ``cutoff`` ranks, also of shorter rankings."""
    return rankings.total(rankings.hits(rel, cutoff)) / cutoff


def recall(rankings: LabeledRankings, rel: int, cutoff: int) -> FloatArray:
    """Return the share of the relevant documents that are in the first ``cutoff`` ranks."""
    return _share(rankings.total(rankings.hits(rel, cutoff)), rankings.relevant(rel))


def average_precision(rankings: LabeledRankings, rel: int, cutoff: int | None) -> FloatArray:
    """Return the sum of precision at each relevant rank, by the number of relevant documents."""
    hit = rankings.hits(rel, cutoff)
    before = np.concatenate([[0], np.cumsum(hit)])
    found = before[1:] - np.repeat(before[rankings.start[:-1]], np.diff(rankings.start))
    return _share(rankings.total(hit * found / (rankings.position + 1.0)), rankings.relevant(rel))


def reciprocal_rank(rankings: LabeledRankings, rel: int, cutoff: int | None) -> FloatArray:
    """Return 1 / rank of the first relevant document; 0 if there is none."""
    value = rankings.hits(rel, cutoff) / (rankings.position + 1.0)
    return np.asarray(np.maximum.reduceat(value, rankings.start[:-1]))


def success(rankings: LabeledRankings, rel: int, cutoff: int) -> FloatArray:
    """Return 1 if a relevant document is in the first ``cutoff`` ranks, else 0."""
    return (rankings.total(rankings.hits(rel, cutoff)) > 0).astype(np.float64)


def rank_biased_precision(rankings: LabeledRankings, rel: int, p: float) -> FloatArray:
    """Return the sum of (1 - p) p^rank over relevant ranks."""
    weight = (1 - p) * p ** rankings.position.astype(np.float64)
    return rankings.total(rankings.hits(rel, None) * weight)


Kernel = Callable[..., FloatArray]

# name -> the kernel, and the parameters of the measure that it takes, in the measure's own words
KERNELS: dict[str, tuple[Kernel, tuple[str, ...]]] = {
    "AP": (average_precision, ("rel", "cutoff")),
    "P": (precision, ("rel", "cutoff")),
    "R": (recall, ("rel", "cutoff")),
    "RBP": (rank_biased_precision, ("rel", "p")),
    "RR": (reciprocal_rank, ("rel", "cutoff")),
    "Success": (success, ("rel", "cutoff")),
    "nDCG": (ndcg, ("cutoff",)),
}


def kernel_of(measure: Any) -> Callable[[LabeledRankings], FloatArray] | None:
    """Return what computes a measure for each ranking, or None if its provider must."""
    theirs = type(measure).__module__.startswith("ir_measures.measures")
    if not theirs or measure.NAME not in KERNELS:
        return None
    kernel, names = KERNELS[measure.NAME]
    for name, param in measure.SUPPORTED_PARAMS.items():
        value = measure[name]
        if name not in names:
            if value != param.default:
                return None
        elif value is NOT_PROVIDED:
            if param.required or name != "cutoff":
                return None
        elif not param.validate(value) or (name != "p" and value < 1):
            return None
    given = {name: measure[name] for name in names}
    if given.get("cutoff") is NOT_PROVIDED:
        given["cutoff"] = None
    return partial(kernel, **given)


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


COMPARE = Param(
    str,
    default="difference",
    choices=("difference", "ratio", "min", "max"),
    desc="difference: largest - smallest; ratio: smallest / largest; min; max",
)
BY = Param(
    str,
    default="document",
    choices=("document", "query"),
    desc="whether the groups are of documents (docno) or of queries (their qids as docno)",
)

_NEEDS = "a measure and groups: ByGroup(nDCG@20, groups)"


class MeasureByGroup(FairMeasure):
    """How differently a measure turns out for groups of documents, or of queries.

    The groups' values are compared, as fairlearn's MetricFrame does for classifiers:
    ``difference`` (largest minus smallest; 0: alike), ``ratio`` (smallest by largest; 1: alike), or
    the ``min`` or ``max`` itself. The values are in `per_group`; report them too: a small
    difference says that groups fare alike, not that they fare well.

    ``by="document"``: for each query, labels and rankings are restricted to a group's documents,
    with the ranks that they had among all. Measures of ir_measures read ranks from scores, so for
    them the labels alone are restricted, and other groups' documents are not relevant. A document
    of several groups counts in each. Groups for which the measure is undefined, such as those
    without a useful document, take no part; with fewer than two left, difference and ratio are
    undefined (NaN).

    ``by="query"``: the measure's mean over each group of queries; the comparison is one number for
    all queries, made when values are aggregated (``ir_measures.calc_aggregate``, ``fairtk
    evaluate``). ``pt.Experiment`` takes plain means of per-query values instead: there it is NaN,
    with a warning.
    """

    NAME = "ByGroup"
    PRETTY_NAME: ClassVar[str] = "Measure by group"
    CITATION: ClassVar[str] = "weerts2023fairlearn"
    BETTER: ClassVar[str] = "lower"
    MISSING: ClassVar[float] = float("nan")
    SUPPORTED_PARAMS: ClassVar[dict[str, Param]] = {
        "measure": MeasureParam("any measure, e.g. 'nDCG@20'"),
        "groups": GROUPS,
        "compare": COMPARE,
        "by": BY,
    }
    POSITIONAL: ClassVar[tuple[str, ...]] = ("measure", "groups", "compare")

    def __matmul__(self, at_param: Any) -> MeasureByGroup:
        found: MeasureByGroup = self(self.inner @ at_param)
        return found

    def check_params(self) -> None:
        """Raise if the measure does not look at documents but groups of them are asked for."""
        if "measure" not in self.params or self["by"] != "document":
            return
        if _is_about_answers(self.inner):
            raise ParameterError(
                f"ByGroup: {self.inner!r} is about answers, which have no documents; use "
                "by='query' with groups of queries"
            )
        if isinstance(self.inner, Expectation) and isinstance(self.inner.inner, FairMeasure):
            raise ParameterError(
                f"ByGroup: in {self.inner!r} the ranks of a group's documents would be lost; "
                f"{self.inner.inner!r} knows samples by itself: drop the E"
            )

    @property
    def inner(self) -> Any:
        """The measure that is taken for each group."""
        return self.needed("measure", _NEEDS)

    @property
    def parts(self) -> list[Any]:
        """The measures that this one is made of."""
        return [self.inner]

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X: if its measure does."""
        return bool(getattr(self.inner, "takes_exposure", False))

    @property
    def better(self) -> str:
        """Lower for differences, higher for ratios, the measure's own for min and max."""
        if self["compare"] in ("difference", "ratio"):
            return "lower" if self["compare"] == "difference" else "higher"
        return str(getattr(self.inner, "better", "higher"))

    def per_group(self, qrels: pd.DataFrame, run: pd.DataFrame) -> pd.DataFrame:
        """Return the values that are compared.

        Args:
            qrels: the labels, in PyTerrier's or ir_measures' column names.
            run: the run, in either's.

        Returns:
            A frame with ``qid``, ``group`` and ``value`` (NaN: undefined for that group), or with
            ``by="query"`` with ``group``, ``value`` and ``queries``, the number of queries that
            the mean is over.
        """
        evidence = Evidence(Qrels(qrels, repr(self), either=True), run, repr(self))
        if self["by"] == "query":
            values = self.wrapped(_values(self.inner, evidence), evidence.qids)
            return means_of_groups(values)
        levels = list(self._groups.levels)
        return pd.DataFrame(
            {
                QID: np.repeat(evidence.qids, len(levels)),
                GROUP: levels * len(evidence.qids),
                "value": self._table(evidence).ravel(),
            }
        )

    def score_all(self, evidence: Evidence) -> FloatArray:
        """Return the comparison for each query; by query, the measure's own values."""
        if self["by"] == "query":
            return _values(self.inner, evidence)
        values = self._table(evidence)
        result, needed = compared(values, self["compare"])
        result = np.where(evidence.present, result, np.nan)
        undefined = evidence.qids[np.isnan(result) & evidence.present]
        why = f"fewer than {needed} groups have a value, or all are 0"
        self.warn_undefined(undefined, len(result), why)
        absent = evidence.qids[~evidence.present]
        self.warn_undefined(absent, len(result), "the run lacks the query, so nothing compares")
        return result

    def wrapped(self, values: FloatArray, qids: ObjectArray) -> list[float]:
        """Return the values, by query with the groups of each query attached."""
        if self["by"] == "document":
            return super().wrapped(values, qids)
        found = self._groups.memberships(qids)
        cells = np.split(found.level, found.start[1:-1])
        levels = self._groups.levels
        why = (
            f"{self!r} compares groups of queries, but its values are being averaged over all "
            "queries here (as pt.Experiment does), which gives NaN; use "
            "ir_measures.calc_aggregate, fairtk evaluate or per_group"
        )
        result: list[float] = []
        for value, own in zip(values.tolist(), cells, strict=True):
            known = ValueOfGroups(value, why)
            known.groups = [levels[int(cell)] for cell in own]
            result.append(known)
        return result

    def aggregator(self) -> Any:
        """Return what turns per-query values into one: a mean, by query a comparison of means."""
        return super().aggregator() if self["by"] == "document" else GroupMeans(self["compare"])

    @property
    def _groups(self) -> Any:
        return self.needed("groups", _NEEDS)

    def _table(self, evidence: Evidence) -> FloatArray:
        """Return the value of each query and group; shape (n_queries, n_levels)."""
        groups, pairs = self._groups, evidence.pairs
        memberships = groups.memberships(pairs.docnos)
        n_labels = len(evidence.qrels.query)
        table = np.full((len(evidence.qids), groups.space.size), np.nan)
        for level in range(groups.space.size):
            inside = np.zeros(len(pairs.docnos), dtype=bool)
            inside[memberships.row[memberships.level == level]] = True
            kept = inside[pairs.doc]
            rows = kept[pairs.of_row] if _keeps_ranks(self.inner) else None
            part = evidence.restricted(kept[:n_labels], rows)
            useful = np.bincount(part.qrels.query, part.qrels.labels > 0, minlength=len(table))
            table[:, level] = np.where(useful > 0, _values(self.inner, part), np.nan)
        return table


def _values(measure: Any, evidence: Evidence) -> FloatArray:
    # a group without useful documents takes no part, which is said once for all groups
    with warnings.catch_warnings(action="ignore", category=UndefinedWarning):
        return values_for(measure, evidence)


def _keeps_ranks(measure: Any) -> bool:
    """Return whether a measure reads ranks as they are, not from the order of what is left."""
    return isinstance(measure, FairMeasure) and all(map(_keeps_ranks, measure.parts))


def _is_about_answers(measure: Any) -> bool:
    columns = getattr(measure, "RUN_COLUMNS", ("docno",))
    return "docno" not in columns or any(map(_is_about_answers, getattr(measure, "parts", [])))


ByGroup = MeasureByGroup()


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
