"""Ids as integer codes: columns of text are encoded once.

An id is text or an integer; 1 and "1" are the same id. `fairtk.frames.schema` refuses other types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fairtk.frames.columns import DOCNO, QID, IntArray, ObjectArray

SURROGATE = re.compile("[\ud800-\udfff]")
_STRANGE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_WHY = {
    "\0": "evaluators written in C stop at it",
    "\n": "a line break; stray quotes join lines",
    "\r": "a line break; stray quotes join lines",
    "\ufeff": "a byte order mark, left over from joined files",
}


def find_flaw(text: str) -> str:
    """Return why a text is not a valid id, such as "is empty"; ``""`` if it is valid.

    Empty text, surrounding spaces, control characters, line breaks and unpaired surrogates are
    invalid, because evaluators or file readers misread them.
    """
    if not text:
        return "is empty"
    strange = _STRANGE.search(text)
    if strange is None:
        return "has spaces around it" if text != text.strip() else ""
    sign = strange.group()
    half = "an unpaired surrogate: it was decoded wrongly"
    why = _WHY.get(sign, half if "\ud800" <= sign <= "\udfff" else "a control character")
    return f"has the character U+{ord(sign):04X} ({why})"


def are_ids(texts: Sequence[str]) -> bool:
    """Return whether all texts are valid ids; other values raise a `TypeError`."""
    together = "".join(texts)
    if "" in texts:
        return False
    if _plain(together.encode("utf-8", "surrogatepass")):
        return True
    if not together.isprintable():
        return not any(map(find_flaw, texts))
    # Printable text has no other white space than spaces.
    lines = "\n" + "\n".join(texts) + "\n"
    return "\n " not in lines and " \n" not in lines


def _plain(raw: Any) -> bool:
    """Return whether all bytes are printable ASCII without spaces."""
    codes = np.frombuffer(raw, dtype=np.uint8)
    return not len(codes) or bool(codes.min() > ord(" ") and codes.max() < 127)


class Ids:
    """Distinct ids, as Python strings or as an Arrow array; each form is made on first use.

    Where the strings are needed, it is used like the array `text`: ``ids[indices]``, ``len(ids)``.
    """

    def __init__(self, values: ObjectArray | pa.LargeStringArray) -> None:
        self.values = values
        self.size = len(values)

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True  # also without ids, like runs and labels

    def __getitem__(self, index: Any) -> Any:
        return self.text[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.text)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ObjectArray:
        return self.text

    def tolist(self) -> list[str]:
        """Return the ids as strings."""
        texts: list[str] = self.text.tolist()
        return texts

    @cached_property
    def text(self) -> ObjectArray:
        """The ids as Python strings; shape (n_ids,)."""
        values = self.values
        return values if isinstance(values, np.ndarray) else values.to_numpy(zero_copy_only=False)

    def take(self, indices: IntArray) -> Ids:
        """Return the ids at some indices."""
        values = self.values
        is_text = isinstance(values, np.ndarray)
        return Ids(values[indices] if is_text else values.take(pa.array(indices)))

    def texts_at(self, indices: IntArray) -> list[str]:
        """Return the ids at some indices as strings, without converting all ids."""
        if isinstance(self.values, np.ndarray) or "text" in vars(self):
            return list(self.text[indices])
        texts: list[str] = self.values.take(pa.array(indices)).to_pylist()
        return texts

    @cached_property
    def arrow(self) -> pa.LargeStringArray:
        """The ids as an Arrow array; shape (n_ids,)."""
        return pa.array(self.values, pa.large_string())

    def flaws(self) -> dict[int, str]:
        """Return why ids are invalid (`find_flaw`), by index; valid ids are left out."""
        with suppress(UnicodeEncodeError):  # Arrow refuses unpaired surrogates
            raw = self.arrow.buffers()[2]
            if raw is not None and _plain(raw) and pc.min(pc.binary_length(self.arrow)).as_py():
                return {}
        texts = self.text.tolist()
        if are_ids(texts):
            return {}
        return {index: flaw for index, text in enumerate(texts) if (flaw := find_flaw(text))}

    def find(self, others: Ids) -> IntArray:
        """Return the index in `self` of each id of `others`; -1 if absent."""
        return self.find_each([others])[0]

    def find_each(self, many: Sequence[Ids]) -> list[IntArray]:
        """Return `find` for several sets of ids, with one lookup."""
        together = pa.concat_arrays([others.arrow for others in many])
        index = np.asarray(pc.index_in(together, value_set=self.arrow).fill_null(-1))
        ends = np.cumsum([others.size for others in many])[:-1]
        return [part.astype(np.int64) for part in np.split(index, ends)]


Coded: TypeAlias = tuple[IntArray, Ids]
"""The code of each row's id, and the distinct ids."""


