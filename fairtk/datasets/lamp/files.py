"""Find, read and check LaMP's files.

A file of questions is read once, to check it and to store the byte range of each query; documents
are read on demand. This takes about 200 bytes of memory per profile entry, plus the questions.

The files of LaMP are ``{split}_questions.json`` and ``{split}_outputs.json``. Those of *Towards
Fair RAG*, with utility labels, are ``{task}_user_{split}_inputs.json``,
``{task}_user_{split}_outputs.json`` (``time`` for the split by time) and
``{task}_relevance_mapping.tsv``.
"""

from __future__ import annotations

import itertools
import json
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairtk.datasets.fetching import Element, iterate_array, line_of
from fairtk.datasets.lamp.records import (
    check_task,
    object_of,
    profile_docs,
    retrieval_query,
    text_of,
)
from fairtk.datasets.registration import ReadOnce
from fairtk.errors import FormatError
from fairtk.io.lines import describe_json, read_json
from fairtk.wording import format_list


class OutputsFile:
    """A file of gold outputs, read on first use; `path` may download it."""

    def __init__(self, path: Callable[[], Path], task: int) -> None:
        self.task = check_task(task)
        self._path = path
        self._golds = ReadOnce(path, self._read)

    def for_questions(self, questions: Collection[str]) -> Mapping[str, str]:
        """Return the gold answers by qid.

        Raises:
            FormatError: the file is malformed, or a question has no gold answer; names the qid.
        """
        golds = self._golds()
        missing = [qid for qid in questions if qid not in golds]
        if missing:
            raise FormatError(
                f"no gold output for {len(missing)} of {len(questions)} questions "
                f"({format_list(missing)}): complete the file, or load only the questions with "
                "from_folder(..., golds=False)",
                self._path(),
            )
        return golds

    def _read(self, path: Path) -> dict[str, str]:
        content = read_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("golds"), list):
            raise FormatError(
                "expected an object with the keys 'task' and 'golds' (a list), got "
                f"{describe_json(content)}",
                path,
            )
        self._check_task(content.get("task"), path)
        golds: dict[str, str] = {}
        for index, item in enumerate(content["golds"]):
            try:
                gold = object_of(item, "the entry")
                qid = text_of(gold, "id", "the entry")
                answer = text_of(gold, "output", f"query {qid!r}")
                if qid in golds:
                    raise FormatError(f"duplicate id {qid!r}")
            except FormatError as error:
                raise FormatError(f"golds entry {index}: {error}", path) from None
            golds[qid] = answer
        return golds

    def _check_task(self, stated: object, path: Path) -> None:
        # "LaMP_4"; a suffix such as in "LaMP_2M" is ignored
        digits = "".join(c for c in str(stated or "") if c.isdigit())
        if digits and digits != str(self.task):
            raise FormatError(
                f"expected task {self.task}, got a file of task {stated!r}: use the right task or "
                "folder",
                path,
            )


class Question(NamedTuple):
    """A query with its docnos and its byte range."""

    qid: str  # LaMP's id
    query: str  # the retrieval query
    question: str  # the raw input
    docnos: tuple[str, ...]  # ``qid/pid`` of each profile entry, in file order
    start: int  # first byte of the entry in the file
    end: int  # byte after the last


