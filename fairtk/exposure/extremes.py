"""The largest and smallest values that any ranking of a query's documents can have."""

from __future__ import annotations

import numpy as np

from fairtk.exposure.expected import Grades, RankWeights
from fairtk.frames.arrays import FloatArray


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
    wanted = _by_place(grades, target, width, reverse=worst)
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
        useful[:, :-1] = (gain * wanted)[:, :-1] + value[:, 1:]
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
    kept = np.flatnonzero(grades.useful)
    begin, size = grades.above[kept], grades.size[kept]
    if reverse:
        begin = grades.n_useful[grades.query[kept]] - begin - size
    size = np.minimum(begin + size, width) - np.minimum(begin, width)
    owner = np.repeat(np.arange(len(kept)), size)
    place = np.arange(len(owner)) - (np.cumsum(size) - size)[owner] + begin[owner]
    result = np.zeros((grades.n_queries, width))
    result[grades.query[kept][owner], place] = target[kept][owner]
    return result
