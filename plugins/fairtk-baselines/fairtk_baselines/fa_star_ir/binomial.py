"""FA*IR's m-table: how many protected documents each prefix of a ranking needs.

A ranking of k documents is compared with one in which each document is protected with probability
p, independently (Zehlike et al., FA*IR: A Fair Top-k Ranking Algorithm, CIKM 2017). A prefix of i
documents with m protected ones is fair if so few or fewer would not be rare by chance,
F(m; i, p) > alpha, with F the distribution function of the binomial distribution: the test of
ranked group fairness. k such tests reject a fair ranking more often than one does, so alpha is
lowered until the probability of at least one rejection is alpha again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairtk.errors import ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk.transformers.settings import whole
from fairtk_baselines.fa_star_ir.significance import (
    between,
    check_adjust,
    check_alpha,
    check_share,
    distinct,
    step_for,
)


@dataclass(frozen=True)
class MTable:
    """The smallest number of protected documents in each prefix, and how it was found.

    Attributes:
        k: length of the longest prefix.
        p: minimum share of protected documents.
        alpha: the probability of rejecting a ranking that chance makes from p, as asked for.
        adjust: the correction; see `mtable`.
        needed: protected documents that the prefix of 1, 2, ..., k documents needs.
        adjusted_alpha: significance of each single test.
        interval: all significances in [low, high) give this table.
        fail_probability: of a ranking in which each document is protected with probability p, to be
            rejected by at least one test; exact but for rounding.
    """

    k: int
    p: float
    alpha: float
    adjust: str
    needed: tuple[int, ...]
    adjusted_alpha: float
    interval: tuple[float, float]
    fail_probability: float


def mtable(k: int, p: float, alpha: float = 0.1, adjust: str = "nearest") -> MTable:
    """Return the m-table of FA*IR (Zehlike et al., CIKM 2017).

    ``needed[i - 1]`` is the smallest m with F(m; i, p) > alpha. As alpha falls from the one that is
    asked for to 0, the table changes at finitely many values, and its fail probability falls with
    it. All of them are known here, so the correction is found exactly, by bisection over them.

    The authors' package takes F(m; i, p) >= alpha; the two differ only where F hits alpha exactly.
    Its fail probabilities are others, too: see `fail_probability`.

    Args:
        k: length of the longest prefix, 1 or more; cost grows with k squared.
        p: minimum share of protected documents, in [0, 1].
        alpha: probability of rejecting a ranking that chance makes from p, in (0, 1).
        adjust: the correction for k tests. ``"nearest"``: the table whose fail probability is
            nearest to alpha, above or below it, as the authors' package does; ``"below"``: the one
            with the highest fail probability that is at most alpha; ``"none"``: alpha is used for
            each single test. No correction raises the significance above alpha.

    Returns:
        The table. Of the interval of significances that give it, `MTable.adjusted_alpha` is the
        first that halving [0, alpha] meets, which is what the package prints.

    Raises:
        ParameterError: an argument is out of its range.
    """
    k = whole("k", k, "mtable")
    share = check_share("p", p, "mtable")
    return _mtable(k, share, check_alpha(alpha, "mtable"), check_adjust(adjust, "mtable"))


@lru_cache(maxsize=4096)
def _mtable(k: int, p: float, alpha: float, adjust: str) -> MTable:
    chance = _distribution(k, p, alpha)
    steps = distinct(chance[chance <= alpha * (1 + _ROUNDING)])

    def needed(step: int) -> IntArray:
        # of the significances between two steps, any gives the same table
        return np.asarray(np.count_nonzero(chance <= between(steps, step), axis=1))

    def fails(step: int) -> float:
        return float(_fail_probability(needed(step), p))

    step = len(steps) if adjust == "none" else step_for(fails, len(steps), alpha, adjust)
    low = float(steps[step - 1]) if step else 0.0
    rest = chance[chance > alpha * (1 + _ROUNDING)]
    high = float(steps[step]) if step < len(steps) else float(rest.min(initial=1.0))
    return MTable(
        k,
        p,
        alpha,
        adjust,
        tuple(needed(step).tolist()),
        alpha if step == len(steps) else _first_midpoint(low, high, alpha),
        (low, high),
        fails(step),
    )


def fail_probability(needed: Sequence[int] | MTable, p: float) -> float:
    """Return how likely a fair ranking is to fail an m-table somewhere, exactly.

    Each document is protected with probability p, independently. The distribution of the number of
    protected documents is carried from prefix to prefix, and what falls below the table is taken
    out; k steps of vectors, without simulation. Equal to the recurrence over blocks of the paper.

    Numbers of the authors' package differ, because its code leaves out the last position: for k=20,
    p=.25, alpha=.1 it is quoted with .1152 before and .1053 after the correction, where the exact
    values are .14689 and .10515. The first 19 prefixes alone fail with .11518 and .10515.

    Args:
        needed: protected documents that the prefix of 1, 2, ... documents needs, or an `MTable`.
        p: probability that a document is protected, in [0, 1].

    Raises:
        ParameterError: the table is empty or has an entry that is no whole number from 0, or p is
            out of range.
    """
    share = check_share("p", p, "fail_probability")
    entries = needed.needed if isinstance(needed, MTable) else list(needed)
    if not len(entries):
        raise ParameterError("fail_probability needs an m-table with at least one entry")
    table = [whole("an entry of the m-table", m, "fail_probability", least=0) for m in entries]
    return float(_fail_probability(np.array(table, dtype=np.int64), share))


_ROUNDING = 1e-12  # values of F that agree to this are one value


def _distribution(k: int, p: float, alpha: float) -> FloatArray:
    """Return F(m; i, p) in row i - 1 and column m, for all m where F may be alpha or less."""
    columns = 8
    while True:
        result = _first_columns(k, p, columns)
        if columns > k or bool((result[:, -1] > alpha * (1 + _ROUNDING)).all()):
            return result
        columns *= 2


def _first_columns(k: int, p: float, columns: int) -> FloatArray:
    result = np.empty((k, columns))
    mass = np.zeros(columns)
    mass[0] = 1.0
    for row in range(k):
        hit = mass * p
        mass *= 1 - p
        mass[1:] += hit[:-1]
        np.cumsum(mass, out=result[row])
        result[row, row + 1 :] = 1.0  # so many or fewer of row + 1 documents: certain
    return result


def _fail_probability(needed: IntArray, p: float) -> float:
    most = np.maximum.accumulate(needed)
    # whoever has as many as the last prefix needs cannot fail any more: one state for all of them
    size = int(most[-1]) + 1
    mass = np.zeros(size)
    mass[0] = 1.0
    failed = 0.0
    for least in most:
        hit = mass * p
        safe = mass[-1]
        mass *= 1 - p
        mass[1:] += hit[:-1]
        mass[-1] += p * safe
        failed += float(mass[:least].sum())  # sums of what is lost: exact for rare failures, too
        mass[:least] = 0.0
    return min(failed, 1.0)


def _first_midpoint(low: float, high: float, alpha: float) -> float:
    """Return the first value in [low, high) that halving [0, alpha] towards it meets."""
    left, right = 0.0, alpha
    for _ in range(60):
        middle = (left + right) / 2
        if middle < low:
            left = middle
        elif middle >= high:
            right = middle
        else:
            return middle
    return (low + high) / 2
