"""Rankings with vectors, as arrays: what the models see of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.columns import DOCNO, QID, SCORE
from fairtk.errors import InputError
from fairtk.rankings import Rankings, describe, encode_run

QUERY_VEC = "query_vec"
DOC_VEC = "doc_vec"
NEEDED = [QID, DOCNO, SCORE, QUERY_VEC, DOC_VEC]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """The rows of a run, sorted by query and rank, with unit vectors.

    Attributes:
        rankings: the run as codes; "row" means a row sorted by them.
        score: the retriever's score of each row; shape (n_rows,).
        query: vector of each query, of norm 1 or all 0; shape (n_queries, dimension).
        document: vector of each row's document, likewise; shape (n_rows, dimension).
    """

    rankings: Rankings
    score: FloatArray
    query: FloatArray
    document: FloatArray

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self.document.shape[1])


def pairs_of(frame: pd.DataFrame, where: str, dimension: int | None = None) -> Pairs:
    """Return the pairs of a frame R with ``query_vec`` and ``doc_vec``, at least one row.

    The vector of a query is the one in the row of its first rank.

    Args:
        frame: the run; not changed.
        where: who asks, for messages.
        dimension: the length that vectors must have; None: that of the first document.

    Raises:
        InputError: a vector is missing, not finite, or of another length; or the run is broken, see
            `fairtk.rankings.encode_run`.
    """
    rankings = encode_run(frame, where)
    documents = frame[DOC_VEC].to_numpy(dtype=object)[rankings.order]
    if dimension is None:
        dimension = max(1, np.size(documents[0]))
    every = np.arange(len(documents))
    first = rankings.ranking_start[:-1]
    queries = frame[QUERY_VEC].to_numpy(dtype=object)[rankings.order[first]]
    return Pairs(
        rankings,
        frame[SCORE].to_numpy(dtype=np.float64)[rankings.order],
        _unit(_stacked(queries, dimension, rankings, first, QUERY_VEC, where)),
        _unit(_stacked(documents, dimension, rankings, every, DOC_VEC, where)),
    )


def _stacked(
    vectors: npt.NDArray[np.object_],
    dimension: int,
    rankings: Rankings,
    rows: npt.NDArray[np.int64],
    name: str,
    where: str,
) -> FloatArray:
    """Return vectors as one matrix; shape (n, dimension)."""
    try:
        matrix = np.stack(list(vectors)).astype(np.float64)
    except (TypeError, ValueError):
        matrix = np.empty((0, 0))
    if matrix.shape == (len(vectors), dimension) and bool(np.isfinite(matrix).all()):
        return matrix
    for vector, row in zip(vectors, rows, strict=True):
        problem = _problem(vector, dimension)
        if problem:
            raise InputError(
                f"{where}: {name} must be a vector of {dimension} finite numbers; found {problem} "
                f"({describe(rankings, int(row))}); encode all rows with the same bi-encoder"
            )
    raise InputError(f"{where}: {name} must be vectors of {dimension} finite numbers")


def _problem(vector: Any, dimension: int) -> str | None:
    try:
        array = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        return f"a {type(vector).__name__}"
    if array.ndim != 1:
        return repr(vector)[:40] if array.ndim == 0 else f"an array of shape {array.shape}"
    if len(array) != dimension:
        return f"{len(array)} numbers"
    return None if np.isfinite(array).all() else "NaN or infinity"


def _unit(matrix: FloatArray) -> FloatArray:
    # by the largest value first: its square could be infinite, or 0
    largest = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    matrix = np.divide(matrix, largest, out=np.zeros_like(matrix), where=largest > 0)
    norm = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: FloatArray = np.divide(matrix, norm, out=matrix, where=norm > 0)
    return unit
