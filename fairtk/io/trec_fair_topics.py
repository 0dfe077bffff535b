"""Topic files of TREC Fair Ranking 2022: topics and, for each, the relevant pages.

There are two forms. ``trec_2022_*_reldocs.jsonl`` (and NIST's file of the evaluation topics) has
one topic per line: ``{"id": 1, "title": ..., "rel_docs": [12, ...]}``, with or without keywords.
``train_topics_meta.jsonl`` is one object of columns, each an object keyed by row number, in which
the lists are strings: ``{"id": {"0": 1}, ..., "keywords": {"0": "['football']"}, "rel_docs":
{"0": "[12]"}}``. Either form is read wherever topics are. ``eval_topic_keywords.csv`` has the
keywords of the evaluation topics alone: an id, and a list as Python prints it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import FormatError
from fairtk.files.content import kind_of
from fairtk.files.delimited import delimited_records
from fairtk.files.json_reading import described, json_objects
from fairtk.frames.columns import DOCNO, LABEL, QID


@dataclass(frozen=True)
class Topic:
    """One topic of the track.

    The name of a WikiProject (`title`), the keywords, if the file has them, and the relevant pages,
    each once: integers, or strings where the file has such.
    """

    qid: str
    title: str
    keywords: tuple[str, ...]
    pages: npt.NDArray[Any]

    @property
    def docnos(self) -> list[str]:
        """The relevant pages as docnos."""
        return [str(page) for page in self.pages.tolist()]


def read_topics(path: str | PathLike[str], labeled: bool = True) -> list[Topic]:
    """Read topics with their relevant pages, in the order of the file, which has one of two forms.

    Relevant pages must be there unless `labeled` is False.
    """
    topics: dict[str, Topic] = {}
    for line, row, record in _records(path):
        try:
            topic = _topic(record, labeled)
            if topic.qid in topics:
                raise FormatError(f"the id {topic.qid!r} occurs twice")
        except FormatError as error:
            place = "" if row is None else f"row {row!r}: "
            raise FormatError(f"{place}{error}", path, line) from None
        topics[topic.qid] = topic
    if not topics:
        raise FormatError("the file has no topics", path)
    return list(topics.values())


def read_keywords(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return the keywords of each topic, by qid.

    From a file of topics in either form, or a CSV or TSV file of two columns, id and list of
    keywords, with or without a header.
    """
    if kind_of(path) == "jsonl":
        return {topic.qid: topic.keywords for topic in read_topics(path, labeled=False)}
    found: dict[str, tuple[str, ...]] = {}
    for line, fields in delimited_records(path):
        qid, printed = fields[0].strip(), ",".join(fields[1:])  # the list need not be quoted
        if not found and "[" not in printed and len(fields) == 2:
            continue  # the header
        try:
            words = _keywords(printed, f"topic {qid!r}")
            if qid in found:
                raise FormatError(f"the id {qid!r} occurs twice")
        except FormatError as error:
            raise FormatError(str(error), path, line) from None
        found[qid] = words
    if not found:
        raise FormatError("the file has no keywords", path)
    return found


def qrels_of(topics: list[Topic]) -> pd.DataFrame:
    """Return the relevant pages of topics as qrels: ``qid``, ``docno``, ``label`` (1)."""
    counts = [len(topic.pages) for topic in topics]
    docnos = [docno for topic in topics for docno in topic.docnos]
    return pd.DataFrame(
        {
            QID: pd.Series(np.repeat([t.qid for t in topics], counts).tolist(), dtype="str"),
            DOCNO: pd.Series(docnos, dtype="str"),
            LABEL: np.ones(len(docnos), dtype=np.int64),
        }
    )


def _records(path: str | PathLike[str]) -> Iterator[tuple[int, str | None, Mapping[str, Any]]]:
    """Yield line, row (of a file of columns) and fields of each topic."""
    for number, record in json_objects(path):
        if isinstance(record.get("id"), dict):
            yield from ((number, row, r) for row, r in _rows(record, path, number))
        else:
            yield number, None, record


def _rows(
    columns: Mapping[str, Any], path: str | PathLike[str], line: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    wrong = [name for name, column in columns.items() if not isinstance(column, dict)]
    if wrong:
        raise FormatError(
            f"expected columns keyed by row; {wrong[0]!r} is {described(columns[wrong[0]])}",
            path,
            line,
        )
    for row in columns["id"]:
        lacking = [name for name, column in columns.items() if row not in column]
        if lacking:
            raise FormatError(f"row {row!r} has no {lacking[0]!r}", path, line)
        yield row, {name: column[row] for name, column in columns.items()}


def _topic(record: Mapping[str, Any], labeled: bool) -> Topic:
    needed = ["id", "title", *(["rel_docs"] if labeled else [])]
    missing = [key for key in needed if key not in record]
    if missing:
        raise FormatError(
            f"a topic needs the keys {needed}; {missing[0]!r} is missing, found "
            f"{sorted(record)[:8]}"
        )
    qid, title = record["id"], record["title"]
    if isinstance(qid, bool) or not isinstance(qid, int | str) or qid == "":
        raise FormatError(f"'id' must be a number or a string; found {described(qid)}")
    where = f"topic {str(qid)!r}"
    if not isinstance(title, str):
        raise FormatError(f"{where}: 'title' must be a string; found {described(title)}")
    keywords = record.get("keywords")
    return Topic(
        str(qid),
        title,
        () if keywords is None else _keywords(keywords, where),
        _pages(record.get("rel_docs", []), where),
    )


def _keywords(value: Any, where: str) -> tuple[str, ...]:
    found = value
    if isinstance(value, str):
        try:
            found = ast.literal_eval(value.strip())  # a list as Python prints it; runs no code
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found = None
    if not isinstance(found, list | tuple) or not all(isinstance(word, str) for word in found):
        raise FormatError(
            f"{where}: 'keywords' must be a list of strings, or one as Python prints it; found "
            f"{described(value)}"
        )
    return tuple(found)


def _pages(value: Any, where: str) -> npt.NDArray[Any]:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except json.JSONDecodeError:
            found = None
    if not isinstance(found, list):
        raise FormatError(
            f"{where}: 'rel_docs' must be a list of pages, or a string of one; found "
            f"{described(value)}"
        )
    kinds = {type(page) for page in found}
    if kinds <= {int}:
        try:
            pages: npt.NDArray[Any] = np.array(found, dtype=np.int64)
        except OverflowError:
            pages = np.array([str(page) for page in found], dtype=object)
    elif kinds <= {int, str}:
        pages = np.array([str(page) for page in found], dtype=object)
    else:
        odd = next(page for page in found if type(page) not in (int, str))
        raise FormatError(f"{where}: a page of 'rel_docs' must be a number; found {described(odd)}")
    # the track's code counts a page that is listed twice once
    return np.asarray(pd.unique(pages))
