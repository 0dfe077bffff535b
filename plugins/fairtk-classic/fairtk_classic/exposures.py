"""Measures that compare the exposure of groups.

These are EXP, EXPU and EXPRU (Singh and Joachims), ABR, and the rank-biased ERBE, ERBP and ERBR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.exposure import RBP, attention, sum_by_index
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.measures import Param
from fairtk.wording import format_list
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import NOTHING_KNOWN, GroupMeasure, Scored, ratio

if TYPE_CHECKING:
    from fairtk.exposure import BrowsingModel
    from fairtk.measures import LabeledRun


HIGHER_IS_BETTER = ("min/max",)

NO_GROUPS = "fewer than two groups have a value"
INFINITE = "a group has the value 0, so the ratio is infinite or open"


def combine(values: FloatArray, counts: BoolArray, how: str) -> FloatArray:
    """Combine the values of groups into one number per row.

    Args:
        values: value of each group, at least 0; shape (n_rows, n_groups).
        counts: whether the group counts; same shape.
        how: ``"min/max"`` and ``"max/min"`` (1 for equal values), ``"max-min"``,
            ``"max-deviation"`` and ``"mean-deviation"`` (largest and mean distance from the mean of
            the groups), ``"variance"`` of the population (all 0 for equal values), or ``"l2"``, the
            Euclidean norm of the values, which is not 0 for equal values.

    Returns:
        Shape (n_rows,); NaN for a row with fewer than two groups, or a division by 0.
    """
    number = counts.sum(axis=1)
    lowest = np.where(counts, values, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(counts, values, -np.inf).max(axis=1, initial=-np.inf)
    seen = np.where(counts, values, 0.0)
    several = np.maximum(number, 1)
    deviation = np.where(counts, np.abs(seen - (seen.sum(axis=1) / several)[:, None]), 0.0)
    with np.errstate(invalid="ignore"):  # rows without groups: inf - inf
        combined = {
            "min/max": ratio(lowest, highest),
            "max/min": ratio(highest, lowest),
            "max-min": highest - lowest,
            "max-deviation": deviation.max(axis=1, initial=0.0),
            "mean-deviation": deviation.sum(axis=1) / several,
            "l2": np.sqrt((seen**2).sum(axis=1)),
            "variance": (deviation**2).sum(axis=1) / several,
        }[how]
    return np.where(number >= 2, combined, np.nan)


def worst_combined(how: str, n_groups: int, top: float) -> float:
    """Return the worst possible value of a combination, NaN if it does not exist.

    Args:
        how: as in `combine`.
        n_groups: number of groups.
        top: the highest value that a group can have; the lowest is 0.
    """
    if how == "min/max":
        return 0.0
    if how == "max/min" or not np.isfinite(top):
        return float("nan")
    half = (n_groups // 2) / max(n_groups, 1)
    return {
        "max-min": top,
        "max-deviation": top * (1.0 - 1.0 / max(n_groups, 1)),
        "mean-deviation": top * 2.0 * half * (1.0 - half),
        "l2": top * float(np.sqrt(n_groups)),
        "variance": top**2 * half * (1.0 - half),
    }[how]


@dataclass(frozen=True)
class Exposures:
    """The exposure of groups. Rows are queries, or rankings if samples are not averaged.

    Attributes:
        query: index into the labels' queries of each row; shape (n_rows,).
        exposure: the sum of attention over each group's documents; shape (n_rows, n_groups).
        gain: the sum of attention times label; same shape.
        known: whether any document with a group gets attention; shape (n_rows,).
    """

    query: IntArray
    exposure: FloatArray
    gain: FloatArray
    known: BoolArray


@dataclass(frozen=True)
class Population:
    """The documents of groups, with one row per row of `Exposures`.

    Attributes:
        size: number of documents of each group; shape (n_rows, n_groups).
        relevance: sum of their labels; labels below 0 and unlabeled documents count as 0.
        relevant: number of documents with a label above 0.
    """

    size: FloatArray
    relevance: FloatArray
    relevant: FloatArray


class ExposureMeasure(GroupMeasure):
    """Base class of the measures that sum the attention of a group's documents."""

    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "browsing": p.browsing("DCG"),
        "population": p.population("judged+ranked"),
        "unlabeled": p.UNLABELED,
        "amortize": p.amortize(True),
    }

    @property
    def model(self) -> BrowsingModel:
        """The browsing model."""
        result: BrowsingModel = self["browsing"]
        return result

    def exposures(self, judged: LabeledRun) -> Exposures:
        """Return the exposure of the groups in each query or sampled ranking."""
        ranked, model, cutoff = judged.run, self.model, self["cutoff"]
        if model.needs_cutoff and cutoff is None:
            raise ParameterError(
                f"{self!r}: a cutoff is required for browsing={str(model)!r}; write {self!r}@5"
            )
        label = np.maximum(np.nan_to_num(judged.pair_label), 0.0)[judged.pair_of_row]
        weight = attention(ranked, model, cutoff, label > 0)
        share = self.shares_of_run(judged)[ranked.doc]
        if self["amortize"]:
            row, query = ranked.query, judged.query_of_run
            weight = weight / ranked.n_samples[row]
        else:
            row, query = ranked.ranking, judged.ranking_query
        exposure = _summed(row, weight[:, None] * share, len(query))
        gain = _summed(row, (weight * label)[:, None] * share, len(query))
        return Exposures(query, exposure, gain, exposure.sum(axis=1) > 0)

    def population(self, judged: LabeledRun) -> Population:
        """Return the documents of the groups, with one row per row of `exposures`.

        Retrieved documents are counted in each ranking, and counts are averaged if exposure is,
        because the number of documents in any sample grows with the number of samples.
        """
        chosen, cutoff = self["population"], self["cutoff"]
        ranked, amortize = judged.run, self["amortize"]
        has_label = ~np.isnan(judged.pair_label)
        label = np.maximum(np.nan_to_num(judged.pair_label), 0.0)
        share = self.shares(judged, judged.docnos)[judged.pair_doc]
        parts = (share, share * label[:, None], share * (label > 0)[:, None])

        row = ranked.query if amortize else ranked.ranking
        query = judged.query_of_run
        query = query if amortize else query[ranked.ranking_query]
        counted = np.zeros(len(row), dtype=bool)
        if chosen in ("ranked", "judged+ranked"):
            counted = np.ones(len(row), dtype=bool) if cutoff is None else ranked.position < cutoff
        if chosen == "judged+ranked":
            counted &= ~has_label[judged.pair_of_row]
        once = 1.0 / ranked.n_samples[ranked.query[counted]] if amortize else np.ones(counted.sum())
        shown_pair = judged.pair_of_row[counted]
        sums = [
            _summed(row[counted], part[shown_pair] * once[:, None], len(query)) for part in parts
        ]
        if chosen != "ranked":
            n_queries = len(judged.qids)
            query_of_label = judged.pair_query[has_label]
            known = [_summed(query_of_label, part[has_label], n_queries) for part in parts]
            sums = [some + every[query] for some, every in zip(sums, known, strict=True)]
        if chosen == "collection":
            every = self.shares(judged, self.groups.docnos).sum(axis=0)
            sums[0] = np.tile(every, (len(query), 1))
        return Population(*sums)


