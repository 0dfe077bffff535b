"""`Groups`: which documents belong to which groups, from frames, files and datasets.

An attribute is a sparse matrix of documents by levels, with an index of the documents. Docnos that
are all integers, such as Wikipedia's page ids, are stored as integers and found by bisection: a
hash table of 6.5 million strings would take a gigabyte.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from operator import eq
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk import checks
from fairtk.display.tables import frame_html
from fairtk.errors import DuplicateError, FormatError, InputError, ParameterError
from fairtk.frames import (
    DOCNO,
    GROUP,
    QID,
    WEIGHT,
    BoolArray,
    EqualByContent,
    FloatArray,
    IntArray,
    ObjectArray,
    Run,
    require_columns,
)
from fairtk.frames.accepted import are_rows, column_of, frame_of, frame_of_rows
from fairtk.frames.ids import Ids, are_ids, as_strings, find_flaw
from fairtk.frames.schema import (
    Refuse,
    RowProblem,
    check_ids,
    check_numbers,
    check_unique,
    refuse_in,
)
from fairtk.groups.cells import (
    check_separator,
    check_unknown_values,
    remarks_on_labels,
    rows_of_cells,
)
from fairtk.groups.exposure import attention_matrix, group_exposure
from fairtk.groups.levels import UNKNOWN, LevelSpace
from fairtk.groups.rows import Distributions, SparseRows, expand_runs
from fairtk.io.formats import GroupFile
from fairtk.io.lines import file_errors
from fairtk.io.rows import Rows, numbers_in, read_table
from fairtk.io.runs import as_run
from fairtk.io.tables import check_weights, name_and_path, stem, write_table
from fairtk.stage_context import remark_on_input
from fairtk.wording import format_list, short

_WHOLE = re.compile(r"[0-9]{1,18}")


def _page_ids(docnos: ObjectArray) -> IntArray:
    """Return docnos as integers; -1 for others, such as ``"007"``, ``"+7"`` and ``"1_000"``."""
    try:
        ids = np.fromiter(map(int, docnos), dtype=np.int64, count=len(docnos))
    except (ValueError, TypeError, OverflowError):
        plain = [int(text) if _WHOLE.fullmatch(text) else -1 for text in map(str, docnos)]
        ids = np.array(plain, dtype=np.int64)
    same = np.fromiter(map(eq, map(str, ids.tolist()), docnos), dtype=bool, count=len(ids))
    return np.where(same & (ids >= 0), ids, -1)


def rows_of(documents: pd.Index, docnos: npt.NDArray[Any]) -> IntArray:
    """Return the row of each docno; -1 if absent."""
    if documents.dtype == object:
        return np.asarray(documents.get_indexer(as_strings(docnos)), dtype=np.int64)
    ids = docnos.astype(np.int64) if docnos.dtype.kind in "iu" else _page_ids(docnos)
    result = np.full(len(ids), -1, dtype=np.int64)
    if len(documents):
        order = np.argsort(ids)  # bisection in order uses the cache better
        rising, values = ids[order], documents.to_numpy()
        row = np.minimum(np.searchsorted(values, rising), len(values) - 1)
        result[order] = np.where(values[row] == rising, row, -1)
    return result


def _share_a_document(one: pd.Index, other: pd.Index) -> bool:
    """Return whether any document is in both indexes."""
    few, many = sorted((one, other), key=len)
    return one.equals(other) or any(
        bool((rows_of(many, few[:n].to_numpy()) >= 0).any()) for n in (1 << 14, len(few))
    )


UNLABELED_POLICIES = ("drop", "unknown", "uniform", "bounds")
"""How documents without a row or a known level are handled."""

_MOST_ENTRIES = 50_000_000


def _check_size(space: LevelSpace, count: int) -> None:
    if count > _MOST_ENTRIES:
        raise InputError(
            f"expected at most {_MOST_ENTRIES} combinations of documents and levels of "
            f"{space.title!r}, got {count}; cross fewer attributes, or use unlabeled='drop'"
        )


def _crossed(space: LevelSpace, parts: Sequence[SparseRows]) -> SparseRows:
    """Return memberships in combinations of levels, the outer product for each document."""
    rows = parts[0]
    sizes = [part.size.astype(np.float64) for part in parts]
    _check_size(space, int(np.prod(sizes, axis=0).sum()))
    for part in parts[1:]:
        left_entry, right_entry = expand_runs(part.start[rows.row], part.size[rows.row])
        size = rows.size * part.size
        level = rows.level[left_entry] * part.n_levels + part.level[right_entry]
        weight = rows.weight[left_entry] * part.weight[right_entry]
        rows = SparseRows.of_sizes(size, level, weight, rows.n_levels * part.n_levels)
    return rows


@dataclass(eq=False, repr=False)
class Groups(EqualByContent):
    """Memberships of documents in the levels of one attribute, or of several crossed attributes.

    A document may belong to one level or, in parts, to several. A document whose group is not known
    belongs to the unknown level. A document may also have no row (see `memberships`).

    Create groups with `from_frame` or `read`; ``a * b`` crosses attributes. Crossed
    attributes are stored separately and multiplied only for requested documents. Groups are equal
    if name, levels and memberships are; the order of documents does not matter.

    Attributes:
        space: the attributes and their levels.
        documents: the documents with a row, per attribute: strings in any order, or increasing
            integers.
        matrices: the memberships per attribute: a ``scipy.sparse.csr_array`` of documents by
            levels, with increasing levels in a row.
    """

    identity_name = "fairtk.Groups"
    output_version = 1

    space: LevelSpace
    documents: tuple[pd.Index, ...]
    matrices: tuple[Any, ...]

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame | Mapping[str, Any],
        name: str = "group",
        unknown: str | None = UNKNOWN,
        levels: Sequence[str] | None = None,
        split: str = "count",
        normalize: bool = True,
        separator: str | None = None,
        unknown_values: Iterable[str] | None = None,
    ) -> Groups:
        """Return the groups in a frame.

        Args:
            df: ``docno``, ``group`` and optionally ``weight`` (at least 0; default 1), one row per
                document and group, as a frame, named tuples or records; or a dict
                ``{docno: group}``. A missing group (NaN) and an empty
                list are the unknown level. A list, a tuple, a set or an array of groups is as many
                rows with the weight of its row. Not changed.
            name: the attribute.
            unknown: the level of documents whose group is not known; `None` for no such level.
            levels: the levels in order; by default the unknown one, then those of the frame by
                name. Pass all levels of a target, including those without documents.
            split: how a document with several groups is divided: ``"count"`` in proportion to the
                weights, ``"equal"`` equally.
            normalize: whether to divide each document's weights by their sum. TREC Fair Ranking
                2022 does so except for gender, where a page with two genders counts fully for both.
            separator: splits texts with several groups, e.g. ``"|"``; the text of a list, such as
                ``"['x', 'y']"``, is this list. `None` if each text is one group.
            unknown_values: texts that mean an unknown group, in any case and with any white space
                around them, e.g. ``["n/a"]``; ``()`` for none. `None` for none, too, but with a
                warning if there are labels such as ``"unknown"`` and ``"nan"``.

        Raises:
            ColumnError: a column is missing.
            DuplicateError: a document has two rows for a group.
            InputError: a weight is negative or not finite, the weights of a document sum to 0, or a
                group is not one of the levels.
        """
        frame = _group_frame(df)
        cells = (separator, unknown_values)
        return groups_of_frame(frame, name, unknown, levels, split, normalize, *cells)

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        name: str | None = None,
        unknown: str | None = UNKNOWN,
        levels: Sequence[str] | None = None,
        split: str = "count",
        normalize: bool | None = None,
        separator: str | None = None,
        unknown_values: Iterable[str] | None = None,
    ) -> Groups:
        """Read groups from a TSV, CSV or Parquet file with the columns of `from_frame`.

        Text files have a header and may be gzipped; an empty group is the unknown level. Arguments
        override the name and levels that `write` notes in the file.

        Args:
            path: the file.
            name: the attribute; by default that of the note, or the file name without suffixes.
            unknown: as in `from_frame`.
            levels: as in `from_frame`.
            split: as in `from_frame`.
            normalize: as in `from_frame`; by default as in the note, or True.
            separator: as in `from_frame`.
            unknown_values: as in `from_frame`.

        Raises:
            FormatError: a column is missing, or `from_frame` would raise; names file and line.
        """
        rows = read_table(path)
        with file_errors(path):
            cells = (separator, unknown_values)
            return groups_of_rows(rows, name, unknown, levels, split, normalize, *cells)

    @classmethod
    def of(
        cls,
        source: Any,
        separator: str | None = None,
        unknown_values: Iterable[str] | None = None,
    ) -> Groups:
        """Return groups from `Groups`, a frame, a dict, or a file.

        The attribute is named by ``attrs["name"]`` of a frame (default ``group``), by
        ``"NAME=FILE"``, or by the file name.

        Args:
            source: the groups: an object, a frame, a dict ``{docno: group}``, named tuples,
                records or a file.
            separator: as in `from_frame`; ignored for `Groups`.
            unknown_values: as in `from_frame`; ignored for `Groups`.
        """
        source = _group_frame(source)
        if isinstance(source, cls):
            return source
        if isinstance(source, pd.DataFrame):
            given = source.attrs.keys() & {"unknown", "levels", "normalize"}
            noted = {key: source.attrs[key] for key in given}
            name = source.attrs.get("name", GROUP)
            return cls.from_frame(
                source, name, **noted, separator=separator, unknown_values=unknown_values
            )
        if isinstance(source, GroupFile):
            separator, unknown_values = source.separator, source.unknown_values
        if isinstance(source, str | PathLike):
            name, path = name_and_path(source)
            return cls.read(path, name, separator=separator, unknown_values=unknown_values)
        raise InputError(
            "expected Groups, a DataFrame, a dict {docno: group}, named tuples, records or a file, "
            f"got {source!r:.80}"
        )

    def with_levels(self, names: Iterable[str]) -> Groups:
        """Return the groups of one attribute with more levels, which have no documents.

        ``"@UNKNOWN"`` becomes the unknown level of groups that have no unknown level.
        """
        space, matrix = self.space, self.matrices[0].copy()
        listed = dict.fromkeys(checks.listed("names", names))
        more = [name for name in listed if name not in space.levels[0]]
        levels, [unknown] = (*space.levels[0], *more), space.unknown
        if unknown < 0 and UNKNOWN in more:
            unknown = levels.index(UNKNOWN)
        matrix.resize((matrix.shape[0], len(levels)))
        space = replace(space, levels=(levels,), unknown=(unknown,))
        return Groups(space, self.documents, (matrix,))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the groups atomically, as TSV, CSV (also with ``.gz``) or Parquet, by the suffix.

        `read` returns equal groups: if the rows do not determine name and levels, they are noted in
        the file (of a text file, in the first line).

        Raises:
            FormatError: the suffix is not supported.
            InputError: the attributes are crossed, or a text file cannot hold a name.
        """
        space = self.space
        if space.crossed:
            raise InputError(
                f"expected one attribute, got the crossed attributes {self.name!r}; write each of "
                "its .attributes"
            )
        rows, levels, unknown = SparseRows(self.matrices[0]), space.levels[0], space.unknown[0]
        note: dict[str, Any] = {}
        if self.name != stem(path):
            note["name"] = self.name
        named = levels[unknown] if unknown >= 0 else None
        known = [level for level in levels if level != named]
        order = level_order([levels[i] for i in np.unique(rows.level)], UNKNOWN)
        if order != levels or any(remarks_on_labels(known, self.name, False)):
            note["levels"] = list(levels)
        if named != (UNKNOWN if UNKNOWN in levels else None):
            note["unknown"] = named
        if (np.abs(rows.total() - 1) >= _ROUNDING).any():
            note["normalize"] = False
        frame = pd.DataFrame(
            {
                DOCNO: self.documents[0].to_numpy()[rows.row],
                GROUP: pd.Categorical.from_codes(rows.level, list(levels)),
                WEIGHT: rows.weight,
            }
        )
        write_weights(frame, path, note)

    @property
    def name(self) -> str:
        """The name of the attribute; names of crossed attributes are joined with ``*``."""
        return self.space.title

    @property
    def levels(self) -> LevelSpace:
        """The levels in order; tuples of levels if attributes are crossed."""
        return self.space

    @cached_property
    def attributes(self) -> tuple[Groups, ...]:
        """The attributes as separate groups."""
        parts = enumerate(zip(self.documents, self.matrices, strict=True))
        return tuple(Groups(self.space.part((i,)), (own,), (rows,)) for i, (own, rows) in parts)

    @cached_property
    def docnos(self) -> ObjectArray:
        """The documents with a row in all attributes, as strings; shape (n_documents,)."""
        return as_strings(self.documents[0].to_numpy()[self._common])

    @cached_property
    def _common(self) -> IntArray:
        """The rows of the first attribute whose documents have a row in all others."""
        docnos = self.documents[0].to_numpy()
        others = {*self._twins} - {0}
        rows = [rows_of(self.documents[index], docnos) for index in others]
        return np.flatnonzero(np.all([np.ones(len(docnos)), *(row >= 0 for row in rows)], axis=0))

    def __len__(self) -> int:
        return len(self._common)

    def __bool__(self) -> bool:
        return True  # also without documents

    @cached_property
    def matrix(self) -> Any:
        """The memberships as a ``scipy.sparse.csr_array``; shape (n_documents, n_levels)."""
        return self.memberships(self.docnos).matrix if self.space.crossed else self.matrices[0]

    @cached_property
    def _is_empty(self) -> BoolArray:
        """Whether no document is in a known group; shape (n_levels,)."""
        n_documents = np.bincount(self.matrix.indices, minlength=self.space.size)
        is_empty: BoolArray = (self.space.known_levels(0) > 0) & (n_documents == 0)
        return is_empty

    def memberships(self, docnos: Iterable[str], unlabeled: str = "drop") -> SparseRows:
        """Return the groups of documents.

        Args:
            docnos: the documents; shape (n,).
            unlabeled: how documents without a row, and unknown levels, are handled.
                ``"drop"`` (TREC Fair Ranking): a document that has no row in an attribute has no
                groups; the unknown level is a level like any other.
                ``"unknown"``: a document without a row belongs to the unknown level.
                ``"uniform"``: a document without a row, and any weight on the unknown level, are
                spread equally over the known levels.
                ``"bounds"``: both are left out, because they may belong to any known level (see
                `unknown_shares`); for one attribute only.

        Returns:
            One row per document, by flat level number; empty for a document without groups.

        Raises:
            ParameterError: `unlabeled` is invalid, or ``"bounds"`` with crossed attributes.
            InputError: a document is missing from an attribute without an unknown level
                (``"unknown"``), or there are too many combinations of levels (``"uniform"``).
        """
        checks.choice("unlabeled", unlabeled, UNLABELED_POLICIES)
        if unlabeled == "bounds" and self.space.crossed:
            raise ParameterError(
                f"unlabeled='bounds' requires one attribute, got the crossed attributes "
                f"{self.space.title!r}; measure them one by one"
            )
        is_array = isinstance(docnos, np.ndarray | Ids)
        listed = docnos if is_array else checks.listed("docnos", docnos)
        names = np.asarray(listed, dtype=object)
        rows = self._rows(names)
        if unlabeled == "drop":
            counted = np.all([own >= 0 for own in rows], axis=0)
            rows = [np.where(counted, own, -1) for own in rows]
        parts = [SparseRows(own).take(row) for own, row in zip(self.matrices, rows, strict=True)]
        if unlabeled != "drop":
            parts = [
                self._labeled(index, part, names, row < 0, unlabeled)
                for index, (part, row) in enumerate(zip(parts, rows, strict=True))
            ]
        return _crossed(self.space, parts)

    def _rows(self, docnos: npt.NDArray[Any]) -> list[IntArray]:
        """Return the row of each document in each attribute; -1 without a row."""
        rows = {index: rows_of(self.documents[index], docnos) for index in {*self._twins}}
        return [rows[index] for index in self._twins]

    @cached_property
    def _twins(self) -> list[int]:
        """The first attribute with the same documents, per attribute."""
        documents = self.documents
        return [
            next(i for i, one in enumerate(documents) if one.equals(index)) for index in documents
        ]

    def _labeled(
        self, index: int, part: SparseRows, docnos: ObjectArray, absent: BoolArray, unlabeled: str
    ) -> SparseRows:
        """Return memberships in one attribute with `unlabeled` applied; see `memberships`."""
        from scipy import sparse

        name, known = self.space.names[index], self.space.known_levels(index)
        to, share = 1 - known, absent.astype(np.float64)
        if unlabeled == "unknown" and absent.any() and known.all():
            raise InputError(
                f"unlabeled='unknown' requires an unknown level in {name!r}, because docno "
                f"{str(docnos[absent.argmax()])!r} has no group; use unlabeled='drop' or 'uniform'"
            )
        if unlabeled != "unknown":
            named = part.weight * known[part.level]
            share += part.per_row(part.weight - named)
            part = SparseRows.collect(part.row, part.level, named, part.n_rows, part.n_levels)
        if unlabeled == "bounds":
            return part
        if unlabeled == "uniform":
            if not known.any():
                raise InputError(f"unlabeled='uniform' requires a known level in {name!r}")
            _check_size(self.space, int((share > 0).sum() * known.sum()))
            to, share = known, share / known.sum()
        return SparseRows(
            part.matrix + sparse.csr_array(share[:, None]) @ sparse.csr_array(to[None])
        )

    def unknown_shares(self, docnos: ObjectArray) -> FloatArray:
        """Return the unknown share of each document, 1 without a row; shape (n,)."""
        rows = self.memberships(docnos)
        unknown = rows.per_row(rows.weight * ~self.space.known(rows.level))
        return np.where(rows.size > 0, unknown, 1.0)

    def coverage(self, run: Any, cutoff: int | None = None) -> pd.DataFrame:
        """Return how many of a run's documents have known groups.

        Args:
            run: R or S, or a file.
            cutoff: the number of ranks to count in each ranking; `None` for all.

        Returns:
            One row per query, in the run's order: ``qid``; ``retrieved``, the number of documents
            up to the cutoff, counted in each sample; ``with_row``, those with a row;
            ``with_label``, those with a known level of every attribute; ``row_share`` and
            ``label_share``, the same divided by ``retrieved``; ``groups_shown`` and
            ``groups_absent``, the numbers of known groups with and without a retrieved document.
        """
        return coverage(self, run, cutoff)

    def to_frame(self) -> pd.DataFrame:
        """Return ``docno``, ``group`` and ``weight``, one row per document and group.

        Crossed attributes have one column each, named after the attribute, instead of ``group``.
        """
        rows = SparseRows(self.matrix)
        docnos = pd.Series(self.docnos[rows.row], dtype="str")
        columns = {DOCNO: docnos, **self.space.columns(rows.level), WEIGHT: rows.weight}
        return pd.DataFrame(columns)

    def __mul__(self, other: object) -> Groups:
        """Return the groups with the attributes of both, crossed.

        Raises:
            InputError: both have an attribute of the same name, or no document in common.
        """
        if not isinstance(other, Groups):
            return NotImplemented
        ours, theirs = self.space, other.space
        result = Groups(
            LevelSpace(
                ours.names + theirs.names,
                ours.levels + theirs.levels,
                ours.unknown + theirs.unknown,
            ),
            self.documents + other.documents,
            self.matrices + other.matrices,
        )
        pairs = (zip(g.space.names, g.documents, strict=True) for g in (self, other))
        for (name, left), (other_name, right) in product(*pairs):
            if not _share_a_document(left, right):
                raise InputError(
                    f"the attributes {name!r} and {other_name!r} have no document in common "
                    f"({_example(left, name)}, {_example(right, other_name)}); check that both use "
                    "the same docnos"
                )
        return result

    def digest(self) -> str:
        """Return a digest of the content; see `fairtk.frames.digest`."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        state = hashlib.blake2b(digest_size=16)
        for index in range(len(self.documents)):
            state.update(self._content(index))
        return state.hexdigest()

    def _content(self, index: int) -> bytes:
        """Return a digest of one attribute, independent of the order of documents."""
        space, documents, matrix = self.space, self.documents[index], self.matrices[index]
        state = hashlib.blake2b(digest_size=16)
        for text in (space.names[index], str(space.unknown[index]), *space.levels[index]):
            state.update(f"{len(text)}:{text}".encode())
        if documents.dtype == object:
            of_document = pd.util.hash_array(documents.to_numpy(), categorize=False)
        else:
            of_document = _mixed(documents.to_numpy().astype(np.uint64))
        with np.errstate(over="ignore"):
            entry = matrix.indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            entry = _mixed(entry ^ matrix.data.view(np.uint64))
            owner = np.repeat(of_document, np.diff(matrix.indptr))
            # a sum per document would take as long as hashing each entry with its document
            mixed = _mixed(entry ^ owner)
        state.update(np.sort(of_document).tobytes())
        state.update(np.sort(mixed).tobytes())
        return state.digest()

    @property
    def key(self) -> str:
        """Name and content digest, e.g. ``gender#1a2b3c4d``."""
        return f"{self.name}#{self.digest()[:8]}"

    def __repr__(self) -> str:
        counts = " x ".join(str(n) for n in self.space.shape)
        return f"<Groups {self.name}: {counts} levels, {len(self.documents[0])} documents>"

    def _repr_html_(self) -> str:
        html = ""
        for levels, matrix in zip(self.space.levels, self.matrices, strict=True):
            counts = {
                GROUP: levels,
                "documents": np.bincount(matrix.indices, minlength=len(levels)),
                WEIGHT: np.bincount(matrix.indices, matrix.data, len(levels)),
            }
            html += frame_html(pd.DataFrame(counts), repr(self))
        return html