def parents_of(ids: Ids, separator: str) -> ObjectArray:
    """Return each id up to its last separator, or whole without the separator; shape (n_ids,)."""
    parts = pc.split_pattern(ids.arrow, separator, max_splits=1, reverse=True)
    parents: ObjectArray = pc.list_element(parts, 0).to_numpy(zero_copy_only=False)
    return parents


def coded_again(codes: IntArray, ids: Ids) -> Coded:
    """Return new codes of a subset of rows, and the ids that occur in it."""
    new_codes, seen = pd.factorize(codes)
    return new_codes.astype(np.int64, copy=False), ids.take(seen)


def text_codes(column: pd.Series, name: str) -> Coded | None:
    """Return a text or categorical column as codes and ids; `None` for other types."""
    if not _is_coded(column):
        texts = complete_text(column)
        return None if texts is None else codes_of(texts, name)
    texts = complete_text(column.cat.categories)
    codes = column.cat.codes.to_numpy(np.int64)
    if texts is None or codes.min(initial=0) < 0:
        return None
    used = pd.unique(codes)
    if len(used) == len(texts) and bool((used[1:] > used[:-1]).all()):
        return codes, Ids(texts)
    number = np.zeros(len(texts), dtype=np.int64)
    number[used] = np.arange(len(used))
    return number[codes], Ids(texts.take(pa.array(used)))


def complete_text(column: pd.Series) -> pa.LargeStringArray | None:
    """Return a column of Arrow text as an array; `None` for another type or a missing value."""
    if getattr(column.dtype, "storage", "") != "pyarrow":
        return None
    texts = pa.array(column.array)
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    return None if texts.null_count else texts.cast(pa.large_string())


def codes_of(texts: pa.LargeStringArray, name: str) -> Coded:
    """Return texts as codes, and the ids in order of first appearance."""
    if name == QID:  # rows of a query are usually adjacent
        runs = pc.run_end_encode(texts)
        coded, length = runs.values.dictionary_encode(), np.diff(runs.run_ends, prepend=0)
        codes = np.repeat(np.asarray(coded.indices, dtype=np.int64), length)
    else:
        coded = texts.dictionary_encode()
        codes = np.asarray(coded.indices).astype(np.int64)
    return codes, Ids(coded.dictionary)


def categories(coded: Coded) -> pd.Categorical:
    """Return coded ids as a categorical column; `decode_ids` is the inverse."""
    codes, ids = coded
    distinct = pd.Index(pd.array(ids.arrow, dtype="str"))
    return pd.Categorical.from_codes(codes, distinct, validate=False)


def decode_ids(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with categorical id columns as text."""
    names = [c for c in (QID, DOCNO) if c in frame.columns and _is_coded(frame[c])]
    columns = {c: frame[c].cat.categories.array.take(frame[c].cat.codes) for c in names}
    return frame.assign(**columns) if columns else frame


def _is_coded(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.CategoricalDtype)


def with_text(frame: pd.DataFrame, ids: dict[str, Coded]) -> pd.DataFrame:
    """Return the frame with its ids as text; the same frame if they already are."""
    inferred = {name: pd.api.types.infer_dtype(frame[name], skipna=False) for name in ids}
    coded = {name: categories(ids[name]) for name in ids if inferred[name] != "string"}
    return decode_ids(frame.assign(**coded)) if coded else frame


def as_strings(values: Any) -> ObjectArray:
    """Return values of any type as an array of Python strings."""
    array = np.asarray(values, dtype=object)
    if pd.api.types.infer_dtype(array, skipna=False) != "string":
        array = np.array([str(v) for v in array], dtype=object)
    return array
