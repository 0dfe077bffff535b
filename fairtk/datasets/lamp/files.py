"""Reads and checks LaMP's questions with their profiles.

The file is read once to check it and to note where each query lies; documents are then read from
the file when they are asked for. Memory is about 200 bytes per profile entry plus the questions,
whatever the size of the profiles' texts.
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairtk.datasets.json_stream import Element, iterate_array
from fairtk.datasets.lamp.outputs import OutputsFile
from fairtk.datasets.lamp.reading import ADVICE, LeftOut, OnBad, check_on_bad, mapping
from fairtk.datasets.lamp.records import check_task, retrieval_query, text_of, to_doc
from fairtk.datasets.parts import ReadOnce
from fairtk.errors import FormatError
from fairtk.files import described


class Question(NamedTuple):
    """What is kept of a query: its texts, the docnos of its profile, and where it lies."""

    qid: str  # LaMP's id
    query: str  # the retrieval query
    question: str  # the raw input
    docnos: tuple[str, ...]  # ``qid/pid`` of each profile entry, in file order
    start: int  # first byte of the entry in the file
    end: int  # byte behind its last


class QuestionsFile:
    """A file of questions, read on first use; `path` may download it.

    With ``on_bad="skip"`` entries that are malformed are left out, of a repeated id all but the
    first, and queries without a gold output among `outputs`; a warning counts and names them.
    """

    def __init__(
        self,
        path: Callable[[], Path],
        task: int,
        use_date: bool = False,
        on_bad: OnBad = "error",
        outputs: OutputsFile | None = None,
    ) -> None:
        self.task = check_task(task)
        self.use_date = use_date
        self.on_bad = check_on_bad(on_bad)
        self.path = path
        self._outputs = outputs
        self._questions = ReadOnce(path, self._read)
        self._left_out = LeftOut()

    def questions(self) -> Mapping[str, Question]:
        """Return all queries by qid, in file order; a malformed entry is a `FormatError`."""
        return self._questions()  # places of entries hold for one state of the file

    def docs_count(self) -> int:
        """Return the number of documents of all queries."""
        return sum(len(question.docnos) for question in self.questions().values())

    def left_out_ids(self) -> set[str]:
        """Return the qids and docnos that ``on_bad="skip"`` left out."""
        self.questions()
        return self._left_out.ids

    def docs(self, qids: Iterable[str] | None = None) -> Iterator[Any]:
        """Yield the documents of queries in the file (default: all), query by query."""
        questions = self.questions()
        with open(self.path(), "rb") as stream:
            for qid in questions if qids is None else qids:
                question = questions[qid]
                stream.seek(question.start)
                entry = json.loads(stream.read(question.end - question.start))
                yield from self._profile(qid, entry["profile"], LeftOut())

    def numbered_docs(self, rows: range | None = None) -> Iterator[Any]:
        """Yield the documents with some numbers, increasing and counted from 0 (default: all)."""
        questions = self.questions()
        rows = range(self.docs_count()) if rows is None else rows
        if not rows:
            return iter(())
        first = [0, *itertools.accumulate(len(q.docnos) for q in questions.values())]
        skipped = bisect_right(first, rows[0]) - 1
        docs = self.docs(itertools.islice(questions, skipped, None))
        offset = first[skipped]
        return itertools.islice(docs, rows[0] - offset, rows[-1] - offset + 1, rows.step)

    def _read(self, path: Path) -> dict[str, Question]:
        self._left_out = LeftOut()
        golds = None
        if self.on_bad == "skip" and self._outputs is not None:
            golds = self._outputs.golds()
        found: dict[str, Question] = {}
        for element in iterate_array(path):
            qid = ""
            try:
                entry = mapping(element.value, "the entry")
                qid = text_of(entry, "id", "the entry")
                if qid in found:
                    raise FormatError(f"the id {qid!r} occurs twice")
                question = self._question(qid, entry, element)
                if golds is not None and qid not in golds:
                    raise FormatError(f"query {qid!r} has no gold output")
            except FormatError as error:
                place = f"entry {element.number} (LaMP-{self.task} questions): {error}"
                if self.on_bad == "error":
                    raise FormatError(place + ADVICE, path, element.line) from None
                self._left_out.add("queries", place, "" if qid in found else qid)
                continue
            found[question.qid] = question
        if not found:
            raise FormatError("the file has no questions", path)
        self._left_out.warn(f"LaMP-{self.task} questions", path)
        return found

    def _question(self, qid: str, entry: Mapping[str, Any], element: Element) -> Question:
        if "/" in qid:
            raise FormatError(f"the id {qid!r} has a '/', which docnos (qid/pid) cannot tell apart")
        question = text_of(entry, "input", f"query {qid!r}")
        profile = entry.get("profile")
        if not isinstance(profile, list):
            raise FormatError(
                f"query {qid!r} needs the key 'profile' with a list; found {described(profile)}"
            )
        try:
            query = retrieval_query(self.task, question)
        except FormatError as error:
            raise FormatError(f"query {qid!r}: {error}") from None
        docnos = tuple(doc.doc_id for doc in self._profile(qid, profile, self._left_out))
        return Question(qid, query, question, docnos, element.start, element.end)

    def _profile(self, qid: str, profile: list[Any], left_out: LeftOut) -> Iterator[Any]:
        """Yield the documents of a profile; what is wrong is an error, or left out."""
        seen: set[str] = set()
        for number, item in enumerate(profile):
            docno = ""
            try:
                entry = mapping(item, f"query {qid!r}, profile entry number {number}")
                docno = f"{qid}/{entry.get('id')}"
                doc = to_doc(self.task, qid, entry, self.use_date)
                if doc.doc_id in seen:
                    raise FormatError(
                        f"query {qid!r} has profile entries with the same id: {doc.doc_id!r} (as "
                        "qid/pid)"
                    )
            except FormatError as error:
                if self.on_bad == "error":
                    raise
                left_out.add("profile entries", str(error), "" if docno in seen else docno)
                continue
            seen.add(doc.doc_id)
            yield doc
