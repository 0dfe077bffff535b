"""The remedy for queries whose measures are undefined: leave them out, visibly."""

from __future__ import annotations

import pandas as pd

from fairtk.frames.columns import LABEL, QID, require


def drop_undefined(qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the qrels of the queries that have at least one useful document.

    EE_R and EE_L are NaN for the others, and plain means (``pt.Experiment``) turn NaN with them.

    Args:
        qrels: ``qid``, ``docno``, ``label`` and any other columns; not changed.

    Returns:
        The rows of queries with a label above 0, in their order.
    """
    require(qrels, [QID, LABEL], "drop_undefined")
    useful = qrels.loc[qrels[LABEL] > 0, QID].unique()
    return qrels[qrels[QID].isin(useful)].reset_index(drop=True)
