"""Scorers of each query's candidates: BM25, dense and learned sparse encoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from os import PathLike, fspath
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from fairtk import checks
from fairtk.errors import ParameterError
from fairtk.frames import (
    DOCNO,
    QID,
    QUERY,
    RANK,
    SCORE,
    TEXT,
    FloatArray,
    IntArray,
    Run,
    require_queries,
    require_texts,
)
from fairtk.frames.schema import encode_ids
from fairtk.llm.encoders import Encoder, MeanEncoder, SpladeEncoder
from fairtk.llm.loading import require_packages
from fairtk.transformers.base import FairTransformer
from fairtk.wording import short

Tokenizer = Callable[[str], Iterable[str]]


def okapi(
    words: Any,
    query_words: Any,
    query: npt.NDArray[Any],
    k1: float,
    b: float,
    epsilon: float,
) -> FloatArray:
    """Return the BM25 score of each document for its query.

    All sums run in the order of df or of the words' columns, so a score does not depend on the
    other queries, to the last bit, as long as the words of the queries keep their relative order.

    Args:
        words: counts of words in documents; CSR with sorted columns, shape (n_documents, n_words).
        query_words: counts of words in queries, whose columns are the first columns of `words`; CSR
            with sorted columns, shape (n_queries, n_query_words).
        query: the query of each document; shape (n_documents,).
        k1: saturation.
        b: length normalization.
        epsilon: share of the mean idf that replaces a negative idf.

    Returns:
        Scores of any sign, higher is better; shape (n_documents,).

    References:
        Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", with
        the idf of rank_bm25's ``BM25Okapi``.
    """
    n_queries = query_words.shape[0]
    n_docs = np.bincount(query, minlength=n_queries)
    length = np.bincount(_rows(words), weights=words.data, minlength=len(query))
    total = np.bincount(query, weights=length, minlength=n_queries)
    mean_length = total / np.maximum(n_docs, 1)
    idf = _idf(words, query, n_docs, epsilon)[:, : query_words.shape[1]]
    idf.sort_indices()
    words = words[:, : query_words.shape[1]]

    # an empty document has no entries below, so that there is no division by 0
    relative = length / np.where(mean_length > 0, mean_length, 1.0)[query]
    norm = k1 * (1 - b + b * relative)
    weight = sparse.csr_array(query_words.multiply(idf))
    tf = words.data
    saturated = sparse.csr_array(
        (tf * (k1 + 1) / (tf + norm[_rows(words)]), words.indices, words.indptr),
        shape=words.shape,
    )
    parts = sparse.csr_array(saturated.multiply(weight[query]))
    score = np.bincount(_rows(parts), weights=parts.data, minlength=len(query))
    return score.astype(np.float64, copy=False)


def _idf(words: Any, query: npt.NDArray[Any], n_docs: npt.NDArray[Any], epsilon: float) -> Any:
    """Return the idf of each word among a query's candidates, with negative values replaced."""
    shape = (len(n_docs), len(query))
    member = sparse.csr_array((np.ones(len(query)), (query, np.arange(len(query)))), shape=shape)
    present = sparse.csr_array(
        (np.ones(len(words.data)), words.indices, words.indptr), shape=words.shape
    )
    idf = sparse.csr_array(member @ present)  # document frequencies, replaced below
    owner = _rows(idf)
    df = idf.data.astype(np.int64)
    # a ragged histogram of df (1 to N) per query, whose order does not depend on the words
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
    """Return the counts of words per text, and add new words to the vocabulary."""
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