class CombinedExposure(ExposureMeasure):
    """Base class of EXP, EXPU, EXPRU and the ER measures; a subclass defines `per_group`."""

    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        **ExposureMeasure.SUPPORTED_PARAMS,
        "combine": p.COMBINE,
        "empty": p.EMPTY,
    }
    EMPTY_REASON: ClassVar[str] = "a group has no document"

    @property
    def combined(self) -> str:
        """How the groups are compared."""
        return str(self["combine"])

    @property
    def better(self) -> str:
        """``"higher"`` for the ratio of the smallest to the largest, else ``"lower"``."""
        return "higher" if self.combined in HIGHER_IS_BETTER else "lower"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return the numerators and denominators of groups, both of shape (n_rows, n_groups).

        Args:
            got: the exposure of the groups.
            have: their documents, with one row per row of `got`.
        """
        raise NotImplementedError

    def top(self) -> float:
        """Return the highest possible value of a group, infinity if unbounded."""
        return float("inf")

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each row."""
        got = self.exposures(judged)
        above, below = self.per_group(got, self.population(judged))
        counts = below > 0
        values = np.divide(above, below, out=np.zeros_like(above), where=counts)
        value = combine(values, counts, self.combined)
        value[~got.known] = np.nan
        missing: BoolArray = ~np.asarray(counts.all(axis=1))
        strict = self.params.get("empty") != "skip"
        if strict:
            value[missing] = np.nan
        return Scored(
            got.query,
            value,
            (
                (NOTHING_KNOWN, ~got.known),
                (self._empty(counts), missing & strict),
                (NO_GROUPS, counts.sum(axis=1) < 2),
                (INFINITE, np.ones(len(value), dtype=bool)),
            ),
        )

    def _empty(self, counts: BoolArray) -> str:
        lacking = np.flatnonzero(~counts.all(axis=0))
        names = self.names()
        empty = format_list([names[place] for place in lacking])
        return f"{self.EMPTY_REASON}: {empty} (empty='skip' compares the others)"

    def worst(self, judged: LabeledRun) -> float:
        """Return the worst possible value, NaN if it does not exist."""
        return worst_combined(self.combined, len(self.compared_levels), self.top())


