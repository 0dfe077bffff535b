"""From scores to ranks without ties."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.frames import FloatArray, IntArray
from fairtk.frames.rankings import Rankings


def ranked(coded: Rankings, scores: FloatArray) -> IntArray:
    """Return rows by query and falling score; equal scores stay in order; shape (n_rows,)."""
    return np.asarray(np.lexsort((coded.position, -scores, coded.query)), dtype=np.int64)


def falling(scores: FloatArray, query: IntArray) -> FloatArray:
    """Return scores that fall strictly inside each query, as little below the given as can be.

    Args:
        scores: finite, sorted by query and falling or equal inside; shape (n_rows,).
        query: query of each row; shape (n_rows,).
    """
    # Floats in the order of integers: their bits, with those of negative numbers mirrored.
    bits = (scores + 0.0).view(np.int64)
    least = np.iinfo(np.int64).min
    place = np.where(bits < 0, least - bits, bits)
    row = np.arange(len(scores))
    # the largest strictly falling sequence that is nowhere above: min over j <= i of x_j - (i - j)
    lowered = pd.Series(place + row).groupby(query).cummin().to_numpy(dtype=np.int64) - row
    return np.asarray(np.where(lowered < 0, least - lowered, lowered).view(np.float64))
