"""PEER: whether documents of all languages have equal expected ranks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import sum_by_index
from fairtk.frames import BoolArray, FloatArray, IntArray
from fairtk.measures import Param
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import GroupMeasure, Scored, ratio

if TYPE_CHECKING:
    from fairtk.measures import LabeledRun


def label_weights(text: str, where: str = "PEER") -> dict[float, float]:
    """Return the weight of each label in a string such as ``"1:0.25,3:0.75"``."""
    weights: dict[float, float] = {}
    for part in text.split(","):
        label, colon, weight = part.partition(":")
        try:
            one, other = float(label), float(weight)
        except ValueError:
            one = other = math.nan
        if not colon or not math.isfinite(one) or one in weights:
            raise ParameterError(
                f"{where}: weights must be distinct labels with weights, as in '1:0.25,3:0.75', "
                f"got {text!r}"
            )
        weights[one] = checks.share("weights", other, where)
    if abs(math.fsum(weights.values()) - 1.0) > 1e-8:
        raise ParameterError(
            f"{where}: weights must sum to 1, got {math.fsum(weights.values()):g} in {text!r}"
        )
    return weights


def _check_weights(name: str, value: Any, where: str) -> None:
    label_weights(value, where)


WEIGHTS = Param(
    str,
    default=None,
    desc="the weight of each label, which sum to 1: '1:0.25,3:0.75'; default: equal weights of the "
    "labels above 0 that the query has",
    check=_check_weights,
)
UNLABELED = Param(
    str,
    default="drop",
    choices=("drop", "group"),
    desc="documents without a known language: drop: left out; group: one more language",
)
UNRETRIEVED = Param(
    str,
    default="published",
    choices=("published", "last"),
    desc="where relevant documents below the cutoff tie: published: below as many ranks as the "
    "label has documents; last: below the last rank of the label's retrieved documents",
)


class EqualExpectedRank(GroupMeasure):
    """How probable the ranks of documents are if all languages have equal expected ranks.

    PEER = sum over labels of weight x p-value of a Kruskal-Wallis test of the ranks of the label's
    documents by language (Yang, Jänich, Mayfield and Lawrie 2024). The statistic is H = (N - 1) sum
    over languages of n (mean rank - overall mean)^2 / sum over documents of (rank - overall mean)^2
    with N documents; p is the upper tail of the chi-squared distribution with one degree of freedom
    less than languages. In [0, 1]; higher means that the ranks give less evidence of a difference.
    No language is protected.

    Ranks are those of the complete ranking, cut at ``@k``; a retrieved document without a label has
    label 0. Documents with a label above 0 that are not among the first k tie at the rank m +
    (u + 1) / 2, with u of them: by default m is the number of the label's documents, as in the
    authors' package. This can be above the ranks of retrieved documents; ``unretrieved="last"``
    takes the last rank of the label's retrieved documents for m. A label with documents of one
    language, or without a retrieved document, has p = 1. A label that a query does not have adds 0
    to the sum (the default weights skip it).

    Documents without a known language keep their ranks and are left out. A document of several
    languages is an error. The value is undefined (NaN) if the labels have no document with a
    weighted label. A query missing from the run gets 0. On sampled runs, the value is the mean over
    samples.
    """

    identity_name = "fairtk_classic.PEER"
    output_version = 1
    NAME = "PEER"
    PRETTY_NAME = "Probability of equal expected rank"
    CITATION = "yang2024language"
    BETTER = "higher"
    MISSING = 0.0
    BOUNDS = (0.0, 1.0)
    SUPPORTED_PARAMS: ClassVar = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "weights": WEIGHTS,
        "unretrieved": UNRETRIEVED,
        "unlabeled": UNLABELED,
    }

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each ranking."""
        ranked, query = judged.run, judged.ranking_query
        label = np.nan_to_num(judged.pair_label)
        labels, weight = self.weights(judged, label)
        shape = (ranked.n_rankings, len(labels), len(self.compared_levels))
        level = np.searchsorted(labels, label)
        level[(level == len(labels)) | (np.append(labels, np.nan)[level] != label)] = -1
        language = self.languages(judged)[judged.pair_doc]
        counts = (level >= 0) & (language >= 0)
        in_row = np.where(counts, level * shape[2] + language, 0)

        pair = judged.pair_of_row
        is_read = counts[pair] & (ranked.position < (self["cutoff"] or np.inf))
        pair, ranking = pair[is_read], ranked.ranking[is_read]
        cell = ranking * shape[1] * shape[2] + in_row[pair]
        rank = ranked.position[is_read] + 1.0
        size = math.prod(shape)
        n_retrieved = sum_by_index(cell, np.ones(len(cell)), size).reshape(shape)
        rank_sum = sum_by_index(cell, rank, size).reshape(shape)

        relevant = counts & (label > 0)
        n_relevant = np.zeros((len(judged.qids), *shape[1:]))
        np.add.at(
            n_relevant, (judged.pair_query[relevant], level[relevant], language[relevant]), 1.0
        )
        unretrieved = np.maximum(n_relevant[query] - n_retrieved, 0.0)

        n = n_retrieved + unretrieved
        u = unretrieved.sum(axis=2)
        below = n.sum(axis=2)
        test = ranking * shape[1] + level[pair]
        if self["unretrieved"] == "last":
            last = np.zeros(shape[0] * shape[1])
            np.maximum.at(last, test, rank)
            below = last.reshape(shape[:2])
        tied = below + (u + 1.0) / 2.0
        rank_sum += unretrieved * tied[..., None]
        overall = ratio(rank_sum.sum(axis=2), n.sum(axis=2), 0.0)
        between = (n * (ratio(rank_sum, n, 0.0) - overall[..., None]) ** 2).sum(axis=2)
        squares = (rank - overall.ravel()[test]) ** 2
        total = sum_by_index(test, squares, len(overall.ravel())).reshape(shape[:2])
        total += u * (tied - overall) ** 2
        p_value = kruskal_p(between, total, n)
        p_value[n_retrieved.sum(axis=2) == 0] = 1.0
        value = (weight[query] * p_value).sum(axis=1)
        none: BoolArray = np.asarray((weight == 0).all(axis=1))
        return Scored(query, value, gaps=(("no document with a weighted label", none),))

    def weights(self, judged: LabeledRun, label: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weighted labels, ascending, and the weight of each in each query."""
        given = None if self["weights"] is None else label_weights(self["weights"])
        known = ~np.isnan(judged.pair_label)
        labels = np.unique(label[label > 0]) if given is None else np.array(sorted(given))
        has: BoolArray = np.zeros((len(judged.qids), len(labels)), dtype=bool)
        for column, one in enumerate(labels):
            has[judged.pair_query[known & (label == one)], column] = True
        if given is None:
            return labels, ratio(has * 1.0, has.sum(axis=1, keepdims=True), 0.0)
        return labels, has * np.array([given[one] for one in labels])

    def languages(self, judged: LabeledRun) -> IntArray:
        """Return the language of each document, -1 if unknown."""
        share = self.shares(judged, judged.docnos)
        several = np.flatnonzero((share > 0).sum(axis=1) > 1)
        if len(several):
            raise InputError(
                f"{self!r} requires one language per document, but docno "
                f"{str(judged.docnos[several[0]])!r} has several ({len(several)} such documents)"
            )
        return np.where((share > 0).any(axis=1), share.argmax(axis=1), -1)


def kruskal_p(between: FloatArray, total: FloatArray, n: FloatArray) -> FloatArray:
    """Return the p-values of Kruskal-Wallis tests; 1 for one group or equal ranks.

    Args:
        between: the sum of squares between groups; shape (..., ).
        total: the sum of squares of all ranks; same shape.
        n: the number of documents of each group; shape (..., n_groups).
    """
    from scipy.special import chdtrc

    freedom = (n > 0).sum(axis=-1) - 1.0
    statistic = (n.sum(axis=-1) - 1.0) * ratio(between, total, 0.0)
    tested = (freedom > 0) & (total > 0)
    return np.where(tested, chdtrc(np.maximum(freedom, 1.0), statistic), 1.0)


PEER = EqualExpectedRank()