def _summed(row: IntArray, values: FloatArray, n_rows: int) -> FloatArray:
    """Return the sums of values that share a row; shape (n_rows, n_columns)."""
    columns = [sum_by_index(row, column, n_rows) for column in values.T]
    return np.column_stack(columns) if columns else np.zeros((n_rows, 0))


def per_mean_relevance(
    amount: FloatArray, have: Population, per: str
) -> tuple[FloatArray, BoolArray]:
    """Return the groups' amounts divided by the mean relevance of their documents.

    Args:
        amount: the total amount of each group; shape (n_rows, n_groups).
        have: the groups' documents; same shape.
        per: ``"group"`` to divide the total, or ``"document"`` to divide the mean over the group's
            documents, whose number then cancels.

    Returns:
        The quotients, and whether all groups of a row have relevance.
    """
    has_relevance = have.relevance > 0
    above = amount * have.size if per == "group" else amount
    quotient = np.divide(above, have.relevance, out=np.zeros_like(amount), where=has_relevance)
    return quotient, np.asarray(has_relevance.all(axis=1))


class GroupExposure(CombinedExposure):
    """Whether documents of all groups get the same exposure on average.

    EXP compares the groups' mean attention, sum of attention / number of documents (Singh and
    Joachims 2018), by ``combine``: ``"min/max"`` (default) is in [0, 1], higher is more even, and 1
    if all groups get the same. For ``"max/min"``, ``"max-min"``, ``"max-deviation"``,
    ``"mean-deviation"``, ``"l2"`` and ``"variance"``, lower is more even (``"l2"`` is not 0 for
    even groups).

    The attention of a rank is 1 / log2(rank + 2), rank from 0, unless ``browsing`` is set.
    ``population`` sets the documents of a group, by default those that are labeled for the query or
    retrieved; documents that are not in the ranking count with 0. Retrieved documents are counted
    in each ranking, and counts are averaged over samples. Documents without a known group keep
    their ranks and belong to no group; a document of several groups counts fractionally.

    The value is undefined (NaN) if no document with a known group gets attention, if a group of the
    attribute has no document in the population (``empty="skip"`` compares the others, if there are
    two), or for a ratio with a denominator of 0. A query missing from the run gets the worst
    possible value: 0 for ``"min/max"``, NaN for ``"max/min"``. On sampled runs, exposure is
    averaged over samples first; with ``amortize=False``, the value is the mean over samples.

    `fairtk_classic.ABR` is EXP with ``browsing="RBP(p=0.5)"``, ``population="ranked"`` and
    ``amortize=False`` (Ghosh, Dutt and Wilson 2021).
    """

    identity_name = "fairtk_classic.EXP"
    output_version = 1
    NAME = "EXP"
    PRETTY_NAME = "Group exposure"
    CITATION = "singh2018fairness ghosh2021fair"
    BETTER = "higher"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and number of documents."""
        return got.exposure, have.size

    def top(self) -> float:
        """Return the attention of the first rank, the highest mean that a group can have."""
        return float(self.model.checked_weights(np.zeros(1, dtype=np.int64))[0])


EXP = GroupExposure()


class GroupExposureUtility(CombinedExposure):
    """Whether documents of all groups get exposure in proportion to their relevance.

    EXPU compares the groups' mean attention divided by their mean label, which is sum of attention
    / sum of labels (disparate treatment of Singh and Joachims 2018), by ``combine`` as in `EXP`:
    ``"min/max"`` (default) is in [0, 1], and higher is closer to proportional; the others are at
    least 0, and lower is closer.

    Labels below 0 and unlabeled documents count as 0. The value is also undefined (NaN) if a group
    has no relevant document in ``population`` (``empty="skip"`` compares the others). A query
    missing from the run gets 0 with ``"min/max"`` and NaN otherwise, because a quotient has no
    highest value. Otherwise like `EXP`.
    """

    identity_name = "fairtk_classic.EXPU"
    output_version = 1
    NAME = "EXPU"
    PRETTY_NAME = "Group exposure by utility"
    CITATION = "singh2018fairness"
    BETTER = "higher"
    EMPTY_REASON = "a group has no relevant document"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and total relevance."""
        return got.exposure, have.relevance


