"""Reads and checks LaMP's questions with their profiles.

The file is read once to check it and to note where each query lies; documents are then read from
the file when they are asked for. Memory is about 200 bytes per profile entry plus the questions,
whatever the size of the profiles' texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairtk.datasets.json_stream import Element, iterate_array
from fairtk.datasets.lamp.outputs import OutputsFile
from fairtk.datasets.lamp.reading import (
    LeftOut,
    OnBad,
    check_on_bad,
    file_identity,
    kind_of,
    mapping,
)
from fairtk.datasets.lamp.records import check_task, retrieval_query, text_of, to_doc
from fairtk.errors import FormatError


class Question(NamedTuple):
    """What is kept of a query: its texts, the docnos of its profile, and where it lies.

    Attributes:
        qid: LaMP's id.
        query: the retrieval query.
        question: the raw input.
        docnos: ``qid/pid`` of each profile entry, in file order.
        start: first byte of the entry in the file.
        end: byte behind its last.
    """

    qid: str
    query: str
    question: str
    docnos: tuple[str, ...]
    start: int
    end: int


class QuestionsFile:
    """A file of questions, read on first use.

    Args:
        path: called for the file's path when it is first needed (it may download the file).
        task: 1 to 7.
        use_date: whether documents' ``text`` ends in the date.
        on_bad: ``"error"``, or ``"skip"``: entries that are malformed are left out, of a repeated
            id all but the first; a warning counts and names them.
        outputs: with ``on_bad="skip"``, queries without a gold output are left out, too.
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
        self._path = path
        self._outputs = outputs
        self._questions: dict[str, Question] | None = None
        self._left_out = LeftOut()
        self._read_from: tuple[Path, int, int] | None = None

    def path(self) -> Path:
        """Return the file's path; a download happens here if one is needed."""
        return self._path()

    def questions(self) -> Mapping[str, Question]:
        """Return all queries by qid, in file order.

        Raises:
            FormatError: an entry of the file is malformed; names the file and the entry.
        """
        identity = file_identity(self.path())
        if self._questions is None or identity != self._read_from:
            self._left_out = LeftOut()
            self._questions = self._read()  # places of entries hold for one state of the file
            self._read_from = identity
            self._left_out.warn(f"LaMP-{self.task} questions", self.path())
        return self._questions

    def left_out_ids(self) -> set[str]:
        """Return the qids and docnos that ``on_bad="skip"`` left out."""
        self.questions()
        return self._left_out.ids

    def docs(self, qids: Iterable[str] | None = None) -> Iterator[Any]:
        """Yield the documents of the given queries (default: all), query by query.

        Args:
            qids: queries that are in the file.
        """
        questions = self.questions()
        with open(self.path(), "rb") as stream:
            for qid in questions if qids is None else qids:
                question = questions[qid]
                stream.seek(question.start)
                entry = json.loads(stream.read(question.end - question.start))
                yield from self._profile(qid, entry["profile"], LeftOut())

    def _read(self) -> dict[str, Question]:
        path = self.path()
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
                    advice = '; on_bad="skip" leaves such entries out'
                    raise FormatError(place + advice, path, element.line) from None
                self._left_out.add("queries", place, "" if qid in found else qid)
                continue
            found[question.qid] = question
        if not found:
            raise FormatError("the file has no questions", path)
        return found

    def _question(self, qid: str, entry: Mapping[str, Any], element: Element) -> Question:
        if "/" in qid:
            raise FormatError(f"the id {qid!r} has a '/', which docnos (qid/pid) cannot tell apart")
        question = text_of(entry, "input", f"query {qid!r}")
        profile = entry.get("profile")
        if not isinstance(profile, list):
            raise FormatError(
                f"query {qid!r} needs the key 'profile' with a list; found {kind_of(profile)}"
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
