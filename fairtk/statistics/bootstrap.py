"""Random draws of queries: bootstrap samples, and batches that bound memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fairtk import checks
from fairtk.frames import FloatArray
from fairtk.statistics.clusters import cluster_codes

_MOST_NUMBERS = 1 << 22
"""The maximum number of random numbers in memory."""


def batches(resamples: int, n: int) -> Iterator[int]:
    """Yield the sizes of batches of resamples of n values."""
    size = max(1, _MOST_NUMBERS // max(n, 1))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def bootstrap_counts(
    n: int, resamples: int, seed: int, clusters: npt.ArrayLike | None = None
) -> FloatArray:
    """Return how often each of n queries is in each bootstrap sample of size n.

    Args:
        n: the number of queries.
        resamples: the number of bootstrap samples.
        seed: the seed of the samples.
        clusters: the cluster of each query, shape (n,): whole clusters are drawn, as many as there
            are. `None` to draw queries.

    Returns:
        Shape (resamples + 1, n). The first row has the original queries, once each. With clusters
        of different sizes, the sums of rows differ.

    Raises:
        ParameterError: a number is out of range.
        InputError: `clusters` is invalid.
    """
    checks.integer("n", n)
    checks.integer("resamples", resamples)
    checks.integer("seed", seed, least=0)
    codes = np.arange(n) if clusters is None else cluster_codes(clusters, n)
    n_clusters = int(codes.max()) + 1
    shares = np.full(n_clusters, 1 / n_clusters)
    drawn = np.random.default_rng(seed).multinomial(n_clusters, shares, resamples)
    return np.concatenate([np.ones((1, n)), drawn[:, codes]])
