"""Texts of queries and documents, and their words."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DuplicateError, InputError
from fairtk.frames.columns import DOCNO, QID, QUERY, TEXT, IntArray
from fairtk.frames.schema import encode_ids
from fairtk.wording import format_list


def require_texts(inp: pd.DataFrame, where: str) -> list[str]:
    """Return the text of each row; raise an `InputError` for a text that is not a string."""
    return _strings(
        inp, TEXT, where, "load the texts first (a text_loader), or drop documents without text"
    )


def require_queries(inp: pd.DataFrame, query: IntArray, count: int, where: str) -> list[str]:
    """Return the text of each query of a run.

    Args:
        inp: the run, with ``query``.
        query: the index of each row's query; shape (n_rows,).
        count: the number of queries.
        where: the caller, for messages.

    Raises:
        InputError: a text is not a string, or differs between the rows of a query.
    """
    values = _strings(inp, QUERY, where, "each topic must have a query")
    code, distinct = pd.factorize(np.array(values, dtype=object))
    first = np.zeros(count, dtype=np.int64)
    first[query[::-1]] = code[::-1]
    other = np.flatnonzero(code != first[query])
    if len(other):
        row = inp.iloc[int(other[0])]
        raise InputError(
            f"{where}: qid {row[QID]!r} must have the same query on all its rows, got "
            f"{row[QUERY]!r} at docno {row[DOCNO]!r}"
        )
    return [str(distinct[c]) for c in first]


def qids_of(topics: pd.DataFrame, where: str) -> list[str]:
    """Return the qid of each topic as text; raise a `DuplicateError` for duplicates."""
    code, distinct = encode_ids(topics[QID], QID, where)
    qids: list[str] = distinct[code].tolist()
    if len(distinct) < len(qids):
        twice = pd.Series(qids, dtype=object)
        raise DuplicateError(
            f"{where}: duplicate qid {format_list(twice[twice.duplicated()].unique())} in the "
            "topics; expected one row per query (a run needs the column 'docno')"
        )
    return qids


def require_topics(inp: pd.DataFrame, where: str) -> list[tuple[str, str]]:
    """Return qid and query of each topic; qids must be unique and queries strings."""
    topics = list(zip(qids_of(inp, where), inp[QUERY].tolist(), strict=True))
    for qid, text in topics:
        if not isinstance(text, str):
            raise InputError(f"{where}: the query of qid {qid!r} must be a string, got {text!r}")
    return topics


def _strings(inp: pd.DataFrame, column: str, where: str, advice: str) -> list[str]:
    values: list[Any] = inp[column].tolist()
    for number, value in enumerate(values):
        if not isinstance(value, str):
            row = inp.iloc[number]
            raise InputError(
                f"{where}: the {column} of qid {row[QID]!r}, docno {row[DOCNO]!r} must be a "
                f"string, got {value!r}; {advice}"
            )
    return values


_WORD = re.compile(r"\w+(?:-\w+)*")
_JOINERS = "\u200c\u200d"
"""Joining characters within words of Persian and Indic scripts."""


def words(text: str) -> list[str]:
    r"""Return the words of a text: letters, digits and marks, with hyphens between them.

    A combining mark belongs to the letter before it; Python's ``\w`` would split the word there.
    """
    if text.isascii():
        return _WORD.findall(text)
    letters = [" "]
    for sign in text:
        mark = sign in _JOINERS or unicodedata.category(sign)[0] == "M"
        # a mark is a letter only after a letter
        letters.append(("x" if _WORD.match(letters[-1]) else " ") if mark else sign)
    matches = _WORD.finditer("".join(letters[1:]))
    return [text[match.start() : match.end()].rstrip(_JOINERS) for match in matches]
