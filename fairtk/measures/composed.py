"""Measures of measures: expectations over samples (array kernels where there is one), products,
and values by group.

They agree with trec_eval's values of each ranking (pytrec_eval, MS MARCO's script for ``RR@k``,
cwl_eval for RBP), for rankings in the order of their ranks: a document without a label, or with a
negative one, has no gain, and a query without relevant documents has the value 0. A measure that
is not here, or has a parameter that is not, goes to its provider. A new kernel is one function and
one line in `KERNELS`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from ir_measures.measures.base import MeanAgg
from ir_measures.providers.base import NOT_PROVIDED

from fairtk.errors import ParameterError, UndefinedWarning, warn
from fairtk.exposure import DCG, average
from fairtk.frames import CREDIT, GROUP, QID, BoolArray, FloatArray, IntArray, ObjectArray
from fairtk.measures.base import FairMeasure, Judged, bounds_of
from fairtk.measures.params import GROUPS, MeasureParam, Param, check_params, has_cutoff
from fairtk.measures.provider import (
    means_over_samples,
    run_columns,
    values_by_sample,
    values_for,
    values_of,
    whole_labels,
)


def _total(judged: Judged, value: npt.NDArray[Any]) -> FloatArray:
    """Return the sum of the rows of each ranking; shape (n_rankings,)."""
    # no ranking is empty, so each segment starts where the one before it ends
    start = judged.run.ranking_start[:-1]
    return np.asarray(np.add.reduceat(value.astype(np.float64), start))


def _hits(judged: Judged, rel: int, cutoff: int | None) -> BoolArray:
    """Return which rows are relevant and not cut off; shape (n_rows,)."""
    hit: BoolArray = judged.row_label >= rel
    return hit if cutoff is None else np.logical_and(hit, judged.run.position < cutoff)


def _relevant(judged: Judged, rel: int) -> FloatArray:
    """Return the number of relevant labels of each ranking's query; shape (n_rankings,)."""
    qrels = judged.qrels
    relevant = qrels.query[qrels.labels >= rel]
    count: FloatArray = np.bincount(relevant, minlength=len(judged.qids)).astype(np.float64)
    return count[judged.ranking_query]


def _share(part: FloatArray, whole: npt.NDArray[Any]) -> FloatArray:
    return np.asarray(np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0))


def _dcg(gain: FloatArray, position: IntArray) -> FloatArray:
    return np.asarray(gain / np.log2(np.arange(position.max(initial=0) + 1) + 2.0)[position])


def ndcg(judged: Judged, cutoff: int | None) -> FloatArray:
    """Return nDCG with gains as labeled and log2 discounts, of each ranking."""
    gain = np.maximum(judged.row_label, 0.0)
    if cutoff is not None:
        gain = gain * (judged.run.position < cutoff)
    return _by_ideal(_total(judged, _dcg(gain, judged.run.position)), judged, cutoff)


def exact_ndcg(judged: Judged, cutoff: int | None, exposure: FloatArray) -> FloatArray:
    """Return the expectation of nDCG, which is linear in exposure under `DCG`; (n_rankings,).

    Rankings are those of a frame X, one per query.
    """
    gain = np.maximum(judged.row_label, 0.0)
    return _by_ideal(_total(judged, gain * exposure), judged, cutoff)


def _by_ideal(gain: FloatArray, judged: Judged, cutoff: int | None) -> FloatArray:
    query, label, place = judged.qrels.ideal
    best = _dcg(label, place)
    if cutoff is not None:
        best = best * (place < cutoff)
    ideal = np.bincount(query, weights=best, minlength=len(judged.qids))
    return _share(gain, ideal[judged.ranking_query])


def precision(judged: Judged, rel: int, cutoff: int) -> FloatArray:
    """Return the relevant share of the first ``cutoff`` ranks, also of shorter rankings."""
    return _total(judged, _hits(judged, rel, cutoff)) / cutoff


