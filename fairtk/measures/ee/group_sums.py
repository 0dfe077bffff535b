"""Weights of documents, summed over the groups that they belong to."""

from __future__ import annotations

from fairtk.divergence import SparseRows
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.groups.exposure import Memberships, Shown, group_exposure
from fairtk.measures.evidence import Evidence


def summed(
    evidence: Evidence, memberships: Memberships, weight: FloatArray, pair: IntArray
) -> SparseRows:
    """Return weights of pairs, summed over each query's groups.

    Args:
        evidence: labels and run.
        memberships: those of the documents of its pairs.
        weight: a weight for each of the pairs.
        pair: which pairs.
    """
    pairs = evidence.pairs
    shown = Shown(pairs.query[pair], pairs.doc[pair], weight, len(evidence.qids))
    return group_exposure(shown, memberships)
