"""`Groups`: which documents belong to which groups."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from os import PathLike
from typing import Any

import pandas as pd

from fairtk.errors import InputError
from fairtk.files import naming, read_table
from fairtk.files.renderings import frame_html
from fairtk.frames.columns import DOCNO, GROUP, WEIGHT
from fairtk.frames.content import ByContent
from fairtk.groups.attribute import Attribute
from fairtk.groups.building import attribute_from_frame
from fairtk.groups.coverage import coverage
from fairtk.groups.crossed import Crossed
from fairtk.groups.files import attribute_of_rows, write_attribute
from fairtk.groups.levels import UNKNOWN, Levels
from fairtk.groups.reading_docs import frame_from_docs


class Groups(Crossed, ByContent):
    """Memberships of documents in the levels of one attribute, or of several crossed ones.

    A document may belong to one level, to several, or in part; a document whose group is not known
    belongs to the unknown level; a document may also have no row at all (see `memberships` for
    what happens to it). Make one with `from_frame`, `from_docs` or `read`; ``a * b`` crosses the
    attributes of two. A crossed attribute is kept as its factors: the product is formed for the
    documents that are asked for, so eight attributes with 11 million combinations cost no more
    than the eight.

    Two objects are equal if name, levels and memberships are; the order of documents and rows
    carries no meaning.
    """

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame,
        name: str = "group",
        unknown: str | None = UNKNOWN,
        levels: Sequence[str] | None = None,
        split: str = "count",
        normalize: bool = True,
    ) -> Groups:
        """Return the groups that a frame lists.

        Args:
            df: ``docno``, ``group`` and optionally ``weight`` (1 where there is no column), one
                row per document and group. A missing group (NaN) is the unknown one. Not changed.
            name: the attribute.
            unknown: the level of documents whose group is not known; None: there is no such level.
            levels: the levels in order; by default those of the frame, the unknown one first and
                the others by name. Give them where a level may have no document: a target must
                not have levels that the groups lack.
            split: how a document of several groups is shared out: ``"count"``: in proportion to
                the weights, ``"equal"``: alike, whatever the weights.
            normalize: whether each document's weights are divided by their sum. TREC Fair Ranking
                2022 does so for all its attributes but gender, where a page with two genders
                counts fully for both: ``normalize=False``.

        Raises:
            ColumnError: a column is missing.
            DuplicateError: a document and group occur twice.
            InputError: a weight is negative, NaN or no number, those of a document sum to 0, or a
                group is none of the levels.
        """
        attribute = attribute_from_frame(
            df, name, unknown=unknown, levels=levels, split=split, normalize=normalize
        )
        return cls([attribute])

    @classmethod
    def from_docs(
        cls,
        dataset: Any,
        field: str,
        name: str | None = None,
        unknown: str | None = UNKNOWN,
        levels: Sequence[str] | None = None,
        split: str = "count",
        normalize: bool = True,
        recode: Mapping[str, str] | None = None,
    ) -> Groups:
        """Return the groups that a field of an ir_datasets data set's documents holds.

        Args:
            dataset: an ir_datasets data set, or anything with ``docs_iter()``.
            field: the field: a string, a list of strings, or counts by string; empty or None: the
                document's group is unknown. The first document of an id counts.
            name: the attribute; by default the field's name.
            unknown: as in `from_frame`.
            levels: as in `from_frame`.
            split: as in `from_frame`; counts of levels that `recode` merges are added.
            normalize: as in `from_frame`.
            recode: other names for some values, e.g. ``{"UNK": "@UNKNOWN"}``.

        Raises:
            InputError: the documents have no such field, or as for `from_frame`.
        """
        frame = frame_from_docs(dataset, field, unknown, recode or {})
        return cls.from_frame(frame, name or field, unknown, levels, split, normalize)

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        name: str | None = None,
        unknown: str | None = UNKNOWN,
        levels: Sequence[str] | None = None,
        split: str = "count",
        normalize: bool | None = None,
    ) -> Groups:
        """Read groups from a TSV, CSV or Parquet file with the columns of `from_frame`.

        Text files have a header and may be gzipped; an empty group is the unknown one. What
        `write` noted in the file (name, order of levels) is used where it is not given here.

        Args:
            path: the file.
            name: the attribute; by default what the file notes, or its name without suffixes.
            unknown: as in `from_frame`.
            levels: as in `from_frame`.
            split: as in `from_frame`.
            normalize: as in `from_frame`; None: as the file notes, which is usually True.

        Raises:
            FormatError: the file lacks a column or holds something `from_frame` rejects; names
                file and line.
        """
        rows = read_table(path)
        with naming(path):
            return cls([attribute_of_rows(rows, name, unknown, levels, split, normalize)])

    def write(self, path: str | PathLike[str]) -> None:
        """Write the groups, in one step; the suffix chooses TSV, CSV (both ``.gz`` too) or Parquet.

        `read` gives equal groups back. A text file starts with a comment line that notes name and
        levels where the rows alone would not tell them.

        Raises:
            InputError: the attribute is crossed; write its factors.
        """
        write_attribute(self._single("write"), path)

    @property
    def levels(self) -> Levels:
        """The levels in order, as a sequence; tuples if attributes are crossed.

        A sequence that makes its items when asked: crossed attributes can have millions.
        """
        return Levels(self.space)

    @property
    def attributes(self) -> tuple[Groups, ...]:
        """The attributes that are crossed, each by itself."""
        return tuple(Groups([f]) for f in self.factors)

    @cached_property
    def matrix(self) -> Any:
        """The memberships as a ``scipy.sparse.csr_array``; shape (n_documents, n_levels)."""
        from scipy import sparse

        found = self.memberships(self.docnos)
        shape = (len(self), self.space.size)
        return sparse.csr_array((found.weight, found.cell, found.start), shape=shape)

    def coverage(self, run: pd.DataFrame, cutoff: int | None = None) -> pd.DataFrame:
        """Return how much of a run the groups know.

        Args:
            run: R or S.
            cutoff: ranks that are looked at in each ranking; None: all.

        Returns:
            A frame with one row per query, in the run's order: ``qid``, ``retrieved`` (documents
            in the ranks looked at, over all samples), ``with_row``, ``with_label`` (those with at
            least one known level of every attribute), ``row_share`` and ``label_share``, the same
            divided by ``retrieved``; ``groups_shown``, how many of the known groups the documents
            belong to, and ``groups_absent``, how many they do not.
        """
        return coverage(self, run, cutoff)

    def to_frame(self) -> pd.DataFrame:
        """Return ``docno``, ``group`` and ``weight``, one row per document and group.

        Crossed attributes have a column each, named like them, instead of ``group``.
        """
        if len(self.factors) == 1:
            return self.factors[0].to_frame().astype({DOCNO: "str", GROUP: "str"})
        found = self.memberships(self.docnos)
        docnos = pd.Series(self.docnos[found.owner], dtype="str")
        columns = {DOCNO: docnos, **self.space.columns(found.cell), WEIGHT: found.weight}
        return pd.DataFrame(columns)

    def renamed(self, name: str) -> Groups:
        """Return the same groups under another name.

        Raises:
            InputError: attributes are crossed.
        """
        return Groups([replace(self._single("renamed"), name=name)])

    def __mul__(self, other: object) -> Groups:
        """Cross the attributes of both.

        Raises:
            InputError: the two share an attribute, or no document.
        """
        if not isinstance(other, Groups):
            return NotImplemented
        result = Groups(self.factors + other.factors)
        for ours, theirs in product(self.factors, other.factors):
            left, right = ours.documents, theirs.documents
            if not (left.same(right) or left.shared_with(right)):
                raise InputError(
                    f"the attributes {ours.name!r} and {theirs.name!r} have no documents in common "
                    f"({_example(ours)} and {_example(theirs)}); check that both use the same "
                    "docnos"
                )
        return result

    def digest(self) -> str:
        """Return a digest of the content; see `fairtk.frames.digest`."""
        state = hashlib.blake2b(digest_size=16)
        for factor in self.factors:
            state.update(factor.hash)
        return state.hexdigest()

    @property
    def key(self) -> str:
        """Name and content digest, e.g. ``gender#1a2b3c4d``: equal exactly for equal groups."""
        return f"{self.name}#{self.digest()[:8]}"

    def __repr__(self) -> str:
        counts = " x ".join(str(n) for n in self.space.shape)
        return f"<Groups {self.name}: {counts} levels, {len(self.factors[0].documents)} documents>"

    def _repr_html_(self) -> str:
        shown = (factor.level_counts() for factor in self.factors)
        return "".join(frame_html(frame, repr(self)) for frame in shown)

    def _single(self, what: str) -> Attribute:
        if len(self.factors) > 1:
            raise InputError(
                f"{what} takes one attribute; {self.name!r} is crossed: use .attributes"
            )
        return self.factors[0]


def _example(attribute: Attribute) -> str:
    if not len(attribute.documents):
        return "no documents"
    return (
        f"{len(attribute.documents)}, e.g. {str(attribute.documents.docnos_at(slice(0, 1))[0])!r}"
    )
