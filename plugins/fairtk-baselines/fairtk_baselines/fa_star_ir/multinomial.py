"""Multinomial FA*IR: the test of prefixes with several groups, and the m-tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import FloatArray, IntArray
from fairtk_baselines.fa_star_ir.distribution import ADJUST, Correction, CountBoxes, shared_cdf

MOST_COUNTS = 1_000_000  # over all prefixes; up to so many, the fail probability is exact
MOST_NODES = 100_000  # of a level of the tree


@dataclass(frozen=True)
class MultinomialTest:
    """A test of all prefixes for several protected groups, and how it was found."""

    k: int  # length of the longest prefix
    p: tuple[float, ...]  # minimum share of each protected group
    alpha: float  # the probability of rejecting a ranking that chance makes from p, as asked for
    adjust: str  # the correction; see `multinomial_test`
    adjusted_alpha: float
    """A prefix of i documents with m_1, ..., m_G of the groups is fair if
    P(X_1 <= m_1, ..., X_G <= m_G) is above this."""
    fail_probability: float  # of a fair ranking, to be rejected at some prefix
    error: float  # standard error of `fail_probability`; 0: it is exact but for rounding

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
    """Return the test of multinomial FA*IR (Zehlike et al., IPM 2022).

    A prefix is fair if the distribution function of the multinomial distribution at its counts is
    above alpha; with one group the results are those of `mtable`. The correction is a quantile of
    the least such value in a ranking by chance, whose distribution is exact up to `MOST_COUNTS`
    vectors of counts (at k = 20, about three groups of common sizes), else drawn; the authors
    simulate, build trees of ever finer alpha and, for large k, fit a regression. Ours: counts are
    compared with the distribution function itself, not with one path of a tree chosen beforehand;
    the correction never raises alpha; ``nearest`` may end above it.

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
    shares = tuple(checks.share("p", share, where) for share in p)
    if not shares or math.fsum(shares) > 1 + 1e-9:
        raise ParameterError(
            f"{where}: p must be the shares of at least one group, at most 1 in sum; found {p!r}"
        )
    return _multinomial_test(
        checks.whole("k", k, where),
        shares,
        checks.number("alpha", alpha, where, 0, 1, "()"),
        checks.choice("adjust", adjust, ADJUST, where),
        checks.whole("samples", samples, where, least=100),
        checks.whole("seed", seed, where, least=0),
    )


@lru_cache(maxsize=4096)
def _multinomial_test(
    k: int, p: tuple[float, ...], alpha: float, adjust: str, samples: int, seed: int
) -> MultinomialTest:
    exact = CountBoxes.fits(k, p, MOST_COUNTS)
    if exact:
        boxes = CountBoxes.of(k, p)
        found = Correction.of(boxes.values(), alpha, adjust, boxes.fail_probability)
    else:
        lowest = lowest_of_samples(k, np.array(p), samples, seed)
        found = Correction.of(lowest, alpha, adjust, lambda v: float((lowest <= v).mean()))
    failed = found.fail_probability
    error = 0.0 if exact else math.sqrt(failed * (1 - failed) / samples)
    adjusted = alpha if found.is_none else found.limit
    return MultinomialTest(k, p, alpha, adjust, adjusted, failed, error)


def lowest_of_samples(k: int, p: FloatArray, samples: int, seed: int) -> FloatArray:
    """Return the least value of the distribution function in rankings by chance; (samples,)."""
    draw = np.random.default_rng(seed).random((k, samples))
    # n_groups: the document belongs to none of them
    group = np.searchsorted(np.cumsum(p), draw, side="right")
    counts = np.zeros((samples, len(p) + 1), dtype=np.int64)
    lowest = np.ones(samples)
    for length in range(1, k + 1):
        counts[np.arange(samples), group[length - 1]] += 1
        np.minimum(lowest, shared_cdf(counts[:, :-1], length, p), out=lowest)
    return lowest


def mtree(
    k: int,
    p: Sequence[float],
    alpha: float = 0.1,
    adjust: str = "nearest",
    test: MultinomialTest | None = None,
) -> list[IntArray]:
    """Return the m-tree: for each prefix, vectors of counts that are just enough.

    The tree of Zehlike et al. (IPM 2022), to be looked at: with one group it is the m-table, with
    several a prefix can be fair in several ways. The child of a node is the node itself if its
    counts are fair in the next prefix, too; else all that are with one more document of some group.
    Reranking does not walk along it: it tests the counts it has (`fairtk_baselines.FAStarIR`).
    Arguments are those of `multinomial_test`, or a test that is found already, in their place.

    Returns:
        For the prefixes of 1, 2, ..., k documents the nodes, sorted; shapes (n_nodes, n_groups). A
        level is empty where one more document makes no node of the level before fair, and so are
        those below.

    Raises:
        ParameterError: an argument is out of its range, or the tree is too wide.
    """
    test = test or multinomial_test(k, p, alpha, adjust)
    share, limit = np.array(test.p), test.limit
    more = np.eye(len(share), dtype=np.int64)
    nodes = np.zeros((1, len(share)), dtype=np.int64)
    levels = []
    for length in range(1, test.k + 1):
        fair = shared_cdf(nodes, length, share) > limit
        grown = (nodes[~fair][:, None, :] + more).reshape(-1, len(share))
        grown = np.unique(grown, axis=0)
        grown = grown[shared_cdf(grown, length, share) > limit]
        nodes = np.unique(np.concatenate([nodes[fair], grown]), axis=0)
        if len(nodes) > MOST_NODES:
            raise ParameterError(
                f"mtree: prefix {length} has {len(nodes)} nodes, more than {MOST_NODES}; take a "
                "smaller k or fewer groups (reranking needs no tree)"
            )
        levels.append(nodes)
    return levels
