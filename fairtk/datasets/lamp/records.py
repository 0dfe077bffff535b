"""The records of LaMP: a document type per task, the queries, and how raw entries become them.

In every document ``text`` is the text that is retrieved on, as in the published code of
*Towards Fair RAG*, and the prompt reads other fields:

    task                       text                   the prompt reads
    1 citation identification  title + abstract       title
    2 movie tagging            description            text, tag
    3 product rating           review                 text, rating
    4 news headline            title + article        title, article
    5 scholarly title          title + abstract       title, abstract
    6 email subject            email (no subject)     title (the subject), text
    7 tweet paraphrasing       tweet                  text

``date`` is the entry's date, or ``""`` where the file has none.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from fairtk.errors import FormatError, InputError, NotFoundError
from fairtk.io.lines import described

TASKS = (1, 2, 3, 4, 5, 6, 7)
"""The numbers of LaMP's tasks."""


class Lamp1Doc(NamedTuple):
    """A paper that the user wrote (citation identification)."""

    doc_id: str
    text: str
    title: str
    abstract: str
    date: str

    def default_text(self) -> str:
        """Return the text to retrieve on: title and abstract."""
        return self.text


class Lamp2Doc(NamedTuple):
    """A movie that the user tagged (movie tagging)."""

    doc_id: str
    text: str
    tag: str
    date: str

    def default_text(self) -> str:
        """Return the text to retrieve on: the movie's description."""
        return self.text


class Lamp3Doc(NamedTuple):
    """A review that the user wrote (product rating)."""

    doc_id: str
    text: str
    rating: str
    date: str

    def default_text(self) -> str:
        """Return the text to retrieve on: the review."""
        return self.text


class Lamp4Doc(NamedTuple):
    """An article that the user wrote (news headline)."""

    doc_id: str
    text: str
    title: str
    article: str
    date: str

    def default_text(self) -> str:
        """Return the text to retrieve on: headline and article."""
        return self.text


class Lamp5Doc(NamedTuple):
    """A paper that the user wrote (scholarly title)."""

    doc_id: str
    text: str
    title: str
    abstract: str
    date: str

    def default_text(self) -> str:
        """Return the text to retrieve on: title and abstract."""
        return self.text


class Lamp6Doc(NamedTuple):
    """An email that the user wrote (email subject); ``title`` is its subject."""

    doc_id: str
    text: str
    title: str
    date: str

    def default_text(self) -> str:
        """Return the text to retrieve on: the email without its subject."""
        return self.text


class Lamp7Doc(NamedTuple):
    """A tweet that the user wrote (tweet paraphrasing)."""

    doc_id: str
    text: str
    date: str

    def default_text(self) -> str:
        """Return the text to retrieve on: the tweet."""
        return self.text


class LampQuery(NamedTuple):
    """A LaMP question with its gold answer.

    Attributes:
        query_id: LaMP's id.
        query: what retrieval sees: the part of the question that differs between questions.
        question: the raw LaMP input, what the prompt sees.
        gold_answer: LaMP's output.
    """

    query_id: str
    query: str
    question: str
    gold_answer: str

    def default_text(self) -> str:
        """Return the retrieval query."""
        return self.query


class LampQuestion(NamedTuple):
    """A LaMP question without a gold answer (a test split); fields as in `LampQuery`."""

    query_id: str
    query: str
    question: str

    def default_text(self) -> str:
        """Return the retrieval query."""
        return self.query


DOC_TYPES: dict[int, type[Any]] = {
    1: Lamp1Doc,
    2: Lamp2Doc,
    3: Lamp3Doc,
    4: Lamp4Doc,
    5: Lamp5Doc,
    6: Lamp6Doc,
    7: Lamp7Doc,
}
"""The document type of each task."""

# for each task: field of the document -> key of the raw entry, and the fields that make `text`
_KEYS = {
    1: {"title": "title", "abstract": "abstract"},
    2: {"text": "description", "tag": "tag"},
    3: {"text": "text", "rating": "score"},
    4: {"title": "title", "article": "text"},
    5: {"title": "title", "abstract": "abstract"},
    6: {"text": "text", "title": "title"},
    7: {"text": "text"},
}
_TEXT = {1: ("title", "abstract"), 4: ("title", "article"), 5: ("title", "abstract")}
_MARKERS = {2: "description:", 3: "review:", 4: "article:", 5: ":", 6: ":", 7: ":"}
_QUOTED = re.compile(r'"([^"]*)"')


