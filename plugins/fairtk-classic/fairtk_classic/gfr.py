"""GFR: group fairness and relevance (Sakai, Kim and Kang 2022), with its similarities."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairtk import checks
from fairtk.errors import InputError, ParameterError
from fairtk.exposure import sum_by_index
from fairtk.frames import FloatArray
from fairtk.groups import js_divergence
from fairtk.measures import Param
from fairtk_classic import parameters as p
from fairtk_classic.group_measure import NO_TARGET, GroupMeasure, Scored

if TYPE_CHECKING:
    from fairtk.groups import Groups, Target
    from fairtk.measures import LabeledRun


def similarity_of(achieved: FloatArray, target: FloatArray, kind: str) -> FloatArray:
    """Return 1 minus a divergence of each row; shape (n_rows,), in [0, 1], 1 for equal rows.

    Args:
        achieved: distributions over n > 1 groups; shape (n_rows, n).
        target: distributions to compare with; same shape.
        kind: ``"JSD"`` (nominal groups), ``"NMD"`` or ``"RNOD"`` (ordinal: columns in order).
    """
    divergence = {
        "JSD": jensen_shannon_bits,
        "NMD": normalized_match_distance,
        "RNOD": root_normalized_order_aware_divergence,
    }[kind]
    return 1.0 - divergence(achieved, target)


def jensen_shannon_bits(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return the Jensen-Shannon divergence to base 2, in [0, 1]."""
    return js_divergence(p, q, 2)


def normalized_match_distance(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return NMD = sum over i of |cumulative p_i - cumulative q_i| / (n - 1), in [0, 1]."""
    gap = np.cumsum(p, axis=1) - np.cumsum(q, axis=1)
    return np.asarray(np.abs(gap).sum(axis=1) / (p.shape[1] - 1))


def root_normalized_order_aware_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return RNOD, in [0, 1].

    RNOD is the square root of D / (n - 1), where D is the mean of sum over j of |i - j| (p_j -
    q_j)^2 over the groups i with a target q_i > 0.
    """
    n = p.shape[1]
    steps = np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)
    has_target = q > 0
    from_each = ((p - q) ** 2) @ steps
    mean = (from_each * has_target).sum(axis=1) / np.maximum(has_target.sum(axis=1), 1)
    return np.asarray(np.sqrt(mean / (n - 1)))


SIMILARITIES = ("JSD", "NMD", "RNOD")


def _similarities(name: str, value: str, where: str) -> None:
    for similarity in value.split(","):
        checks.choice(name, similarity, SIMILARITIES, where)


SIMILARITY = Param(
    str,
    default="JSD",
    desc="JSD (nominal groups), NMD or RNOD (ordinal); for crossed groups also one each: 'NMD,JSD'",
    check=_similarities,
)
USER = Param(str, default="ERR", choices=("ERR", "iRBU"), desc="decay of relevance: 1/k, or p^k")
PATIENCE = Param(
    (int, float),
    default=0.99,
    desc="p of iRBU",
    check=partial(checks.number, most=1, ends="(]"),
)
MAX_LABEL = Param(
    int,
    default=1,
    desc="the highest grade of the labels",
    check=partial(checks.integer, most=1000),  # 2^max_label is a float
)
PART = Param(
    str,
    default="GFR",
    choices=("GFR", "GF", "REL"),
    desc="all, the mean of the fairness components, or the relevance component",
)


