"""The definitions of EE-D, EE-R and EE-L, one function per variant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairtk.errors import ColumnError, InputError, format_list, such
from fairtk.exposure.expected import (
    Bounded,
    ExposureValues,
    expeval_values,
    fair_rag_values,
    make_grades,
    values_and_bounds,
)
from fairtk.frames import QID, BoolArray, FloatArray, IntArray, Qrels
from fairtk.groups.distances import (
    SparseRows,
    expeval_group_values,
    expeval_target,
    loss_parts,
)
from fairtk.measures.labeled_run import LabeledRun

Reasons = list[tuple[str, BoolArray]]
"""Reasons why queries have no value, each with a mask of shape (n_queries,)."""

N_OF_RUN = "judged+retrieved"
"""The value of ``n`` for the number of labeled or retrieved documents of each run."""
NO_USEFUL = "no useful document in the labels"


@dataclass(frozen=True)
class VariantValues:
    """The values of a variant for all queries; arrays have shape (n_queries,)."""

    values: ExposureValues  # EE-D, EE-R and EE-L
    without_target: Reasons  # reasons for no EE-R and EE-L
    undefined: Reasons  # reasons for no value at all
    unbounded: Reasons  # reasons for no normalized value


def refuse_one_sample(where: str, qids: Any, ranking_query: IntArray) -> None:
    """Raise an `InputError` if a query has a single sample."""
    alone = np.flatnonzero(np.bincount(ranking_query, minlength=len(qids)) == 1)
    if len(alone):
        raise InputError(
            f"{where}: estimator='unbiased' requires at least two samples, got one for qid "
            f"{str(qids[alone[0]])!r} ({such(len(alone), 'query')}); draw more, use "
            "estimator='plain', or drop the column 'sample' of a deterministic ranking"
        )


def counts(index: IntArray, mask: Any, n_queries: int) -> IntArray:
    """Return the number of masked items of each query."""
    return np.bincount(index[mask], minlength=n_queries)


def compute_paper_variant(measure: Any, judged: LabeledRun) -> VariantValues:
    """Return the values of Towards Fair RAG, Eqs. 3 to 6 and Appendix C; Diaz et al. 2020."""
    rule, cutoff, exact = measure["n"], measure["cutoff"], measure["bounds"] == "exact"
    n, n_queries, query = n_documents(measure, judged), len(judged.qids), judged.pair_query
    grade, exposure = measure.grades(judged.pair_label), measure.exposure(judged)
    useful = grade > 0
    n_useful = counts(query, useful, n_queries)
    values = values_and_bounds(
        exposure,
        query,
        make_grades(query, np.nan_to_num(grade), n_queries, n),
        measure.ranks(int(n.max(initial=0))),
        cutoff,
        exact=exact,
        closed=rule != N_OF_RUN,
    )
    undefined: Reasons = []
    if rule == "judged":
        # documents without a label replace labeled ones that are not useful, if there are any
        read = counts(query, (exposure > 0) & ~useful, n_queries)
        reason = "the rankings contain more non-relevant documents than n='judged' counts"
        undefined.append((reason, read > n - n_useful))
    unbounded: Reasons = []
    if exact:
        depth = n if cutoff is None else np.minimum(n, cutoff)
        short = np.diff(judged.run.ranking_start) < depth[judged.ranking_query]
        full = "n" if cutoff is None else f"min({cutoff}, n)"
        reason = (
            f"a ranking has fewer than {full} documents, so the exact bounds, those of full "
            "rankings, do not hold"
        )
        unbounded.append((reason, counts(judged.ranking_query, short, n_queries) > 0))
    return VariantValues(values, [(NO_USEFUL, n_useful == 0)], undefined, unbounded)


def n_documents(measure: Any, judged: LabeledRun) -> IntArray:
    """Return the number n of documents of each query, by the measure's parameter ``n``."""
    n_queries = len(judged.qids)
    pairs = np.bincount(judged.pair_query, minlength=n_queries)
    n = explicit_n(measure, judged.qrels)
    if n is None and measure["n"] == "judged":
        return counts(judged.pair_query, ~np.isnan(judged.pair_label), n_queries)
    if n is None:
        return pairs
    short = np.flatnonzero(n < pairs)
    if len(short):
        at = int(short[0])
        useful = counts(judged.pair_query, measure.grades(judged.pair_label) > 0, n_queries)
        raise InputError(
            f"{measure.text}: n must be at least the number of judged or retrieved documents, got "
            f"{n[at]} for qid {judged.qids[at]!r} with {pairs[at]} documents ({useful[at]} useful)"
        )
    return n


