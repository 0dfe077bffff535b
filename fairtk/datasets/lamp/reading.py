"""Reads and checks LaMP's two files: questions with profiles, and gold outputs.

The questions file is read once to check it and to note where each query lies; documents are then
read from the file when they are asked for. Memory is about 200 bytes per profile entry plus the
questions, whatever the size of the profiles' texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairtk.datasets.json_stream import Element, iterate_array
from fairtk.datasets.lamp.records import check_task, retrieval_query, text_of, to_doc
from fairtk.errors import FormatError, listed


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


def file_identity(path: Path) -> tuple[Path, int, int]:
    """Return what changes when a file does, or when another one takes its place."""
    state = path.stat()
    return path, state.st_mtime_ns, state.st_size


class QuestionsFile:
    """A file of questions, read on first use.

    Args:
        path: called for the file's path when it is first needed (it may download the file).
        task: 1 to 7.
        use_date: whether documents' ``text`` ends in the date.
    """

    def __init__(self, path: Callable[[], Path], task: int, use_date: bool = False) -> None:
        self.task = check_task(task)
        self.use_date = use_date
        self._path = path
        self._questions: dict[str, Question] | None = None
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
            self._questions = self._read()  # places of entries hold for one state of the file
            self._read_from = identity
        return self._questions

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
                for item in entry["profile"]:
                    yield to_doc(self.task, qid, item, self.use_date)

    def _read(self) -> dict[str, Question]:
        path = self.path()
        found: dict[str, Question] = {}
        for element in iterate_array(path):
            try:
                question = self._question(element)
                if question.qid in found:
                    raise FormatError(f"the id {question.qid!r} occurs twice")
            except FormatError as error:
                raise FormatError(
                    f"entry {element.number} (LaMP-{self.task} questions): {error}",
                    path,
                    element.line,
                ) from None
            found[question.qid] = question
        if not found:
            raise FormatError("the file has no questions", path)
        return found

    def _question(self, element: Element) -> Question:
        entry = _mapping(element.value, "the entry")
        qid = text_of(entry, "id", "the entry")
        if "/" in qid:
            raise FormatError(f"the id {qid!r} has a '/', which docnos (qid/pid) cannot tell apart")
        question = text_of(entry, "input", f"query {qid!r}")
        profile = entry.get("profile")
        if not isinstance(profile, list):
            raise FormatError(
                f"query {qid!r} needs the key 'profile' with a list; found {_kind(profile)}"
            )
        docnos: list[str] = []
        for number, item in enumerate(profile):
            raw = _mapping(item, f"query {qid!r}, profile entry number {number}")
            docnos.append(to_doc(self.task, qid, raw, self.use_date).doc_id)
        if len(set(docnos)) < len(docnos):
            twice = sorted({d for d in docnos if docnos.count(d) > 1})
            raise FormatError(
                f"query {qid!r} has profile entries with the same id: {listed(twice)} (as qid/pid)"
            )
        try:
            query = retrieval_query(self.task, question)
        except FormatError as error:
            raise FormatError(f"query {qid!r}: {error}") from None
        return Question(qid, query, question, tuple(docnos), element.start, element.end)


class OutputsFile:
    """A file of gold outputs, read on first use.

    Args:
        path: called for the file's path when it is first needed.
        task: 1 to 7.
    """

    def __init__(self, path: Callable[[], Path], task: int) -> None:
        self.task = check_task(task)
        self._path = path
        self._golds: dict[str, str] | None = None
        self._read_from: tuple[Path, int, int] | None = None

    def golds(self) -> Mapping[str, str]:
        """Return the gold answer of each qid.

        Raises:
            FormatError: the file is malformed, or is of another task; names file and entry.
        """
        identity = file_identity(self._path())
        if self._golds is None or identity != self._read_from:
            self._golds = self._read()
            self._read_from = identity
        return self._golds

    def for_questions(self, questions: Mapping[str, Question]) -> Mapping[str, str]:
        """Return the gold answers; a question without one is a `FormatError` naming the ids."""
        golds = self.golds()
        missing = [qid for qid in questions if qid not in golds]
        if missing:
            raise FormatError(
                f"no gold output for {len(missing)} of {len(questions)} questions "
                f"({listed(missing)}); complete the file, or load the questions alone with "
                "from_folder(..., golds=False)",
                self._path(),
            )
        return golds

    def _read(self) -> dict[str, str]:
        path = self._path()
        content = load_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("golds"), list):
            raise FormatError(
                "expected an object with the keys 'task' and 'golds' (a list); found "
                f"{_kind(content)}",
                path,
            )
        self._check_task(content.get("task"), path)
        found: dict[str, str] = {}
        for index, item in enumerate(content["golds"]):
            try:
                gold = _mapping(item, "the entry")
                qid = text_of(gold, "id", "the entry")
                answer = text_of(gold, "output", f"query {qid!r}")
                if qid in found:
                    raise FormatError(f"the id {qid!r} occurs twice")
            except FormatError as error:
                raise FormatError(f"golds entry {index}: {error}", path) from None
            found[qid] = answer
        return found

    def _check_task(self, stated: object, path: Path) -> None:
        # spelt "LaMP_4"; a suffix such as "LaMP_2M" is left alone
        digits = "".join(c for c in str(stated or "") if c.isdigit())
        if digits and digits != str(self.task):
            raise FormatError(
                f"the file says that it is of task {stated!r}, but task {self.task} was asked "
                "for: give the right task, or the right folder",
                path,
            )


def load_json(path: Path) -> Any:
    """Return the content of a JSON file; anything else is a `FormatError` with the line."""
    try:
        with open(path, encoding="utf-8-sig") as stream:
            return json.load(stream)
    except json.JSONDecodeError as error:
        raise FormatError(f"not valid JSON: {error.msg}", path, error.lineno) from None
    except UnicodeDecodeError as error:
        raise FormatError(f"the file is not UTF-8 text ({error.reason})", path) from None


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{what} must be an object; found {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with the keys {sorted(value)[:8]}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
