"""Reads and checks LaMP's two files: questions with profiles, and gold outputs.

The questions file is read once to check it and to note where each query lies; documents are then
read from the file when they are asked for. Memory is about 200 bytes per profile entry plus the
questions, whatever the size of the profiles' texts.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from fairtk.datasets.json_stream import Element, iterate_array
from fairtk.datasets.lamp.records import check_task, retrieval_query, text_of, to_doc
from fairtk.errors import DataWarning, FormatError, ParameterError, listed
from fairtk.files import read_json


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


OnBad = Literal["error", "skip"]
"""What becomes of malformed entries."""


def check_on_bad(value: Any) -> OnBad:
    """Return the setting; anything but its two values is a `ParameterError`."""
    if value not in get_args(OnBad):
        raise ParameterError(f"on_bad must be one of {list(get_args(OnBad))}; found {value!r}")
    return cast(OnBad, value)


class LeftOut:
    """What ``on_bad="skip"`` leaves out of a file.

    Attributes:
        ids: qids and docnos of what was left out, as far as they are known.
    """

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self._reasons: dict[str, list[str]] = {}

    def add(self, what: str, reason: str, name: str) -> None:
        """Note that one of ``what`` was left out; ``name`` is its id, or ``""``."""
        self._reasons.setdefault(what, []).append(reason)
        if name:
            self.ids.add(name)

    def warn(self, where: str, path: Path) -> None:
        """Warn once for a file, with counts and the first reasons, if anything was left out."""
        for what, reasons in self._reasons.items():
            warnings.warn(
                f"{path}: {where}: {len(reasons)} {what} left out: {listed(reasons, 3)}",
                DataWarning,
                stacklevel=2,
            )


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
                entry = _mapping(element.value, "the entry")
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
                f"query {qid!r} needs the key 'profile' with a list; found {_kind(profile)}"
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
                entry = _mapping(item, f"query {qid!r}, profile entry number {number}")
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


class OutputsFile:
    """A file of gold outputs, read on first use.

    Args:
        path: called for the file's path when it is first needed.
        task: 1 to 7.
        on_bad: as for `QuestionsFile`.
    """

    def __init__(self, path: Callable[[], Path], task: int, on_bad: OnBad = "error") -> None:
        self.task = check_task(task)
        self.on_bad = check_on_bad(on_bad)
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
        content = read_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("golds"), list):
            raise FormatError(
                "expected an object with the keys 'task' and 'golds' (a list); found "
                f"{_kind(content)}",
                path,
            )
        self._check_task(content.get("task"), path)
        found: dict[str, str] = {}
        left_out = LeftOut()
        for index, item in enumerate(content["golds"]):
            try:
                gold = _mapping(item, "the entry")
                qid = text_of(gold, "id", "the entry")
                answer = text_of(gold, "output", f"query {qid!r}")
                if qid in found:
                    raise FormatError(f"the id {qid!r} occurs twice")
            except FormatError as error:
                place = f"golds entry {index}: {error}"
                if self.on_bad == "error":
                    advice = '; on_bad="skip" leaves such entries out'
                    raise FormatError(place + advice, path) from None
                left_out.add("gold outputs", place, "")
                continue
            found[qid] = answer
        left_out.warn(f"LaMP-{self.task} outputs", path)
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
