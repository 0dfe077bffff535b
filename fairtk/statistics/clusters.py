"""Clusters of queries that are not independent, such as the questions of one user."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import InputError
from fairtk.frames import FloatArray, IntArray


def cluster_codes(clusters: npt.ArrayLike, n: int) -> IntArray:
    """Return the clusters of n values as integers 0, 1, ..., in order of first appearance.

    Args:
        clusters: the cluster of each value: texts or numbers, shape (n,).
        n: the number of values.

    Raises:
        InputError: the shape is wrong, or a cluster is missing or not a text or number.
    """
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise InputError(f"clusters must have one value per query ({n}), got shape {labels.shape}")
    missing = np.flatnonzero(pd.isna(labels))
    if len(missing):
        raise InputError(f"clusters must not be missing, got {labels[missing[0]]} at {missing[0]}")
    try:
        codes, _ = pd.factorize(labels)
    except TypeError as error:
        raise InputError(f"clusters must be texts or numbers: {error}") from None
    integers: IntArray = codes.astype(np.int64, copy=False)
    return integers


def sum_by_cluster(table: FloatArray, codes: IntArray) -> FloatArray:
    """Return the sums over the columns of each cluster, shape (rows, clusters)."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sums: FloatArray = np.add.reduceat(table[:, order], starts, axis=1)
    return sums


def error_of_mean(values: FloatArray, codes: IntArray | None) -> tuple[float, int]:
    """Return the standard error of a mean, and its degrees of freedom.

    Args:
        values: two or more values.
        codes: their clusters, two or more; `None` if values are independent.

    References:
        Miller 2024, arXiv 2411.00640 (clusters).
    """
    n = len(values)
    if codes is None:
        return float(values.std(ddof=1)) / math.sqrt(n), n - 1
    sums = np.sort(np.bincount(codes, values - values.mean()))  # in an order that has no labels
    degrees = len(sums) - 1
    return math.sqrt((degrees + 1) / degrees * float((sums**2).sum())) / n, degrees
