"""Scorers of each query's own candidates: BM25, a dense encoder, a learned sparse encoder."""

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
    queries_of,
    texts_of,
)
from fairtk.frames.schema import encode_ids
from fairtk.llm.encoders import Encoder, MeanEncoder, SpladeEncoder
from fairtk.llm.loading import require_packages
from fairtk.transformers.base import FairTransformer

Tokenizer = Callable[[str], Iterable[str]]


def okapi(
    words: Any,
    asked: Any,
    query: npt.NDArray[Any],
    k1: float,
    b: float,
    epsilon: float,
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


class Scorer(FairTransformer, ABC):
    """R -> R: scores each query's candidates by their texts, inside their own set.

    A subclass defines `scores`. Input columns: ``qid``, ``query``, ``docno``, ``text``; scores and
    ranks are replaced, other columns kept. Output rows are ordered by query (first appearance) and
    rank; ties are broken by docno, descending, as in all of fairtk. A sampled run (column
    ``sample``) is refused: score first, then sample.
    """

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the candidates with new scores and ranks.

        Args:
            inp: a run (R) with text.

        Raises:
            ColumnError: a column is missing, or the run is sampled.
            InputError: a text or query is missing (names qid and docno), or a qid has two
                different queries.
            DuplicateError: a document occurs twice for a query.
        """
        self.check_inputs(inp, [QID, QUERY, DOCNO, TEXT])
        self.refuse_samples(inp)
        where = type(self).__name__
        query, qids = encode_ids(inp[QID], QID, where)
        texts, queries = texts_of(inp, where), queries_of(inp, query, len(qids), where)
        score = self.scores(query, texts, queries) if len(inp) else np.zeros(0)
        scored = inp.assign(**{SCORE: score})
        run = Run(scored.drop(columns=RANK, errors="ignore"), where)
        out = scored.iloc[run.order].reset_index(drop=True)
        out[RANK] = run.position
        return out

    @abstractmethod
    def scores(self, query: IntArray, texts: list[str], queries: list[str]) -> FloatArray:
        """Return the score of each candidate.

        Args:
            query: place of each candidate's query among `queries`; shape (n,), n at least 1.
            texts: the candidates' texts.
            queries: the queries.
        """


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
            checks.number(name, value, "BM25Scorer", rule="be at least 0")
        checks.number("b", b, "BM25Scorer", 0, 1, rule="be between 0 and 1")
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
            asked = [list(tokenize(text)) for text in queries[first:last]]
            # words of queries come first and sorted: their order never depends on other queries
            vocabulary: defaultdict[str, int] = defaultdict()
            vocabulary.default_factory = vocabulary.__len__
            for word in sorted({word for own in asked for word in own}):
                vocabulary[word]  # noqa: B018 (looking a word up numbers it)
            of_queries = _counts(asked, vocabulary)
            words = _counts((tokenize(texts[i]) for i in rows.tolist()), vocabulary)
            settings = self.k1, self.b, self.epsilon
            score[rows] = okapi(words, of_queries, query[rows] - first, *settings)
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


class NeuralScorer(Scorer):
    """R -> R: scores by the inner product of the vectors of query and text.

    The frames are `Scorer`'s. All distinct texts of a frame, queries among them, are encoded once,
    in batches of similar length; equal texts have equal scores. The model is loaded on first use,
    from a local folder, the hub's cache or the hub. It needs the extra ``t5``. Memory: the vectors
    of a frame's distinct texts.

    Args:
        model: a hub name, or a local folder with config.json, weights and tokenizer.json.
        device: ``"auto"`` (CUDA if there is one, else CPU) or a torch device.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"``, or ``"auto"`` (on CUDA a half
            precision, which makes ties and near ties fall differently; else float32).
        max_tokens: the most tokens of a text, special ones included; what is behind is not seen.
            None for what the model takes (512 for BERT).
        batch_tokens: the most tokens of a batch; None for what fits into memory.
        revision: branch, tag or commit on the hub.
        allow_pickled_weights: whether weights are read that are there as pickles only, with
            ``torch.load(weights_only=True)``: as the published models have them. Safetensors are
            taken where there are any.

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
        self.encoder = self._ENCODER(
            self._MODEL if model is None else fspath(model),
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
        # sorted: batches, and with them the last digits, do not depend on the order of rows
        code, distinct = pd.factorize(np.array([*queries, *texts], dtype=object), sort=True)
        vectors = self.encoder.encode(list(distinct))
        of_query, of_text = code[: len(queries)], code[len(queries) :]
        return self.encoder.inner_products(vectors, of_query[query], of_text)


class ContrieverScorer(NeuralScorer):
    """Scores by a dense encoder: mean of the last layer over a text's tokens, inner product.

    Izacard et al. 2022, "Unsupervised Dense Information Retrieval with Contrastive Learning". The
    default, ``facebook/contriever``, has pickled weights only: ``allow_pickled_weights=True``. See
    `NeuralScorer` for frames and settings.
    """

    identity_name = "fairtk.ContrieverScorer"
    output_version = 1
    _ENCODER = MeanEncoder
    _MODEL = "facebook/contriever"


class SpladeScorer(NeuralScorer):
    """Scores by a learned sparse encoder: largest log(1 + relu(score)) over a text's tokens.

    Formal et al. 2021, "SPLADE v2" (equation 6). The default, ``naver/splade_v2_max``, has pickled
    weights only: ``allow_pickled_weights=True``. See `NeuralScorer` for frames and settings.
    """

    identity_name = "fairtk.SpladeScorer"
    output_version = 1
    _ENCODER = SpladeEncoder
    _MODEL = "naver/splade_v2_max"
