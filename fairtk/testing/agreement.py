"""Comparisons whose failure says what differs; plain Python, so they work without pytest."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

TOLERANCE = 1e-9


def check(condition: bool, message: str) -> None:
    """Raise an `AssertionError` with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def same_number(one: float, two: float) -> bool:
    """Return whether two numbers agree to 1e-9; NaN agrees with NaN."""
    if math.isnan(one) or math.isnan(two):
        return math.isnan(one) and math.isnan(two)
    return math.isclose(one, two, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def check_values(found: Mapping[str, float], wanted: Mapping[str, float], message: str) -> None:
    """Raise unless two sets of values by qid agree; the message says what it means if not."""
    check(
        set(found) == set(wanted),
        f"{message}: qids {sorted(found)}, but {sorted(wanted)} were expected",
    )
    for qid, value in wanted.items():
        check(
            same_number(found[qid], value),
            f"{message}: qid {qid!r} has {found[qid]!r}, but {value!r} was expected",
        )


def check_frames(found: pd.DataFrame, wanted: pd.DataFrame, message: str) -> None:
    """Raise unless two frames have the same columns and rows; the order of rows does not count."""
    check(
        list(found.columns) == list(wanted.columns),
        f"{message}: columns {list(found.columns)}, but {list(wanted.columns)} were expected",
    )
    check(len(found) == len(wanted), f"{message}: {len(found)} rows instead of {len(wanted)}")
    for one, two in zip(_rows(found), _rows(wanted), strict=True):
        equal = all(_same(a, b) for a, b in zip(one, two, strict=True))
        check(equal, f"{message}: the row {one} stands where {two} was expected")


def snapshot(frame: pd.DataFrame) -> list[Any]:
    """Return all that a frame says, to compare later; lists inside cells are copied too."""
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
