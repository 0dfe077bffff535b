"""First stages, Q -> R: the candidates of a dataset, and BM25 over a collection (PISA)."""

from __future__ import annotations

import itertools
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt

from fairtk import checks
from fairtk.errors import DataWarning, FairtkError, InputError, ParameterError, warn
from fairtk.frames import DOCNO, QID, QUERY, QUESTION, RANK, SCORE, TEXT, BoolArray, IntArray
from fairtk.frames.ids import SURROGATE, find_flaw
from fairtk.frames.runs import order_by
from fairtk.frames.schema import is_text
from fairtk.frames.texts import qids_of, words
from fairtk.interpreters import ENDED, Interpreter, cores
from fairtk.io import file_lock, resolve_dataset
from fairtk.plugins.streams import on_terminal
from fairtk.remarks import NO_CANDIDATES, UNKNOWN_QUERIES
from fairtk.stage_context import remark
from fairtk.transformers.base import FairTransformer
from fairtk.wording import format_list, short

_RUN = (QID, QUERY, QUESTION, DOCNO, SCORE, RANK)


class Candidates(FairTransformer):
    """Q -> R: the dataset's candidates for each query, with the fields of the documents.

    The candidates for a LaMP query are the entries of its profile: ``Candidates("lamp/4/dev") >>
    BM25Scorer()``. Any other dataset of ir_datasets with scoreddocs is also supported.

    Input columns: ``qid``. A missing ``query`` or ``question`` is added from the dataset. Other
    columns of the topics are kept, unless a field of the documents has the same name.

    Output columns: ``qid``, ``query``, ``question`` (if the dataset has one), ``docno``, ``score``
    (LaMP: always 0), ``rank`` (by score, then the dataset's order), ``text`` (for retrieval) and
    the documents' other fields (for prompts).

    The frame of all candidates is built on first use and stays in memory. A qid that is missing
    from the dataset, or a query without candidates, gets no rows and a remark.

    Args:
        dataset: an id (``"lamp/4/dev"``), an ``ir_datasets.Dataset`` (such as the result of
            ``fairtk.datasets.lamp.from_folder``), or the PyTerrier form of one.

    Raises:
        NotFoundError: unknown dataset.
        InputError: the dataset has no docs, queries or scoreddocs; on use: a candidate is missing
            from the docs.
        DuplicateError: on use: duplicate qid in the topics.
    """

    identity_name = "fairtk.Candidates"
    output_version = 1
    is_cheap = True
    SETTINGS = ("dataset",)

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self._source = resolve_dataset(dataset, "Candidates")
        for part in ("docs", "queries", "scoreddocs"):
            if not self._source.has(part):
                raise InputError(
                    f"Candidates requires a dataset with docs, queries and scoreddocs; {part} is "
                    f"missing in {dataset!r}"
                )
        has_id = hasattr(self._source, "dataset_id")
        # without an id, a dataset is equal only to itself
        self.dataset: str = self._source.dataset_id() if has_id else f"<{id(self._source):#x}>"
        self._pool: _Pool | None = None

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the candidates of the topics, query by query in the topics' order.

        Args:
            inp: topics (Q).
        """
        self.check_inputs(inp, [QID])
        fields = _fields(self._source)
        if not len(inp):
            pool = _Pool.empty(fields, _query_fields(self._source))
        else:
            if self._pool is None:
                self._pool = _Pool.read(self._source, fields)
            pool = self._pool
        qids = qids_of(inp, "Candidates")
        self._check(qids, pool)
        topic, row = pool.rows(qids)
        topics = inp.iloc[topic].reset_index(drop=True)
        docs = pool.docs.iloc[row].reset_index(drop=True)
        for name in (QUERY, QUESTION):
            if name not in topics.columns and name in pool.queries.columns:
                values = pool.queries[name].reindex(pd.Index(qids)).to_numpy()
                topics[name] = values[topic]
        others = [c for c in topics.columns if c not in docs.columns]
        out = pd.concat([topics[others], docs], axis=1)
        first = [c for c in (*_RUN, *fields) if c in out.columns]
        return out[[*first, *(c for c in out.columns if c not in first)]]

    def _check(self, qids: list[Any], pool: _Pool) -> None:
        is_missing = np.array([qid not in pool.spans for qid in qids], dtype=bool)
        is_known = np.array([qid in pool.queries.index for qid in qids], dtype=bool)
        detail = f"{self.dataset} has {format_list(pool.spans, 1)}"
        remark(UNKNOWN_QUERIES, "Candidates", is_missing & ~is_known, qids, detail, stacklevel=5)
        remark(NO_CANDIDATES, "Candidates", is_missing & is_known, qids, detail, stacklevel=5)


@dataclass(frozen=True)
class _Pool:
    docs: pd.DataFrame  # ``docno``, ``score``, ``rank`` and fields, grouped by query
    spans: dict[str, tuple[int, int]]  # first row and number of rows of qids with candidates
    queries: pd.DataFrame  # ``query`` and ``question`` by qid

    @classmethod
    def empty(cls, fields: list[str], query_fields: list[str]) -> _Pool:
        columns = {DOCNO: str, SCORE: np.float64, RANK: np.int64}
        docs = pd.DataFrame({n: pd.Series(dtype=t) for n, t in columns.items()})
        docs[fields] = pd.DataFrame(columns=fields, dtype=object)
        return cls(docs, {}, pd.DataFrame(columns=query_fields, dtype=object))

    @classmethod
    def read(cls, source: Any, fields: list[str]) -> _Pool:
        scored = [(s.query_id, s.doc_id, s.score) for s in source.scoreddocs_iter()]
        frame = pd.DataFrame(scored, columns=[QID, DOCNO, SCORE])
        code, qids = pd.factorize(frame[QID])
        # equal scores keep the dataset's order
        order = np.lexsort((np.arange(len(frame)), -frame[SCORE].to_numpy(), code))
        frame, code = frame.iloc[order].reset_index(drop=True), code[order]
        count = np.bincount(code, minlength=len(qids))
        start = np.cumsum(count) - count
        docs = frame[[DOCNO, SCORE]].astype({SCORE: np.float64})
        docs[RANK] = np.arange(len(frame)) - start[code]
        texts = _texts(source, docs[DOCNO].tolist(), fields)
        rows = pd.Index(texts[DOCNO]).get_indexer(pd.Index(docs[DOCNO]))
        if (rows < 0).any():
            missing = docs[DOCNO].to_numpy()[rows < 0]
            raise InputError(f"Candidates: missing documents {format_list(missing)}")
        if not np.array_equal(rows, np.arange(len(texts))):  # LaMP's are in order, without a copy
            texts = texts.iloc[rows].reset_index(drop=True)
        docs = pd.concat([docs, texts[fields]], axis=1)
        spans = {str(q): (int(s), int(n)) for q, s, n in zip(qids, start, count, strict=True)}
        names = _query_fields(source)
        queries = pd.DataFrame(
            [(q.query_id, *(_query_value(q, n) for n in names)) for q in source.queries_iter()],
            columns=[QID, *names],
        ).set_index(QID)
        return cls(docs, spans, queries)

    def rows(self, qids: list[Any]) -> tuple[Any, Any]:
        """Return the topic's index and the row of `docs` of each output row."""
        span = [self.spans.get(q, (0, 0)) for q in qids]
        start, count = np.array(span, dtype=np.int64).reshape(-1, 2).T
        topic = np.repeat(np.arange(len(qids)), count)
        before = np.cumsum(count) - count
        return topic, np.arange(len(topic)) + np.repeat(start - before, count)