class QuestionsFile:
    """A file of questions, read on first use; `path` may download it."""

    def __init__(self, path: Callable[[], Path], task: int, use_date: bool = False) -> None:
        self.task = check_task(task)
        self.use_date = use_date
        self.path = path
        self._questions = ReadOnce(path, self._read)

    def questions(self) -> Mapping[str, Question]:
        """Return all queries by qid, in file order; raise a `FormatError` for an invalid file."""
        return self._questions()  # read again if the file has changed, and with it byte ranges

    def docs_count(self) -> int:
        """Return the number of documents of all queries."""
        return sum(len(question.docnos) for question in self.questions().values())

    def profiles(self, qids: Iterable[str]) -> Iterator[list[Any]]:
        """Yield the profiles of queries as lists of documents."""
        questions = self.questions()
        with open(self.path(), "rb") as stream:
            for qid in qids:
                question = questions[qid]
                stream.seek(question.start)
                entry = json.loads(stream.read(question.end - question.start))
                yield profile_docs(self.task, qid, entry["profile"], self.use_date)

    def numbered_docs(self, rows: range | None = None) -> Iterator[Any]:
        """Yield the documents of an increasing range of 0-based numbers; all for `None`."""
        questions = self.questions()
        rows = range(self.docs_count()) if rows is None else rows
        if not rows:
            return iter(())
        first = [0, *itertools.accumulate(len(q.docnos) for q in questions.values())]
        skipped = bisect_right(first, rows[0]) - 1
        profiles = self.profiles(itertools.islice(questions, skipped, None))
        docs = itertools.chain.from_iterable(profiles)
        offset = first[skipped]
        return itertools.islice(docs, rows[0] - offset, rows[-1] - offset + 1, rows.step)

    def _read(self, path: Path) -> dict[str, Question]:
        questions: dict[str, Question] = {}
        for element in iterate_array(path):
            try:
                entry = object_of(element.value, "the entry")
                qid = text_of(entry, "id", "the entry")
                if qid in questions:
                    raise FormatError(f"duplicate id {qid!r}")
                questions[qid] = self._question(qid, entry, element)
            except FormatError as error:
                message = f"entry {element.number} (LaMP-{self.task} questions): {error}"
                raise FormatError(message, path, line_of(path, element.start)) from None
        if not questions:
            raise FormatError("the file has no questions", path)
        return questions

    def _question(self, qid: str, entry: Mapping[str, Any], element: Element) -> Question:
        if "/" in qid:
            raise FormatError(f"the id {qid!r} must not contain '/', which separates qid and pid")
        question = text_of(entry, "input", f"query {qid!r}")
        profile = entry.get("profile")
        if not isinstance(profile, list):
            raise FormatError(
                f"'profile' of query {qid!r} must be a list, got {describe_json(profile)}"
            )
        try:
            query = retrieval_query(self.task, question)
        except FormatError as error:
            raise FormatError(f"query {qid!r}: {error}") from None
        docnos = tuple(d.doc_id for d in profile_docs(self.task, qid, profile, self.use_date))
        return Question(qid, query, question, docnos, element.start, element.end)


class TaskFiles(NamedTuple):
    """The files of one task; outputs and labels are `None` if absent."""

    questions: Path
    outputs: Path | None
    labels: Path | None


def find(path: Path, task: int, split: str, golds: bool) -> TaskFiles:
    """Return the files of a task in a folder or its subfolder ``split``."""
    if not path.is_dir():
        raise FormatError(f"expected a folder with {split}_questions.json", path)
    names = sorted(file.name for file in path.iterdir())[:8]
    files = {
        file.name: file
        for folder in (path / split, path)
        if folder.is_dir()
        for file in folder.iterdir()
        if file.is_file()
    }
    official = f"{split}_questions.json", f"{split}_outputs.json"
    labeled = [
        (f"{task}_{by}_{split}_inputs.json", f"{task}_{by}_{split}_outputs.json")
        for by in ("user", "time")
    ]
    pairs = [pair for pair in (official, *labeled) if pair[0] in files]
    if not pairs:
        raise FormatError(
            f"expected {official[0]} (LaMP's name) or {labeled[0][0]} (with utility labels), got "
            f"{names}",
            path,
        )
    if len(pairs) > 1:
        raise FormatError(
            f"expected one file of questions, got {' and '.join(pair[0] for pair in pairs)}: put "
            "each into a separate folder",
            path,
        )
    questions, outputs = pairs[0]
    if golds and outputs not in files:
        raise FormatError(
            f"expected {outputs} next to {questions}, got {names}; if there are no gold outputs, "
            "use golds=False",
            path,
        )
    mapping = None if pairs[0] == official else files.get(f"{task}_relevance_mapping.tsv")
    return TaskFiles(files[questions], files[outputs] if golds else None, mapping)
