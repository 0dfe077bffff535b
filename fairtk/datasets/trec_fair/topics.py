"""Topic files of TREC Fair Ranking 2022: ids, titles, keywords and relevant pages.

``trec_2022_*_reldocs.jsonl`` (and NIST's file of the evaluation topics) has one topic per line:
``{"id": 1, "title": ..., "rel_docs": [12, ...]}``, with or without keywords.
``train_topics_meta.jsonl`` is one object of columns, each keyed by row number, with lists as
strings: ``{"id": {"0": 1}, ..., "keywords": {"0": "['football']"}, "rel_docs": {"0": "[12]"}}``.
``eval_topic_keywords.csv`` has the keywords of the evaluation topics: an id and a Python list.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import FormatError
from fairtk.frames import DOCNO, LABEL, QID
from fairtk.io.lines import Source, describe_json, objects_of, parse_json, source
from fairtk.io.rows import delimited_records


@dataclass(frozen=True)
class Topic:
    """One topic of the track.

    Attributes:
        qid: the id.
        title: the name of the WikiProject.
        keywords: the keywords; empty if the file has none.
        pages: the distinct relevant pages: integers, or strings if the file has strings.
    """

    qid: str
    title: str
    keywords: tuple[str, ...]
    pages: npt.NDArray[Any]

    @property
    def docnos(self) -> list[str]:
        """The relevant pages as docnos."""
        return [str(page) for page in self.pages.tolist()]


def read_topics(path: str | PathLike[str]) -> list[Topic]:
    """Read topics with their relevant pages, in file order."""
    with source(path) as file:
        return _topics(file, labeled=True)


def _topics(file: Source, labeled: bool) -> list[Topic]:
    topics: dict[str, Topic] = {}
    for line, row, record in _records(file):
        try:
            topic = _topic(record, labeled)
            if topic.qid in topics:
                raise FormatError(f"duplicate id {topic.qid!r}")
        except FormatError as error:
            prefix = "" if row is None else f"row {row!r}: "
            raise FormatError(f"{prefix}{error}", file.path, line) from None
        topics[topic.qid] = topic
    if not topics:
        raise FormatError("the file has no topics", file.path)
    return list(topics.values())


def read_keywords(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return the keywords of each topic, by qid.

    The file has topics, or is CSV or TSV with an id and a list of keywords, with or without header.
    """
    with source(path) as file:
        if file.kind == "jsonl":
            return {topic.qid: topic.keywords for topic in _topics(file, labeled=False)}
        keywords: dict[str, tuple[str, ...]] = {}
        for line, fields in delimited_records(file):
            qid, printed = fields[0].strip(), ",".join(fields[1:])  # the list need not be quoted
            if not keywords and "[" not in printed and len(fields) == 2:
                continue  # the header
            try:
                words = _keywords(printed, f"topic {qid!r}")
                if qid in keywords:
                    raise FormatError(f"duplicate id {qid!r}")
            except FormatError as error:
                raise FormatError(str(error), path, line) from None
            keywords[qid] = words
    if not keywords:
        raise FormatError("the file has no keywords", path)
    return keywords


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


def _records(file: Source) -> Iterator[tuple[int, str | None, Mapping[str, Any]]]:
    """Yield line, row (for a file of columns) and fields of each topic."""
    for number, record in objects_of(file):
        if isinstance(record.get("id"), dict):
            yield from ((number, row, r) for row, r in _rows(record, file.path, number))
        else:
            yield number, None, record


def _rows(
    columns: Mapping[str, Any], path: str | PathLike[str], line: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    wrong = [name for name, column in columns.items() if not isinstance(column, dict)]
    if wrong:
        raise FormatError(
            f"expected columns keyed by row, got {describe_json(columns[wrong[0]])} for "
            f"{wrong[0]!r}",
            path,
            line,
        )
    for row in dict.fromkeys(row for column in columns.values() for row in column):
        missing = [name for name, column in columns.items() if row not in column]
        if missing:
            raise FormatError(f"row {row!r} has no {missing[0]!r}", path, line)
        yield row, {name: column[row] for name, column in columns.items()}


def _topic(record: Mapping[str, Any], labeled: bool) -> Topic:
    required = ["id", "title", *(["rel_docs"] if labeled else [])]
    missing = [key for key in required if key not in record]
    if missing:
        raise FormatError(
            f"a topic requires the keys {required}; {missing[0]!r} is missing, got "
            f"{sorted(record)[:8]}"
        )
    qid, title = record["id"], record["title"]
    if isinstance(qid, bool) or not isinstance(qid, int | str) or qid == "":
        raise FormatError(f"'id' must be a number or a string, got {describe_json(qid)}")
    where = f"topic {str(qid)!r}"
    if not isinstance(title, str):
        raise FormatError(f"{where}: 'title' must be a string, got {describe_json(title)}")
    keywords = record.get("keywords")
    return Topic(
        str(qid),
        title,
        () if keywords is None else _keywords(keywords, where),
        _pages(record.get("rel_docs", []), where),
    )


_STRING = r"""(?:'(?:[^'\\\x00-\x1f]|\\.)*'|"(?:[^"\\\x00-\x1f]|\\.)*")"""
_LIST = re.compile(rf"[\[(]\s*(?:{_STRING}\s*(?:,\s*{_STRING}\s*)*,?)?\s*[\])]")
"""Strings separated by commas: Python joins adjacent strings."""


def _keywords(value: Any, where: str) -> tuple[str, ...]:
    words = value
    if isinstance(value, str):
        try:
            # literal_eval runs no code
            words = ast.literal_eval(value.strip()) if _LIST.fullmatch(value.strip()) else None
            json.dumps(words, ensure_ascii=False).encode()  # an unpaired surrogate has no bytes
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            words = None
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise FormatError(
            f"{where}: 'keywords' must be a list of strings, or a text with a Python list, got "
            f"{describe_json(value)}"
        )
    return tuple(words)


def _pages(value: Any, where: str) -> npt.NDArray[Any]:
    content = value
    if isinstance(value, str):
        try:
            content = parse_json(value)
        except FormatError:
            content = None
    if not isinstance(content, list):
        raise FormatError(
            f"{where}: 'rel_docs' must be a list of pages, or a text with a list, got "
            f"{describe_json(value)}"
        )
    kinds = {type(page) for page in content}
    if kinds <= {int}:
        try:
            pages: npt.NDArray[Any] = np.array(content, dtype=np.int64)
        except OverflowError:
            pages = np.array([str(page) for page in content], dtype=object)
    elif kinds <= {int, str}:
        pages = np.array([str(page) for page in content], dtype=object)
    else:
        page = next(page for page in content if type(page) not in (int, str))
        raise FormatError(
            f"{where}: a page of 'rel_docs' must be a number, got {describe_json(page)}"
        )
    # duplicate pages count once, as in the track's code
    return np.asarray(pd.unique(pages))
