"""Attributes that are crossed: their documents, and the groups of given documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from fairtk.frames.arrays import IntArray, ObjectArray
from fairtk.groups.attribute import Attribute
from fairtk.groups.exposure import Memberships
from fairtk.groups.levels import LevelSpace
from fairtk.groups.product import memberships
from fairtk.renamed import refuses_old_words


class Crossed:
    """One attribute, or several that are crossed; kept as the factors."""

    def __init__(self, factors: Sequence[Attribute]) -> None:
        self.factors: tuple[Attribute, ...] = tuple(factors)
        self.space = LevelSpace(
            tuple(f.name for f in self.factors),
            tuple(f.levels for f in self.factors),
            tuple(f.unknown for f in self.factors),
        )

    @property
    def name(self) -> str:
        """The attribute; crossed ones are joined by ``*``."""
        return self.space.title

    @cached_property
    def docnos(self) -> ObjectArray:
        """The documents with a row (of all attributes, if crossed), as strings; (n_documents,)."""
        return self.factors[0].documents.docnos_at(self._common)

    @cached_property
    def _common(self) -> IntArray:
        first = self.factors[0].documents
        found = np.ones(len(first), dtype=bool)
        for factor in self.factors[1:]:
            if not factor.documents.same(first):
                found &= factor.documents.rows(first.values) >= 0
        return np.flatnonzero(found)

    def __len__(self) -> int:
        return len(self._common)

    def rows(self, docnos: Iterable[str]) -> IntArray:
        """Return the place of each docno in `docnos`, -1 for a document without a row; (n,)."""
        wanted = docnos if isinstance(docnos, np.ndarray) else np.array(list(docnos), dtype=object)
        found = self.factors[0].documents.rows(wanted)
        if len(self.factors) == 1:
            return found
        place = np.full(len(self.factors[0].documents) + 1, -1, dtype=np.int64)
        place[self._common] = np.arange(len(self._common))
        return place[found]

    @refuses_old_words
    def memberships(self, docnos: Iterable[str], unlabeled: str = "drop") -> Memberships:
        """Return the groups of some documents, by flat level number.

        Args:
            docnos: the documents; shape (n,).
            unlabeled: what becomes of documents without a row, and of unknown levels.
                ``"drop"`` (TREC Fair Ranking): a document without a row in every attribute does
                not count; the unknown level is a level like any other.
                ``"unknown"``: a document without a row belongs to the unknown level.
                ``"uniform"``: it belongs to all known levels alike, and so does whatever belongs
                to the unknown level.
                ``"bounds"``: it may belong to any known level, and so may whatever belongs to the
                unknown level (`Memberships.free`); for one attribute only.

        Raises:
            ParameterError: `unlabeled` is none of these, or ``"bounds"`` is asked of crossed
                attributes.
            InputError: ``"unknown"`` is asked of an attribute that has no unknown level and lacks
                a document, or ``"uniform"`` would make too many cells.
        """
        return memberships(self.factors, self.space, docnos, unlabeled)