def _fields(source: Any) -> list[str]:
    fields = [f for f in source.docs_cls()._fields if f != "doc_id" and f not in _RUN]
    return [TEXT, *(f for f in fields if f != TEXT)]


def _texts(source: Any, docnos: list[str], fields: list[str]) -> pd.DataFrame:
    docs = list(source.docs_store().get_many_iter(list(dict.fromkeys(docnos))))
    has_text = TEXT in source.docs_cls()._fields
    texts = pd.DataFrame({DOCNO: [d.doc_id for d in docs]})
    # object columns share the strings; pandas' string type would copy them at each selection
    values = [d.text if has_text else d.default_text() for d in docs]
    texts[TEXT] = pd.Series(values, dtype=object)
    for field in fields[1:]:
        texts[field] = pd.Series([getattr(d, field) for d in docs], dtype=object)
    return texts


def _query_fields(source: Any) -> list[str]:
    fields = source.queries_cls()._fields
    return [QUERY, QUESTION] if QUESTION in fields else [QUERY]


def _query_value(query: Any, name: str) -> str:
    return str(getattr(query, name) if name in query._fields else query.default_text())


Tokens = Callable[[str], list[str]]
_WORD = re.compile(r"\w+")


def index_tokens(retriever: Any) -> Tokens | None:
    """Return a function that returns a retriever's query tokens for a text, `None` if unknown.

    Supported are PISA, Terrier (stop words, without stemming), and retrievers with a method
    ``tokens(text)`` such as `fairtk.transformers.CollectionBM25`, alone or first in a pipeline.
    """
    if isinstance(retriever, pt.Compose):
        retriever = next(iter(retriever), None)
    method = getattr(retriever, "tokens", None)
    if callable(method):
        tokens: Tokens = method
        return tokens
    if type(retriever).__module__.partition(".")[0] == "pyterrier_pisa":
        return _pisa(retriever)
    properties = getattr(retriever, "properties", None)
    if isinstance(properties, Mapping) and "termpipelines" in properties:
        return _terrier(str(properties["termpipelines"]))
    return None