def check_task(task: int) -> int:
    """Return the task number; anything but 1 to 7 is a `NotFoundError`."""
    if isinstance(task, str) and task.isdigit() and int(task) in TASKS:
        raise InputError(f"the LaMP task must be an integer; found {task!r}, write task={task}")
    if isinstance(task, bool) or task not in TASKS:
        raise NotFoundError("LaMP task", task, map(str, TASKS))
    return int(task)


def to_doc(task: int, qid: str, entry: Mapping[str, Any], use_date: bool = False) -> Any:
    """Turn a raw profile entry into the task's document.

    Args:
        task: 1 to 7.
        qid: the query whose profile the entry is in. LaMP's profile ids are unique only within a
            query, so the document's id is ``qid/pid``.
        entry: the entry as it is in the file.
        use_date: whether ``text`` ends in ``" date: "`` and the date.

    Returns:
        A `Lamp1Doc` ... `Lamp7Doc`.

    Raises:
        FormatError: a key is missing or not text; names the query, the profile entry and the key.
    """
    task = check_task(task)
    pid = text_of(entry, "id", f"query {qid!r}, a profile entry")
    place = f"query {qid!r}, profile entry {pid!r}"
    values = {field: text_of(entry, key, place) for field, key in _KEYS[task].items()}
    date = "" if entry.get("date") is None else text_of(entry, "date", place)
    text = " ".join(values[f] for f in _TEXT[task]) if task in _TEXT else values["text"]
    if use_date:
        if not date:
            raise FormatError(f"{place} has no date, and use_date=True asks for one")
        text = f"{text} date: {date}"
    return DOC_TYPES[task](doc_id=f"{qid}/{pid}", date=date, **{**values, "text": text})


def profile_docs(task: int, qid: str, profile: list[Any], use_date: bool = False) -> list[Any]:
    """Return the documents of a profile, in file order.

    Args:
        task: 1 to 7.
        qid: the query whose profile it is.
        profile: its raw entries.
        use_date: as in `to_doc`.

    Raises:
        FormatError: an entry is malformed, or has the id of another one.
    """
    docs: dict[str, Any] = {}
    for number, item in enumerate(profile):
        entry = object_of(item, f"query {qid!r}, profile entry number {number}")
        doc = to_doc(task, qid, entry, use_date)
        if doc.doc_id in docs:
            raise FormatError(
                f"query {qid!r} has profile entries with the same id: {doc.doc_id!r} (as qid/pid)"
            )
        docs[doc.doc_id] = doc
    return list(docs.values())


def object_of(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object; anything else is a `FormatError` that says what it is."""
    if not isinstance(value, dict):
        raise FormatError(f"{what} must be an object; found {described(value)}")
    return value


def to_entry(task: int, doc: Any) -> dict[str, str]:
    """Turn a task's document back into a raw profile entry: what `to_doc` undoes.

    Args:
        task: 1 to 7.
        doc: a `Lamp1Doc` ... `Lamp7Doc` whose ``text`` does not end in the date.
    """
    _, _, pid = doc.doc_id.partition("/")
    entry = {"id": pid, **{key: getattr(doc, field) for field, key in _KEYS[task].items()}}
    return {**entry, "date": doc.date} if doc.date else entry


def retrieval_query(task: int, question: str) -> str:
    """Return the part of a LaMP question that retrieval sees, as *Towards Fair RAG* extracts it.

    Task 1: the two candidate references (the second and third quoted strings; not the user's own
    paper). Tasks 2, 3, 4: what follows the first ``description:``, ``review:``, ``article:``.
    Tasks 5, 6, 7: what follows the first colon.

    Raises:
        FormatError: the question has no such part. The whole instruction would be a query of a
            very different kind, so there is no fallback.
    """
    task = check_task(task)
    start = question if len(question) <= 80 else question[:77] + "..."
    if task == 1:
        quoted = _QUOTED.findall(question)
        if len(quoted) < 3:
            raise FormatError(
                "a LaMP-1 input quotes the user's paper and two references; found "
                f"{len(quoted)} quoted titles in {start!r}"
            )
        return f"{quoted[1]} {quoted[2]}".strip()
    _, marker, rest = question.partition(_MARKERS[task])
    if not marker:
        raise FormatError(
            f"a LaMP-{task} input has its text behind {_MARKERS[task]!r}; found {start!r}"
        )
    return rest.strip()


def text_of(entry: Mapping[str, Any], key: str, place: str) -> str:
    """Return the text under a key of a raw entry; an integer is taken as text.

    `place` says what the entry is. No such key, or no text under it, is a `FormatError`.
    """
    value = entry.get(key)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if key not in entry:
        raise FormatError(f"{place} lacks the key {key!r}; it has {sorted(entry)}")
    raise FormatError(f"{place} needs text under {key!r}; found {str(value)[:40]!r}")
