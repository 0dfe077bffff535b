"""Arithmetic of vectors, TF-IDF weights, and scores within queries.

In this plugin, words have two or more letters or digits and are in lower case without accents.
There is no stemming and no list of stop words, whose weights are small because of their document
frequencies. The rows of a query are consecutive; `start` has the first row of each query, and the
number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from fairtk.errors import InputError
from fairtk.frames import FloatArray, IntArray, ObjectArray, Run

DOC_VEC = "doc_vec"
QUERY_VEC = "query_vec"  # the columns that pyterrier_dr's encoders add
FEATURES = "features"  # PyTerrier's column of learning to rank


def unit_rows(vectors: npt.NDArray[Any]) -> FloatArray:
    """Return rows scaled to length 1, in double precision; rows of zeros stay zeros."""
    rows = np.asarray(vectors, dtype=np.float64)
    if not rows.size:
        return rows
    # the largest value first, so that no square over- or underflows
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 0))


def row_cosines(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the dot products of corresponding rows of `unit_rows`, in [-1, 1].

    Rows are summed one by one, because the last bits of a matrix product depend on other rows.
    """
    return np.asarray(np.clip((one * other).sum(axis=1), -1.0, 1.0))


def stacked(
    vectors: ObjectArray,
    rankings: Run,
    name: str,
    where: str,
    dimension: int | None = None,
    rows: IntArray | None = None,
) -> FloatArray:
    """Return the vectors of a column as one matrix; shape (n, dimension).

    Args:
        vectors: the values of the column.
        rankings: the run, for messages.
        name: the name of the column.
        where: the caller, for messages.
        dimension: the required length; `None` for that of the first vector.
        rows: the rows of the run that the vectors belong to; `None` for all.

    Raises:
        InputError: a vector has another length, or a number that is not finite.
    """
    size = dimension or (max(1, np.size(vectors[0])) if len(vectors) else 1)
    if not len(vectors):
        return np.zeros((0, size))
    try:
        matrix = np.stack(list(vectors)).astype(np.float64)
    except (TypeError, ValueError):
        matrix = np.empty((0, 0))
    if matrix.shape == (len(vectors), size) and bool(np.isfinite(matrix).all()):
        return matrix
    of_rows = np.arange(len(vectors)) if rows is None else rows
    problems = zip((_problem(vector, size) for vector in vectors), of_rows, strict=True)
    problem, row = next((pair for pair in problems if pair[0]), ("something else", of_rows[0]))
    raise InputError(
        f"{where}: {name} must be a vector of {size} finite numbers, as in "
        f"{'the first row' if dimension is None else 'training'}, got {problem} "
        f"({rankings.describe(int(row))}): use one encoder for all rows"
    )


def feature_matrix(
    frame: pd.DataFrame, run: Run, where: str, size: int | None = None
) -> FloatArray:
    """Return the column ``features`` of a run's rows in order; see `stacked` for the errors."""
    column = frame[FEATURES].to_numpy(dtype=object)[run.order]
    return stacked(column, run, FEATURES, where, size)


def _problem(vector: Any, dimension: int) -> str | None:
    try:
        array = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        return f"a {type(vector).__name__} without numbers"
    if array.ndim != 1:
        return repr(vector)[:40] if array.ndim == 0 else f"an array of shape {array.shape}"
    if len(array) != dimension:
        return f"{len(array)} numbers"
    bad = np.flatnonzero(~np.isfinite(array))
    return f"{array[bad[0]]} at place {bad[0]}" if len(bad) else None


NORMALIZATIONS = ("min-max", "z-score")
_DIGITS = 12  # the rounding noise of different batch sizes is far smaller
_STEP = 1e-9
_SMALLEST = float(np.finfo(np.float64).tiny)  # some processors round smaller numbers to 0


def min_max(score: FloatArray, start: IntArray, when_equal: float) -> FloatArray:
    """Return finite scores scaled to [0, 1] within each query; `when_equal` for equal scores."""
    if not len(score):
        return score.copy()
    # halved, so that the range of very large scores with both signs does not overflow
    half = score / 2
    low = np.repeat(np.minimum.reduceat(half, start[:-1]), np.diff(start))
    high = np.repeat(np.maximum.reduceat(half, start[:-1]), np.diff(start))
    spread = high - low
    out = np.full(len(score), when_equal)
    np.divide(half - low, spread, out=out, where=spread > 0)
    return out


def normalized(values: FloatArray, start: IntArray, how: str) -> FloatArray:
    """Return values scaled within each query; equal values become 0; shape (n_rows,).

    ``"min-max"`` scales to [0, 1], ``"z-score"`` to mean 0 and standard deviation 1.
    """
    scaled = min_max(values, start, when_equal=0.0)
    if how == "min-max" or not len(values):
        return scaled
    # of the scaled values, so that no square over- or underflows
    size = np.diff(start)
    off = scaled - np.repeat(np.add.reduceat(scaled, start[:-1]) / size, size)
    unit = np.repeat(np.sqrt(np.add.reduceat(off**2, start[:-1]) / size), size)
    return np.asarray(np.divide(off, unit, out=np.zeros_like(values), where=unit > 0))