def explicit_n(measure: Any, qrels: Qrels) -> IntArray | None:
    """Return n if it is a number or a column of the qrels; shape (n_queries,)."""
    rule, frame = measure["n"], qrels.frame
    if rule in (N_OF_RUN, "judged"):
        return None
    if isinstance(rule, int):
        return np.full(len(qrels.qids), rule)
    if rule not in frame.columns:
        raise ColumnError(
            f"{measure.text}: n must be 'judged+retrieved', 'judged', a number or a column of "
            f"the qrels ({format_list(frame.columns)}), got {rule!r}"
        )
    values = frame[rule].to_numpy(dtype=np.float64, na_value=np.nan)
    n = np.full(len(qrels.qids), np.nan)
    n[qrels.query] = values
    wrong = ~(n[qrels.query] == values) | (values != np.floor(values))
    if wrong.any():
        bad = format_list(dict.fromkeys(str(q) for q in frame[QID].to_numpy()[wrong]))
        raise InputError(
            f"{measure.text}: column {rule!r} of the qrels must have one integer per query "
            f"(wrong for qid {bad})"
        )
    return n.astype(np.int64)


def compute_fair_rag_variant(measure: Any, judged: LabeledRun) -> VariantValues:
    """Return the values of ``variant="fair-rag"``: only useful documents have a target."""
    n_queries, query = len(judged.qids), judged.pair_query
    grade = measure.grades(judged.pair_label)
    grades = make_grades(query, np.where(grade > 0, 1.0, np.nan), n_queries)
    n_judged = counts(query, ~np.isnan(grade), n_queries)
    exposure = measure.exposure(judged)
    values = fair_rag_values(exposure, query, grades, int(measure["cutoff"] or 0), n_judged)
    return VariantValues(values, [(NO_USEFUL, grades.n_useful == 0)], [], [])


def compute_expeval_variant(measure: Any, judged: LabeledRun) -> VariantValues:
    """Return the values of ``variant="expeval"``, by documents."""
    n_queries, query, complete = len(judged.qids), judged.pair_query, measure["complete"]
    grade = measure.grades(judged.pair_label)
    grades = make_grades(
        query, grade if complete else np.where(grade > 0, grade, np.nan), n_queries
    )
    exposure = measure.exposure(judged)
    values = expeval_values(exposure, query, grades, measure["browsing"], complete=complete)
    # with complete labels, each grade has a target
    reasons = [] if complete else [(NO_USEFUL, grades.n_useful == 0)]
    return VariantValues(values, reasons, [], [])