def recall(judged: Judged, rel: int, cutoff: int) -> FloatArray:
    """Return the share of the relevant documents that are in the first ``cutoff`` ranks."""
    return _share(_total(judged, _hits(judged, rel, cutoff)), _relevant(judged, rel))


def average_precision(judged: Judged, rel: int, cutoff: int | None) -> FloatArray:
    """Return the sum of precision at each relevant rank, by the number of relevant documents."""
    hit = _hits(judged, rel, cutoff)
    before = np.concatenate([[0], np.cumsum(hit)])
    start = judged.run.ranking_start
    so_far = before[1:] - np.repeat(before[start[:-1]], np.diff(start))
    precise = hit * so_far / (judged.run.position + 1.0)
    return _share(_total(judged, precise), _relevant(judged, rel))


def reciprocal_rank(judged: Judged, rel: int, cutoff: int | None) -> FloatArray:
    """Return 1 / rank of the first relevant document; 0 if there is none."""
    value = _hits(judged, rel, cutoff) / (judged.run.position + 1.0)
    return np.asarray(np.maximum.reduceat(value, judged.run.ranking_start[:-1]))


def success(judged: Judged, rel: int, cutoff: int) -> FloatArray:
    """Return 1 if a relevant document is in the first ``cutoff`` ranks, else 0."""
    return (_total(judged, _hits(judged, rel, cutoff)) > 0).astype(np.float64)


def rank_biased_precision(judged: Judged, rel: int, p: float) -> FloatArray:
    """Return the sum of (1 - p) p^rank over relevant ranks."""
    weight = (1 - p) * p ** judged.run.position.astype(np.float64)
    return _total(judged, _hits(judged, rel, None) * weight)


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


def kernel_of(measure: Any) -> Callable[[Judged], FloatArray] | None:
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
    settings = {name: measure[name] for name in names}
    if settings.get("cutoff") is NOT_PROVIDED:
        settings["cutoff"] = None
    return partial(kernel, **settings)


class Expectation(FairMeasure):
    """The mean of a measure over the sampled rankings of each query.

    ``E(nDCG@5)`` is the expected nDCG@5 of a stochastic ranking policy, estimated from its samples
    (the sum over rankings in Eq. 7 of Towards Fair RAG, with any measure as the utility). Plain
    measures read the samples of a query as one ranking, so on a sampled run they are an error. On
    a run without samples it is the measure itself, ties included; the ranks of a sampled run
    decide its order. Range, direction, and how queries are aggregated are those of the measure.
    The cutoff is the measure's own: ``E(nDCG@5)``, and ``E(nDCG)@5`` means the same.
    """

    identity_name = "fairtk.E"
    output_version = 1
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
        cut: Expectation = self(_cut(inner, at_param))
        return cut

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
    def bounds(self) -> tuple[float, float]:
        """Those of the measure."""
        return bounds_of(self.inner)

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

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the expectation for each query; what the run lacks gets the measure's default."""
        together = judged.cache.setdefault("expectations", [self])
        if self not in together:
            together = [self]
        key = ("expectation", tuple(map(repr, together)))
        if key not in judged.cache:
            judged.cache[key] = _expectations([m.inner for m in together], judged)
        result: FloatArray = judged.cache[key][self.inner]
        if not isinstance(self.inner, FairMeasure):
            why = f"{self.inner!r} gives it no value"
            self.warn_undefined(judged.qids[np.isnan(result)], len(result), why)
        return result

    def aggregator(self) -> Any:
        """Return what turns per-query values into one, as the measure does: NumRet's is a sum."""
        return self.inner.aggregator()

    def aggregate(self, values: FloatArray, qids: ObjectArray) -> float:
        """Return what the values of queries come to, as the measure does."""
        if isinstance(self.inner, FairMeasure):
            return self.inner.aggregate(values, qids)
        return super().aggregate(values, qids)

    def per_query(self, values: FloatArray) -> FloatArray:
        """Return the values; with a warning if the measure is no mean over queries."""
        if isinstance(self.inner, FairMeasure):
            return self.inner.per_query(values)
        if type(self.aggregator()) is not MeanAgg:
            warn(
                f"{self!r} is no mean over queries, but values of single queries are asked for "
                "(pt.Experiment divides by the number of queries); use ir_measures.calc_aggregate "
                "or fairtk evaluate"
            )
        return values


