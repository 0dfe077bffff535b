"""The largest and smallest values that any ranking of a query's documents can have."""

from __future__ import annotations

import numpy as np

from fairtk.exposure.browsing import BrowsingModel
from fairtk.exposure.expected import Levels, ideal_attention, total
from fairtk.frames.arrays import FloatArray, IntArray


def worst_relevance(
    levels: Levels, target: FloatArray, model: BrowsingModel, cutoff: int | None
) -> FloatArray:
    """Return the smallest EE-R that any ranking of all documents can have; shape (n_queries,).

    That is a fixed ranking with the levels in reverse order, unless the model is a cascade.
    """
    if model.stop > 0:
        return cascade_relevance(levels, target, model, cutoff, worst=True)
    n = levels.n_documents[levels.query]
    below = n - levels.above - levels.size
    none = np.zeros_like(below)
    end = ideal_attention(model, cutoff, below + levels.size, none)
    begin = ideal_attention(model, cutoff, below, none)
    return levels.per_query(target * (end - begin))


def cascade_relevance(
    levels: Levels,
    target: FloatArray,
    model: BrowsingModel,
    cutoff: int | None,
    *,
    worst: bool,
) -> FloatArray:
    """Return the largest (or the smallest) EE-R of any ranking of all documents under a cascade.

    A useful document takes attention from all below, so its place against what is not useful is
    not given by its target alone. Two useful documents swapped change nothing else: they stand by
    their targets. What is left to choose is how many of each kind come first, which is solved from
    the last rank up. Weights must not rise with the rank.

    Args:
        levels: the levels, with the one of what is not useful.
        target: target exposure of a document of each level; shape (n_levels,).
        model: the browsing model, with a stop.
        cutoff: ranks from here on get no attention; None: no cutoff.
        worst: whether the smallest value is wanted.

    Returns:
        An array of shape (n_queries,).
    """
    n, n_useful = levels.n_documents, levels.n_useful
    depth = int(n.max(initial=0)) if cutoff is None else min(int(n.max(initial=0)), cutoff)
    weight = model.weights(np.arange(depth, dtype=np.int64))
    felt = np.flatnonzero(weight > 1e-18)  # what is below changes no digit
    depth = int(felt[-1]) + 1 if len(felt) else 0
    width = min(int(n_useful.max(initial=0)), depth) + 1
    wanted = _by_place(levels, target, width, reverse=worst)
    plain = np.zeros(levels.n_queries)
    plain[levels.query[~levels.useful]] = target[~levels.useful]
    better = np.minimum if worst else np.maximum
    impossible = np.inf if worst else -np.inf
    above = np.arange(width)
    stopped = (1.0 - model.stop) ** above
    value = np.zeros((levels.n_queries, width))
    for rank in range(depth - 1, -1, -1):
        gain = weight[rank] * stopped
        useful = np.full_like(value, impossible)
        useful[:, :-1] = (gain * wanted)[:, :-1] + value[:, 1:]
        useful[above >= n_useful[:, None]] = impossible
        other = gain * plain[:, None] + value
        other[rank - above >= (n - n_useful)[:, None]] = impossible
        ended = (rank >= n)[:, None] | (above > rank)
        value = np.where(ended, 0.0, better(useful, other))
    return value[:, 0]


def _by_place(levels: Levels, target: FloatArray, width: int, *, reverse: bool) -> FloatArray:
    """Return the targets of each query's useful documents, one after the other.

    Shape (n_queries, width); best first, or last if `reverse`; 0 where there are fewer.
    """
    kept = np.flatnonzero(levels.useful)
    begin, size = levels.above[kept], levels.size[kept]
    if reverse:
        begin = levels.n_useful[levels.query[kept]] - begin - size
    size = np.minimum(begin + size, width) - np.minimum(begin, width)
    owner = np.repeat(np.arange(len(kept)), size)
    place = np.arange(len(owner)) - (np.cumsum(size) - size)[owner] + begin[owner]
    result = np.zeros((levels.n_queries, width))
    result[levels.query[kept][owner], place] = target[kept][owner]
    return result


def rank_square(
    model: BrowsingModel, cutoff: int | None, n: IntArray, n_useful: IntArray
) -> FloatArray:
    """Return the largest squared norm of the attention of a ranking of n documents; shape of `n`.

    That is the disparity of a fixed ranking, the largest there is; under a cascade, of one with
    the useful documents last.

    Args:
        model: the browsing model.
        cutoff: ranks from here on get none; None: no cutoff.
        n: number of documents.
        n_useful: how many of them are useful; shape of `n`.
    """
    depth = n if cutoff is None else np.minimum(n, cutoff)
    weight = model.weights(np.arange(int(depth.max(initial=0)), dtype=np.int64))
    summed: FloatArray = np.concatenate([[0.0], np.cumsum(weight**2)])
    if model.stop == 0:
        return summed[depth]
    free = np.minimum(depth, n - n_useful)
    owner = np.repeat(np.arange(len(n)), depth - free)
    after = np.arange(len(owner)) - (np.cumsum(depth - free) - (depth - free))[owner]
    felt = weight[free[owner] + after] * (1.0 - model.stop) ** after
    return np.asarray(summed[free] + total(owner, felt**2, len(n)))