def compute_expeval_group_variant(measure: Any, judged: LabeledRun) -> VariantValues:
    """Return the values of ``variant="expeval"`` with groups: sums over their documents."""
    n_queries, query, complete = len(judged.qids), judged.pair_query, measure["complete"]
    grade, exposure = measure.grades(judged.pair_label), measure.exposure(judged)
    n_useful = counts(query, grade > 0, n_queries)
    counted = np.flatnonzero(~np.isnan(grade) if complete else grade > 0)
    grades = make_grades(query[counted], grade[counted], n_queries)
    target = expeval_target(grades, measure["browsing"])[grades.of_pair]
    memberships = measure["groups"].memberships(judged.docnos, "drop")
    memberships = memberships.weighted(np.ones(len(memberships.weight)))
    ones = judged.summed(memberships, np.ones(len(counted)), counted)
    values = expeval_group_values(
        judged.summed(memberships, exposure[counted], counted),
        judged.summed(memberships, target, counted),
        n_useful,
        counts(query, counted, n_queries),
        np.bincount(ones.row, minlength=n_queries),
        measure["browsing"],
    )
    reasons = [] if complete else [(NO_USEFUL, n_useful == 0)]
    return VariantValues(values, reasons, reasons if measure["useful_only"] else [], [])


def compute_trec_task2_variant(measure: Any, judged: LabeledRun) -> VariantValues:
    """Return the values of TREC Fair Ranking 2022, Task 2: exposure of groups against a target.

    Unlike in the track's code with ``useful_only=False``, documents also count if no useful
    document is retrieved; there, EE-D is 0, its best value.
    """
    n_queries = len(judged.qids)
    useful, exposure = measure.grades(judged.pair_label) > 0, measure.exposure(judged)
    n_useful = counts(judged.pair_query, useful, n_queries)
    memberships = measure["groups"].memberships(judged.docnos, "drop")
    system = judged.summed(
        memberships,
        exposure * useful if measure["useful_only"] else exposure,
        np.arange(judged.n_pairs),
    )
    target: Any = system.take(np.full(n_queries, -1))
    if measure.target is not None:
        system = measure.target.drop_unknown(system, judged.qids)
        target = measure.target.for_qids(judged.qids)
    scale = target_scale(measure)
    disparity, relevance, loss = loss_parts(system, target, scale)
    square = scale**2 * target.square()
    highest = _highest(measure, n_useful, memberships)
    zero = np.zeros(n_queries)
    values = ExposureValues(
        Bounded(disparity, zero, highest, highest, 1.0),
        Bounded(relevance, zero, highest, zero, 0.0),
        Bounded(loss, zero, highest + square, highest + square, 1.0),
    )
    without_target = [("no target", target.total() == 0), (NO_USEFUL, n_useful == 0)]
    undefined = without_target[1:] if measure["useful_only"] else []
    return VariantValues(values, without_target, undefined, [])


TASK2_RANKS = 20
"""The number of ranks that scale the target without a cutoff, as requested in TREC's Task 2."""


def target_scale(measure: Any) -> float:
    """Return the total attention on the ranks, which scales the target."""
    ranks = np.arange(measure["cutoff"] or TASK2_RANKS, dtype=np.int64)
    return float(measure["browsing"].weights(ranks).sum())


def _highest(measure: Any, n_useful: IntArray, memberships: SparseRows) -> FloatArray:
    """Return an upper bound of disparity; NaN if unbounded; shape (n_queries,).

    It assumes that each rank shows the document with the largest norm of memberships (triangle
    inequality).
    """
    depth = np.full(len(n_useful), measure["cutoff"] or TASK2_RANKS)
    if measure["cutoff"] is None:
        if not measure["useful_only"]:
            return np.full(len(n_useful), np.nan)
        depth = np.maximum(depth, n_useful)
    weight = measure["browsing"].weights(np.arange(int(depth.max(initial=0)), dtype=np.int64))
    attention = np.concatenate([[0.0], np.cumsum(weight)])[depth]
    return np.asarray(attention**2 * memberships.square().max(initial=1.0))


VARIANTS: dict[tuple[str, bool], Callable[[Any, LabeledRun], VariantValues]] = {
    ("paper", False): compute_paper_variant,
    ("fair-rag", False): compute_fair_rag_variant,
    ("expeval", False): compute_expeval_variant,
    ("paper", True): compute_trec_task2_variant,
    ("expeval", True): compute_expeval_group_variant,
}
"""The definition of each variant, without and with groups."""
