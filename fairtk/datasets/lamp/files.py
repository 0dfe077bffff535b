"""LaMP's files: where they lie, and questions with their profiles and gold outputs, read and
checked.

The file is read once to check it and to note where each query lies; documents are then read from
the file when they are asked for. Memory is about 200 bytes per profile entry plus the questions,
whatever the size of the profiles' texts.

LaMP's own files are ``{split}_questions.json`` and ``{split}_outputs.json``. The utility labels of
*Towards Fair RAG* come as ``{task}_user_{split}_inputs.json``, ``{task}_user_{split}_outputs.json``
and ``{task}_relevance_mapping.tsv`` (``time`` for the split by time), all tasks of a generator in
one archive.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from fairtk.datasets.fetching import Element, iterate_array, line_of
from fairtk.datasets.lamp.records import (
    Bad,
    check_task,
    object_of,
    profile_docs,
    retrieval_query,
    text_of,
)
from fairtk.datasets.registration import ReadOnce
from fairtk.errors import FormatError, InputError, ParameterError, advice, listed, warn
from fairtk.io import atomic_write, described, read_json

OnBad = Literal["error", "skip"]
"""What becomes of malformed entries."""


def _remedy() -> str:
    """Return what to do about malformed entries; the command line has no option for it."""
    return advice('; on_bad="skip" leaves such entries out', "")


def check_on_bad(value: Any) -> OnBad:
    """Return the setting; anything but its two values is a `ParameterError`."""
    if value not in get_args(OnBad):
        raise ParameterError(f"on_bad must be one of {list(get_args(OnBad))}; found {value!r}")
    return cast(OnBad, value)


class LeftOut:
    """What ``on_bad="skip"`` leaves out of a file: why and, as far as known, which ids."""

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
            warn(f"{path}: {where}: {len(reasons)} {what} left out: {listed(reasons, 3)}")


class OutputsFile:
    """A file of gold outputs, read on first use; arguments as `QuestionsFile`."""

    def __init__(self, path: Callable[[], Path], task: int, on_bad: OnBad = "error") -> None:
        self.task = check_task(task)
        self.on_bad = check_on_bad(on_bad)
        self._path = path
        self._golds = ReadOnce(path, self._read)

    def golds(self) -> Mapping[str, str]:
        """Return the gold answer of each qid; a malformed file is a `FormatError`."""
        return self._golds()

    def for_questions(self, questions: Collection[str]) -> Mapping[str, str]:
        """Return the gold answers; a qid without one is a `FormatError` that names it."""
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

    def _read(self, path: Path) -> dict[str, str]:
        content = read_json(path)
        if not isinstance(content, dict) or not isinstance(content.get("golds"), list):
            raise FormatError(
                "expected an object with the keys 'task' and 'golds' (a list); found "
                f"{described(content)}",
                path,
            )
        self._check_task(content.get("task"), path)
        golds: dict[str, str] = {}
        left_out = LeftOut()
        for index, item in enumerate(content["golds"]):
            try:
                gold = object_of(item, "the entry")
                qid = text_of(gold, "id", "the entry")
                answer = text_of(gold, "output", f"query {qid!r}")
                if qid in golds:
                    raise FormatError(f"the id {qid!r} occurs twice")
            except FormatError as error:
                place = f"golds entry {index}: {error}"
                if self.on_bad == "error":
                    raise FormatError(place + _remedy(), path) from None
                left_out.add("gold outputs", place, "")
                continue
            golds[qid] = answer
        left_out.warn(f"LaMP-{self.task} outputs", path)
        return golds

    def _check_task(self, stated: object, path: Path) -> None:
        # spelt "LaMP_4"; a suffix such as "LaMP_2M" is left alone
        digits = "".join(c for c in str(stated or "") if c.isdigit())
        if digits and digits != str(self.task):
            raise FormatError(
                f"the file says that it is of task {stated!r}, but task {self.task} was asked "
                "for: give the right task, or the right folder",
                path,
            )


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
        return itertools.chain.from_iterable(self.profiles(qids))

    def profiles(self, qids: Iterable[str] | None = None) -> Iterator[list[Any]]:
        """Yield the profile of each query in the file (default: all), as a list of documents."""
        questions = self.questions()
        with open(self.path(), "rb") as stream:
            for qid in questions if qids is None else qids:
                question = questions[qid]
                stream.seek(question.start)
                entry = json.loads(stream.read(question.end - question.start))
                bad: Bad | None = None if self.on_bad == "error" else []
                yield profile_docs(self.task, qid, entry["profile"], self.use_date, bad)

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
        questions: dict[str, Question] = {}
        for element in iterate_array(path):
            qid = ""
            try:
                entry = object_of(element.value, "the entry")
                qid = text_of(entry, "id", "the entry")
                if qid in questions:
                    raise FormatError(f"the id {qid!r} occurs twice")
                question = self._question(qid, entry, element)
                if golds is not None and qid not in golds:
                    raise FormatError(f"query {qid!r} has no gold output")
            except FormatError as error:
                place = f"entry {element.number} (LaMP-{self.task} questions): {error}"
                if self.on_bad == "error":
                    line = line_of(path, element.start)
                    raise FormatError(place + _remedy(), path, line) from None
                self._left_out.add("queries", place, "" if qid in questions else qid)
                continue
            questions[question.qid] = question
        if not questions:
            raise FormatError("the file has no questions", path)
        self._left_out.warn(f"LaMP-{self.task} questions", path)
        return questions

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
        bad: Bad | None = None if self.on_bad == "error" else []
        docnos = tuple(d.doc_id for d in profile_docs(self.task, qid, profile, self.use_date, bad))
        for reason, docno in bad or ():
            self._left_out.add("profile entries", reason, docno)
        return Question(qid, query, question, docnos, element.start, element.end)


_LARGEST = 16 << 30  # bytes; the largest official file has about 3 GB


class Places(NamedTuple):
    """The files of one task: questions with profiles and, if there are any, outputs and labels."""

    questions: Path
    outputs: Path | None
    labels: Path | None


def find(path: Path, task: int, split: str, golds: bool) -> Places:
    """Return where the files in a folder or zip archive are; the latter are unpacked once."""
    if not path.exists():
        raise FormatError(
            f"expected a folder or a zip archive with {split}_questions.json; there is no such "
            "folder and no such file",
            path,
        )
    place = _Folder(path, split) if path.is_dir() else _Archive(path)
    own = f"{split}_questions.json", f"{split}_outputs.json"
    labeled = [
        (f"{task}_{by}_{split}_inputs.json", f"{task}_{by}_{split}_outputs.json")
        for by in ("user", "time")
    ]
    there = [names for names in (own, *labeled) if place.has(names[0])]
    if not there:
        raise FormatError(
            f"expected {own[0]} (LaMP's name) or {labeled[0][0]} (with utility labels); found "
            f"{place.names()[:8]}",
            path,
        )
    if len(there) > 1:
        raise FormatError(
            f"found {' and '.join(names[0] for names in there)}, and only one can be meant: keep "
            "each in a folder of its own",
            path,
        )
    questions, outputs = there[0]
    if golds and not place.has(outputs):
        raise FormatError(
            f"expected {outputs} beside it; found {place.names()[:8]}; without gold outputs, load "
            "it with golds=False",
            path,
        )
    mapping = f"{task}_relevance_mapping.tsv"
    with_labels = (questions, outputs) != own and place.has(mapping)
    return Places(
        place.take(questions),
        place.take(outputs) if golds else None,
        place.take(mapping) if with_labels else None,
    )


class _Folder:
    """Files in a folder or its subfolder for the split."""

    def __init__(self, path: Path, split: str) -> None:
        self.path = path
        self._folders = (path, path / split)

    def _named(self, name: str) -> list[Path]:
        return [folder / name for folder in self._folders if (folder / name).is_file()][:1]

    def has(self, name: str) -> bool:
        return bool(self._named(name))

    def take(self, name: str) -> Path:
        return self._named(name)[0]

    def names(self) -> list[str]:
        return sorted(p.name for p in self.path.iterdir())


class _Archive:
    """A zip archive. Only members that are asked for are unpacked, under names of ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as archive:
                self._members = [
                    member
                    for member in archive.infolist()
                    if not member.is_dir() and not member.filename.startswith("__MACOSX/")
                ]
        except (zipfile.BadZipFile, OSError) as error:
            raise FormatError(f"expected a folder or a zip archive ({error})", path) from None

    def _named(self, name: str) -> list[zipfile.ZipInfo]:
        members = [m for m in self._members if m.filename.rsplit("/", 1)[-1] == name]
        if len(members) > 1:
            raise FormatError(
                f"{name} is in the archive {len(members)} times "
                f"({', '.join(m.filename for m in members[:3])}): unpack it and give one folder",
                self.path,
            )
        return members

    def has(self, name: str) -> bool:
        return bool(self._named(name))

    def names(self) -> list[str]:
        return sorted(m.filename for m in self._members)

    def take(self, name: str) -> Path:
        import ir_datasets

        member = self._named(name)[0]
        if member.file_size > _LARGEST:
            raise FormatError(f"{name} would unpack to {member.file_size:,} bytes", self.path)
        content = f"{self.path.resolve()}|{member.filename}|{member.CRC}|{member.file_size}"
        key = hashlib.sha256(content.encode()).hexdigest()[:16]
        target = Path(ir_datasets.util.home_path()) / "lamp" / "unpacked" / key / name
        if target.exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with (
                zipfile.ZipFile(self.path) as archive,
                archive.open(member) as source,
                atomic_write(target) as temporary,
                temporary.open("wb") as out,
            ):
                shutil.copyfileobj(source, out, 1 << 20)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
            # a wrong checksum, a method Python lacks, a password
            raise InputError(f"{self.path}: cannot unpack {member.filename}: {error}") from None
        return target
