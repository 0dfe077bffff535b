"""The records of LaMP: document types, queries, and their conversion from raw entries.

Retrieval uses the field ``text`` of documents, as in the code of *Towards Fair RAG*; prompts use
other fields:

    task                       text                   fields of the prompt
    1 citation identification  title + abstract       title
    2 movie tagging            description            text, tag
    3 product rating           review                 text, rating
    4 news headline            title + article        title, article
    5 scholarly title          title + abstract       title, abstract
    6 email subject            email (no subject)     title (the subject), text
    7 tweet paraphrasing       tweet                  text

``date`` is the entry's date, or ``""`` if absent.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from fairtk.errors import FormatError, InputError, NotFoundError
from fairtk.io.lines import describe_json

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
        query: the query for retrieval, without the instruction.
        question: LaMP's input, for the prompt.
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
    """A LaMP question without a gold answer (a test split); see `LampQuery`."""

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

# by task: the key of the raw entry by field of the document; the fields in `text`
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
    """Return a task number; raise a `NotFoundError` unless it is 1 to 7."""
    if isinstance(task, str) and task.isdigit() and int(task) in TASKS:
        raise InputError(f"the LaMP task must be an integer, got {task!r}: write task={task}")
    if isinstance(task, bool) or task not in TASKS:
        raise NotFoundError("LaMP task", task, map(str, TASKS))
    return int(task)


def to_doc(task: int, qid: str, entry: Mapping[str, Any], use_date: bool = False) -> Any:
    """Convert a raw profile entry to the task's document.

    Args:
        task: 1 to 7.
        qid: the query of the profile. Profile ids are unique only within a query, so the document's
            id is ``qid/pid``.
        entry: the raw entry.
        use_date: whether to append ``" date: "`` and the date to ``text``.

    Returns:
        A `Lamp1Doc` ... `Lamp7Doc`.

    Raises:
        FormatError: a key is missing or not text; names the query, the profile entry and the key.
    """
    task = check_task(task)
    pid = text_of(entry, "id", f"query {qid!r}, a profile entry")
    where = f"query {qid!r}, profile entry {pid!r}"
    values = {field: text_of(entry, key, where) for field, key in _KEYS[task].items()}
    date = "" if entry.get("date") is None else text_of(entry, "date", where)
    text = " ".join(values[f] for f in _TEXT[task]) if task in _TEXT else values["text"]
    if use_date:
        if not date:
            raise FormatError(f"{where} has no date, which use_date=True requires")
        text = f"{text} date: {date}"
    return DOC_TYPES[task](doc_id=f"{qid}/{pid}", date=date, **{**values, "text": text})


def profile_docs(task: int, qid: str, profile: list[Any], use_date: bool = False) -> list[Any]:
    """Return the documents of a profile, in file order.

    Args:
        task: 1 to 7.
        qid: the query of the profile.
        profile: its raw entries.
        use_date: see `to_doc`.

    Raises:
        FormatError: an entry is malformed, or has a duplicate id.
    """
    docs: dict[str, Any] = {}
    for number, item in enumerate(profile):
        entry = object_of(item, f"query {qid!r}, profile entry number {number}")
        doc = to_doc(task, qid, entry, use_date)
        if doc.doc_id in docs:
            raise FormatError(
                f"duplicate profile entry of query {qid!r}: {doc.doc_id!r} (as qid/pid)"
            )
        docs[doc.doc_id] = doc
    return list(docs.values())


def object_of(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object; raise a `FormatError` for another value."""
    if not isinstance(value, dict):
        raise FormatError(f"{what} must be an object, got {describe_json(value)}")
    return value


def to_entry(task: int, doc: Any) -> dict[str, str]:
    """Convert a task's document to a raw profile entry; the inverse of `to_doc`.

    Args:
        task: 1 to 7.
        doc: a `Lamp1Doc` ... `Lamp7Doc` whose ``text`` does not end in the date.
    """
    _, _, pid = doc.doc_id.partition("/")
    entry = {"id": pid, **{key: getattr(doc, field) for field, key in _KEYS[task].items()}}
    return {**entry, "date": doc.date} if doc.date else entry


def retrieval_query(task: int, question: str) -> str:
    """Return the retrieval query of a LaMP question, as *Towards Fair RAG* extracts it.

    Task 1: the two candidate references, which are the second and third quoted strings. Tasks 2, 3
    and 4: the text after the first ``description:``, ``review:`` or ``article:``. Tasks 5, 6 and 7:
    the text after the first colon.

    Raises:
        FormatError: the question has no such part.
    """
    task = check_task(task)
    start = question if len(question) <= 80 else question[:77] + "..."
    if task == 1:
        quoted = _QUOTED.findall(question)
        if len(quoted) < 3:
            raise FormatError(
                "a LaMP-1 input must quote the user's paper and two references, got "
                f"{len(quoted)} quoted titles in {start!r}"
            )
        return f"{quoted[1]} {quoted[2]}".strip()
    _, marker, rest = question.partition(_MARKERS[task])
    if not marker:
        raise FormatError(
            f"a LaMP-{task} input must have its text after {_MARKERS[task]!r}, got {start!r}"
        )
    return rest.strip()


def text_of(entry: Mapping[str, Any], key: str, where: str) -> str:
    """Return the text, or an integer as text, under a key of a raw entry.

    Raise a `FormatError` for a missing key or another type; `where` describes the entry.
    """
    value = entry.get(key)
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if key not in entry:
        raise FormatError(f"{where} requires the key {key!r}, got {sorted(entry)}")
    raise FormatError(f"{key!r} of {where} must be text, got {str(value)[:40]!r}")
