"""Okapi BM25 for many queries at once, each over a small corpus of its own, as sparse products."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fairtk.frames.arrays import FloatArray, IntArray

Tokenizer = Callable[[str], Iterable[str]]


def score_texts(
    texts: list[str],
    queries: list[str],
    query: npt.NDArray[Any],
    tokenize: Tokenizer,
    settings: tuple[float, float, float],
) -> FloatArray:
    """Return the BM25 score of each text for the query whose candidate it is.

    Args:
        texts: the documents; length n_documents.
        queries: length n_queries.
        query: the query of each document; shape (n_documents,).
        tokenize: turns a text into its words.
        settings: ``k1``, ``b`` and ``epsilon`` of `okapi`.
    """
    asked = [list(tokenize(q)) for q in queries]
    # words of queries come first and sorted: their order then never depends on other queries
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__
    for word in sorted({w for q in asked for w in q}):
        vocabulary[word]  # noqa: B018 (looking a word up numbers it)
    of_queries = _counts(asked, vocabulary)
    words = _counts(map(tokenize, texts), vocabulary)
    return okapi(words, of_queries, query, *settings)


def okapi(
    words: Any,
    asked: Any,
    query: npt.NDArray[Any],
    k1: float = 1.5,
    b: float = 0.75,
    epsilon: float = 0.25,
) -> FloatArray:
    """Return the BM25 score of each document for the query whose candidate it is.

    Robertson and Zaragoza: The Probabilistic Relevance Framework: BM25 and Beyond (2009), with the
    idf of rank_bm25's ``BM25Okapi`` (see `BM25Scorer`). All sums run in the order of df or of the
    words' columns, so a score does not depend on which other queries are there, to the last bit,
    as long as the words of the queries keep their relative order.

    Args:
        words: counts of words in documents; CSR with sorted columns, shape (n_documents, n_words).
        asked: counts of words in queries, whose columns are the first ones of `words`; CSR with
            sorted columns, shape (n_queries, n_query_words).
        query: the query of each document; shape (n_documents,).
        k1: saturation.
        b: length normalization.
        epsilon: share of the mean idf that replaces a negative idf.

    Returns:
        Scores of any sign, higher is better; shape (n_documents,).
    """
    n_queries = asked.shape[0]
    n_docs = np.bincount(query, minlength=n_queries)
    length = np.bincount(_rows(words), weights=words.data, minlength=len(query))
    total = np.bincount(query, weights=length, minlength=n_queries)
    mean_length = total / np.maximum(n_docs, 1)
    idf = _idf(words, query, n_docs, epsilon)[:, : asked.shape[1]]
    idf.sort_indices()
    words = words[:, : asked.shape[1]]

    # a document without words has no entries below, so its division by 0 never happens
    relative = length / np.where(mean_length > 0, mean_length, 1.0)[query]
    norm = k1 * (1 - b + b * relative)
    weight = sparse.csr_array(asked.multiply(idf))
    tf = words.data
    saturated = sparse.csr_array(
        (tf * (k1 + 1) / (tf + norm[_rows(words)]), words.indices, words.indptr),
        shape=words.shape,
    )
    parts = sparse.csr_array(saturated.multiply(weight[query]))
    score = np.bincount(_rows(parts), weights=parts.data, minlength=len(query))
    return score.astype(np.float64, copy=False)


def _idf(words: Any, query: npt.NDArray[Any], n_docs: npt.NDArray[Any], epsilon: float) -> Any:
    """Return the idf of each word among the candidates of each query, negative ones replaced."""
    shape = (len(n_docs), len(query))
    member = sparse.csr_array((np.ones(len(query)), (query, np.arange(len(query)))), shape=shape)
    present = sparse.csr_array(
        (np.ones(len(words.data)), words.indices, words.indptr), shape=words.shape
    )
    idf = sparse.csr_array(member @ present)  # document frequencies so far
    owner = _rows(idf)
    df = idf.data.astype(np.int64)
    # a histogram of df for each query (1 to N, ragged): its order is the same whatever the words
    start = np.cumsum(n_docs) - n_docs
    n_words = np.bincount(start[owner] + df - 1, minlength=len(query))
    of_bin = np.repeat(np.arange(len(n_docs)), n_docs)
    raw = _raw_idf(n_docs[of_bin], np.arange(len(of_bin)) - start[of_bin] + 1)
    total = np.bincount(of_bin, weights=n_words * raw, minlength=len(n_docs))
    mean = total / np.maximum(np.bincount(owner, minlength=len(n_docs)), 1)
    raw = _raw_idf(n_docs[owner], df)
    idf.data = np.where(raw < 0, epsilon * mean[owner], raw)
    return idf


def _raw_idf(n: npt.NDArray[Any], df: npt.NDArray[Any]) -> FloatArray:
    return np.asarray(np.log(n - df + 0.5) - np.log(df + 0.5), dtype=np.float64)


def _rows(matrix: Any) -> IntArray:
    """Return the row of each stored entry of a CSR matrix."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _counts(texts: Iterable[Iterable[str]], vocabulary: defaultdict[str, int]) -> Any:
    """Count the words of each text; new words are added to the vocabulary."""
    codes: list[int] = []
    ends = [0]
    code = vocabulary.__getitem__
    for text in texts:
        codes.extend(map(code, text))
        ends.append(len(codes))
    indices = np.array(codes, dtype=np.int32)
    counts = sparse.csr_array(
        (np.ones(len(indices)), indices, np.array(ends, dtype=np.int64)),
        shape=(len(ends) - 1, len(vocabulary)),
    )
    counts.sum_duplicates()
    return counts
