"""Exposure divided by the relevance of a group."""

from __future__ import annotations

import numpy as np

from fairtk.frames import BoolArray, FloatArray
from fairtk_classic.exposures import Population


def per_mean_relevance(
    amount: FloatArray, have: Population, per: str
) -> tuple[FloatArray, BoolArray]:
    """Return what groups get over the mean relevance of their documents.

    Args:
        amount: what each group gets in total; shape (n_rows, n_groups).
        have: the groups' documents; same shape.
        per: ``"group"``: the total is divided; ``"document"``: the mean over the documents, so that
            their number cancels.

    Returns:
        The quotients, and for each row whether all groups have relevance.
    """
    some = have.relevance > 0
    above = amount * have.size if per == "group" else amount
    quotient = np.divide(above, have.relevance, out=np.zeros_like(amount), where=some)
    return quotient, np.asarray(some.all(axis=1))
