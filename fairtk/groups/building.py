"""From tables of (document, group, weight) to an `Attribute`, with everything checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
import pandas as pd

from fairtk.errors import DuplicateError, InputError, ParameterError, listed, such_rows
from fairtk.files.rows import number_of, shown
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.frames.columns import DOCNO, GROUP, WEIGHT, as_numbers, require
from fairtk.frames.ids import as_strings, encode_ids
from fairtk.groups.attribute import Attribute
from fairtk.groups.documents import Documents

SPLITS = ("count", "equal")

_ROUNDING = 1e-12

Fail = Callable[[int, str, type[InputError]], NoReturn]
"""Raises for a row of the table; files put their path and line in front."""


def attribute_from_frame(
    frame: pd.DataFrame,
    name: str,
    *,
    unknown: str | None,
    levels: Sequence[str] | None,
    split: str,
    normalize: bool,
    fail: Fail | None = None,
) -> Attribute:
    """Return the attribute that a groups frame describes; see `fairtk.Groups.from_frame`."""
    where = f"Groups {name!r}"
    if split not in SPLITS:
        raise ParameterError(f"{where}: split must be 'count' or 'equal'; found {split!r}")
    require(frame, [DOCNO, GROUP], where)
    fail = fail or failing(where)
    row, documents = _documents(frame[DOCNO], where, fail)
    names, code = _levels(frame[GROUP], levels, unknown, where, fail)
    weight = np.ones(len(frame))
    if WEIGHT in frame.columns:
        weight = checked_weights(frame, [DOCNO, GROUP], fail)
    key = row * np.int64(len(names)) + code
    rising = bool((key[1:] > key[:-1]).all())
    if not rising:
        twice = pd.Series(key).duplicated().to_numpy()
        if twice.any():
            at = first(twice)
            fail(
                at,
                f"docno {str(frame[DOCNO].iloc[at])!r} and group {names[code[at]]!r} occur twice "
                f"({such_rows(int(twice.sum()))}); give each pair once, with a weight",
                DuplicateError,
            )
    total = np.bincount(row, weights=weight, minlength=len(documents))
    if not total.all():
        at = first((total == 0)[row])
        fail(
            at,
            f"the weights of docno {str(frame[DOCNO].iloc[at])!r} sum to 0; leave the document out "
            "or give it a group",
            InputError,
        )
    if not weight.all():
        used = weight > 0
        row, code, weight, key = row[used], code[used], weight[used], key[used]
    if split == "equal":
        weight = np.ones(len(row))
    if not rising:
        order = np.argsort(key, kind="stable")
        row, code, weight = row[order], code[order], weight[order]
    if normalize:
        total = np.bincount(row, weights=weight, minlength=len(documents))
        total[np.abs(total - 1) < _ROUNDING] = 1  # so that writing and reading changes nothing
        weight = weight / total[row]
    start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(documents)))])
    return Attribute(
        name,
        names,
        -1 if unknown is None or unknown not in names else names.index(unknown),
        documents,
        start.astype(np.int32 if len(row) < 2**31 else np.int64),
        code.astype(np.int16 if len(names) < 2**15 else np.int32),
        None if bool((weight == 1.0).all()) else weight,
        normalize,
    )


def failing(where: str) -> Fail:
    """Return the function that raises for a row of a frame."""

    def fail(row: int, message: str, kind: type[InputError]) -> NoReturn:
        raise kind(f"{where}: row {row}: {message}")

    return fail


def level_order(found: Sequence[str], unknown: str | None) -> tuple[str, ...]:
    """Return levels in their default order: the unknown one first, then by name."""
    rest = sorted(set(found) - {unknown})
    return (unknown, *rest) if unknown is not None and unknown in found else tuple(rest)


def checked_levels(levels: Sequence[str], where: str) -> tuple[str, ...]:
    """Return given levels as a tuple; what is no list of distinct strings is an `InputError`."""
    if isinstance(levels, str) or not all(isinstance(v, str) for v in levels):
        raise ParameterError(f"{where}: levels must be a list of strings; found {levels!r}")
    names = tuple(levels)
    twice = [v for i, v in enumerate(names) if v in names[:i]]
    if twice:
        raise DuplicateError(f"{where}: the level {twice[0]!r} is listed twice")
    return names


def _documents(column: pd.Series, where: str, fail: Fail) -> tuple[IntArray, Documents]:
    """Return the row of each document, and the documents."""
    values = column.to_numpy() if pd.api.types.is_integer_dtype(column.dtype) else None
    if values is not None and len(values) and values.dtype.kind == "i" and values[0] >= 0:
        step = np.diff(values)
        if bool((step >= 0).all()):  # as written by fairtk: no hash table is needed
            fresh = np.concatenate([[True], step > 0])
            return np.cumsum(fresh) - 1, Documents(values[fresh].astype(np.int64))
    missing = column.isna().to_numpy()
    if missing.any():
        fail(first(missing), "docno is missing", InputError)
    codes, docnos = encode_ids(column, DOCNO, where)
    documents, order = Documents.ordered(docnos)
    row = codes.astype(np.int64, copy=False)
    if order is not None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        row = place[row]
    return row, documents


def _levels(
    column: pd.Series, levels: Sequence[str] | None, unknown: str | None, where: str, fail: Fail
) -> tuple[tuple[str, ...], IntArray]:
    codes, values = pd.factorize(column)
    found = list(as_strings(values))
    codes = codes.astype(np.int64)
    if (codes < 0).any():
        if unknown is None:
            fail(first(codes < 0), "the group is missing and unknown=None", InputError)
        if unknown not in found:
            found.append(unknown)
        codes[codes < 0] = found.index(unknown)
    if not found and unknown is not None and levels is None:
        found = [unknown]  # an empty frame
    names = level_order(found, unknown) if levels is None else checked_levels(levels, where)
    if unknown is not None and unknown in found and unknown not in names:
        names = (unknown, *names)  # first, as in TREC's files
    message = f"group {{}} is none of the levels {listed(names, 40)}"
    places = level_places(codes, found, names, message, fail)
    if not names:
        raise InputError(f"{where}: there are no levels; give a row, or levels=")
    return names, places


def level_places(
    codes: IntArray, found: list[str], names: Sequence[str], message: str, fail: Fail
) -> IntArray:
    """Return the place of each row's level among the levels that there are.

    A level of `found` that is none of the `names` fails, with it in place of ``{}`` in the message.
    """
    places = {level: place for place, level in enumerate(names)}
    for code, level in enumerate(found):
        if level not in places:
            fail(first(codes == code), message.replace("{}", repr(level), 1), InputError)
    table = np.array([places[level] for level in found], dtype=np.int64)
    return table[codes] if len(codes) else codes


def checked_weights(frame: pd.DataFrame, names: list[str], fail: Fail) -> FloatArray:
    """Return the weights as floats; a text is one if it is a plain number.

    `names` are the columns that name a row, for messages.
    """
    column = frame[WEIGHT]
    if pd.api.types.is_numeric_dtype(column.dtype):
        weight = as_numbers(column)
    else:
        found = [number_of(value) for value in column.tolist()]
        weight = np.array([np.nan if value is None else value for value in found], dtype=np.float64)
    wrong = ~np.isfinite(weight) | (weight < 0)
    if wrong.any():
        at = first(wrong)
        fail(
            at,
            f"{row_name(frame, names, at)}: weight must be a finite number, 0 or above; found "
            f"{shown(column.iloc[at])} ({such_rows(int(wrong.sum()))})",
            InputError,
        )
    return weight


def row_name(frame: pd.DataFrame, names: list[str], at: int) -> str:
    """Return what names a row: ``"docno 'd1', group 'a'"``."""
    row = frame.iloc[at]
    return ", ".join(f"{name} {str(row[name])!r}" for name in names)


def first(wrong: BoolArray) -> int:
    """Return the first row that is wrong."""
    return int(np.flatnonzero(wrong)[0])