def _pisa(retriever: Any) -> Tokens | None:
    from pyterrier_pisa import PisaStopwords, tokenize

    index = getattr(retriever, "index", None)
    stemmer, stops = getattr(index, "stemmer", None), getattr(retriever, "stops", None)
    if stemmer is None:
        return None
    lists = {PisaStopwords.none: (), PisaStopwords.terrier: _stops("terrier")}
    words = lists.get(stops, _stops("lucene")) if isinstance(stops, PisaStopwords) else stops or ()
    # PISA drops all words with the stem of a stop word, such as "hers" and "going"
    dropped = frozenset(token for word in words for token in tokenize(word, stemmer))
    return lambda text: [t for t in tokenize(text.lower(), stemmer) if t not in dropped]


def _terrier(pipeline: str) -> Tokens | None:
    try:
        dropped = frozenset(_stops("terrier") if "Stopwords" in pipeline else ())
    except ImportError:  # the stop words are in pyterrier-pisa
        return None
    return lambda text: [t for t in _WORD.findall(text.lower()) if t not in dropped]


@lru_cache(maxsize=2)
def _stops(name: str) -> tuple[str, ...]:
    from pyterrier_pisa.stopwords import _STOPWORDS

    return tuple(_STOPWORDS[name])


def dropped_words(text: str, tokens: Tokens) -> list[str]:
    """Return the distinct words of a text without query tokens, in order."""
    parts = [part for word in words(text.lower()) for part in word.split("-")]
    return [part for part in dict.fromkeys(parts) if part and not tokens(part)]


_BATCH = 10_000  # documents
_ALL = (1 << 31) - 1  # one batch
_LINE = 100_000  # documents between two lines of progress without a terminal
_NOT_WORDS = re.compile(r"[^\w\s]+")
_INDEX = "index of the query"


