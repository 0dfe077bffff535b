"""Names of the columns that fairtk's frames have, and the check that they are there.

The names are PyTerrier's. `docs` of every frame type (Q, R, S, X, A, qrels, groups) are in the
README; ir_measures' own names (``query_id``, ``doc_id``, ``relevance``) occur only at its border.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from fairtk.errors import ColumnError

QID = "qid"
QUERY = "query"
QUESTION = "question"
DOCNO = "docno"
SCORE = "score"
RANK = "rank"
SAMPLE = "sample"
TEXT = "text"
LABEL = "label"
QANSWER = "qanswer"
GOLD_ANSWER = "gold_answer"
EXPOSURE = "exposure"
GROUP = "group"
WEIGHT = "weight"


def require(frame: pd.DataFrame, columns: Iterable[str], where: str) -> None:
    """Raise a `ColumnError` unless the frame has all the columns.

    Args:
        frame: the frame to look at.
        columns: the columns that must be there.
        where: the transformer, measure or file that needs them, for the message.
    """
    if not isinstance(frame, pd.DataFrame):
        raise ColumnError(f"{where} needs a DataFrame; found a {type(frame).__name__}")
    needed = list(columns)
    missing = [c for c in needed if c not in frame.columns]
    if missing:
        raise ColumnError(
            f"{where} needs the columns {needed}; missing: {missing}, found: {list(frame.columns)}"
        )
