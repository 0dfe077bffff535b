"""How similar two distributions over groups are, nominal or ordinal (Sakai, Kim and Kang 2022)."""

from __future__ import annotations

import numpy as np

from fairtk.frames import FloatArray


def similarity_of(achieved: FloatArray, target: FloatArray, kind: str) -> FloatArray:
    """Return 1 minus a divergence of each row; shape (n_rows,), in [0, 1], 1 for equal rows.

    Args:
        achieved: distributions over n > 1 groups; shape (n_rows, n).
        target: distributions to compare with; same shape.
        kind: ``"JSD"`` (nominal groups), ``"NMD"`` or ``"RNOD"`` (ordinal: columns in order).
    """
    divergence = {
        "JSD": jensen_shannon_bits,
        "NMD": normalized_match_distance,
        "RNOD": root_normalized_order_aware_divergence,
    }[kind]
    return 1.0 - divergence(achieved, target)


def jensen_shannon_bits(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return the Jensen-Shannon divergence to base 2, in [0, 1]."""
    middle = (p + q) / 2.0
    parts = [np.where(x > 0, x, 1.0) / np.where(x > 0, middle, 1.0) for x in (p, q)]
    return np.asarray((p * np.log2(parts[0]) + q * np.log2(parts[1])).sum(axis=1) / 2.0)


def normalized_match_distance(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return NMD = sum over i of |cumulative p_i - cumulative q_i| / (n - 1), in [0, 1]."""
    gap = np.cumsum(p, axis=1) - np.cumsum(q, axis=1)
    return np.asarray(np.abs(gap).sum(axis=1) / (p.shape[1] - 1))


def root_normalized_order_aware_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return RNOD, in [0, 1].

    The root of the mean, over the groups i that have a target q_i > 0, of
    sum over j of |i - j| (p_j - q_j)^2, divided by n - 1.
    """
    n = p.shape[1]
    steps = np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)
    wanted = q > 0
    from_each = ((p - q) ** 2) @ steps
    mean = (from_each * wanted).sum(axis=1) / np.maximum(wanted.sum(axis=1), 1)
    return np.asarray(np.sqrt(mean / (n - 1)))
