"""The exposure that groups get from rankings, for all queries at once, and how much of a run the
groups know.

A document passes the attention of its rank on to the groups it belongs to. Summed over a ranking
that is the exposure of the groups, a row of `SparseRows`: what AWRF and the group forms of expected
exposure compare with a target. Pure array arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError
from fairtk.exposure import (
    GERR,
    HIGHER_IS_BETTER,
    LOWER_IS_BETTER,
    RBP,
    Bounded,
    ExposureValues,
    Grades,
    target_exposure,
)
from fairtk.frames import QID, BoolArray, FloatArray, IntArray, Run
from fairtk.groups.divergence import Distributions, SparseRows, js_divergence

if TYPE_CHECKING:
    from fairtk.groups.groups import Groups
    from fairtk.groups.levels import LevelSpace

_FEW_LEVELS = 1 << 12


@dataclass(frozen=True, eq=False)
class Memberships(SparseRows):
    """How much each of some documents belongs to each group: a row per document.

    Attributes:
        known: whether each document counts at all; shape (n_documents,).
        free: share of each document of which nothing is known, with ``unlabeled="bounds"``; 0
            otherwise; shape (n_documents,).
    """

    known: BoolArray
    free: FloatArray

    def binary(self) -> Memberships:
        """Return the same groups, each membership counted fully (as expeval does)."""
        return self.weighted(np.ones(len(self.weight)))


def attention_matrix(
    row: IntArray, doc: IntArray, weight: FloatArray, shape: tuple[int, int]
) -> Any:
    """Return the attention of documents as a ``scipy.sparse.csr_array``.

    Entries may be in any order, and stay in theirs inside a row, so that sums over a ranking are
    rounded from the top.

    Args:
        row: the query of each entry, or its ranking where samples are kept apart.
        doc: its document, an index into what the memberships are made for.
        weight: the attention.
        shape: numbers of rows and of documents.
    """
    from scipy import sparse

    if not (row[1:] >= row[:-1]).all():
        order = np.argsort(row, kind="stable")
        row, doc, weight = row[order], doc[order], weight[order]
    start = np.searchsorted(row, np.arange(shape[0] + 1))
    return sparse.csr_array((weight, doc, start), shape=shape)


def shown_documents(rankings: Run, weight: FloatArray, *, amortize: bool = True) -> Any:
    """Return the `attention_matrix` of each query's documents, or of each sampled ranking's.

    Rows of the run with no weight (below the cutoff, or not relevant) are left out. With `amortize`
    a document's attention is averaged over the samples of its query, and rows are queries.
    """
    seen = np.flatnonzero(weight)
    doc, weight, n_docs = rankings.doc[seen], weight[seen], len(rankings.docnos)
    if not amortize:
        return attention_matrix(rankings.ranking[seen], doc, weight, (rankings.n_rankings, n_docs))
    query, shape = rankings.query[seen], (len(rankings.qids), n_docs)
    if not rankings.sampled:
        return attention_matrix(query, doc, weight, shape)
    return SparseRows.collect(query, doc, weight / rankings.n_samples[query], *shape).matrix


def group_exposure(attention: Any, memberships: SparseRows) -> SparseRows:
    """Return the exposure of each group in each row: attention @ memberships.

    TREC Fair Ranking 2022's epsilon, before division by the attention of known documents.
    Documents without a row add nothing, but the others keep their ranks.
    """
    from scipy import sparse

    groups = memberships.matrix
    levels = None
    if memberships.n_levels > max(groups.nnz, _FEW_LEVELS):  # a product takes memory for each
        levels, column = np.unique(groups.indices, return_inverse=True)
        shape = (memberships.n_rows, len(levels))
        groups = sparse.csr_array((groups.data, column, groups.indptr), shape=shape)
    product = (attention @ groups).tocsc().tocsr()  # twice turned, levels are in order
    product.eliminate_zeros()
    if levels is not None:
        shape = (product.shape[0], memberships.n_levels)
        entries = (product.data, levels[product.indices], product.indptr)
        product = sparse.csr_array(entries, shape=shape)
    return SparseRows(product)


def free_attention(attention: Any, memberships: Memberships) -> FloatArray:
    """Return the attention of which no group is known, for ``unlabeled="bounds"``; (n_rows,)."""
    return np.asarray(attention @ memberships.free)


def rank_fairness(system: SparseRows, target: Distributions, base: float | str = "e") -> FloatArray:
    """Return AWRF, 1 - JSD(exposure of the groups, target), of each row; NaN: one is empty."""
    return 1.0 - js_divergence(system, target, base)


def loss_parts(
    system: SparseRows, target: Distributions, scale: float = 1.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return disparity, relevance and loss of group exposures, each of shape (n_rows,).

    EE-D = |s|^2, EE-R = <s, t>, EE-L = |s - t|^2 = EE-D - 2 EE-R + |t|^2 (Diaz et al. 2020; TREC
    Fair Ranking 2022, Task 2, whose guidelines misprint a square), with t the target times `scale`.
    The target is visited only where the system has exposure.
    """
    disparity = system.square()
    towards = target.lookup(system.row, system.level)
    relevance = scale * system.per_row(system.weight * towards)
    loss = disparity - 2 * relevance + scale**2 * target.square()
    return disparity, relevance, np.maximum(loss, 0.0)