def _expectations(measures: list[Any], judged: Judged) -> dict[Any, FloatArray]:
    distinct = list(dict.fromkeys(measures))
    if judged.exact is not None:
        return {m: _of_exposure(m, judged) for m in distinct}
    if not judged.run.is_sampled:
        return values_of(distinct, judged)
    kernels = {m: kernel for m in distinct if (kernel := kernel_of(m)) is not None}
    others = [m for m in distinct if m not in kernels]
    result = means_over_samples(others, judged) if others else {}
    if kernels:
        # as strict as the providers
        whole_labels(list(kernels), judged.qrels.labels, judged.where)
        for measure, kernel in kernels.items():
            mean = average(judged.ranking_query, kernel(judged), len(judged.qids))
            result[measure] = np.where(judged.present, mean, measure.DEFAULT)
    return result


def _of_exposure(measure: Any, judged: Judged) -> FloatArray:
    """Return the expectation of nDCG from a frame X; 0 for queries that it lacks."""
    cutoff = measure.params.get(measure.AT_PARAM)
    exposure = judged.exposure_of_rows(f"E({measure!r})", DCG(), cutoff)
    whole_labels([measure], judged.qrels.labels, judged.where)
    result = np.full(len(judged.qids), float(measure.DEFAULT))
    result[judged.ranking_query] = exact_ndcg(judged, cutoff, exposure)
    return result


def values_of_samples(measure: Any, judged: Judged) -> tuple[IntArray, FloatArray]:
    """Return the query and the value of each ranking of a sampled run."""
    kernel = kernel_of(measure)
    if kernel is None:
        return values_by_sample(measure, judged)
    whole_labels([measure], judged.qrels.labels, judged.where)
    return judged.ranking_query, kernel(judged)


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

UNKNOWN_GROUP = Param(
    str,
    default="leave-out",
    choices=("leave-out", "group"),
    desc="the unknown level: leave-out: it is no group; group: one like any other",
)

_NEEDS = "a measure and groups: ByGroup(nDCG@20, groups)"


