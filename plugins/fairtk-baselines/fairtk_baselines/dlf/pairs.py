"""Rankings with vectors, as arrays: what the models see of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairtk.frames import DOCNO, QID, SCORE, FloatArray, Rankings, encode_run
from fairtk_baselines.vectors import DOC_VEC, QUERY_VEC, stacked, unit_rows

NEEDED = [QID, DOCNO, SCORE, QUERY_VEC, DOC_VEC]


@dataclass(frozen=True)
class DocumentPairs:
    """The rows of a run, sorted by query and rank, with vectors of norm 1, or all 0."""

    rankings: Rankings
    score: FloatArray  # the retriever's, of each row
    query: FloatArray  # shape (n_queries, dimension)
    document: FloatArray  # of each row; shape (n_rows, dimension)

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self.document.shape[1])


def pairs_of(frame: pd.DataFrame, where: str, dimension: int | None = None) -> DocumentPairs:
    """Return the pairs of a frame R with ``query_vec`` and ``doc_vec``, at least one row.

    The vector of a query is the one in the row of its first rank; the length of all must be
    `dimension`, or that of the first document.

    Raises:
        InputError: a vector is missing, not finite, or of another length; or the run is broken.
    """
    rankings = encode_run(frame, where)
    documents = frame[DOC_VEC].to_numpy(dtype=object)[rankings.order]
    every, first = np.arange(len(documents)), rankings.ranking_start[:-1]
    queries = frame[QUERY_VEC].to_numpy(dtype=object)[rankings.order[first]]
    vectors = stacked(documents, rankings, every, DOC_VEC, where, dimension)
    size = vectors.shape[1]
    return DocumentPairs(
        rankings,
        frame[SCORE].to_numpy(dtype=np.float64)[rankings.order],
        unit_rows(stacked(queries, rankings, first, QUERY_VEC, where, size)),
        unit_rows(vectors),
    )