def expeval_target(grades: Grades, model: RBP) -> FloatArray:
    """Return the target exposure of a document of each grade, as expeval has it; (n_grades,).

    It differs from `fairtk.exposure.target_exposure` under `GERR` where documents that are not
    useful have several grades: every document of a better grade counts as a stop there.
    """
    plain = (1.0 - model.stop) ** grades.above * target_exposure(grades, RBP(model.p), None)
    return np.where(grades.useful, target_exposure(grades, model, None), plain)


def expeval_group_values(
    system: SparseRows,
    target: SparseRows,
    n_useful: IntArray,
    n_counted: IntArray,
    n_groups: IntArray,
    model: RBP,
) -> ExposureValues:
    """Return what expeval, the code published with Diaz et al. 2020, computes for groups.

    Departures from a sensible definition, kept for comparison: the bounds assume that every group
    gets all the attention; the lower bound of EE-D uses p u under `GERR`, so the normalized value
    can be negative; it equals the upper one under `RBP`, where the code then gives 0 or rounding
    noise (0 here); the bounds of EE-R are 0, so the normalized value is always 1. Unlike there, no
    exposure at all is a disparity of 0, not of infinity.

    `system` and `target` are sums over the groups' documents, every membership counted fully, of
    useful documents only if the labels are incomplete. Numbers are of each query's documents: the
    useful ones, those that count, and their groups; shape (n_rows,). p is below 1.
    """
    disparity, relevance, loss = loss_parts(system, target)
    zero = np.zeros(system.n_rows)

    def attention(p: float) -> FloatArray:
        return np.asarray((1.0 - float(p) ** n_useful) / (1.0 - p))

    most = attention(model.p)
    several = n_groups > 1
    highest = np.where(several, n_groups * most**2, 0.0)
    lowest = highest
    if isinstance(model, GERR):
        lowest = np.where(several, n_groups * attention(model.p * model.u) ** 2, 0.0)
    norm = target.square()
    excess = norm - 2 * most * target.total() + n_groups * most**2  # sum of (most - target)^2
    # no group gets more than all the attention that the counted documents can get
    whole = n_groups * ((1.0 - float(model.p) ** n_counted) / (1.0 - model.p)) ** 2
    return ExposureValues(
        Bounded.of_code(disparity, lowest, highest, whole, LOWER_IS_BETTER, 0.0),
        Bounded.of_code(relevance, zero, zero, zero, HIGHER_IS_BETTER, 1.0),
        Bounded.of_code(loss, zero, np.maximum(norm, excess), whole + norm, LOWER_IS_BETTER, 0.0),
    )