class MeasureByGroup(FairMeasure):
    """How differently a measure turns out for groups of documents, or of queries.

    The groups' values are compared, as fairlearn's MetricFrame does for classifiers:
    ``difference`` (largest minus smallest; 0: alike), ``ratio`` (smallest by largest; 1: alike;
    NaN unless the largest is above 0), or the ``min`` or ``max`` itself. The values are in
    `per_group`; report them too: a small difference says that groups fare alike, not that they
    fare well.

    ``by="document"``: for each query, labels and rankings are restricted to a group's documents,
    with the ranks that they had among all. Measures of ir_measures read ranks from scores, so for
    them the labels alone are restricted, and other groups' documents are not relevant. A document
    of several groups counts in each. Groups for which the measure is undefined, such as those
    without a useful document, take no part; with fewer than two left, difference and ratio are
    undefined (NaN). The unknown level is no group unless ``unknown="group"``.

    ``by="query"``: the measure's mean over each group of queries; the comparison is one number for
    all queries, made when values are aggregated (``ir_measures.calc_aggregate``, ``fairtk
    evaluate``). ``pt.Experiment`` takes plain means of per-query values instead: there it is NaN,
    with a warning.
    """

    identity_name = "fairtk.ByGroup"
    output_version = 1
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
        "unknown": UNKNOWN_GROUP,
    }
    POSITIONAL: ClassVar[tuple[str, ...]] = ("measure", "groups", "compare")

    def __matmul__(self, at_param: Any) -> MeasureByGroup:
        cut: MeasureByGroup = self(_cut(self.inner, at_param))
        return cut

    def check_params(self) -> None:
        """Raise if the measure does not look at documents but groups of them are asked for."""
        if "measure" not in self.params or self["by"] != "document":
            return
        if _is_about_answers(self.inner):
            raise ParameterError(
                f"ByGroup: {self.inner!r} is about answers, which have no documents; use "
                "by='query' with groups of queries"
            )
        if CREDIT in run_columns([self.inner]):
            raise ParameterError(
                f"ByGroup: {self.inner!r} is about credit, whose shares are of all documents; use "
                "AWRF(groups=..., of='credit') or CreditGap(groups), or by='query'"
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

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of the measure; of a difference from 0 to their distance, of a ratio [0, 1]."""
        low, high = bounds_of(self.inner)
        compared = {"difference": (0.0, high - low), "ratio": (0.0, 1.0)}
        return compared.get(self["compare"], (low, high))

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
        judged = Judged.of(qrels, run, repr(self))
        if self["by"] == "query":
            return self._means_of_groups(_values(self.inner, judged), judged.qids)
        levels = [self._groups.levels[level] for level in self._compared.tolist()]
        return pd.DataFrame(
            {
                QID: np.repeat(judged.qids, len(levels)),
                GROUP: levels * len(judged.qids),
                "value": self._table(judged).ravel(),
            }
        )

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the comparison for each query; by query, the measure's own values."""
        if self["by"] == "query":
            return _values(self.inner, judged)
        values = self._table(judged)
        result, needed = _compared(values, self["compare"])
        result = np.where(judged.present, result, np.nan)
        undefined = judged.qids[np.isnan(result) & judged.present]
        why = f"fewer than {needed} groups have a value, or none is above 0"
        self.warn_undefined(undefined, len(result), why)
        absent = judged.qids[~judged.present]
        self.warn_undefined(absent, len(result), "the run lacks the query, so nothing compares")
        return result

    def aggregate(self, values: FloatArray, qids: ObjectArray) -> float:
        """Return the mean over queries; by query, how the means of groups compare."""
        if self["by"] == "document":
            return super().aggregate(values, qids)
        means = self._means_of_groups(values, qids)["value"].to_numpy(dtype=np.float64)
        return float(_compared(means[None, :], self["compare"])[0][0])

    def per_query(self, values: FloatArray) -> FloatArray:
        """Return the values; by query NaN, with a warning: only the aggregate has a value."""
        if self["by"] == "document":
            return values
        warn(
            f"{self!r} compares groups of queries, so single queries have no value here, and "
            "means over queries (as pt.Experiment takes them) are NaN; use "
            "ir_measures.calc_aggregate, fairtk evaluate or per_group"
        )
        return np.full(len(values), np.nan)

    def _means_of_groups(self, values: FloatArray, qids: ObjectArray) -> pd.DataFrame:
        """Return ``group``, ``value`` (the mean of its queries) and ``queries`` (how many)."""
        memberships, levels = self._groups.memberships(qids), self._groups.levels
        counts = np.isin(memberships.level, self._compared)
        row, level = memberships.row[counts], memberships.level[counts]
        names = np.array([str(levels[place]) for place in level.tolist()], dtype=object)
        names, code = np.unique(names, return_inverse=True)
        count = np.bincount(code, minlength=len(names))
        mean = np.bincount(code, values[row], len(names)) / count
        return pd.DataFrame({GROUP: names, "value": mean, "queries": count})

    @property
    def _groups(self) -> Any:
        return self.needed("groups", _NEEDS)

    @property
    def _compared(self) -> IntArray:
        """The numbers of the levels that are compared."""
        levels = np.arange(self._groups.space.size)
        return levels if self["unknown"] == "group" else levels[self._groups.space.known(levels)]

    def _table(self, judged: Judged) -> FloatArray:
        """Return the value of each query and group; shape (n_queries, n_compared)."""
        groups = self._groups
        memberships = groups.memberships(judged.docnos)
        n_labels = len(judged.qrels.query)
        compared = self._compared
        table = np.full((len(judged.qids), len(compared)), np.nan)
        for place, level in enumerate(compared.tolist()):
            inside = np.zeros(len(judged.docnos), dtype=bool)
            inside[memberships.row[memberships.level == level]] = True
            members = inside[judged.pair_doc]
            rows = members[judged.pair_of_row] if _keeps_ranks(self.inner) else None
            part = judged.restricted(members[:n_labels], rows)
            useful = np.bincount(part.qrels.query, part.qrels.labels > 0, minlength=len(table))
            table[:, place] = np.where(useful > 0, _values(self.inner, part), np.nan)
        return table


def _values(measure: Any, judged: Judged) -> FloatArray:
    # a group without useful documents takes no part, which is said once for all groups
    with warnings.catch_warnings(action="ignore", category=UndefinedWarning):
        return values_for(measure, judged)


def _keeps_ranks(measure: Any) -> bool:
    """Return whether a measure reads ranks as they are, not from the order of what is left."""
    return isinstance(measure, FairMeasure) and all(map(_keeps_ranks, measure.parts))


def _is_about_answers(measure: Any) -> bool:
    columns = getattr(measure, "RUN_COLUMNS", ("docno",))
    return "docno" not in columns or any(map(_is_about_answers, getattr(measure, "parts", [])))


def _compared(values: FloatArray, compare: str) -> tuple[FloatArray, int]:
    """Return how the values in each row compare, and how many of them that needs.

    Values are NaN for groups that take no part; results, of shape (n_rows,), where too few have
    one.
    """
    undefined = np.isnan(values)
    low = np.where(undefined, np.inf, values).min(axis=1, initial=np.inf)
    high = np.where(undefined, -np.inf, values).max(axis=1, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(high > 0, low / high, np.nan)  # -2 / -1 is no share
        results = {"difference": high - low, "ratio": ratio, "min": low, "max": high}
    needed = 2 if compare in ("difference", "ratio") else 1
    enough = (~undefined).sum(axis=1) >= needed
    return np.where(enough, results[compare], np.nan), needed


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

    identity_name = "fairtk.Product"
    output_version = 1
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

    @property
    def bounds(self) -> tuple[float, float]:
        """The products of the factors' bounds; none where a factor may be below 0."""
        (low, high), (other_low, other_high) = (bounds_of(factor) for factor in self.factors)
        if min(low, other_low) < 0:
            return -math.inf, math.inf
        return low * other_low, high * other_high

    def check_params(self) -> None:
        """Raise if the factors' directions differ: their product would have none."""
        if "left" in self.params and "right" in self.params:
            _direction(self.factors)

    def __matmul__(self, at_param: Any) -> MeasureProduct:
        left, right = self.factors
        if has_cutoff(left) and has_cutoff(right):
            raise ParameterError(f"{self!r}: both factors have a cutoff already; drop @{at_param}")
        left = left if has_cutoff(left) else _cut(left, at_param)
        right = right if has_cutoff(right) else _cut(right, at_param)
        return type(self)(left=left, right=right)

    @property
    def takes_exposure(self) -> bool:
        """Whether it takes frames X: if both factors do."""
        return all(getattr(factor, "takes_exposure", False) for factor in self.factors)

    def score_all(self, judged: Judged) -> FloatArray:
        """Return the product for each query; NaN where a factor is."""
        left, right = (values_for(m, judged) for m in self.factors)
        return left * right


def _cut(measure: Any, cutoff: Any) -> Any:
    cut = measure @ cutoff
    check_params(cut)
    return cut


def _direction(factors: list[Any]) -> str:
    directions = [getattr(f, "better", "higher") for f in factors]
    if directions[0] != directions[1]:
        raise ParameterError(
            f"a product of {factors[0]!r} ({directions[0]} is better) and {factors[1]!r} "
            f"({directions[1]} is better) has no direction; multiply measures of one direction"
        )
    return str(directions[0])


Product = MeasureProduct()
