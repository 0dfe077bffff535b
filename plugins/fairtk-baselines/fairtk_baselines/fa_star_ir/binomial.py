"""FA*IR's m-table: how many protected documents each prefix of a ranking needs.

A ranking of k documents is compared with one in which each document is protected with probability
p, independently (Zehlike et al., FA*IR: A Fair Top-k Ranking Algorithm, CIKM 2017). A prefix of i
documents with m protected ones is fair if so few or fewer would not be rare by chance, F(m; i, p) >
alpha, with F the distribution function of the binomial distribution. k such tests reject a fair
ranking more often than one does, so alpha is lowered until at least one rejects with alpha again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import IntArray
from fairtk_baselines.fa_star_ir.distribution import ADJUST, ROUNDING, Correction, CountBoxes


@dataclass(frozen=True)
class MTable:
    """The smallest number of protected documents in each prefix, and how it was found."""

    k: int  # length of the longest prefix
    p: float  # minimum share of protected documents
    alpha: float  # the probability of rejecting a ranking that chance makes from p, as asked for
    adjust: str  # the correction; see `mtable`
    needed: tuple[int, ...]  # protected documents that the prefix of 1, 2, ..., k documents needs
    adjusted_alpha: float  # significance of each single test
    interval: tuple[float, float]  # all significances in [low, high) give this table
    fail_probability: float
    """Of a ranking in which each document is protected with probability p, to be rejected by at
    least one test; exact but for rounding."""


def mtable(k: int, p: float, alpha: float = 0.1, adjust: str = "nearest") -> MTable:
    """Return the m-table of FA*IR (Zehlike et al., CIKM 2017).

    ``needed[i - 1]`` is the smallest m with F(m; i, p) > alpha. The correction is exact: found
    among all values at which the table changes. The authors' package takes F(m; i, p) >= alpha; the
    two differ only where F hits alpha. For its fail probabilities see `fail_probability`. Of the
    interval of significances that give the table, `MTable.adjusted_alpha` is the first that halving
    [0, alpha] meets, which is what the package prints.

    Args:
        k: length of the longest prefix, 1 or more; cost grows with k squared.
        p: minimum share of protected documents, in [0, 1].
        alpha: probability of rejecting a ranking that chance makes from p, in (0, 1).
        adjust: the correction for k tests. ``"nearest"``: the table whose fail probability is
            nearest to alpha, above or below it, as the authors' package does; ``"below"``: the one
            with the highest fail probability that is at most alpha; ``"none"``: alpha is used for
            each single test. No correction raises the significance above alpha.

    Raises:
        ParameterError: an argument is out of its range.
    """
    where = "mtable"
    return _mtable(
        checks.whole("k", k, where),
        checks.share("p", p, where),
        checks.number("alpha", alpha, where, 0, 1, "()"),
        checks.choice("adjust", adjust, ADJUST, where),
    )


@lru_cache(maxsize=4096)
def _mtable(k: int, p: float, alpha: float, adjust: str) -> MTable:
    boxes = CountBoxes.of(k, [p])
    chance, values = boxes.cdf, boxes.values()

    def needed(limit: float) -> IntArray:
        return np.asarray(np.count_nonzero(chance <= limit, axis=1))

    found = Correction.of(values, alpha, adjust, lambda limit: _failing(needed(limit), p))
    low = float(found.steps[found.step - 1]) if found.step else 0.0
    rest = values[values > alpha * (1 + ROUNDING)]
    high = float(rest.min(initial=1.0) if found.is_none else found.steps[found.step])
    return MTable(
        k,
        p,
        alpha,
        adjust,
        tuple(needed(found.limit).tolist()),
        alpha if found.is_none else _first_midpoint(low, high, alpha),
        (low, high),
        found.fail_probability,
    )


def fail_probability(needed: Sequence[int] | MTable, p: float) -> float:
    """Return how likely a fair ranking is to fail an m-table somewhere, exactly.

    Each document is protected with probability p, independently; `needed` is what the prefix of 1,
    2, ... documents needs, or an `MTable`. The distribution of the number of protected documents is
    carried from prefix to prefix, and what falls below the table is taken out; k steps of vectors,
    without simulation. Equal to the recurrence over blocks of the paper.

    Numbers of the authors' package differ, because its code leaves out the last position: for k=20,
    p=.25, alpha=.1 it is quoted with .1152 before and .1053 after the correction, where the exact
    values are .14689 and .10515. The first 19 prefixes alone fail with .11518 and .10515.

    Raises:
        ParameterError: the table is empty or has an entry that is no whole number from 0, or p is
            out of range.
    """
    where = "fail_probability"
    entries = needed.needed if isinstance(needed, MTable) else list(needed)
    if not len(entries):
        raise ParameterError(f"{where} needs an m-table with at least one entry")
    table = [checks.whole("an entry of the m-table", m, where, least=0) for m in entries]
    return _failing(np.array(table, dtype=np.int64), checks.share("p", p, where))


def _failing(needed: IntArray, p: float) -> float:
    most = np.maximum.accumulate(needed)
    # whoever has as many as the last prefix needs cannot fail any more: one state for all of them
    mass = np.zeros(int(most[-1]) + 1)
    mass[0] = 1.0
    failed = 0.0
    for least in most:
        hit, safe = mass * p, mass[-1]
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
        if low <= middle < high:
            return middle
        left, right = (middle, right) if middle < low else (left, middle)
    return (low + high) / 2
