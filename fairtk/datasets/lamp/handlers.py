"""The parts that ir_datasets puts together to a LaMP dataset: docs, queries, scoreddocs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ir_datasets.formats import BaseScoredDocs, GenericScoredDoc
from ir_datasets.indices import Docstore

from fairtk.datasets.lamp.outputs import OutputsFile
from fairtk.datasets.lamp.questions import QuestionsFile
from fairtk.datasets.lamp.records import DOC_TYPES, LampQuery, LampQuestion
from fairtk.datasets.parts import DocsIter, FileDocs, FileQueries


class LampDocs(FileDocs):
    """All profile entries of all queries, in file order."""

    def __init__(self, file: QuestionsFile) -> None:
        super().__init__(file.path, "lamp", DOC_TYPES[file.task])
        self._file = file

    def docs_iter(self) -> DocsIter:
        """Return an iterator over the documents that can be sliced."""
        return iter(self.docs_store())

    def docs_count(self) -> int:
        """Return the number of documents."""
        return self._file.docs_count()

    def docs_store(self, field: str = "doc_id", options: Any = None) -> LampDocstore:
        """Return the documents by id; ``options`` is accepted for ir_datasets' sake."""
        return LampDocstore(self._file, field)


class LampDocstore(Docstore):  # type: ignore[misc]
    """The documents by docno, read from the file's place for their query."""

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
        return self._file.docs_count()

    def __iter__(self) -> DocsIter:
        return DocsIter(self._file.numbered_docs, self._file.docs_count)


class LampQueries(FileQueries):
    """The questions, with gold answers where there are outputs."""

    def __init__(self, file: QuestionsFile, outputs: OutputsFile | None) -> None:
        super().__init__(file.path, "lamp", LampQuestion if outputs is None else LampQuery)
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
        return self._file.docs_count()

    def scoreddocs_path(self) -> str:
        """Return the path of the questions file."""
        return str(self._file.path())
