"""The parts that ir_datasets puts together to a LaMP dataset: docs, queries, scoreddocs."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from ir_datasets.formats import BaseDocs, BaseQueries, BaseScoredDocs, GenericScoredDoc
from ir_datasets.indices import Docstore

from fairtk.datasets.lamp.outputs import OutputsFile
from fairtk.datasets.lamp.questions import QuestionsFile
from fairtk.datasets.lamp.records import DOC_TYPES, LampQuery, LampQuestion


class LampDocs(BaseDocs):  # type: ignore[misc]
    """All profile entries of all queries, in file order."""

    def __init__(self, file: QuestionsFile) -> None:
        self._file = file

    def docs_iter(self) -> LampDocsIter:
        """Return an iterator over the documents that can be sliced."""
        return LampDocsIter(self._file)

    def docs_count(self) -> int:
        """Return the number of documents."""
        return sum(len(q.docnos) for q in self._file.questions().values())

    def docs_cls(self) -> type[Any]:
        """Return the task's document type."""
        return DOC_TYPES[self._file.task]

    def docs_store(self, field: str = "doc_id", options: Any = None) -> LampDocstore:
        """Return the documents by id; ``options`` is accepted for ir_datasets' sake."""
        return LampDocstore(self._file, field)

    def docs_path(self, force: bool = True) -> str:
        """Return the path of the questions file."""
        return str(self._file.path())

    def docs_namespace(self) -> str:
        """Return the namespace of the document ids."""
        return "lamp"

    def docs_lang(self) -> str:
        """Return the documents' language."""
        return "en"


class LampDocsIter:
    """An iterator over documents; ``it[10:20]`` and ``it[3]`` read only what they need.

    Args:
        file: where the documents are.
        rows: numbers of the documents to yield, in file order (default: all).
    """

    def __init__(self, file: QuestionsFile, rows: range | None = None) -> None:
        self._file = file
        self._rows = rows
        self._stream: Iterator[Any] | None = None

    def __iter__(self) -> LampDocsIter:
        return self

    def __next__(self) -> Any:
        if self._stream is None:
            self._stream = self._read()
        return next(self._stream)

    def __getitem__(self, key: int | slice) -> Any:
        rows = self._known_rows()
        if isinstance(key, slice):
            return LampDocsIter(self._file, rows[_whole(key, len(rows))])
        row = rows[key]
        return next(LampDocsIter(self._file, range(row, row + 1)))

    def _known_rows(self) -> range:
        if self._rows is None:
            self._rows = range(sum(len(q.docnos) for q in self._file.questions().values()))
        return self._rows

    def _read(self) -> Iterator[Any]:
        rows = self._known_rows()
        if not rows:
            return iter(())
        questions = self._file.questions()
        first = [0, *itertools.accumulate(len(q.docnos) for q in questions.values())]
        skipped = bisect_right(first, rows[0]) - 1
        docs = self._file.docs(itertools.islice(questions, skipped, None))
        offset = first[skipped]
        return itertools.islice(docs, rows[0] - offset, rows[-1] - offset + 1, rows.step)


class LampDocstore(Docstore):  # type: ignore[misc]
    """The documents by docno, read from the file's place for their query.

    Args:
        file: where the documents are.
        field: the field to look up by; only ``doc_id``.
    """

    def __init__(self, file: QuestionsFile, field: str = "doc_id") -> None:
        super().__init__(DOC_TYPES[file.task], field)
        self._file = file

    def get_many_iter(self, doc_ids: Iterable[str]) -> Iterator[Any]:
        """Yield the documents that exist, query by query."""
        wanted = set(doc_ids)
        questions = self._file.questions()
        qids = dict.fromkeys(docno.partition("/")[0] for docno in doc_ids)
        for doc in self._file.docs(qid for qid in qids if qid in questions):
            if doc.doc_id in wanted:
                yield doc

    def count(self) -> int:
        """Return the number of documents."""
        return sum(len(q.docnos) for q in self._file.questions().values())

    def __iter__(self) -> LampDocsIter:
        return LampDocsIter(self._file)


class LampQueries(BaseQueries):  # type: ignore[misc]
    """The questions, with gold answers where there are outputs."""

    def __init__(self, file: QuestionsFile, outputs: OutputsFile | None) -> None:
        self._file = file
        self._outputs = outputs

    def queries_iter(self) -> Iterator[LampQuery | LampQuestion]:
        """Yield the queries in file order."""
        questions = self._file.questions()
        if self._outputs is None:
            for q in questions.values():
                yield LampQuestion(q.qid, q.query, q.question)
            return
        golds = self._outputs.for_questions(questions)
        for q in questions.values():
            yield LampQuery(q.qid, q.query, q.question, golds[q.qid])

    def queries_count(self) -> int:
        """Return the number of queries."""
        return len(self._file.questions())

    def queries_cls(self) -> type[Any]:
        """Return `LampQuery`, or `LampQuestion` where there are no gold answers."""
        return LampQuestion if self._outputs is None else LampQuery

    def queries_path(self) -> str:
        """Return the path of the questions file."""
        return str(self._file.path())

    def queries_namespace(self) -> str:
        """Return the namespace of the query ids."""
        return "lamp"

    def queries_lang(self) -> str:
        """Return the queries' language."""
        return "en"


class LampScoredDocs(BaseScoredDocs):  # type: ignore[misc]
    """Each query's own profile as its candidates, all with score 0."""

    def __init__(self, file: QuestionsFile) -> None:
        self._file = file

    def scoreddocs_iter(self) -> Iterator[GenericScoredDoc]:
        """Yield the candidates, query by query, in file order."""
        for qid, question in self._file.questions().items():
            for docno in question.docnos:
                yield GenericScoredDoc(qid, docno, 0.0)

    def scoreddocs_count(self) -> int:
        """Return the number of candidates of all queries."""
        return sum(len(q.docnos) for q in self._file.questions().values())

    def scoreddocs_path(self) -> str:
        """Return the path of the questions file."""
        return str(self._file.path())


def _whole(key: slice, count: int) -> slice:
    """Turn ir_datasets' fractional slices (``it[:1/3]``) into whole numbers."""
    start, stop = (int(v * count) if isinstance(v, float) else v for v in (key.start, key.stop))
    if key.step is not None and key.step < 1:
        raise ValueError(f"documents are read forwards: the step must be positive, not {key.step}")
    return slice(start, stop, key.step)
