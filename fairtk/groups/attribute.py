"""The memberships of all documents in the levels of one attribute, compactly."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.divergence import spread
from fairtk.frames.arrays import BoolArray, FloatArray, IntArray
from fairtk.frames.columns import DOCNO, GROUP, WEIGHT
from fairtk.groups.documents import Documents


@dataclass(frozen=True, eq=False)
class Attribute:
    """One attribute: a sparse matrix of documents by levels, in compressed rows.

    A one-hot attribute of 6.5 million documents takes 40 megabytes beside the docnos, which
    attributes of the same documents share.
    """

    name: str  # the attribute
    levels: tuple[str, ...]  # its levels, in order
    unknown: int  # place of the unknown level among them; -1: there is none
    documents: Documents  # the documents that have a row
    start: npt.NDArray[Any]  # first entry of each row, and their number; (n_documents + 1,)
    level: npt.NDArray[Any]  # level of each entry, increasing inside a row
    weights: FloatArray | None  # weight of each entry; None: all 1
    normalized: bool  # whether each row was divided by its sum

    def entries(self, rows: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the size of each row, and level and weight of their entries; row -1 has none."""
        begin = self.start[rows].astype(np.int64)
        size = np.where(rows >= 0, self.start[rows + 1] - begin, 0)
        _, entry = spread(begin, size)
        weight = np.ones(len(entry)) if self.weights is None else self.weights[entry]
        return size, self.level[entry].astype(np.int64), weight

    def all_weights(self) -> FloatArray:
        """Return the weight of each entry; shape (n_entries,)."""
        return np.ones(len(self.level)) if self.weights is None else self.weights

    def to_frame(self) -> pd.DataFrame:
        """Return ``docno``, ``group`` and ``weight`` of each entry, page ids as integers."""
        owner = np.repeat(np.arange(len(self.documents)), np.diff(self.start))
        return pd.DataFrame(
            {
                DOCNO: self.documents.values[owner],
                GROUP: pd.Categorical.from_codes(self.level, list(self.levels)),
                WEIGHT: self.all_weights(),
            }
        )

    def level_counts(self) -> pd.DataFrame:
        """Return ``group``, ``documents`` and ``weight`` of each level, in order."""
        n = len(self.levels)
        weight = np.bincount(self.level, weights=self.all_weights(), minlength=n)
        documents = np.bincount(self.level, minlength=n)
        return pd.DataFrame({GROUP: self.levels, "documents": documents, WEIGHT: weight})

    @cached_property
    def used(self) -> BoolArray:
        """Whether each level has a document; shape (n_levels,)."""
        return np.bincount(self.level, minlength=len(self.levels)) > 0

    @cached_property
    def hash(self) -> bytes:
        """A digest of name, levels and memberships; the order of documents does not count."""
        state = hashlib.blake2b(digest_size=16)
        for text in (self.name, str(self.unknown), *self.levels):
            state.update(f"{len(text)}:{text}".encode())
        names = self.documents.values
        if self.documents.numeric:
            of_document = _mixed(names.astype(np.uint64))
        else:
            of_document = pd.util.hash_array(np.asarray(names, dtype=object), categorize=False)
        with np.errstate(over="ignore"):
            entry = self.level.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            entry = _mixed(entry ^ self.all_weights().view(np.uint64))
            owner = np.repeat(of_document, np.diff(self.start))
            # a sum per document would cost as much as hashing each entry with its document
            mixed = _mixed(entry ^ owner)
        state.update(np.sort(of_document).tobytes())
        state.update(np.sort(mixed).tobytes())
        return state.digest()


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64-bit numbers one to one (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))