def jensen_shannon_bounds(
    shown: SparseRows,
    free: FloatArray,
    target: Distributions,
    known: BoolArray,
    base: float | str = "e",
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest divergence over all ways to label what is unknown.

    A completion gives each piece of free attention to known levels, in any mixture. The target is
    taken over the known levels alone (divided by its known part), since nothing is unknown after a
    completion. The divergence is convex in what is given, so the largest value is reached by giving
    all to one level; the smallest by raising the lowest ratios of exposure to target to one height,
    like water. That can split a document between levels: with whole documents only, the smallest
    value may be a little larger, the largest is exact. Both have shape (n_rows,), and are NaN where
    nothing is shown or the target has no known part.
    """
    places = np.flatnonzero(known)
    share = target.expanded().dense()[:, places]
    fixed = shown.dense()[:, places]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.nan_to_num(share / share.sum(axis=1, keepdims=True))
    goal = SparseRows.of_dense(share)

    def divergence(completion: FloatArray) -> FloatArray:
        return js_divergence(SparseRows.of_dense(completion), goal, base)

    lowest = divergence(_filled(fixed, free, share))
    highest = np.full(len(free), -np.inf)
    for level in np.eye(len(places)):
        highest = np.maximum(highest, divergence(fixed + free[:, None] * level))
    return lowest, np.where(np.isfinite(highest), highest, np.nan)


def _filled(fixed: FloatArray, free: FloatArray, share: FloatArray) -> FloatArray:
    """Return the completion whose ratios to the target are as even as they can be."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(share > 0, fixed / share, np.inf)
        order = np.argsort(ratio, axis=1, kind="stable")
        below = np.cumsum(np.take_along_axis(share, order, axis=1), axis=1)
        held = np.cumsum(np.take_along_axis(fixed, order, axis=1), axis=1)
        # the height if the first j levels are filled; the true set of levels gives the lowest
        used = np.isfinite(np.take_along_axis(ratio, order, axis=1))
        height = np.where(used, (held + free[:, None]) / below, np.inf).min(axis=1)
    height = np.where(np.isfinite(height), height, 0.0)
    return np.maximum(fixed, height[:, None] * share)


COLUMNS = (
    QID, "retrieved", "with_row", "with_label", "row_share", "label_share", "groups_shown",
    "groups_absent",
)  # fmt: skip


def coverage(groups: Groups, run: pd.DataFrame, cutoff: int | None = None) -> pd.DataFrame:
    """Return how much of a run the groups know, and how many groups it shows.

    The frame of `fairtk.Groups.coverage`, with one row per query of the run: ``qid``,
    ``retrieved``, ``with_row``, ``with_label``, ``row_share``, ``label_share``, ``groups_shown``
    and ``groups_absent``. With a cutoff, the ranks above it are looked at in each ranking.

    Raises:
        InputError: `groups` is something else, or the run is not valid.
    """
    if not hasattr(groups, "memberships"):
        raise InputError(
            f"coverage: expected Groups, found a {type(groups).__name__}; write coverage(groups, "
            "run)"
        )
    return coverage_of(groups, Run(run, f"coverage of {groups.name!r}"), cutoff)


def coverage_of(
    groups: Groups,
    rankings: Run,
    cutoff: int | None = None,
    memberships: Memberships | None = None,
) -> pd.DataFrame:
    """Return the same for an encoded run; `memberships`, if at hand, drop what is unlabeled."""
    seen = np.ones(len(rankings.doc), bool) if cutoff is None else rankings.position < cutoff
    query, doc = rankings.query[seen], rankings.doc[seen]
    n_queries = len(rankings.qids)
    rows = groups.memberships(rankings.docnos) if memberships is None else memberships
    named = rows.weighted(groups.space.known(rows.level).astype(np.float64))
    labeled = named.total() > 0
    retrieved = np.bincount(query, minlength=n_queries)
    with_row = np.bincount(query[rows.known[doc]], minlength=n_queries)
    with_label = np.bincount(query[labeled[doc]], minlength=n_queries)
    some = np.maximum(retrieved, 1)
    shape = (n_queries, rows.n_rows)
    n_shown = group_exposure(attention_matrix(query, doc, np.ones(len(doc)), shape), named).size
    absent = n_known(groups.space) - n_shown
    values = (
        rankings.qids, retrieved, with_row, with_label, with_row / some, with_label / some,
        n_shown, absent,
    )  # fmt: skip
    return pd.DataFrame(dict(zip(COLUMNS, values, strict=True)))


def n_known(space: LevelSpace) -> int:
    """Return the number of groups in which no attribute is unknown."""
    return math.prod(int(space.known_levels(place).sum()) for place in range(len(space.names)))


def empty_levels(groups: Groups) -> list[list[str]]:
    """Return, for each attribute, the known levels that no document has."""
    result = []
    for place, factor in enumerate(groups.factors):
        lost = ~factor.used & (groups.space.known_levels(place) > 0)
        result.append([factor.levels[i] for i in np.flatnonzero(lost)])
    return result


def unreachable(groups: Groups, target: Distributions) -> tuple[float, list[str]]:
    """Return how much of a target lies on levels that no document has, and which those are.

    The largest such share of any query. For one attribute only: crossed ones have empty
    combinations as a rule, and are returned as if they had none.
    """
    if groups.space.crossed or all(not levels for levels in empty_levels(groups)):
        return 0.0, []
    weights = target.expanded()
    lost = np.isin(weights.level, [groups.space.number(v) for v in empty_levels(groups)[0]])
    total = weights.total()
    share = weights.per_row(weights.weight * lost) / np.where(total > 0, total, 1.0)
    levels = np.unique(weights.level[lost]).tolist()
    return float(share.max(initial=0.0)), [str(groups.space.label(level)) for level in levels]
