"""Ids of queries and documents: the one place that says what an id may be; words of a text.

An id is text, or a whole number that stands for its digits: 1 and "1" are the same query in two
frames. Everything else would match nothing, or stop an evaluator that is written in C, so it is an
error here, at every door.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fairtk.errors import InputError
from fairtk.frames.columns import QID, IntArray, ObjectArray

_REMEDY = {
    float: "a number with a decimal point is another text than the whole one; convert the column "
    "with .astype(int)",
    bytes: "decode the column with .str.decode('utf-8')",
    bool: "an id is text or a whole number",
}


class Ids:
    """Distinct ids, as text and for look-ups; the form that they did not come in is made late."""

    def __init__(self, given: ObjectArray | pa.LargeStringArray) -> None:
        self.given = given
        self.size = len(given)

    @cached_property
    def text(self) -> ObjectArray:
        """The ids as Python strings; shape (n_ids,)."""
        given = self.given
        return given if isinstance(given, np.ndarray) else given.to_numpy(zero_copy_only=False)

    @cached_property
    def _table(self) -> pa.LargeStringArray:
        return pa.array(self.given, pa.large_string())

    def find(self, others: Ids) -> IntArray:
        """Return the place of each of other ids among these; -1 where it is none of them."""
        return self.find_each([others])[0]

    def find_each(self, many: Sequence[Ids]) -> list[IntArray]:
        """Return the same for each of many, at the price of one where these are more."""
        together = pa.concat_arrays([others._table for others in many])
        place = np.asarray(pc.index_in(together, value_set=self._table).fill_null(-1))
        ends = np.cumsum([others.size for others in many])[:-1]
        return [part.astype(np.int64) for part in np.split(place, ends)]


def encode_ids(column: pd.Series, name: str, where: str) -> tuple[IntArray, ObjectArray]:
    """Return ids as codes, and the distinct ids as text; see `coded_ids`."""
    codes, ids = coded_ids(column, name, where)
    return codes, ids.text


def coded_ids(column: pd.Series, name: str, where: str) -> tuple[IntArray, Ids]:
    """Return ids as codes, and the distinct ids in order of first appearance.

    What is missing, no text and no whole number, or has a character that no file can hold is an
    `InputError`; so are two ids that differ as they are and not as text, such as 1 and "1".
    """
    given = _complete_text(column)
    if given is not None:
        return _coded_text(given, name, where)
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # a list, a dict, an array: no id, and not to be compared
        for row, value in enumerate(column.tolist()):
            if getattr(type(value), "__hash__", None) is None:
                _text(value, f"{where}: {name} in row {row}")
        raise
    if codes.min(initial=0) < 0:
        row = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{where}: {name} is missing (NaN) in row {row}; every row needs one")
    return codes.astype(np.int64, copy=False), Ids(distinct_ids(values, name, where))


def coded_among(
    known: Ids, column: pd.Series, name: str, where: str
) -> tuple[IntArray, Ids, IntArray]:
    """Return ids as codes, the distinct ids in any order, and their places among known ones.

    Most of the column are expected to be among the known ones.
    """
    given = _complete_text(column)
    if given is None:
        codes, ids = coded_ids(column, name, where)
        return codes, ids, known.find(ids)
    found = pc.index_in(given, value_set=known._table)
    whole, table = np.asarray(found.fill_null(-1)).astype(np.int64), known._table
    rest = np.flatnonzero(whole < 0)
    if len(rest):
        codes, others = _coded_text(given.take(pa.array(rest)), name, where)
        whole[rest] = known.size + codes
        table = pa.concat_arrays([table, others._table])
    used = np.flatnonzero(np.bincount(whole, minlength=len(table)))
    number = np.zeros(len(table), dtype=np.int64)
    number[used] = np.arange(len(used))
    return number[whole], Ids(table.take(pa.array(used))), np.where(used < known.size, used, -1)


def _complete_text(column: pd.Series) -> pa.LargeStringArray | None:
    """Return a column of text as Arrow has it; None if it is kept otherwise, or some is missing."""
    if getattr(column.dtype, "storage", "") != "pyarrow":
        return None
    given = pa.array(column.array)
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    return None if given.null_count else given.cast(pa.large_string())


def _coded_text(given: pa.LargeStringArray, name: str, where: str) -> tuple[IntArray, Ids]:
    if name == QID:  # rows of a query mostly stand together
        runs = pc.run_end_encode(given)
        coded, length = runs.values.dictionary_encode(), np.diff(runs.run_ends, prepend=0)
        codes = np.repeat(np.asarray(coded.indices, dtype=np.int64), length)
    else:
        coded = given.dictionary_encode()
        codes = np.asarray(coded.indices).astype(np.int64)
    ids, content = Ids(coded.dictionary), coded.dictionary.buffers()[2]
    raw = b"" if content is None else content.to_pybytes()
    if b"\0" in raw or not raw.isascii():
        _refuse_characters("".join(ids.text), ids.text, name, where)
    return codes, ids


def distinct_ids(values: Any, name: str, where: str) -> ObjectArray:
    """Return distinct ids as text; what is none is an `InputError`, as in `coded_ids`."""
    array = np.asarray(values, dtype=object)
    try:
        together = "".join(array)
    except TypeError:  # something is no text
        given, array = array, np.empty(len(array), dtype=object)
        array[:] = [_text(v, f"{where}: {name}") for v in given]
        _refuse_alike(given, array, name, where)
        together = "".join(array)
    _refuse_characters(together, array, name, where)
    return array


def with_text(frame: pd.DataFrame, ids: dict[str, tuple[IntArray, Ids]]) -> pd.DataFrame:
    """Return a frame whose ids are text; itself if they are."""
    other = {
        name: known.text[codes]
        for name, (codes, known) in ids.items()
        if pd.api.types.infer_dtype(frame[name], skipna=False) != "string"
    }
    return frame.assign(**other) if other else frame


def as_strings(values: Any) -> ObjectArray:
    """Return values of any kind as an array of Python strings, such as the levels of groups."""
    array = np.asarray(values, dtype=object)
    if pd.api.types.infer_dtype(array, skipna=False) != "string":
        array = np.array([str(v) for v in array], dtype=object)
    return array


def _text(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    kind = type(value)
    remedy = next(
        (text for base, text in _REMEDY.items() if isinstance(value, base)),
        "convert the column with .astype(str)",
    )
    if isinstance(value, np.floating):
        remedy = _REMEDY[float]
    if kind.__hash__ is None:
        remedy = "one row has one id: split it with DataFrame.explode"
    raise InputError(
        f"{place} must be text or a whole number; found {value!r} ({kind.__name__}): {remedy}"
    )


def _refuse_alike(given: Any, text: ObjectArray, name: str, where: str) -> None:
    if len(set(text)) < len(text):
        twice = pd.Series(text).duplicated(keep=False).to_numpy()
        kinds = sorted({type(v).__name__ for v in given[twice]})
        raise InputError(
            f"{where}: {name} {text[twice][0]!r} occurs as {' and '.join(kinds)}, which are one "
            f"id as text; convert the column with .astype(str)"
        )


def strange_character(text: str) -> tuple[str, str] | None:
    """Return a character that an evaluator or a file cannot hold, and why; None: there is none."""
    if "\0" in text:
        return "\0", "evaluators written in C stop at it"
    if text.isascii():
        return None
    if "\ufeff" in text:
        return "\ufeff", "it is the mark at the start of a file, left over from joined files"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return text[error.start], "half a character: it was decoded wrongly"
    return None


def _refuse_characters(together: str, array: ObjectArray, name: str, where: str) -> None:
    found = strange_character(together)
    if found is None:
        return
    bad, why = found
    value = next(v for v in array if bad in v)
    raise InputError(
        f"{where}: {name} {value!a} has the character U+{ord(bad):04X} ({why}); "
        "read the data again, or remove it with .str.replace"
    )


_WORD = re.compile(r"\w+(?:-\w+)*")
_JOINERS = "\u200c\u200d"
"""Signs within words of Persian and Indian scripts."""


def words(text: str) -> list[str]:
    r"""Return the words of a text: letters, digits and marks, with hyphens between them.

    Combining marks belong to the letter before them: the vowel signs of Indian scripts, Arabic and
    Hebrew points, accents that stand apart. Python's ``\w`` leaves them out.
    """
    if text.isascii():
        return _WORD.findall(text)
    shown = [" "]
    for sign in text:
        mark = sign in _JOINERS or unicodedata.category(sign)[0] == "M"
        # as a letter where one can carry it; a mark alone is no word
        shown.append(("x" if _WORD.match(shown[-1]) else " ") if mark else sign)
    found = _WORD.finditer("".join(shown[1:]))
    return [text[match.start() : match.end()].rstrip(_JOINERS) for match in found]
