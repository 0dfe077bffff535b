"""The m-tree of multinomial FA*IR: the smallest fair counts of several groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairtk.errors import ParameterError
from fairtk.frames import IntArray
from fairtk_baselines.fa_star_ir.calibration import MultinomialTest, multinomial_test
from fairtk_baselines.fa_star_ir.multinomial import shared_cdf

MOST_NODES = 100_000
"""A level of the tree may have so many nodes."""


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

    Args:
        k: length of the longest prefix, 1 or more.
        p: minimum share of each protected group.
        alpha: as for `multinomial_test`.
        adjust: as for `multinomial_test`.
        test: a test that is found already, in place of all others.

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
