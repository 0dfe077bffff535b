"""TF-IDF of the candidates of many queries at once, with the statistics of each query's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from fairtk.frames import FloatArray, IntArray
from fairtk_baselines.words import count_vectorizer


@dataclass(frozen=True)
class CandidateTerms:
    """Weighted words of candidates and of their queries.

    The weight of a word is (1 + ln tf) * idf, with idf = ln((1 + n) / (1 + df)) + 1 over the n
    candidates of the *query* (scikit-learn's smooth form), scaled to length 1. A query's
    weights are therefore the same whatever other queries are in the frame. A text without words has
    no weights; words of a query that no candidate has take part in its length, with df = 0.
    """

    documents: sparse.csr_array  # shape (n_rows, n_terms)
    queries: sparse.csr_array  # shape (n_queries, n_terms)
    lengths: IntArray  # words of each candidate, with repetitions
    known: FloatArray  # share of the query's distinct words that a candidate has; 0 without any


def weigh(texts: list[str], query: IntArray, queries: list[str]) -> CandidateTerms:
    """Return the weighted words of candidates, given the index of each one's query.

    A query's text may be empty where it does not matter.
    """
    counts = _counts([*texts, *queries])
    own, searched = counts[: len(texts)], counts[len(texts) :]
    idf = _Idf(own, query, len(queries))
    has = (own > 0).multiply((searched > 0)[query])
    distinct = np.diff(searched.indptr)[query]
    return CandidateTerms(
        _weighted(own, query, idf),
        _weighted(searched, np.arange(len(queries)), idf),
        np.asarray(own.sum(axis=1), dtype=np.int64),
        np.asarray(has.sum(axis=1), dtype=np.float64) / np.maximum(distinct, 1),
    )


class _Idf:
    """The idf of each (query, word) pair that occurs, looked up by pair."""

    def __init__(self, counts: sparse.csr_array, query: IntArray, number: int) -> None:
        self._width = max(counts.shape[1], 1)
        pair = np.repeat(query, np.diff(counts.indptr)) * self._width + counts.indices
        self._pair, self._df = np.unique(pair, return_counts=True)
        self._size = np.bincount(query, minlength=number)

    def of(self, query: IntArray, term: IntArray) -> FloatArray:
        pair = query * self._width + term
        place = np.searchsorted(self._pair, pair)
        # a last entry that no pair equals, for those beyond the end
        df = np.where(np.append(self._pair, -1)[place] == pair, np.append(self._df, 0)[place], 0)
        return np.asarray(np.log((1.0 + self._size[query]) / (1.0 + df)) + 1.0)


def _counts(texts: list[str]) -> sparse.csr_array:
    code, distinct = pd.factorize(np.array([*texts, ""], dtype=object))
    vectorizer = count_vectorizer()
    try:
        found = vectorizer.fit_transform(distinct)
    except ValueError as error:  # not one word in all the texts
        if "empty vocabulary" not in str(error):
            raise
        return sparse.csr_array((len(texts), 0), dtype=np.int64)
    counts = sparse.csr_array(found)
    counts.sort_indices()  # columns are in the order of the alphabet, so sums do not depend on
    return counts[code[:-1]]  # which other texts there are


def _weighted(counts: sparse.csr_array, query: IntArray, idf: _Idf) -> sparse.csr_array:
    size = np.diff(counts.indptr)
    weight = (1.0 + np.log(counts.data)) * idf.of(
        np.repeat(query, size), counts.indices.astype(np.int64)
    )
    row = np.repeat(np.arange(counts.shape[0]), size)
    length = np.sqrt(np.bincount(row, weights=weight * weight, minlength=counts.shape[0]))
    return sparse.csr_array(
        (weight / length[row], counts.indices, counts.indptr), shape=counts.shape
    )
