"""BM25 over each query's own candidates: a user's profile is the corpus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fairtk.errors import ParameterError
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.transformers.scorer import Scorer
from fairtk.transformers.term_weights import Tokenizer, score_texts

# Queries are scored in blocks of whole queries of about this many characters of text, so that
# memory (about 10 bytes per character) does not grow with the number of queries.
_BLOCK_CHARACTERS = 10_000_000


class BM25Scorer(Scorer):
    """R -> R: scores each query's candidates by BM25 with statistics of these candidates alone.

    This is Okapi BM25 as *Towards Fair RAG* uses it on LaMP profiles (the implementation of
    rank_bm25). With N documents, document frequency df, length dl and mean length avgdl::

        idf   = ln(N - df + 0.5) - ln(df + 0.5)
        score = sum over query words of  idf * tf (k1 + 1) / (tf + k1 (1 - b + b dl / avgdl))

    A word in more than half of the documents has a negative idf, and gets ``epsilon`` times the
    mean of the raw idf of all words of the candidates instead (which is negative too for one or
    two documents, or nearly equal ones). A query word counts as often as it occurs. Words are
    compared as they are: no lower-casing, no stemming. Where all documents are empty, all scores
    are 0 (the original fails).

    The frames are `Scorer`'s. Fast: one sparse product for many queries, no loop over queries.

    Args:
        k1: how fast repeated words saturate, at least 0.
        b: how much long documents are held back, 0 to 1.
        epsilon: what negative idf are replaced by, as a share of the mean idf, at least 0.
        tokenize: ``"whitespace"``, or a function from a text to its words.

    Raises:
        ParameterError: a setting is out of range.
    """

    SETTINGS = ("k1", "b", "epsilon", "tokenize")

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        epsilon: float = 0.25,
        tokenize: str | Tokenizer = "whitespace",
    ) -> None:
        super().__init__()
        for name, value, high in (("k1", k1, np.inf), ("b", b, 1.0), ("epsilon", epsilon, np.inf)):
            if not 0 <= value <= high or value == np.inf:
                limit = "at least 0" if high == np.inf else "between 0 and 1"
                raise ParameterError(f"BM25Scorer: {name} must be {limit}; found {value!r}")
        if tokenize != "whitespace" and not callable(tokenize):
            raise ParameterError(
                "BM25Scorer: tokenize must be 'whitespace' or a function from a text to its words; "
                f"found {tokenize!r}"
            )
        self.k1 = k1
        self.b = b
        self.epsilon = epsilon
        self.tokenize = tokenize

    def scores(self, query: IntArray, texts: list[str], queries: list[str]) -> FloatArray:
        """Return BM25's score of each candidate; see `Scorer.scores`."""
        tokenize: Tokenizer = str.split if isinstance(self.tokenize, str) else self.tokenize
        score = np.zeros(len(texts))
        for rows, first, last in _blocks(query, texts, len(queries)):
            score[rows] = score_texts(
                [texts[i] for i in rows.tolist()],
                queries[first:last],
                query[rows] - first,
                tokenize,
                (self.k1, self.b, self.epsilon),
            )
        return score


def _blocks(
    query: npt.NDArray[Any], texts: list[str], n_queries: int
) -> Iterator[tuple[IntArray, int, int]]:
    """Yield blocks of whole queries: their rows, first query, and the query behind the last."""
    size = np.fromiter(map(len, texts), dtype=np.float64, count=len(texts))
    upto = np.cumsum(np.bincount(query, weights=size, minlength=n_queries))
    order = np.argsort(query, kind="stable")
    start = np.searchsorted(query[order], np.arange(n_queries + 1))
    first = 0
    while first < n_queries:
        before = upto[first - 1] if first else 0.0
        last = int(np.searchsorted(upto, before + _BLOCK_CHARACTERS, side="right"))
        last = min(max(last, first + 1), n_queries)
        yield order[start[first] : start[last]], first, last
        first = last