EXPU = GroupExposureUtility()


class GroupRealizedUtility(CombinedExposure):
    """Whether documents of all groups get clicks in proportion to their relevance.

    EXPRU compares the groups' mean clicks (attention times label) divided by their mean label,
    which is sum of attention x label / sum of labels (disparate impact of Singh and Joachims 2018),
    by ``combine`` as in `EXP`: ``"min/max"`` (default) is in [0, 1], and higher is closer to
    proportional; the others are at least 0, and lower is closer.

    Labels below 0 and unlabeled documents count as 0. The value is also undefined (NaN) if a group
    has no relevant document in ``population`` (``empty="skip"`` compares the others). A query
    missing from the run gets 0 with ``"min/max"`` and NaN otherwise. Otherwise like `EXP`.
    """

    identity_name = "fairtk_classic.EXPRU"
    output_version = 1
    NAME = "EXPRU"
    PRETTY_NAME = "Group realized utility"
    CITATION = "singh2018fairness"
    BETTER = "higher"
    EMPTY_REASON = "a group has no relevant document"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return attention times label and relevance."""
        return got.gain, have.relevance


EXPRU = GroupRealizedUtility()


ABR = EXP(browsing="RBP(p=0.5)", population="ranked", amortize=False)
"""The attention bias ratio of Ghosh, Dutt and Wilson (2021): EXP of the documents in each ranking.

