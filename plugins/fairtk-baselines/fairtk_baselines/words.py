"""Words, for all of this plugin: two or more letters or digits, lower case, no accents; and TF-IDF.

There is no stemming and no list of stop words: document frequencies do what such a list would do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from fairtk.frames import FloatArray, IntArray
from fairtk.groups import SparseRows

_WORDS = {"strip_accents": "unicode", "token_pattern": r"(?u)\b\w\w+\b"}


def tfidf_vectorizer(**settings: Any) -> TfidfVectorizer:
    """Return scikit-learn's vectorizer that weighs words: (1 + ln tf) * idf, to length 1."""
    return TfidfVectorizer(**_WORDS, sublinear_tf=True, dtype=np.float32, **settings)


@dataclass(frozen=True)
class CandidateTerms:
    """Weighted words of candidates and of their queries, the same whatever other queries there are.

    The weight of a word is (1 + ln tf) * idf, with idf = ln((1 + n) / (1 + df)) + 1 over the n
    candidates of the *query* (scikit-learn's smooth form), scaled to length 1. A text without words
    has no weights; words of a query that no candidate has take part in its length, with df = 0.
    """

    documents: sparse.csr_array  # shape (n_rows, n_terms)
    queries: sparse.csr_array  # shape (n_queries, n_terms)
    lengths: IntArray  # words of each candidate, with repetitions
    known: FloatArray  # share of the query's distinct words that a candidate has; 0 without any


def weigh(texts: list[str], query: IntArray, queries: list[str]) -> CandidateTerms:
    """Return the weighted words of candidates and queries, given the index of each one's query."""
    counts = _counts([*texts, *queries])
    own, searched = counts[: len(texts)], counts[len(texts) :]
    asker, term = np.repeat(query, np.diff(own.indptr)), own.indices.astype(np.int64)
    df = SparseRows.collect(asker, term, np.ones(own.nnz), len(queries), max(1, own.shape[1]))
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
        found = CountVectorizer(**_WORDS, dtype=np.int64).fit_transform(distinct)
    except ValueError as error:  # not one word in all the texts
        if "empty vocabulary" not in str(error):
            raise
        return sparse.csr_array((len(texts), 0), dtype=np.int64)
    counts = sparse.csr_array(found)
    counts.sort_indices()  # columns are in the order of the alphabet, so sums do not depend on
    return counts[code[:-1]]  # which other texts there are


def _weighted(
    counts: sparse.csr_array, query: IntArray, df: SparseRows, size: IntArray
) -> sparse.csr_array:
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    asker = query[row]
    candidates = df.lookup(asker, counts.indices.astype(np.int64))
    idf = np.log((1.0 + size[asker]) / (1.0 + candidates)) + 1.0
    weight = (1.0 + np.log(counts.data)) * idf
    length = np.sqrt(np.bincount(row, weights=weight * weight, minlength=counts.shape[0]))
    return sparse.csr_array(
        (weight / length[row], counts.indices, counts.indptr), shape=counts.shape
    )