def fused(
    relevance: FloatArray, score: FloatArray, fuse: float, start: IntArray, how: str
) -> FloatArray:
    """Return the scaled blend of two scaled scores, with a share `fuse` of the second."""
    ours, theirs = normalized(relevance, start, how), normalized(score, start, how)
    return normalized((1 - fuse) * ours + fuse * theirs, start, how)


def ranked(blend: FloatArray, start: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the order of rows by a blend of scores, highest first, their ranks, and scores.

    Ranks start at 0. Blends that are equal to 12 digits keep their order. The score is the blend,
    minus 1e-9 times the rank.
    """
    size = np.diff(start)
    query = np.repeat(np.arange(len(size)), size)
    rounded = np.round(blend, _DIGITS)
    order: IntArray = np.lexsort((-rounded, query)).astype(np.int64)
    rank = np.arange(len(blend), dtype=np.int64) - np.repeat(start[:-1], size)
    return order, rank, rounded[order] - _STEP * rank


def strictly_falling(score: FloatArray, query: IntArray) -> FloatArray:
    """Return scores that fall strictly within each query, with ties broken in the last bit."""
    falling = score + 0.0
    same = query[1:] == query[:-1]
    while len(late := np.flatnonzero(same & (falling[1:] >= falling[:-1]))):
        before = falling[late]
        falling[late + 1] = np.minimum(np.nextafter(before, -np.inf), before - _SMALLEST)
    return falling


_WORDS = {"strip_accents": "unicode", "token_pattern": r"(?u)\b\w\w+\b"}


def tfidf_vectorizer(**settings: Any) -> TfidfVectorizer:
    """Return scikit-learn's vectorizer with weights (1 + ln tf) * idf, scaled to length 1."""
    return TfidfVectorizer(**_WORDS, sublinear_tf=True, dtype=np.float32, **settings)


@dataclass(frozen=True)
class CandidateTerms:
    """Weighted words of candidates and of their queries, which do not depend on other queries.

    The weight of a word is (1 + ln tf) * idf, with idf = ln((1 + n) / (1 + df)) + 1 over the n
    candidates of the query (scikit-learn's smooth form), scaled to length 1. A text without words
    has no weights. Words of a query that are in no candidate have df = 0.
    """

    documents: sparse.csr_array  # shape (n_rows, n_terms)
    queries: sparse.csr_array  # shape (n_queries, n_terms)
    lengths: IntArray  # the number of words of each candidate
    known: FloatArray  # the share of the query's distinct words that are in each candidate


def weigh(texts: list[str], query: IntArray, queries: list[str]) -> CandidateTerms:
    """Return the weighted words of candidates and queries.

    Args:
        texts: the texts of the candidates.
        query: the index in `queries` of each candidate's query.
        queries: the texts of the queries.
    """
    counts = _counts([*texts, *queries])
    own, searched = counts[: len(texts)], counts[len(texts) :]
    asker, term = np.repeat(query, np.diff(own.indptr)), own.indices.astype(np.int64)
    shape = (len(queries), max(1, own.shape[1]))
    df = sparse.coo_array((np.ones(own.nnz), (asker, term)), shape=shape).tocsr()
    size = np.bincount(query, minlength=len(queries))
    has = (own > 0).multiply((searched > 0)[query])
    distinct = np.diff(searched.indptr)[query]
    return CandidateTerms(
        _weighted(own, query, df, size),
        _weighted(searched, np.arange(len(queries)), df, size),
        np.asarray(own.sum(axis=1), dtype=np.int64),
        np.asarray(has.sum(axis=1), dtype=np.float64) / np.maximum(distinct, 1),
    )


def _counts(texts: list[str]) -> sparse.csr_array:
    code, distinct = pd.factorize(np.array([*texts, ""], dtype=object))
    try:
        counts_of_texts = CountVectorizer(**_WORDS, dtype=np.int64).fit_transform(distinct)
    except ValueError as error:  # no words in the texts
        if "empty vocabulary" not in str(error):
            raise
        return sparse.csr_array((len(texts), 0), dtype=np.int64)
    counts = sparse.csr_array(counts_of_texts)
    counts.sort_indices()  # columns are in alphabetical order, so sums do not depend on other texts
    return counts[code[:-1]]


def _weighted(
    counts: sparse.csr_array, query: IntArray, df: sparse.csr_array, size: IntArray
) -> sparse.csr_array:
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    asker = query[row]
    candidates = df[asker, counts.indices] if len(row) else np.zeros(0)
    idf = np.log((1.0 + size[asker]) / (1.0 + candidates)) + 1.0
    weight = (1.0 + np.log(counts.data)) * idf
    length = np.sqrt(np.bincount(row, weights=weight * weight, minlength=counts.shape[0]))
    return sparse.csr_array(
        (weight / length[row], counts.indices, counts.indptr), shape=counts.shape
    )
