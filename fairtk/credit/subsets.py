"""What each document adds to a utility: leaving one out, the Shapley value, and its maximum game.

A set of documents is a bit mask: bit i is set where document i is in the set, so that mask 0 is the
empty set and 2^k - 1 the whole list. All functions take many lists at once.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fairtk.errors import InputError, ParameterError
from fairtk.frames import FloatArray, IntArray

MOST_EXACT = 20
"""Documents of which all 2^k sets are looked at; more take gigabytes."""


def shapley(values: npt.ArrayLike) -> FloatArray:
    """Return the Shapley value of each document from the utilities of all sets of documents.

    phi_d = sum over the sets T without d of |T|! (k - |T| - 1)! / k! (u(T + d) - u(T)), Shapley
    1953: the mean, over all orders of the documents, of what d adds to those before it. The values
    of a list add up to u(all) - u(none).

    Args:
        values: shape (..., 2^k): the utility of each set, by bit mask.

    Returns:
        shape (..., k): any finite number; NaN where a utility of the list is NaN.

    Raises:
        InputError: the last axis is no power of two, or a value is infinite.
    """
    utility, k = _by_mask(values)
    masks = np.arange(1 << k)
    size = np.array([mask.bit_count() for mask in masks.tolist()])
    share = np.array([1 / (k * math.comb(k - 1, n)) for n in range(k)])
    credit = np.empty((*utility.shape[:-1], k))
    for place in range(k):
        without = masks[masks >> place & 1 == 0]
        added = utility[..., without | 1 << place] - utility[..., without]
        credit[..., place] = added @ share[size[without]]
    return credit


def leave_one_out(values: npt.ArrayLike) -> FloatArray:
    """Return what each document adds to all others: u(all) - u(all without it).

    Args:
        values: shape (..., 2^k): as in `shapley`; only the whole list and the lists that lack one
            document are read.

    Returns:
        shape (..., k): any finite number; NaN where one of the two utilities is NaN.

    Raises:
        InputError: as `shapley`.
    """
    utility, k = _by_mask(values)
    whole = (1 << k) - 1
    return utility[..., [whole]] - utility[..., whole - (1 << np.arange(k))]


def max_shapley(x: npt.ArrayLike) -> FloatArray:
    """Return the Shapley value of each document where a set is worth its best document.

    For one key point with relevances x, ascending and with x_(0) = 0, the document at place i gets
    phi_(i) = sum_{j <= i} (x_(j) - x_(j-1)) / (n - j + 1), as in the airport game (Littlechild and
    Owen 1973); points are summed. It is what MaxShapley (arXiv 2512.05958) is named after; the
    code published with it departs from this value by up to .12 a document.

    Args:
        x: shape (..., documents, points): how well each document covers each key point, >= 0.

    Returns:
        shape (..., documents), >= 0; their sum is the sum over points of the largest relevance. NaN
        where a point has a NaN.

    Raises:
        InputError: no such shape, or a relevance is negative or infinite.
    """
    relevance = np.asarray(x, dtype=np.float64)
    if relevance.ndim < 2:
        raise InputError(
            f"max_shapley: x must have the axes documents and points; found {relevance.ndim}"
        )
    if bool((relevance < 0).any()) or bool(np.isinf(relevance).any()):
        place = np.argwhere((relevance < 0) | np.isinf(relevance))[0].tolist()
        raise InputError(
            f"max_shapley: relevances must be finite and at least 0; found "
            f"{relevance[tuple(place)]} at {place}"
        )
    n = relevance.shape[-2]
    order = np.argsort(relevance, axis=-2, kind="stable")
    ascending = np.take_along_axis(relevance, order, axis=-2)
    steps = np.diff(ascending, axis=-2, prepend=0.0) / np.arange(n, 0, -1)[:, None]
    credit = np.empty_like(relevance)
    np.put_along_axis(credit, order, np.cumsum(steps, axis=-2), axis=-2)
    return np.asarray(credit.sum(axis=-1))


def permutations_of(k: int, n: int, generator: np.random.Generator) -> IntArray:
    """Return orders of k documents, each followed by its reverse; shape (n, k), n even.

    A reversed order makes the sum over both of what a document adds less variable (antithetic).
    """
    if n < 2 or n % 2:
        raise ParameterError(f"n_orders must be an even number of at least 2; found {n!r}")
    orders = np.argsort(generator.random((n // 2, k)), axis=1)
    return np.stack([orders, orders[:, ::-1]], axis=1).reshape(n, k)


def prefixes_of(orders: IntArray) -> IntArray:
    """Return the sets that orders go through, the empty one first; bit masks (n, k + 1)."""
    added = np.cumsum(np.left_shift(np.int64(1), orders), axis=1)
    return np.concatenate([np.zeros((len(orders), 1), dtype=np.int64), added], axis=1)


def sampled_shapley(values: npt.ArrayLike, orders: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return estimated Shapley values and their standard errors, from orders of the documents.

    Args:
        values: shape (n, k + 1): the utility of each set that an order goes through, as
            `prefixes_of` lists them.
        orders: shape (n, k): as `permutations_of` gives them, pairs of an order and its reverse.

    Returns:
        The values, shape (k,), unbiased, and their standard errors, shape (k,), from the means of
        the pairs; NaN errors for one pair.
    """
    utility = np.asarray(values, dtype=np.float64)
    added = np.empty(orders.shape)
    np.put_along_axis(added, orders, np.diff(utility, axis=1), axis=1)
    pairs = added.reshape(len(orders) // 2, 2, -1).mean(axis=1)
    spread = pairs.std(axis=0, ddof=1) if len(pairs) > 1 else np.full(orders.shape[1], np.nan)
    return pairs.mean(axis=0), spread / math.sqrt(len(pairs))


def _by_mask(values: npt.ArrayLike) -> tuple[FloatArray, int]:
    """Return utilities by bit mask, checked, and the number of documents."""
    utility = np.asarray(values, dtype=np.float64)
    length = utility.shape[-1] if utility.ndim else 0
    k = length.bit_length() - 1
    if length < 1 or length != 1 << k:
        raise InputError(
            "utilities of all sets of k documents are 2^k values, by bit mask; found "
            f"{length} values"
        )
    if k > MOST_EXACT:
        raise InputError(f"all sets of at most {MOST_EXACT} documents; found {k} documents")
    if bool(np.isinf(utility).any()):
        place = tuple(np.argwhere(np.isinf(utility))[0].tolist())
        raise InputError(f"utilities must be finite or NaN; found {utility[place]} at {place}")
    return utility, k