def _example(documents: pd.Index, name: str) -> str:
    document = f"docno {str(documents[0])!r}" if len(documents) else "no documents"
    return f"{document} in {name!r}"


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64-bit numbers with their bits mixed, one to one (splitmix64's finalizer)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


SPLITS = ("count", "equal")

_ROUNDING = 1e-12


def groups_of_rows(
    rows: Rows,
    name: str | None = None,
    unknown: str | None = UNKNOWN,
    levels: Sequence[str] | None = None,
    split: str = "count",
    normalize: bool | None = None,
    separator: str | None = None,
    unknown_values: Iterable[str] | None = None,
) -> Groups:
    """Return the groups in the rows of a file; see `fairtk.Groups.read`."""
    check_weights(rows, [DOCNO, GROUP], "a groups file")
    note = rows.note
    if levels is None and "levels" in note:
        levels = note["levels"]
    if isinstance(unknown, str) and unknown == UNKNOWN and "unknown" in note:
        unknown = note["unknown"]
    if normalize is None:
        normalize = bool(note.get("normalize", True))
    if name is not None:
        checks.text("name", name, "Groups")
    name = name or note.get("name") or stem(rows.path)
    cells = (separator, unknown_values)
    return groups_of_frame(rows.frame, name, unknown, levels, split, normalize, *cells, rows.refuse)


def _group_frame(source: Any) -> Any:
    """Return a table, a dict ``{docno: group}`` or rows as a frame; anything else unchanged."""
    if isinstance(source, Iterator):
        source = list(source)
    if isinstance(source, Mapping):
        if {*source} >= {DOCNO, GROUP} and not any(map(pd.api.types.is_scalar, source.values())):
            return pd.DataFrame(source)  # a dict of columns
        cells = pd.Series([*source.values()], dtype=object)
        return pd.DataFrame({DOCNO: column_of(source), GROUP: cells})
    return frame_of_rows(source, (DOCNO, GROUP)) if are_rows(source) else frame_of(source)


def groups_of_frame(
    frame: pd.DataFrame,
    name: str,
    unknown: str | None,
    levels: Sequence[str] | None,
    split: str,
    normalize: bool,
    separator: str | None = None,
    unknown_values: Iterable[str] | None = None,
    refuse: Refuse | None = None,
) -> Groups:
    """Return the groups in a frame; see `fairtk.Groups.from_frame`."""
    where = f"Groups {short(name)}"
    checks.choice("split", split, SPLITS, where)
    checks.boolean("normalize", normalize, where)
    if unknown is not None:
        checks.instance("unknown", unknown, str, where)
    require_columns(frame, [DOCNO, GROUP], where)
    separator = check_separator(separator, where)
    unknown_texts = check_unknown_values(unknown_values, where)
    refuse = refuse or partial(refuse_in, where, frame=frame)
    cells = rows_of_cells(frame[GROUP], separator, unknown_texts or (), refuse)
    if cells is not None:
        cell, groups = cells
        refuse = partial(_refuse_cells, refuse, cell)
        columns = frame.columns.intersection([DOCNO, WEIGHT])
        frame = frame[columns].take(cell).reset_index(drop=True).assign(**{GROUP: groups})
    row, documents = _documents(frame[DOCNO], refuse)
    names, level = _levels(frame[GROUP], levels, unknown, where, refuse)
    weight = np.ones(len(frame))
    if WEIGHT in frame.columns:
        weight = weights_of(frame, refuse)
    key = row * np.int64(len(names)) + level
    if not bool((key[1:] > key[:-1]).all()):  # files of fairtk have this order
        message = "duplicate group of a document"
        check_unique(row, level, message, refuse, "give each pair once, with a weight")
    none = np.bincount(row, weights=weight, minlength=len(documents)) == 0
    if none.any():
        message, remedy = "the weights of a document sum to 0", "drop it or give it a group"
        refuse(RowProblem(np.flatnonzero(none[row]), message, remedy=remedy))
    row, level = row.astype(np.int32), level.astype(np.int32)  # half the memory
    rows = SparseRows.collect(row, level, weight, len(documents), len(names))
    if split == "equal":
        rows = rows.weighted(np.ones(len(rows.weight)))
    if normalize:
        total = rows.total()
        total[np.abs(total - 1) < _ROUNDING] = 1  # writing and reading must change nothing
        rows = rows.weighted(rows.weight / total[rows.row])
    index = -1 if unknown is None or unknown not in names else names.index(unknown)
    if levels is None:
        known = (label for label in names if label != unknown)
        remarks = remarks_on_labels(known, name, unknown_texts is not None)
        remark_on_input(remarks, stacklevel=3)
    return Groups(LevelSpace((name,), (names,), (index,)), (documents,), (rows.matrix,))


def _refuse_cells(refuse: Refuse, cell: IntArray, problem: RowProblem) -> NoReturn:
    """Refuse the cells of groups that break a rule; `cell` is the row of each group."""
    before = None if problem.before is None else int(cell[problem.before])
    refuse(problem._replace(rows=pd.unique(cell[problem.rows]), before=before))


def level_order(names: Sequence[str], unknown: str | None) -> tuple[str, ...]:
    """Return levels in their default order: the unknown level first, then by name."""
    rest = sorted(set(names) - {unknown})
    return (unknown, *rest) if unknown is not None and unknown in names else tuple(rest)


def _documents(column: pd.Series, refuse: Refuse) -> tuple[IntArray, pd.Index]:
    """Return the row of each document, and the documents: increasing integers, or strings."""
    values = column.to_numpy() if pd.api.types.is_integer_dtype(column.dtype) else None
    if values is not None and len(values) and values.dtype.kind == "i" and values[0] >= 0:
        step = np.diff(values)
        if bool((step >= 0).all()):  # as fairtk writes them; no hash table is needed
            fresh = np.concatenate([[True], step > 0])
            return np.cumsum(fresh) - 1, pd.Index(values[fresh].astype(np.int64))
    codes, coded = check_ids(column, DOCNO, refuse)
    row, docnos = codes.astype(np.int64, copy=False), coded.text
    if len(docnos) and _page_ids(docnos[:1])[0] >= 0:  # a quick check before the slow one
        ids = _page_ids(docnos)
        if ids.min() >= 0:
            documents, index = np.unique(ids, return_inverse=True)
            return index[row], pd.Index(documents)
    return row, pd.Index(docnos, dtype=object)


def _levels(
    column: pd.Series, levels: Sequence[str] | None, unknown: str | None, where: str, refuse: Refuse
) -> tuple[tuple[str, ...], IntArray]:
    codes, values = pd.factorize(column)
    names = list(as_strings(values))
    codes = codes.astype(np.int64)
    if (codes < 0).any():
        if unknown is None:
            missing = np.flatnonzero(codes < 0)
            refuse(RowProblem(missing, "group is missing", remedy="use unknown='@UNKNOWN'"))
        if unknown not in names:
            names.append(unknown)
        codes[codes < 0] = names.index(unknown)
    if not names and unknown is not None and levels is None:
        names = [unknown]  # an empty frame
    if levels is None:
        order = level_order(names, unknown)
    else:
        order = tuple(checks.listed("levels", levels, where))
    if isinstance(levels, str) or not all(isinstance(level, str) for level in order):
        raise ParameterError(f"{where}: levels must be a list of strings, got {short(levels)}")
    if len(set(order)) < len(order):
        twice = next(level for level in order if order.count(level) > 1)
        raise DuplicateError(f"{where}: duplicate level {twice!r}")
    if unknown is not None and unknown in names and unknown not in order:
        order = (unknown, *order)  # first, as in TREC's files
    indices = level_indices(codes, names, order, "", refuse)
    if not order:
        raise InputError(f"{where}: no levels; pass rows or levels=")
    return order, indices


def known_levels(levels: Sequence[str]) -> str:
    """Return the end of a message about an unknown level."""
    return (
        f"known: {format_list(levels, 40)} (Groups.from_frame(..., levels=...) adds levels without "
        "documents)"
    )


def level_indices(
    codes: IntArray, names: list[str], levels: Sequence[str], of: str, refuse: Refuse
) -> IntArray:
    """Return the index in `levels` of each row's level; `codes` are indices into `names`.

    Refuse a name that is not one of the levels; `of` follows it in the message.
    """
    indices = pd.Index(levels, dtype=object).get_indexer(pd.Index(names, dtype=object))
    if (indices < 0).any():
        code = int(np.flatnonzero(indices < 0)[0])
        text = f"unknown level {names[code]!r}{of}"
        refuse(RowProblem(np.flatnonzero(codes == code), text, remedy=known_levels(levels)))
    return np.asarray(indices[codes], dtype=np.int64)


def weights_of(frame: pd.DataFrame, refuse: Refuse) -> FloatArray:
    """Return the weights of a frame as floats; the text of a number is a number."""
    column = frame[WEIGHT]
    if not pd.api.types.is_numeric_dtype(column.dtype):
        column = numbers_in(column)
    weight: FloatArray = check_numbers(column, WEIGHT, refuse)
    return weight


_OTHER = (".json", ".jsonl", ".ndjson", ".xlsx", ".feather")


def write_weights(
    frame: pd.DataFrame, path: str | PathLike[str], note: dict[str, Any] | None = None
) -> None:
    """Write groups or a target atomically, in the format of the suffix."""
    if Path(str(path).removesuffix(".gz")).suffix in _OTHER:
        raise FormatError("expected the suffix .tsv, .csv or .parquet", path)
    for column in frame.columns.drop(WEIGHT):
        names = [*map(str, frame[column].unique())]
        for name in () if are_ids(names) else names:
            if flaw := find_flaw(name.replace("\t", "_")):  # files quote tabs
                raise InputError(
                    f"{path}: the {column} {name!r} {flaw}, so it cannot be read back; rename it"
                )
    write_table(frame, path, note)


def coverage(groups: Any, run: Any, cutoff: int | None = None) -> pd.DataFrame:
    """Return how many of a run's documents have known groups.

    Args:
        groups: `Groups`, a frame or a file.
        run: R or S, or a file.
        cutoff: the number of ranks of each ranking that count; `None` for all.

    Returns:
        One row per query; see `fairtk.Groups.coverage`.

    Raises:
        InputError: the groups or the run are invalid.
    """
    groups = frame_of(groups)
    if isinstance(groups, pd.DataFrame) and GROUP not in groups.columns:
        raise InputError("coverage: expected Groups, got a run; write coverage(groups, run)")
    known = Groups.of(groups)
    where = f"coverage of {known.name!r}"
    checks.cutoff(cutoff, where)
    return coverage_of(known, as_run(run, where), cutoff)


def coverage_of(
    groups: Groups,
    rankings: Run,
    cutoff: int | None = None,
    memberships: SparseRows | None = None,
) -> pd.DataFrame:
    """Return the coverage of an encoded run; `memberships` with ``"drop"`` may be passed."""
    seen = np.ones(len(rankings.doc), bool) if cutoff is None else rankings.position < cutoff
    query, doc = rankings.query[seen], rankings.doc[seen]
    n_queries = len(rankings.qids)
    rows = groups.memberships(rankings.docnos) if memberships is None else memberships
    named = rows.weighted(groups.space.known(rows.level).astype(np.float64))
    labeled = named.total() > 0
    retrieved = np.bincount(query, minlength=n_queries)
    with_row = np.bincount(query[(rows.size > 0)[doc]], minlength=n_queries)
    with_label = np.bincount(query[labeled[doc]], minlength=n_queries)
    n_documents = np.maximum(retrieved, 1)
    shape = (n_queries, rows.n_rows)
    n_shown = group_exposure(attention_matrix(query, doc, np.ones(len(doc)), shape), named).size
    return pd.DataFrame(
        {
            QID: rankings.qids,
            "retrieved": retrieved,
            "with_row": with_row,
            "with_label": with_label,
            "row_share": with_row / n_documents,
            "label_share": with_label / n_documents,
            "groups_shown": n_shown,
            "groups_absent": groups.space.n_known - n_shown,
        }
    )


def unreachable(groups: Groups, target: Distributions) -> tuple[float, list[str]]:
    """Return the largest share of a target on levels without documents, and these levels.

    Crossed attributes usually have empty combinations, which are not reported.
    """
    if groups.space.crossed:
        return 0.0, []
    empty = groups._is_empty
    if not empty.any():
        return 0.0, []
    weights = target.expanded()
    is_empty, total = empty[weights.level], weights.total()
    share = weights.per_row(weights.weight * is_empty) / np.where(total > 0, total, 1.0)
    levels = np.unique(weights.level[is_empty]).tolist()
    return float(share.max(initial=0.0)), [str(groups.levels[level]) for level in levels]