Attention falls geometrically with the rank; p=0.5 is a choice of this plugin.
"""


GAMMA = Param(
    (int, float),
    default=0.8,
    desc="patience: the probability of going on to the next rank",
    check=checks.open_interval,
)


class RankBiasedExposure(CombinedExposure):
    """Base class of ERBE, ERBP and ERBR, with attention (1 - gamma) gamma^(k - 1), k from 1."""

    CITATION = "kirnap2021estimation"
    BETTER = "higher"
    SUPPORTED_PARAMS: ClassVar[dict[str, Any]] = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "gamma": GAMMA,
        "combine": p.COMBINE,
        "population": p.population("judged+ranked"),
        "unlabeled": p.UNLABELED,
        "amortize": p.amortize(False),
        "empty": p.EMPTY,
    }

    @property
    def model(self) -> RBP:
        """The browsing model, gamma^rank."""
        return RBP(p=float(self["gamma"]))

    @property
    def scale(self) -> float:
        """The factor 1 - gamma, which makes the attention of all ranks sum to 1."""
        return 1.0 - float(self["gamma"])


class RankBiasedEquality(RankBiasedExposure):
    """Whether all groups get the same exposure in total.

    ERBE compares ER(g) = (1 - gamma) sum over ranks k of gamma^(k - 1) [document k in g] (Kirnap et
    al. 2021, Eq. 2) by ``combine``: ``"min/max"`` (default) is in [0, 1], and higher is more even;
    for ``"max/min"``, ``"max-min"``, ``"max-deviation"``, ``"mean-deviation"``, ``"l2"`` and
    ``"variance"``, lower is more even. The default ``gamma=0.8`` is a choice of this plugin.

    A group without a document in the ranking has an exposure of 0. Documents without a known group
    keep their ranks and belong to no group; a document of several groups counts fractionally. The
    value is undefined (NaN) if no document has a known group, or for ``"max/min"`` with a
    denominator of 0. A query missing from the run gets the worst possible value: 0 for
    ``"min/max"``, NaN for ``"max/min"``. On sampled runs, the value is the mean over samples;
    ``amortize=True`` averages exposure over samples first.
    """

    identity_name = "fairtk_classic.ERBE"
    output_version = 1
    NAME = "ERBE"
    PRETTY_NAME = "Rank-biased exposure, equal by group"
    SUPPORTED_PARAMS: ClassVar = {
        name: param
        for name, param in RankBiasedExposure.SUPPORTED_PARAMS.items()
        if name not in ("population", "empty")
    }

    def population(self, judged: LabeledRun) -> Population:
        """Return 1 for each group, because exposure is not divided by documents."""
        rows = judged.run
        n_rows = len(rows.qids) if self["amortize"] else rows.n_rankings
        ones = np.ones((n_rows, len(self.compared_levels)))
        return Population(ones, ones, ones)

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure, to be divided by 1."""
        return self.scale * got.exposure, have.size

    def top(self) -> float:
        """Return the attention of all ranks together."""
        return 1.0


ERBE = RankBiasedEquality()


class RankBiasedProportionality(RankBiasedExposure):
    """Whether all groups get exposure in proportion to their numbers of documents.

    ERBP compares ER(g) of `ERBE` divided by the number of the group's documents (Kirnap et al.
    2021), by ``combine`` as in `ERBE`: ``"min/max"`` (default) is in [0, 1], and higher is closer
    to proportional; the others are at least 0, and lower is closer. ``population`` sets the
    documents of a group: those that are labeled for the query or retrieved (default), or
    ``"collection"``, all documents that have groups.

    The value is also undefined (NaN) if a group of the attribute has no document in the population
    (``empty="skip"`` compares the others). Otherwise like `ERBE`.
    """

    identity_name = "fairtk_classic.ERBP"
    output_version = 1
    NAME = "ERBP"
    PRETTY_NAME = "Rank-biased exposure, proportional to group size"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and number of documents."""
        return self.scale * got.exposure, have.size

    def top(self) -> float:
        """Return the attention of the first rank, the highest mean that a group can have."""
        return self.scale


ERBP = RankBiasedProportionality()


class RankBiasedRelevance(RankBiasedExposure):
    """Whether all groups get exposure in proportion to their numbers of relevant documents.

    ERBR compares ER(g) of `ERBE` divided by the number of the group's documents with a label above
    0 in ``population`` (Kirnap et al. 2021), by ``combine`` as in `ERBE`: ``"min/max"`` (default)
    is in [0, 1], and higher is closer to proportional; the others are at least 0, and lower is
    closer. The exposure includes all documents, relevant or not.

    The value is also undefined (NaN) if a group has no relevant document (``empty="skip"`` compares
    the others). A query missing from the run gets 0 with ``"min/max"`` and NaN otherwise. Otherwise
    like `ERBE`.
    """

    identity_name = "fairtk_classic.ERBR"
    output_version = 1
    NAME = "ERBR"
    PRETTY_NAME = "Rank-biased exposure, proportional to relevant documents"
    EMPTY_REASON = "a group has no relevant document"

    def per_group(self, got: Exposures, have: Population) -> tuple[FloatArray, FloatArray]:
        """Return exposure and number of relevant documents."""
        return self.scale * got.exposure, have.relevant


ERBR = RankBiasedRelevance()
