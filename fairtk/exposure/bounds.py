"""The values of EE-D, EE-R and EE-L with their bounds, by the papers and by the codes published
with them.

Towards Fair RAG, Eqs. 3 to 6 and Appendix C, and Diaz et al. 2020. What the codes published with
the two papers compute instead is in `fairtk.exposure.bounds`.

``fair-rag`` is the code of Towards Fair RAG, ``expeval`` that of Diaz et al. 2020. Both depart from
their papers; the departures are kept so that published numbers can be reproduced, and are listed in
the docstrings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairtk.exposure.browsing import GERR, RBP
from fairtk.exposure.expected import Grades, RankWeights, inner, total
from fairtk.frames import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Bounded:
    """The values of one measure, what they are normalized by, and what a missing query gets.

    All arrays have shape (n_queries,).

    Attributes:
        value: the raw values.
        lower: their lower bounds, which 0 stands for when normalized.
        upper: their upper bounds, which 1 stands for.
        worst: a raw value that no ranking is worse than.
        worst_normalized: the same of normalized values.
        flat: the normalized value where the two bounds are equal.
        why: why values cannot be normalized, where they cannot.
    """

    value: FloatArray
    lower: FloatArray
    upper: FloatArray
    worst: FloatArray
    worst_normalized: FloatArray | float
    flat: float = np.nan
    why: str = "its two bounds are equal"

    def normalized(self) -> FloatArray:
        """Return (value - lower) / (upper - lower); `flat` where the two bounds are equal."""
        return np.where(self.equal_bounds, self.flat, self._scaled(self.value))

    @property
    def equal_bounds(self) -> BoolArray:
        """Where the two bounds are equal, up to rounding."""
        return np.asarray(
            self.upper - self.lower <= 1e-12 * np.maximum(np.abs(self.upper), 1.0), dtype=bool
        )

    @classmethod
    def of_code(
        cls,
        value: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        worst: FloatArray,
        ends: tuple[float, float],
        flat: float = np.nan,
        why: str = "its two bounds are equal",
        farthest: FloatArray | None = None,
    ) -> Bounded:
        """Return values normalized by the bounds of published code, which may not hold.

        A missing query gets the worse end, or what the code makes of a value beyond it. `ends` are
        the best and the worst normalized value where the bounds hold, `farthest` a raw value that
        no ranking is worse than for which the bounds are made (None: `worst`).
        """
        bounds = cls(value, lower, upper, worst, ends[1], flat, why)
        beyond = bounds._scaled(worst if farthest is None else farthest)
        code = np.where(bounds.equal_bounds, np.nan, beyond)
        farther = np.fmin if ends[1] < ends[0] else np.fmax
        return replace(bounds, worst_normalized=farther(code, ends[1]))

    def _scaled(self, raw: FloatArray) -> FloatArray:
        width = np.where(self.equal_bounds, 1.0, self.upper - self.lower)
        return (raw - self.lower) / width


LOWER_IS_BETTER, HIGHER_IS_BETTER = (0.0, 1.0), (1.0, 0.0)
"""The best and the worst normalized value."""


@dataclass(frozen=True)
class ExposureValues:
    """EE-D, EE-R and EE-L of all queries.

    Attributes:
        disparity: EE-D, the squared norm of exposure.
        relevance: EE-R, the inner product of exposure and target.
        loss: EE-L, the squared distance of exposure and target.
    """

    disparity: Bounded
    relevance: Bounded
    loss: Bounded


def values_and_bounds(
    exposure: FloatArray,
    pair_query: IntArray,
    grades: Grades,
    ranks: RankWeights,
    cutoff: int | None,
    *,
    exact: bool,
    closed: bool = True,
) -> ExposureValues:
    """Return the values of the paper's definition.

    Bounds "as in the paper": EE-D in [0, sum of squared weights], EE-R in [0, squared norm of the
    target], EE-L in [0, the sum of both upper bounds]. Exact bounds are those that a policy over
    full rankings of the query's n documents can reach: EE-D is at least (sum of weights)^2 / n,
    and EE-R at least that of the worst fixed order. Under a cascade (`GERR`) the upper bound of
    EE-R is the largest value of any order, which may be above the target's squared norm: what is
    not useful stops nobody, so that more attention is left. The lower bound of EE-D and the exact
    upper one of EE-L hold there but cannot always be reached.

    Args:
        exposure: expected exposure of each pair; shape (n_pairs,).
        pair_query: query index of each pair; shape (n_pairs,).
        grades: of usefulness, with the one of what is not useful.
        ranks: the attention of the ranks, as many as the documents of a query or as the cutoff.
        cutoff: the measure's cutoff, or None.
        exact: whether the bounds are the exact ones.
        closed: whether no ranking can have more documents than `grades`. If it can, the worst raw
            values are those over any number of documents; NaN if they have no end.
    """
    n_queries, n, n_useful = grades.n_queries, grades.n_documents, grades.n_useful
    target = ranks.target(grades)
    disparity = total(pair_query, exposure**2, n_queries)
    relevance = inner(exposure, target, pair_query, grades)
    squares = grades.size * target**2
    square = grades.per_query(squares)
    zero = np.zeros(n_queries)
    highest = ranks.largest_square(n, n_useful)
    worst_disparity, worst_square = highest, square
    if not closed:
        # where the n documents fill the ranks, more of them only thin the target of what is not
        # useful; elsewhere its squared norm is at most that of its ranks (Cauchy and Schwarz)
        worst_disparity = np.full(n_queries, ranks.whole_square)
        filled = np.zeros(n_queries, dtype=bool) if cutoff is None else n >= cutoff
        below = ranks.whole_square - ranks.largest_square(n_useful, 0 * n_useful)
        useful = grades.per_query(squares * grades.useful)
        worst_square = np.where(filled, square, useful + below)
    lowest, worst, best = zero, zero, square
    if exact:
        ideal = ranks.ideal(n, n_useful)
        lowest = np.where(n > 0, ideal**2 / np.maximum(n, 1), 0.0)
        worst = worst_relevance(grades, target, ranks)
    if ranks.stop > 0:
        best = cascade_relevance(grades, target, ranks, worst=False)
    most = highest - 2 * worst + square
    return ExposureValues(
        Bounded(disparity, lowest, highest, worst_disparity, 1.0),
        Bounded(relevance, worst, best, zero, 0.0),
        Bounded(
            disparity - 2 * relevance + square, zero, most, worst_disparity + worst_square, 1.0
        ),
    )


def worst_relevance(grades: Grades, target: FloatArray, ranks: RankWeights) -> FloatArray:
    """Return the smallest EE-R that any ranking of all documents can have; shape (n_queries,).

    That is a fixed ranking with the grades in reverse order, unless the model is a cascade.
    """
    if ranks.stop > 0:
        return cascade_relevance(grades, target, ranks, worst=True)
    n = grades.n_documents[grades.query]
    below = n - grades.above - grades.size
    none = np.zeros_like(below)
    gained = ranks.ideal(below + grades.size, none) - ranks.ideal(below, none)
    return grades.per_query(target * gained)


def cascade_relevance(
    grades: Grades, target: FloatArray, ranks: RankWeights, *, worst: bool
) -> FloatArray:
    """Return the largest (or the smallest) EE-R of any ranking of all documents under a cascade.

    A useful document takes attention from all below, so its place against what is not useful is
    not given by its target alone. Two useful documents swapped change nothing else: they stand by
    their targets. What is left to choose is how many of each kind come first, which is solved from
    the last rank up. Weights must not rise with the rank.

    Args:
        grades: of usefulness, with the one of what is not useful.
        target: target exposure of a document of each grade; shape (n_grades,).
        ranks: the weights of the ranks, with a stop.
        worst: whether the smallest value is wanted.

    Returns:
        An array of shape (n_queries,).
    """
    n, n_useful = grades.n_documents, grades.n_useful
    weight = ranks.weight
    felt = np.flatnonzero(weight > 1e-18)  # what is below changes no digit
    depth = int(felt[-1]) + 1 if len(felt) else 0
    width = min(int(n_useful.max(initial=0)), depth) + 1
    grade = _by_place(grades, target, width, reverse=worst)
    plain = np.zeros(grades.n_queries)
    plain[grades.query[~grades.useful]] = target[~grades.useful]
    better = np.minimum if worst else np.maximum
    impossible = np.inf if worst else -np.inf
    above = np.arange(width)
    stopped = (1.0 - ranks.stop) ** above
    value = np.zeros((grades.n_queries, width))
    for rank in range(depth - 1, -1, -1):
        gain = weight[rank] * stopped
        useful = np.full_like(value, impossible)
        useful[:, :-1] = (gain * grade)[:, :-1] + value[:, 1:]
        useful[above >= n_useful[:, None]] = impossible
        other = gain * plain[:, None] + value
        other[rank - above >= (n - n_useful)[:, None]] = impossible
        ended = (rank >= n)[:, None] | (above > rank)
        value = np.where(ended, 0.0, better(useful, other))
    return value[:, 0]


def _by_place(grades: Grades, target: FloatArray, width: int, *, reverse: bool) -> FloatArray:
    """Return the targets of each query's useful documents, one after the other.

    Shape (n_queries, width); best first, or last if `reverse`; 0 where there are fewer.
    """
    useful = np.flatnonzero(grades.useful)
    begin, size = grades.above[useful], grades.size[useful]
    if reverse:
        begin = grades.n_useful[grades.query[useful]] - begin - size
    size = np.minimum(begin + size, width) - np.minimum(begin, width)
    owner = np.repeat(np.arange(len(useful)), size)
    place = np.arange(len(owner)) - (np.cumsum(size) - size)[owner] + begin[owner]
    result = np.zeros((grades.n_queries, width))
    result[grades.query[useful][owner], place] = target[useful][owner]
    return result


def fair_rag_values(
    exposure: FloatArray,
    pair_query: IntArray,
    grades: Grades,
    cutoff: int,
    n_judged: IntArray,
) -> ExposureValues:
    """Return what the code published with Towards Fair RAG computes.

    Departures from the paper: documents that are not useful have no target, though the bound of
    EE-R counts them; n is the number of labeled documents, even where others are retrieved; the
    cutoff is not clipped to n; EE-L is divided by the sum of the bounds of EE-R and EE-D. Where
    all n documents are useful and fit, the code divides by zero: NaN here.

    Args:
        exposure: expected exposure of each pair; shape (n_pairs,).
        pair_query: query index of each pair; shape (n_pairs,).
        grades: one grade per query, of the useful documents alone.
        cutoff: the number k of documents that the machine user reads.
        n_judged: number of labeled documents of each query; shape (n_queries,).
    """
    n_queries = grades.n_queries
    m = grades.n_useful.astype(np.float64)
    rest = n_judged - m
    target = np.minimum(1.0, cutoff / grades.size)
    disparity = total(pair_query, exposure**2, n_queries)
    relevance = inner(exposure, target, pair_query, grades)
    square = grades.per_query(grades.size * target**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = m + (cutoff - m) ** 2 / rest
        highest = np.where(m <= cutoff, np.where(rest > 0, fits, np.nan), cutoff**2 / m)
    zero, all_read = np.zeros(n_queries), np.full(n_queries, float(cutoff))
    worst_loss = np.where(np.isnan(highest), square, highest) + cutoff
    loss = disparity - 2 * relevance + square
    why = "the upper bound of EE_R is a division by 0 there, as all n documents are useful"
    return ExposureValues(
        Bounded.of_code(disparity, zero, all_read, all_read, LOWER_IS_BETTER),
        Bounded.of_code(relevance, zero, highest, zero, HIGHER_IS_BETTER, why=why),
        Bounded.of_code(loss, zero, highest + cutoff, worst_loss, LOWER_IS_BETTER, why=why),
    )


def expeval_values(
    exposure: FloatArray,
    pair_query: IntArray,
    grades: Grades,
    model: RBP,
    *,
    complete: bool,
) -> ExposureValues:
    """Return what expeval, the code published with Diaz et al. 2020, computes.

    Departures from the paper: with `complete=False` only useful documents have a target and the
    bounds assume infinitely many documents; grades of 0 and below stay apart; for
    `GERR` the bounds of EE-R and EE-L and the lower bound of EE-D use p u where p (1 - u) is
    meant; the upper bound of EE-L adds 1 / (1 - p) where 1 / (1 - p^2) is meant; with one grade
    alone the normalized EE-R is 1 by default. There is no cutoff.

    Args:
        exposure: expected exposure of each pair; shape (n_pairs,).
        pair_query: query index of each pair; shape (n_pairs,).
        grades: those of the labeled documents (`complete`), or of the useful
            ones alone.
        model: the browsing model, with p below 1.
        complete: whether the labels are taken to cover all documents.
    """
    n_queries = grades.n_queries
    p, size, above = model.p, grades.size, grades.above
    cascade = _block_mean(p * (1.0 - model.stop), above, size)
    plain = (1.0 - model.stop) ** above * _block_mean(p, above, size)
    target = np.where(grades.useful, cascade, plain)

    disparity = total(pair_query, exposure**2, n_queries)
    relevance = inner(exposure, target, pair_query, grades)
    square = grades.per_query(size * target**2)
    zero = np.zeros(n_queries)
    slip = p * model.stop if isinstance(model, GERR) else p
    if complete:
        n = grades.n_documents
        start = np.zeros_like(n)
        highest = n * _block_mean(p**2, start, n)
        lowest = n * _block_mean(slip, start, n) ** 2
        below = n[grades.query] - above - size
        worst = grades.per_query(target * size * _block_mean(slip, below, size))
        upper_loss = n * _block_mean(slip**2, start, n) - 2 * worst + square
    else:
        highest = np.full(n_queries, 1.0 / (1.0 - p**2))
        lowest = zero
        several = np.bincount(grades.query, minlength=n_queries) > 1
        worst = np.where(several, 0.0, square)
        upper_loss = square + 1.0 / (1.0 - slip)
    # no attention falls faster than this; the code's lower bound of EE-R holds if it is not faster
    fastest = p * (1.0 - model.stop)
    least = worst if complete and slip <= fastest else zero
    loss = disparity - 2 * relevance + square
    return ExposureValues(
        Bounded.of_code(disparity, lowest, highest, highest, LOWER_IS_BETTER, 0.0),
        Bounded.of_code(relevance, worst, square, zero, HIGHER_IS_BETTER, 1.0, farthest=least),
        Bounded.of_code(
            *(loss, zero, upper_loss, highest + square, LOWER_IS_BETTER, 0.0),
            farthest=highest - 2 * least + square,
        ),
    )


def _block_mean(p: float, begin: IntArray, size: IntArray) -> FloatArray:
    """Return the mean of p^i over the ranks begin <= i < begin + size; 0 for an empty block."""
    base = float(p)
    block = (base**begin - base ** (begin + size)) / (1.0 - base)
    return np.asarray(block / np.maximum(size, 1))