class CollectionBM25(FairTransformer):
    """Q -> R: BM25 over all documents of a collection, with PISA.

    Ties are broken by docno, descending, as in trec_eval, because PISA's order of ties depends on
    the depth. The query is a bag of words: punctuation is ignored.

    Args:
        folder: the folder of the index. If it does not exist, the index is built on first use.
        documents: a function that returns all documents (mappings with ``docno`` and ``text``). A
            docno must not have spaces, which PISA does not support.
        num_results: documents per query.
        k1: saturation of term frequencies, at least 0.
        b: length normalization, 0 to 1.
        threads: threads for indexing and search, which do not affect results.

    Raises:
        ParameterError: a setting is out of its range.
        FairtkError: on use: pyterrier-pisa is not installed.
        InputError: on use: a document has no valid docno or text.

    Warns:
        DataWarning: on use: several documents have the same docno; the first one is indexed.
    """

    identity_name = "fairtk.CollectionBM25"
    output_version = 1
    SETTINGS: ClassVar[tuple[str, ...]] = ("folder", "num_results", "k1", "b")

    def __init__(
        self,
        folder: str | os.PathLike[str],
        documents: Callable[[], Iterable[Mapping[str, str]]],
        num_results: int = 1000,
        k1: float = 0.9,
        b: float = 0.4,
        threads: int = 1,
    ) -> None:
        super().__init__()
        self.folder = str(folder)
        if not callable(documents):
            raise ParameterError(
                "CollectionBM25: documents must be a function that returns them, got "
                f"{type(documents).__name__}; write lambda: documents"
            )
        self.documents = documents
        self.num_results = checks.integer("num_results", num_results, "CollectionBM25")
        self.threads = checks.integer("threads", threads, "CollectionBM25")
        self.k1 = checks.number("k1", k1, "CollectionBM25")
        self.b = checks.share("b", b, "CollectionBM25")
        self._search: Any = None
        self._tokens: Tokens | None = None

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return one ranking per query.

        Args:
            inp: queries (Q).

        Raises:
            ColumnError: a column is missing.
        """
        self.check_inputs(inp, [QID, QUERY])
        topics = inp.drop(columns=[c for c in (DOCNO, SCORE, RANK) if c in inp.columns])
        topics = topics.assign(**{QID: inp[QID].astype(str)})
        words = [_bag(str(text)) for text in inp[QUERY]]
        queries = pd.DataFrame({QID: topics[QID], QUERY: words, _INDEX: range(len(inp))})
        queries = queries[queries[QUERY] != ""]
        if queries.empty:
            results = pd.DataFrame({_INDEX: [], DOCNO: [], SCORE: []}).astype({_INDEX: int})
        else:
            results = self._opened().transform(queries)
        topic = results[_INDEX].to_numpy()
        score, docno = (
            results[SCORE].to_numpy(dtype=np.float64),
            results[DOCNO].to_numpy(dtype=object),
        )
        order = order_by((-score, topic), lambda rows: (rows, docno))
        topic = topic[order]
        out = topics.iloc[topic].reset_index(drop=True)
        out[DOCNO] = docno[order]
        out[SCORE] = score[order]
        out[RANK] = np.arange(len(topic)) - np.searchsorted(topic, topic)
        return out

    def tokens(self, text: str) -> list[str]:
        """Return the query tokens of a text: stems, without stop words."""
        if self._tokens is None:
            self._tokens = index_tokens(self._opened()) or str.split
        return self._tokens(_bag(text))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_search": None, "_tokens": None}  # a copy opens the index

    def prepare(self) -> None:
        """Open the index, and build it if it does not exist, before the first search.

        Raises:
            FairtkError: pyterrier-pisa is not installed.
            InputError: the collection is empty.
        """
        self._opened()

    def _opened(self) -> Any:
        if self._search is None:
            try:
                from pyterrier_pisa import PisaIndex
            except ImportError:
                raise FairtkError(
                    "CollectionBM25 requires the package 'pyterrier-pisa', which is not installed: "
                    "pip install pyterrier-pisa (Linux on x86-64), or use another PyTerrier "
                    "retriever, fairtk_papers.fair_qr.QrStudy(..., retriever=...)"
                ) from None
            # one folder per k1 and b, because PISA stores the weights with the index
            folder = Path(self.folder) / f"k1-{self.k1}-b-{self.b}"
            if not folder.exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
                with file_lock(folder.parent):  # another process may be building it
                    if not folder.exists():
                        self._build(folder)
            self._search = self._opened_in(PisaIndex, folder)
        return self._search

    def _opened_in(self, kind: Any, folder: Path) -> Any:
        index = kind(str(folder), text_field="text", threads=self.threads)
        return index.bm25(k1=self.k1, b=self.b, num_results=self.num_results)

    def _build(self, folder: Path) -> None:
        """Build the index in a temporary folder and rename it, so that it is always complete.

        An index for another k1 and b is reused, except for its weights.
        """
        part = folder.with_name(f".part.{folder.name}")
        shutil.rmtree(part, ignore_errors=True)  # left by a process that was killed
        # PISA writes its log to file descriptors, which all threads of a process share
        indexer = Interpreter(f"{__name__}:serve_index", stderr=subprocess.DEVNULL)
        try:
            indexer.ask((str(part), self.threads, _BATCH))
            if other := next(folder.parent.glob("k1-*-b-*"), None):
                weights = shutil.ignore_patterns("bm25.*")
                shutil.copytree(other, part, copy_function=_link_or_copy, ignore=weights)
            else:
                self._index(indexer)
            if problem := indexer.ask((self.k1, self.b)):
                raise FairtkError(f"CollectionBM25: PISA cannot write the index: {problem}")
            part.rename(folder)
        except ENDED as error:
            if indexer.process.poll() is None:  # an error of the documents
                raise
            raise FairtkError(
                "CollectionBM25: the process that writes the index has ended (exit code "
                f"{indexer.process.returncode}); is there enough memory and disk space?"
            ) from error
        finally:
            indexer.end()
            shutil.rmtree(part, ignore_errors=True)

    def _index(self, indexer: Interpreter) -> None:
        """Send the documents to the process that indexes them; the first of a docno counts."""
        from tqdm import tqdm

        seen, again = SeenNames(), list[str]()
        silent = not on_terminal(sys.stderr)
        documents = iter(tqdm(self.documents(), desc="indexing", unit=" docs", disable=silent))
        read = 0
        while batch := list(itertools.islice(documents, _BATCH)):
            rows = [checked_document(*pair) for pair in enumerate(batch, read + 1)]
            is_new = seen.add([row[DOCNO] for row in rows])
            indexer.ask([row for row, new in zip(rows, is_new, strict=True) if new])
            again += [rows[index][DOCNO] for index in np.flatnonzero(~is_new)]
            read += len(batch)
            if read % _LINE == 0 and silent:
                print(f"indexing: {read:,} documents read", file=sys.stderr)
        if not read:
            raise InputError("CollectionBM25: no documents")
        if read >= _LINE:
            print(f"indexing: {read:,} documents read; the index is written", file=sys.stderr)
        if again:
            warn(
                f"CollectionBM25: {len(again)} of {read} documents have the docno of an earlier "
                f"one ({format_list(dict.fromkeys(again), 3)}) and are left out",
                DataWarning,
                stacklevel=7,
            )


def checked_document(number: int, document: Any) -> dict[str, str]:
    """Return the docno and the text of a document; PISA loses or renames invalid ones.

    Args:
        number: the number of the document, from 1.
        document: the document.

    Raises:
        InputError: it has no valid docno or text.
    """
    where = f"CollectionBM25: document {number}"
    if not isinstance(document, Mapping):
        raise InputError(
            f"{where} must be a mapping with {DOCNO!r} and {TEXT!r}, got {short(document)}"
        )
    if missing := [name for name in (DOCNO, TEXT) if name not in document]:
        raise InputError(f"{where} has no {missing[0]!r}, got {format_list(document)}")
    docno, text = document[DOCNO], document[TEXT]
    flaw = find_flaw(str(docno)) or (
        "has spaces, which PISA does not support" if " " in str(docno) else ""
    )
    if not is_text(docno) or flaw:
        raise InputError(f"{where}: {DOCNO} {short(docno)} {flaw or 'must be text or an integer'}")
    if not isinstance(text, str) or SURROGATE.search(text):
        raise InputError(
            f"{where}: the text of {DOCNO} {docno!r} must be a valid string, got {short(text)}; "
            "drop the document, or use an empty string"
        )
    return {DOCNO: str(docno), TEXT: text}


def serve_index() -> Callable[[Any], str | None]:
    """Return a function that writes a PISA index, for a process of its own.

    The first call has the folder, the threads and the documents of a batch. Lists of documents
    follow, unless the folder has an index. The last call has k1 and b; it computes the weights, and
    returns the problem if there is one.
    """
    from pyterrier_pisa import PisaIndex

    batches: queue.Queue[list[dict[str, str]] | None] = queue.Queue(2)
    options: dict[str, Any] = {"text_field": "text"}
    problems: list[str] = []
    folder = ""

    def index() -> None:
        try:
            documents = itertools.chain.from_iterable(iter(batches.get, None))
            PisaIndex(folder, **options).index(documents)
        except Exception as error:
            problems.append(f"{type(error).__name__}: {error}")
            while batches.get() is not None:  # the sender must not wait
                pass

    writer = threading.Thread(target=index, daemon=True)

    def answer(call: Any) -> str | None:
        nonlocal folder
        if isinstance(call, list):
            if not writer.is_alive():
                writer.start()
            batches.put(call)
        elif len(call) == 3:
            folder, options["threads"], size = call
            # Small batches save memory. But with one core PISA has no worker thread, and waits
            # forever at the third batch.
            options["batch_size"] = size if cores() > 1 else _ALL
        else:
            if writer.is_alive():
                batches.put(None)
                writer.join()
            if not problems:
                try:  # the first search computes the weights
                    search = PisaIndex(folder, **options).bm25(k1=call[0], b=call[1])
                    search.transform(pd.DataFrame([["1", "a"]], columns=[QID, QUERY]))
                except Exception as error:
                    problems.append(f"{type(error).__name__}: {error}")
        return next(iter(problems), None)

    return answer


def _link_or_copy(source: str, target: str) -> None:
    """Create a hard link to a file, or copy it if links are not supported."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _bag(text: str) -> str:
    return _NOT_WORDS.sub(" ", text.lower()).strip()


class SeenNames:
    """A set of names in 8 bytes each: 64-bit hashes in sorted arrays that double in size.

    The probability of a collision among n names is n^2 / 2^65: a millionth for 6.5 million.
    """

    def __init__(self) -> None:
        self._parts: list[IntArray] = []

    def add(self, names: Sequence[str]) -> BoolArray:
        """Add names, and return whether each is new."""
        hashes = np.fromiter(map(hash, names), dtype=np.int64, count=len(names))
        distinct, first = np.unique(hashes, return_index=True)
        absent = np.ones(len(distinct), dtype=bool)
        for part in self._parts:
            positions = np.minimum(np.searchsorted(part, distinct), len(part) - 1)
            absent &= part[positions] != distinct
        new = np.zeros(len(names), dtype=bool)
        new[first[absent]] = True
        if absent.any():
            self._parts.append(distinct[absent])
        while len(self._parts) > 1 and len(self._parts[-2]) <= len(self._parts[-1]):
            last = np.concatenate([self._parts.pop(), self._parts.pop()])
            self._parts.append(np.sort(last))
        return new
