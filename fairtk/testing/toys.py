"""Toy frames: four queries and six documents, small enough to compute manually.

The queries share documents. ``q3`` has four documents and ``q4`` one, so that cutoffs exceed
rankings; ``q2`` has two gold answers. Each document is labeled for each query. Each call returns
new frames, so a test may change them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError
from fairtk.frames import (
    DOCNO,
    GOLD_ANSWER,
    GROUP,
    LABEL,
    QANSWER,
    QID,
    QUERY,
    QUESTION,
    RANK,
    SAMPLE,
    SCORE,
    TEXT,
    WEIGHT,
)

_TEXTS = {
    "d1": "the red fox lives in the forest",
    "d2": "ships cross the sea at night",
    "d3": "a fox hunts mice in winter",
    "d4": "the old lighthouse warns ships",
    "d5": "bread is baked before dawn",
    "d6": "mice eat bread in the kitchen",
}
_QUERIES = {"q1": "red fox", "q2": "ships at sea", "q3": "mice bread", "q4": "dawn"}
_ORDER = {
    "q1": ["d3", "d1", "d5", "d2", "d6", "d4"],
    "q2": ["d2", "d4", "d6", "d1", "d3", "d5"],
    "q3": ["d6", "d1", "d4", "d2"],
    "q4": ["d5"],
}
_LABELS = {
    "q1": {"d1": 2, "d3": 1},
    "q2": {"d2": 1, "d4": 1, "d6": 1},
    "q3": {"d3": 1, "d5": 1, "d6": 2},
    "q4": {"d5": 1},
}
_GOLD: dict[str, Any] = {
    "q1": "a red fox",
    "q2": ["ships cross the sea", "a lighthouse"],
    "q3": "mice eat bread",
    "q4": "bread is baked",
}


def toy_topics() -> pd.DataFrame:
    """Return topics (Q): ``qid``, ``query``, ``question``."""
    rows = [(qid, query, f"What is known of {query}?") for qid, query in _QUERIES.items()]
    return pd.DataFrame(rows, columns=[QID, QUERY, QUESTION])


def toy_documents() -> pd.DataFrame:
    """Return the documents: ``docno``, ``text``."""
    return pd.DataFrame({DOCNO: list(_TEXTS), TEXT: list(_TEXTS.values())})


def toy_groups() -> pd.DataFrame:
    """Return group memberships: ``docno``, ``group``, ``weight``; ``d3`` is in two groups."""
    rows = [
        ("d1", "land", 1.0),
        ("d2", "sea", 1.0),
        ("d3", "land", 0.5),
        ("d3", "house", 0.5),
        ("d4", "sea", 1.0),
        ("d5", "house", 1.0),
        ("d6", "house", 1.0),
    ]
    return pd.DataFrame(rows, columns=[DOCNO, GROUP, WEIGHT])


def toy_run() -> pd.DataFrame:
    """Return a run (R): ``qid``, ``query``, ``docno``, ``score``, ``rank``, ``text``; no ties."""
    rows = [
        (qid, _QUERIES[qid], docno, 9.5 - 1.5 * rank, rank, _TEXTS[docno])
        for qid, order in _ORDER.items()
        for rank, docno in enumerate(order)
    ]
    return pd.DataFrame(rows, columns=[QID, QUERY, DOCNO, SCORE, RANK, TEXT])


def toy_samples(n_samples: int = 4) -> pd.DataFrame:
    """Return a sampled run (S): the columns of `toy_run`, and ``sample``.

    Sample 0 has the order of `toy_run`; the others are rotations of it, every second one reversed.
    """
    rows = []
    for qid, order in _ORDER.items():
        for sample in range(n_samples):
            turn = sample % len(order)
            ranking = order[turn:] + order[:turn]
            for rank, docno in enumerate(ranking[::-1] if sample % 2 else ranking):
                rows.append((qid, _QUERIES[qid], docno, -float(rank), rank, _TEXTS[docno], sample))
    return pd.DataFrame(rows, columns=[QID, QUERY, DOCNO, SCORE, RANK, TEXT, SAMPLE])


def toy_answers(n_samples: int = 4) -> pd.DataFrame:
    """Return sampled answers: `toy_samples` and ``qanswer``, the text of each first document."""
    samples = toy_samples(n_samples)
    samples[QANSWER] = samples[TEXT].where(samples[RANK] == 0).ffill()  # rows are in order
    return samples


def toy_qrels() -> pd.DataFrame:
    """Return labels: ``qid``, ``docno``, ``label`` (0 to 2), ``gold_answer``."""
    rows = [
        (qid, docno, labels.get(docno, 0), _GOLD[qid])
        for qid, labels in _LABELS.items()
        for docno in _TEXTS
    ]
    return pd.DataFrame(rows, columns=[QID, DOCNO, LABEL, GOLD_ANSWER])


def with_other_indexes(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the frame with indexes that must not matter, by the kind of index."""
    n = len(frame)
    numbers, texts = np.arange(n), [f"x{n - i}" for i in range(n)]
    indexes = {
        "repeated": pd.Index(numbers // 2),
        "unsorted texts, named as a column": pd.Index(texts, name=QID),
        "of several levels": pd.MultiIndex.from_arrays([numbers % 2, texts], names=[QID, DOCNO]),
    }
    return {kind: frame.set_axis(index) for kind, index in indexes.items()}


TOLERANCE = 1e-9


def same_number(one: float, two: float) -> bool:
    """Return whether two numbers agree to 1e-9; NaN agrees with NaN."""
    if math.isnan(one) or math.isnan(two):
        return math.isnan(one) and math.isnan(two)
    return math.isclose(one, two, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def check_values(actual: Mapping[str, float], expected: Mapping[str, float], message: str) -> None:
    """Raise with the message unless two sets of values by qid agree."""
    assert set(actual) == set(expected), (
        f"{message}: expected qids {sorted(expected)}, got {sorted(actual)}"
    )
    for qid, value in expected.items():
        assert same_number(actual[qid], value), (
            f"{message}: expected {value!r} for qid {qid!r}, got {actual[qid]!r}"
        )


def check_frames(actual: pd.DataFrame, expected: pd.DataFrame, message: str) -> None:
    """Raise unless two frames have the same columns and rows; the order of rows does not count."""
    assert list(actual.columns) == list(expected.columns), (
        f"{message}: expected columns {list(expected.columns)}, got {list(actual.columns)}"
    )
    assert len(actual) == len(expected), f"{message}: {len(actual)} rows instead of {len(expected)}"
    for one, two in zip(_rows(actual), _rows(expected), strict=True):
        equal = all(_same(a, b) for a, b in zip(one, two, strict=True))
        assert equal, f"{message}: expected the row {two}, got {one}"


def invalid_values(kinds: tuple[type, ...]) -> list[Any]:
    """Return values that a setting of some types must refuse unless they are its default.

    Args:
        kinds: the types of valid values.
    """
    values: list[Any] = [None, math.nan, math.inf, "", " "]
    if object not in kinds:
        values += [v for v in (object(), [object()], {}, b"a", 0.5, True) if type(v) not in kinds]
    return values


def is_one_of(value: Any, values: Iterable[Any]) -> bool:
    """Return whether a value is equal to one of the values and has its type."""
    return any(type(value) is type(other) and value == other for other in values)


def check_refused(make: Callable[[], Any], name: str, what: str) -> None:
    """Raise an `AssertionError` unless a call raises an `InputError` that names the setting.

    Args:
        make: the call.
        name: the setting.
        what: the call in words, for the message.
    """
    try:
        made = make()
    except InputError as error:
        assert name in str(error), f"{what}: the error does not name {name}: {error}"
    except Exception as error:
        message = f"{what} must be an InputError, got {type(error).__name__}: {error}"
        raise AssertionError(message) from error
    else:
        raise AssertionError(f"{what} is accepted: {made!r}")


def snapshot(frame: pd.DataFrame) -> list[Any]:
    """Return the content of a frame for a later comparison, with lists in cells copied."""
    columns = [[copy.deepcopy(value) for value in frame[c].tolist()] for c in frame.columns]
    return [list(frame.columns), list(frame.index), repr(columns)]


def _rows(frame: pd.DataFrame) -> list[list[Any]]:
    keys = [c for c in ("qid", "sample", "docno", "query", "rank") if c in frame.columns]
    ordered = frame.sort_values(keys, kind="stable") if keys else frame
    rows: list[list[Any]] = ordered.to_numpy(dtype=object).tolist()
    return rows


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float | int):
        return same_number(one, float(two))
    if one is two:
        return True
    equal = one == two
    return bool(equal if isinstance(equal, bool) else pd.Series(equal).all())