class GroupFairnessAndRelevance(GroupMeasure):
    """How relevant a ranking is, and how close the groups of its documents are to a target.

    GFR is the mean of REL and of one GF per attribute (Sakai, Kim and Kang 2022). A user stops at
    rank k with probability s_k = P_k prod over j < k of (1 - P_j), where P = (2^label - 1) /
    2^max_label. REL is the sum of s_k / k (``user="ERR"``) or of s_k p^k (``"iRBU"``). GF is the
    sum of s_k sim(D@k, D*), where D@k is the mean group membership of the first k documents, D* is
    the target, and sim is 1 minus a divergence: JSD to base 2 for nominal groups, NMD or RNOD for
    ordinal groups, whose levels must be in order (``Groups.from_frame(..., levels=[...])``). In [0,
    1), because the s_k sum to less than 1; higher is more relevant and closer to the target.
    Crossed groups are several attributes, each with its own GF; ``similarity="NMD,JSD"`` sets one
    similarity per attribute. ``part`` selects only GF or REL.

    As in the task's tool, a document that is not relevant or has no known group belongs equally to
    all groups, and the ranking is cut at ``@k``. The value is undefined (NaN) without a relevant
    document in the labels, or without a target. A query missing from the run gets 0. On sampled
    runs, the value is the mean over samples. An attribute with fewer than two known levels and a
    label above `max_label` are errors.
    """

    identity_name = "fairtk_classic.GFR"
    output_version = 1
    NAME = "GFR"
    PRETTY_NAME = "Group fairness and relevance"
    CITATION = "sakai2022versatile"
    BETTER = "higher"
    MISSING = 0.0
    SUPPORTED_PARAMS: ClassVar = {
        "cutoff": p.CUTOFF,
        "groups": p.GROUPS,
        "target": p.TARGET,
        "similarity": SIMILARITY,
        "user": USER,
        "p": PATIENCE,
        "max_label": MAX_LABEL,
        "part": PART,
    }

    def check_params(self) -> None:
        """Raise a `ParameterError` if groups, target and similarities do not fit."""
        if "groups" not in self.params:
            return
        for attribute in self["groups"].attributes:
            if _known(attribute).sum() < 2:
                raise ParameterError(f"GFR: {attribute.name!r} has fewer than two known levels")
        self.kinds()
        if "target" in self.params:
            self["target"].for_groups(self["groups"])

    def kinds(self) -> list[str]:
        """Return the similarity of each attribute."""
        names = [a.name for a in self.groups.attributes]
        kinds: list[str] = self["similarity"].split(",")
        if len(kinds) not in (1, len(names)):
            raise ParameterError(
                f"GFR: similarity must be one, or one for each of {names}, got {kinds}"
            )
        return kinds * len(names) if len(kinds) == 1 else kinds

    def per_ranking(self, judged: LabeledRun) -> Scored:
        """Return the value of each ranking."""
        ranked, n = judged.run, judged.run.n_rankings
        label = self.labels(judged)
        chance = (2.0**label - 1.0) / 2.0 ** self["max_label"]
        stop = chance[judged.pair_of_row]
        going_on = np.concatenate([[0.0], np.cumsum(np.log1p(-stop))])
        stop = stop * np.exp(going_on[:-1] - going_on[ranked.ranking_start[:-1]][ranked.ranking])
        if self["cutoff"] is not None:
            stop = np.where(ranked.position < self["cutoff"], stop, 0.0)
        rank = ranked.position + 1.0
        decay = 1.0 / rank if self["user"] == "ERR" else float(self["p"]) ** rank
        components = [] if self["part"] == "GF" else [stop * decay]
        open_ = np.zeros(len(judged.qids), dtype=bool)
        if self["part"] != "REL":
            for attribute, kind in zip(self.groups.attributes, self.kinds(), strict=True):
                targets = self.targets(judged, attribute)
                open_ |= np.isnan(targets).any(axis=1)
                components.append(stop * self.closeness(judged, attribute, targets, kind))
        value = np.mean(components, axis=0)
        value = sum_by_index(ranked.ranking, value, n)
        relevant = sum_by_index(judged.pair_query, label, len(open_)) > 0
        gaps = (("no relevant document in the labels", ~relevant), (NO_TARGET, open_))
        return Scored(judged.ranking_query, value, (), gaps)

    def labels(self, judged: LabeledRun) -> FloatArray:
        """Return the label of each (query, document); below 0 and unlabeled count as 0."""
        highest = self["max_label"]
        label: FloatArray = np.maximum(np.nan_to_num(judged.pair_label), 0.0)
        if (label > highest).any():
            at = int(np.flatnonzero(label > highest)[0])
            raise InputError(
                f"{self!r}: labels must be at most max_label={highest}, got {label[at]:g} for qid "
                f"{str(judged.qids[judged.pair_query[at]])!r}, docno "
                f"{str(judged.docnos[judged.pair_doc[at]])!r}; write GFR(max_label=...) with the "
                "highest grade"
            )
        return label

    def targets(self, judged: LabeledRun, attribute: Groups) -> FloatArray:
        """Return the target of an attribute over its known levels; (n_queries, n_levels)."""
        if "target" not in self.params:
            raise ParameterError(
                "GFR: a target is required: write GFR(groups=..., target=...), e.g. with "
                "Target.uniform(groups)"
            )
        target: Target = self["target"].for_groups(self.groups)
        if len(self.groups.attributes) > 1:
            target = target.marginal(attribute.name)
        rows = target.for_qids(judged.qids).expanded()
        return _shares(rows.dense()[:, _known(attribute)], np.nan)

    def closeness(
        self, judged: LabeledRun, attribute: Groups, target: FloatArray, kind: str
    ) -> FloatArray:
        """Return the similarity of the documents so far and the target at each row; (n_rows,)."""
        ranked = judged.run
        memberships = attribute.memberships(ranked.docnos, "uniform")
        dense = memberships.dense()[:, _known(attribute)]
        even = 1.0 / dense.shape[1]
        useful = np.nan_to_num(judged.pair_label)[judged.pair_of_row] > 0
        rows = np.where(useful[:, None], _shares(dense, even)[ranked.doc], even)
        summed = np.concatenate([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0)])
        first = ranked.ranking_start[:-1][ranked.ranking]
        achieved = (summed[1:] - summed[first]) / (ranked.position + 1.0)[:, None]
        row_target = target[judged.query_of_run[ranked.query]]
        return similarity_of(achieved, np.nan_to_num(row_target), kind)


def _known(attribute: Groups) -> Any:
    """Return which levels of one attribute are not the unknown one."""
    return attribute.space.known(np.arange(attribute.space.size))


def _shares(values: FloatArray, otherwise: float) -> FloatArray:
    """Return each row divided by its sum; `otherwise` if the sum is 0."""
    total = values.sum(axis=1, keepdims=True)
    result: FloatArray = np.full_like(values, otherwise)
    return np.asarray(np.divide(values, total, out=result, where=total > 0))


GFR = GroupFairnessAndRelevance()
