"""Starts a pipeline with the candidates that a dataset gives to each query."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DataWarning, DuplicateError, InputError, listed
from fairtk.frames import DOCNO, QID, QUERY, QUESTION, RANK, SCORE, TEXT, encode_ids
from fairtk.io import resolve_dataset
from fairtk.transformers.base import FairTransformer

_RUN = (QID, QUERY, QUESTION, DOCNO, SCORE, RANK)


class Candidates(FairTransformer):
    """Q -> R: the candidates of each query, with the text and the other fields of the documents.

    A LaMP query's candidates are the entries of its own profile: ``Candidates("lamp/4/dev") >>
    BM25Scorer()``. Any other dataset of ir_datasets that has scoreddocs works as well.

    Input columns: ``qid``. A ``query`` or ``question`` that the topics have is kept; otherwise it
    is the dataset's. Other columns of the topics are kept too, unless a field of the documents
    has the same name.

    Output columns: ``qid``, ``query``, ``question`` (where the dataset has one), ``docno``,
    ``score`` (LaMP: 0 for all), ``rank`` (by score, then the dataset's order), ``text`` (what
    retrieval reads) and the documents' other fields (what prompts read).

    The frame of all candidates is made on first use and kept: memory is that of the texts of all
    queries' candidates. A qid that the dataset lacks, or a query without candidates, gets no rows
    and a `DataWarning` that names it.

    Args:
        dataset: an id (``"lamp/4/dev"``), an ``ir_datasets.Dataset`` (as
            ``fairtk.datasets.lamp.from_folder`` returns), or a PyTerrier dataset made of one.

    Raises:
        NotFoundError: no dataset has the id.
        InputError: the dataset has no docs, queries or scoreddocs; on use: it gives a candidate
            that is not among its docs.
        DuplicateError: on use: a qid occurs twice in the topics.
    """

    SETTINGS = ("dataset",)

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self._source = resolve_dataset(dataset, "Candidates")
        for part in ("docs", "queries", "scoreddocs"):
            if not self._source.has(part):
                raise InputError(
                    f"Candidates: {dataset!r} has no {part}; it takes a dataset with docs, queries "
                    "and scoreddocs (the candidates of each query)"
                )
        named = hasattr(self._source, "dataset_id")
        # without an id, only the very same object is the same dataset
        self.dataset: str = self._source.dataset_id() if named else f"<{id(self._source):#x}>"
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
        codes, distinct = encode_ids(inp[QID], QID, "Candidates")
        qids = distinct[codes].tolist()
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
        if len(set(qids)) < len(qids):
            twice = [q for q, n in pd.Series(qids, dtype=object).value_counts().items() if n > 1]
            raise DuplicateError(
                f"Candidates takes topics, one row per query; {listed(twice)} occurs more than once"
            )
        without = [q for q in qids if q not in pool.spans]
        if without:
            unknown = [q for q in without if q not in pool.queries.index]
            empty = [q for q in without if q in pool.queries.index]
            texts = [f"{self.dataset} does not have qids {listed(unknown)}"] if unknown else []
            texts += [f"it has no candidates for qids {listed(empty)}"] if empty else []
            warnings.warn(
                f"Candidates: {'; '.join(texts)}; {len(without)} of {len(qids)} topics get no "
                f"documents (the dataset's qids look like {next(iter(pool.spans), None)!r})",
                DataWarning,
                stacklevel=4,
            )


@dataclass(frozen=True)
class _Pool:
    """All candidates of a dataset."""

    docs: pd.DataFrame  # ``docno``, ``score``, ``rank`` and fields, query by query
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
        # stable: equal scores stay in the dataset's order
        order = np.lexsort((np.arange(len(frame)), -frame[SCORE].to_numpy(), code))
        frame, code = frame.iloc[order].reset_index(drop=True), code[order]
        count = np.bincount(code, minlength=len(qids))
        start = np.cumsum(count) - count
        docs = frame[[DOCNO, SCORE]].astype({SCORE: np.float64})
        docs[RANK] = np.arange(len(frame)) - start[code]
        texts = _texts(source, docs[DOCNO].tolist(), fields)
        rows = pd.Index(texts[DOCNO]).get_indexer(pd.Index(docs[DOCNO]))
        if (rows < 0).any():
            lost = docs[DOCNO].to_numpy()[rows < 0]
            raise InputError(f"Candidates: these candidates are not among the docs: {listed(lost)}")
        if not np.array_equal(rows, np.arange(len(texts))):  # LaMP's are in order: no copy
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
        """Return, for each output row, the number of the topic and the row of `docs`."""
        span = [self.spans.get(q, (0, 0)) for q in qids]
        start, count = np.array(span, dtype=np.int64).reshape(-1, 2).T
        topic = np.repeat(np.arange(len(qids)), count)
        before = np.cumsum(count) - count
        return topic, np.arange(len(topic)) + np.repeat(start - before, count)


def _fields(source: Any) -> list[str]:
    own = [f for f in source.docs_cls()._fields if f != "doc_id" and f not in _RUN]
    return [TEXT, *(f for f in own if f != TEXT)]


def _texts(source: Any, docnos: list[str], fields: list[str]) -> pd.DataFrame:
    docs = list(source.docs_store().get_many_iter(list(dict.fromkeys(docnos))))
    own_text = TEXT in source.docs_cls()._fields
    texts = pd.DataFrame({DOCNO: [d.doc_id for d in docs]})
    # object columns share the strings; pandas' own string type would copy them at every selection
    values = [d.text if own_text else d.default_text() for d in docs]
    texts[TEXT] = pd.Series(values, dtype=object)
    for field in fields[1:]:
        texts[field] = pd.Series([getattr(d, field) for d in docs], dtype=object)
    return texts


def _query_fields(source: Any) -> list[str]:
    fields = source.queries_cls()._fields
    return [QUERY, QUESTION] if QUESTION in fields else [QUERY]


def _query_value(query: Any, name: str) -> str:
    return str(getattr(query, name) if name in query._fields else query.default_text())
