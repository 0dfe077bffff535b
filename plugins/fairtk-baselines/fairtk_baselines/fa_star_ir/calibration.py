"""Multinomial FA*IR: the significance at which prefixes with several groups are tested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairtk.errors import ParameterError
from fairtk.frames import FloatArray
from fairtk.transformers.settings import whole
from fairtk_baselines.fa_star_ir.count_boxes import CountBoxes
from fairtk_baselines.fa_star_ir.multinomial import shared_cdf
from fairtk_baselines.fa_star_ir.significance import (
    between,
    check_adjust,
    check_alpha,
    check_share,
    distinct,
    step_for,
)

MOST_COUNTS = 1_000_000
"""Up to so many vectors of counts, over all prefixes, the fail probability is exact."""


@dataclass(frozen=True)
class MultinomialTest:
    """A test of all prefixes for several protected groups, and how it was found.

    Attributes:
        k: length of the longest prefix.
        p: minimum share of each protected group.
        alpha: the probability of rejecting a ranking that chance makes from p, as asked for.
        adjust: the correction; see `multinomial_test`.
        adjusted_alpha: a prefix of i documents with m_1, ..., m_G of the groups is fair if
            P(X_1 <= m_1, ..., X_G <= m_G) is above this.
        fail_probability: of a fair ranking, to be rejected at some prefix.
        error: standard error of `fail_probability`; 0: it is exact but for rounding.
    """

    k: int
    p: tuple[float, ...]
    alpha: float
    adjust: str
    adjusted_alpha: float
    fail_probability: float
    error: float

    @property
    def limit(self) -> float:
        """`adjusted_alpha`, raised by what rounding does to values that equal it."""
        return self.adjusted_alpha * (1 + 1e-11)


def multinomial_test(
    k: int,
    p: Sequence[float],
    alpha: float = 0.1,
    adjust: str = "nearest",
    samples: int = 10_000,
    seed: int = 42,
) -> MultinomialTest:
    """Return the test of multinomial FA*IR.

    Zehlike, Suehr, Baeza-Yates, Bonchi, Castillo and Hajian (Fair Top-k Ranking with multiple
    protected groups, IPM 2022): a prefix is fair if the distribution function of the multinomial
    distribution at its counts is above alpha. With one group that is the binary test, and the
    results agree with those of `mtable`.

    A ranking fails if the smallest value of that function over its prefixes is at most alpha. So
    the fail probability is the distribution function of that minimum under chance, and the
    corrected alpha a quantile of it. The distribution is exact (the distribution over vectors of
    counts is carried from prefix to prefix) up to `MOST_COUNTS` vectors, which at k = 20 is about
    three groups of common sizes; else it is that of `samples` rankings drawn by chance. Either
    takes tens of milliseconds to tenths of a second, and is kept for the next call. The authors
    simulate, build trees of ever finer alpha and, for large k, fit a regression.

    Our choices, where we depart from the authors or know no statement of theirs: counts are
    compared with the distribution function itself, not with one path of a tree that is chosen
    beforehand; the correction never raises alpha; ``nearest`` may end above alpha.

    Args:
        k: length of the longest prefix, 1 or more.
        p: minimum share of each protected group; their sum is at most 1.
        alpha: probability of rejecting a ranking that chance makes from p, in (0, 1).
        adjust: ``"nearest"``, ``"below"`` or ``"none"``; see `mtable`.
        samples: rankings drawn where an exact distribution is too large, 100 or more.
        seed: of these.

    Raises:
        ParameterError: an argument is out of its range.
    """
    where = "multinomial_test"
    shares = tuple(check_share("p", share, where) for share in p)
    if not shares or math.fsum(shares) > 1 + 1e-9:
        raise ParameterError(
            f"{where}: p must be the shares of at least one group, at most 1 in sum; found {p!r}"
        )
    return _multinomial_test(
        whole("k", k, where),
        shares,
        check_alpha(alpha, where),
        check_adjust(adjust, where),
        whole("samples", samples, where, least=100),
        whole("seed", seed, where, least=0),
    )


@lru_cache(maxsize=4096)
def _multinomial_test(
    k: int, p: tuple[float, ...], alpha: float, adjust: str, samples: int, seed: int
) -> MultinomialTest:
    boxes = CountBoxes.of(k, p, MOST_COUNTS)
    if boxes:
        steps, chance = distinct(boxes.values(alpha)), boxes.fail_probability
    else:
        lowest = lowest_of_samples(k, np.array(p), samples, seed)
        steps = distinct(lowest[lowest <= alpha * (1 + 1e-12)])

        def chance(limit: float) -> float:
            return float(np.count_nonzero(lowest <= limit)) / samples

    def fails(step: int) -> float:
        return chance(between(steps, step))

    step = len(steps) if adjust == "none" else step_for(fails, len(steps), alpha, adjust)
    failed = fails(step)
    return MultinomialTest(
        k,
        p,
        alpha,
        adjust,
        alpha if step == len(steps) else between(steps, step),
        failed,
        0.0 if boxes else math.sqrt(failed * (1 - failed) / samples),
    )


def lowest_of_samples(k: int, p: FloatArray, samples: int, seed: int) -> FloatArray:
    """Return the smallest value of the distribution function in rankings drawn by chance.

    Args:
        k: length of the rankings.
        p: probability of each group; shape (n_groups,).
        samples: number of rankings.
        seed: of the random numbers.

    Returns:
        The minimum over all prefixes; shape (samples,).
    """
    draw = np.random.default_rng(seed).random((k, samples))
    # n_groups: the document belongs to none of them
    group = np.searchsorted(np.cumsum(p), draw, side="right")
    counts = np.zeros((samples, len(p) + 1), dtype=np.int64)
    lowest = np.ones(samples)
    for length in range(1, k + 1):
        counts[np.arange(samples), group[length - 1]] += 1
        np.minimum(lowest, shared_cdf(counts[:, :-1], length, p), out=lowest)
    return lowest
