"""The parts that ir_datasets puts together to a LaMP dataset: docs, queries, scoreddocs, qrels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ir_datasets.formats import BaseScoredDocs, GenericScoredDoc, TrecQrel
from ir_datasets.indices import Docstore

from fairtk.datasets.lamp.outputs import OutputsFile
from fairtk.datasets.lamp.questions import QuestionsFile
from fairtk.datasets.lamp.records import DOC_TYPES, LampQuery, LampQuestion
from fairtk.datasets.parts import DocsIter, FileDocs, FileQrels, FileQueries, ReadOnce
from fairtk.files import Rows, read_table
from fairtk.frames.columns import DOCNO, LABEL, QID


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


LABELS = {
    1: "the generator's answer is better with this document than without any",
    0: "the generator's answer is not better with this document than without any",
}
"""What the labels mean."""


class LampQrels(FileQrels):
    """Published utility labels of the profile entries, read on first use.

    `N_relevance_mapping.tsv` has the columns ``qid``, ``pid`` and ``relevance_label``; ids are
    strings (with leading zeros), and profile ids stand without their query, so that the docno is
    made here. Kim & Diaz 2024 (Towards Fair RAG), appendix B.
    """

    def __init__(self, path: Callable[[], Path], questions: QuestionsFile) -> None:
        super().__init__(path, LABELS)
        self._questions = questions
        self._labels = ReadOnce(path, self._read)

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield the labels in file order; one of a document that the questions lack is an error."""
        return iter(self._labels())

    def qrels_count(self) -> int:
        """Return the number of labels."""
        return len(self._labels())

    def _read(self, path: Path) -> list[TrecQrel]:
        rows = read_table(path)
        rows.require([QID, DOCNO, LABEL], "a relevance mapping")
        rows.as_ids(QID)
        rows.as_ids(DOCNO)
        rows.as_integers(LABEL)
        rows.unique([QID, DOCNO], "a profile entry is labeled twice")
        qids, pids = rows.frame[QID].tolist(), rows.frame[DOCNO].tolist()
        docnos = [f"{qid}/{pid}" for qid, pid in zip(qids, pids, strict=True)]
        kept = self._known(rows, qids, docnos)
        labels = rows.frame[LABEL].tolist()
        return [TrecQrel(qids[i], docnos[i], labels[i], "0") for i in np.flatnonzero(kept)]

    def _known(self, rows: Rows, qids: list[str], docnos: list[str]) -> Any:
        """Return which labels are of entries that are there; others were left out, or an error."""
        questions = self._questions.questions()
        known = {docno for question in questions.values() for docno in question.docnos}
        found = np.array([docno in known for docno in docnos], dtype=bool)
        left_out = self._questions.left_out_ids()
        foreign = [
            not there and docno not in left_out and qid not in left_out
            for there, docno, qid in zip(found, docnos, qids, strict=True)
        ]
        if any(foreign):
            row = foreign.index(True)
            rows.fail(
                row,
                f"qid {qids[row]!r}, docno {docnos[row]!r} is labeled, and not among the questions "
                f"in {self._questions.path()} ({sum(foreign)} such labels): the two files are of "
                "different splits or tasks",
            )
        return found