class Scorer(FairTransformer, ABC):
    """R -> R: base class of scorers that compare each query with the texts of its candidates.

    A subclass defines `scores`. Input columns: ``qid``, ``query``, ``docno``, ``text``; scores and
    ranks are replaced, other columns kept. Output rows are sorted by query (first appearance) and
    rank; ties are broken by docno, descending. A sampled run (column ``sample``) is an error: score
    before sampling.
    """

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the candidates with new scores and ranks.

        Args:
            inp: a run (R) with text.

        Raises:
            ColumnError: a column is missing, or the run is sampled.
            InputError: a text or query is missing (names qid and docno), or a qid has several
                queries.
            DuplicateError: duplicate document for a query.
        """
        self.check_inputs(inp, [QID, QUERY, DOCNO, TEXT])
        self.refuse_samples(inp)
        where = type(self).__name__
        query, qids = encode_ids(inp[QID], QID, where)
        texts, queries = require_texts(inp, where), require_queries(inp, query, len(qids), where)
        score = self.scores(query, texts, queries) if len(inp) else np.zeros(0)
        scored = inp.assign(**{SCORE: score})
        run = Run(scored.drop(columns=RANK, errors="ignore"), where)
        self.remark_on_equal_scores(run, "their documents are sorted by docno only")
        out = scored.iloc[run.order].reset_index(drop=True)
        out[RANK] = run.position
        return out

    @abstractmethod
    def scores(self, query: IntArray, texts: list[str], queries: list[str]) -> FloatArray:
        """Return the score of each candidate.

        Args:
            query: the index in `queries` of each candidate; shape (n,), n at least 1.
            texts: the candidates' texts.
            queries: the queries.
        """


# Queries are scored in blocks with about this many characters of text, so that memory (about 10
# bytes per character) does not grow with the number of queries.
_BLOCK_CHARACTERS = 10_000_000


class BM25Scorer(Scorer):
    """R -> R: BM25 scores with the statistics of each query's candidates.

    This is Okapi BM25 as *Towards Fair RAG* uses it on LaMP profiles (the implementation of
    rank_bm25). With N documents, document frequency df, length dl and mean length avgdl::

        idf   = ln(N - df + 0.5) - ln(df + 0.5)
        score = sum over query words of  idf * tf (k1 + 1) / (tf + k1 (1 - b + b dl / avgdl))

    The idf of a word in more than half of the documents is negative; it is replaced by ``epsilon``
    times the mean of the raw idf of all words of the candidates. A query word counts as often as it
    occurs. There is no lower-casing and no stemming.

    See `Scorer` for the frames.

    Args:
        k1: saturation of term frequencies, at least 0.
        b: length normalization, 0 to 1.
        epsilon: the replacement of a negative idf, as a share of the mean idf, at least 0.
        tokenize: ``"whitespace"``, or a function from a text to its words.

    Raises:
        ParameterError: a setting is out of range.
    """

    identity_name = "fairtk.BM25Scorer"
    output_version = 1
    is_cheap = True
    SETTINGS = ("k1", "b", "epsilon", "tokenize")

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        epsilon: float = 0.25,
        tokenize: str | Tokenizer = "whitespace",
    ) -> None:
        super().__init__()
        for name, value in (("k1", k1), ("epsilon", epsilon)):
            checks.number(name, value, "BM25Scorer")
        checks.share("b", b, "BM25Scorer")
        if not callable(tokenize) and not (isinstance(tokenize, str) and tokenize == "whitespace"):
            raise ParameterError(
                "BM25Scorer: tokenize must be 'whitespace' or a function from a text to its words, "
                f"got {short(tokenize)}"
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
            query_words = [list(tokenize(text)) for text in queries[first:last]]
            # words of queries come first, sorted, so that their order depends on nothing else
            vocabulary: defaultdict[str, int] = defaultdict()
            vocabulary.default_factory = vocabulary.__len__
            for word in sorted({word for words in query_words for word in words}):
                vocabulary[word]  # noqa: B018 (a look-up adds the word)
            query_counts = _counts(query_words, vocabulary)
            counts = _counts((tokenize(texts[i]) for i in rows.tolist()), vocabulary)
            settings = self.k1, self.b, self.epsilon
            score[rows] = okapi(counts, query_counts, query[rows] - first, *settings)
        return score


def _blocks(
    query: npt.NDArray[Any], texts: list[str], n_queries: int
) -> Iterator[tuple[IntArray, int, int]]:
    """Yield blocks of queries: their rows, the first query, and the end of the range."""
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


class NeuralScorer(Scorer):
    """R -> R: base class of scorers by the inner product of query and text vectors.

    See `Scorer` for the frames. The distinct texts and queries of a frame are encoded once, in
    batches of similar length; equal texts have equal scores. The model is loaded on first use. The
    vectors of a frame's distinct texts must fit into memory. The extra ``t5`` is required.

    Args:
        model: a hub name, or a local folder with config.json, weights and tokenizer.json.
        device: ``"auto"`` (CUDA if available, else CPU) or a torch device.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"``, or ``"auto"`` (half precision on CUDA,
            which changes ties and near ties; else float32).
        max_tokens: the maximum number of tokens of a text, special tokens included; longer texts
            are truncated. `None` for the model's limit (512 for BERT).
        batch_tokens: the maximum number of tokens of a batch; `None` for a default that fits into
            memory.
        revision: branch, tag or commit on the hub.
        allow_pickled_weights: whether to read pickled weights, with
            ``torch.load(weights_only=True)``, if the model has no safetensors. The published models
            have only pickled weights.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ParameterError: a setting is out of its range.
    """

    SETTINGS = Encoder.SETTINGS

    _ENCODER: ClassVar[type[Encoder]]
    _MODEL: ClassVar[str]

    def __init__(
        self,
        model: str | PathLike[str] | None = None,
        *,
        device: str = "auto",
        dtype: str = "float32",
        max_tokens: int | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
        allow_pickled_weights: bool = False,
    ) -> None:
        super().__init__()
        require_packages(type(self).__name__)
        name = self._MODEL if model is None else model
        self.encoder = self._ENCODER(
            fspath(name) if isinstance(name, PathLike) else name,
            device=device,
            dtype=dtype,
            max_tokens=max_tokens,
            batch_tokens=batch_tokens,
            revision=revision,
            allow_pickled_weights=allow_pickled_weights,
        )
        for name in self.SETTINGS:
            setattr(self, name, getattr(self.encoder, name))

    def scores(self, query: IntArray, texts: list[str], queries: list[str]) -> FloatArray:
        """Return the inner product of each candidate and its query; see `Scorer.scores`."""
        # sorted, so that batches and the last digits do not depend on the order of rows
        code, distinct = pd.factorize(np.array([*queries, *texts], dtype=object), sort=True)
        vectors = self.encoder.encode(list(distinct))
        of_query, of_text = code[: len(queries)], code[len(queries) :]
        return self.encoder.inner_products(vectors, of_query[query], of_text)


class ContrieverScorer(NeuralScorer):
    """R -> R: scores of a dense encoder, the mean of the last layer over a text's tokens.

    The default, ``facebook/contriever``, requires ``allow_pickled_weights=True``. See
    `NeuralScorer` for frames and settings.

    References:
        Izacard et al. 2022, "Unsupervised Dense Information Retrieval with Contrastive Learning".
    """

    identity_name = "fairtk.ContrieverScorer"
    output_version = 1
    _ENCODER = MeanEncoder
    _MODEL = "facebook/contriever"


class SpladeScorer(NeuralScorer):
    """R -> R: scores of a sparse encoder, the maximum of log(1 + relu(score)) over a text's tokens.

    The default, ``naver/splade_v2_max``, requires ``allow_pickled_weights=True``. See
    `NeuralScorer` for frames and settings.

    References:
        Formal et al. 2021, "SPLADE v2", equation 6.
    """

    identity_name = "fairtk.SpladeScorer"
    output_version = 1
    _ENCODER = SpladeEncoder
    _MODEL = "naver/splade_v2_max"
