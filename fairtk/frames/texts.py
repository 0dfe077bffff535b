"""Texts and queries of a run's rows, and queries of topics, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DuplicateError, InputError, listed
from fairtk.frames.arrays import IntArray
from fairtk.frames.columns import DOCNO, QID, QUERY, TEXT


def texts_of(inp: pd.DataFrame, where: str) -> list[str]:
    """Return the text of each row; one that is not a string is an `InputError`."""
    return _strings(
        inp, TEXT, where, "load the texts first (a text_loader), or drop documents without one"
    )


def queries_of(inp: pd.DataFrame, query: IntArray, count: int, where: str) -> list[str]:
    """Return the text of a run's queries, by the index of each row's query and their number."""
    values = _strings(inp, QUERY, where, "topics must have a query")
    code, distinct = pd.factorize(np.array(values, dtype=object))
    first = np.zeros(count, dtype=np.int64)
    first[query[::-1]] = code[::-1]
    other = np.flatnonzero(code != first[query])
    if len(other):
        row = inp.iloc[int(other[0])]
        raise InputError(
            f"{where}: qid {row[QID]!r} must have one query on all its rows; found "
            f"{row[QUERY]!r} at docno {row[DOCNO]!r}"
        )
    return [str(distinct[c]) for c in first]


def topics_of(inp: pd.DataFrame, where: str) -> list[tuple[str, str]]:
    """Return qid and query of each topic; each qid occurs once, with a query that is a string."""
    if inp[QID].isna().any():
        raise InputError(f"{where}: every topic must have a qid; found one without")
    qids, texts = inp[QID].tolist(), inp[QUERY].tolist()
    for qid, text in zip(qids, texts, strict=True):
        if not isinstance(text, str):
            raise InputError(f"{where}: the query of qid {qid!r} must be a string; found {text!r}")
    twice = inp[QID][inp[QID].duplicated()].tolist()
    if twice:
        raise DuplicateError(
            f"{where} takes topics, one row per query; {listed(dict.fromkeys(twice))} occurs more "
            "than once"
        )
    return list(zip(qids, texts, strict=True))


def _strings(inp: pd.DataFrame, column: str, where: str, advice: str) -> list[str]:
    values: list[Any] = inp[column].tolist()
    for number, value in enumerate(values):
        if not isinstance(value, str):
            row = inp.iloc[number]
            raise InputError(
                f"{where}: the {column} of qid {row[QID]!r}, docno {row[DOCNO]!r} must be a "
                f"string; found {value!r}: {advice}"
            )
    return values
