"""Which row a document has: an index over millions of docnos.

Wikipedia's page ids are whole numbers. Where all docnos are, 8 bytes each are kept and looked up by
bisection; a hash table of 6.5 million strings would take a gigabyte. Other docnos are kept as
strings, with a hash table built on first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.frames.arrays import IntArray, ObjectArray
from fairtk.frames.ids import as_strings

_POWERS = 10 ** np.arange(19, dtype=np.int64)


class Documents:
    """Distinct docnos in a fixed order: integers, sorted (`numbers`), or strings in any order."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self.values = values
        self.numeric = values.dtype.kind == "i"

    @classmethod
    def ordered(cls, docnos: Any) -> tuple[Documents, IntArray | None]:
        """Return an index of distinct docnos, and for each of its rows the place among them.

        Docnos are strings or integers; None instead of places: the same ones.
        """
        values = np.asarray(docnos)
        whole = values.dtype.kind in "iu"
        found = values.astype(np.int64) if whole else numbers(as_strings(values))
        if found is None or not len(found) or found.min() < 0:
            return cls(as_strings(values)), None
        if bool((found[1:] > found[:-1]).all()):
            return cls(found), None
        order = np.argsort(found, kind="stable")
        return cls(found[order]), order

    def __len__(self) -> int:
        return len(self.values)

    @property
    def docnos(self) -> ObjectArray:
        """The docnos as strings; shape (n_documents,). Made anew if they are numbers."""
        return as_strings(self.values)

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.values, dtype=object)

    def rows(self, docnos: Iterable[str] | npt.NDArray[Any]) -> IntArray:
        """Return the row of each docno, -1 where it is not in the index."""
        wanted = docnos if isinstance(docnos, np.ndarray) else np.array(list(docnos), dtype=object)
        if not self.numeric:
            return np.asarray(self._index.get_indexer(as_strings(wanted)), dtype=np.int64)
        if wanted.dtype.kind in "iu":
            return self._bisect(wanted.astype(np.int64))
        found = numbers(wanted)
        return self._bisect(_one_by_one(wanted) if found is None else found)

    def _bisect(self, wanted: IntArray) -> IntArray:
        if not len(self.values):
            return np.full(len(wanted), -1, dtype=np.int64)
        order = np.argsort(wanted)  # bisection of sorted numbers stays in the cache
        rising = wanted[order]
        place = np.searchsorted(self.values, rising)
        place[place == len(self.values)] = 0
        result = np.empty(len(wanted), dtype=np.int64)
        result[order] = np.where(self.values[place] == rising, place, -1)
        return result

    def same(self, other: Documents) -> bool:
        """Return whether both hold the same docnos in the same order."""
        if self is other:
            return True
        return (
            self.numeric == other.numeric
            and len(self) == len(other)
            and bool(np.array_equal(self.values, other.values))
        )

    def shared_with(self, other: Documents) -> bool:
        """Return whether any docno is in both, looking no further than the first one found."""
        few, many = sorted((self, other), key=len)
        step = 1 << 14
        return any(
            bool((many.rows(few.docnos_at(slice(at, at + step))) >= 0).any())
            for at in range(0, len(few), step)
        )

    def docnos_at(self, rows: IntArray | slice) -> ObjectArray:
        """Return the docnos of some rows, as strings."""
        return as_strings(self.values[rows])


def numbers(docnos: Sequence[str] | npt.NDArray[Any]) -> IntArray | None:
    """Return docnos as whole numbers, or None unless each is one, written plainly.

    ``"007"``, ``"+7"`` and ``"1_000"`` are no such numbers: they would name another document.
    Elements that only look different are -1; a docno that is no number at all gives None.
    """
    try:
        found = np.fromiter(map(int, docnos), dtype=np.int64, count=len(docnos))
    except (ValueError, TypeError, OverflowError):
        return None
    if not len(found):
        return found
    length = np.fromiter(map(len, docnos), dtype=np.int64, count=len(docnos))
    digits = np.maximum(np.searchsorted(_POWERS, found, side="right"), 1)
    plain = (length == digits) & (found >= 0)
    if not "".join(docnos).isascii():
        plain &= np.fromiter(map(str.isascii, docnos), dtype=bool, count=len(docnos))
    return np.where(plain, found, -1)


def _one_by_one(docnos: npt.NDArray[Any]) -> IntArray:
    texts = list(map(str, docnos))
    found = [int(t) if t.isascii() and t.isdecimal() and len(t) < 19 else -1 for t in texts]
    same = [str(number) == text for number, text in zip(found, texts, strict=True)]
    return np.where(same, found, -1).astype(np.int64)
