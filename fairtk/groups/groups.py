"""`Groups`: which documents belong to which groups, from frames, files and data sets."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.display.tables import frame_html
from fairtk.errors import FormatError, InputError, ParameterError, listed
from fairtk.frames import (
    DOCNO,
    GROUP,
    QID,
    WEIGHT,
    ByContent,
    IntArray,
    ObjectArray,
    Run,
    takes_tables,
)
from fairtk.groups.divergence import Distributions, Memberships, attention_matrix, group_exposure
from fairtk.groups.memberships import (
    UNKNOWN,
    UNLABELED,
    Attribute,
    Levels,
    LevelSpace,
    attribute_from_frame,
    crossed,
    known_only,
    level_order,
    spread_evenly,
    with_unknown,
)
from fairtk.io import write_parquet
from fairtk.io.lines import is_parquet_name, naming
from fairtk.io.rows import Rows, read_table
from fairtk.io.runs import frame_of_run
from fairtk.io.tables import check_weights, stem, write_table

_ODD = re.compile(r"^\s|\s$|[\r\n\ufeff]|^$")
_NOTED = {"unknown", "levels", "normalize"}
_OTHER = (".json", ".jsonl", ".ndjson", ".xlsx", ".feather")


def attribute_of_rows(
    rows: Rows,
    name: str | None = None,
    unknown: str | None = UNKNOWN,
    levels: Sequence[str] | None = None,
    split: str = "count",
    normalize: bool | None = None,
) -> Attribute:
    """Return the attribute that the rows of a file hold; see `fairtk.Groups.read`."""
    check_weights(rows, [DOCNO, GROUP], "a groups file")
    note = rows.note
    if levels is None and "levels" in note:
        levels = note["levels"]
    if unknown == UNKNOWN and "unknown" in note:
        unknown = note["unknown"]
    if normalize is None:
        normalize = bool(note.get("normalize", True))
    return attribute_from_frame(
        rows.frame,
        name or note.get("name") or stem(rows.path),
        unknown=unknown,
        levels=levels,
        split=split,
        normalize=normalize,
        fail=lambda row, message, kind: rows.fail(row, message),
    )


def write_attribute(attribute: Attribute, path: str | PathLike[str]) -> None:
    """Write one attribute; see `fairtk.Groups.write`."""
    used = [attribute.levels[i] for i in np.unique(attribute.level)]
    unknown = attribute.levels[attribute.unknown] if attribute.unknown >= 0 else None
    note: dict[str, Any] = {}
    if attribute.name != stem(path):
        note["name"] = attribute.name
    if level_order(used, UNKNOWN) != attribute.levels:
        note["levels"] = list(attribute.levels)
    if unknown != (UNKNOWN if UNKNOWN in attribute.levels else None):
        note["unknown"] = unknown
    if not attribute.normalized:
        note["normalize"] = False
    write = write_parquet if is_parquet_name(path) else write_weights
    write(attribute.to_frame(), path, note)


def write_weights(
    frame: pd.DataFrame, path: str | PathLike[str], note: dict[str, Any] | None = None
) -> None:
    """Write groups or a target in one step, in the form that the suffix names."""
    if Path(str(path).removesuffix(".gz")).suffix in _OTHER:
        raise FormatError("groups and targets are written as .tsv, .csv or .parquet", path)
    names = frame.drop(columns=WEIGHT)
    for column in names.columns:
        odd = [name for name in names[column].astype("str").unique() if _ODD.search(str(name))]
        if odd and not is_parquet_name(path):
            raise InputError(
                f"{path}: a {column} cannot be empty, have spaces around it or line breaks; "
                f"found {listed(odd, 3)}: write .parquet instead"
            )
    write_table(frame, path, note)


def frame_from_docs(
    dataset: Any, field: str, unknown: str | None, recode: Mapping[str, str]
) -> pd.DataFrame:
    """Return ``docno``, ``group`` and ``weight`` from a field; see `fairtk.Groups.from_docs`."""
    if not hasattr(dataset, "docs_iter"):
        raise InputError(
            "from_docs needs an ir_datasets data set with documents; found "
            f"{type(dataset).__name__}"
        )
    docnos: list[str] = []
    groups: list[str | None] = []
    weights: list[float] = []
    seen: set[str] = set()
    for doc in dataset.docs_iter():
        if not hasattr(doc, field):
            fields = getattr(doc, "_fields", ())
            raise InputError(f"the documents have no field {field!r}; they have {list(fields)}")
        if doc.doc_id in seen:
            continue
        seen.add(doc.doc_id)
        counts = _counts(getattr(doc, field), doc.doc_id, field, recode)
        if not counts:
            counts = {unknown: 1.0}
        for group, weight in counts.items():
            docnos.append(doc.doc_id)
            groups.append(group)
            weights.append(weight)
    return pd.DataFrame(
        {
            DOCNO: pd.Series(docnos, dtype="str"),
            GROUP: pd.Series(groups, dtype="str"),
            WEIGHT: pd.Series(weights, dtype="float64"),
        }
    )


def _counts(
    value: Any, docno: str, field: str, recode: Mapping[str, str]
) -> dict[str | None, float]:
    if value is None or value == "":
        return {}
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        # a value that is listed twice is listed, no more
        items = [(v, 1) for v in Counter(v for v in value if v is not None)]
    elif isinstance(value, str | int):
        items = [(value, 1)]
    else:
        raise InputError(
            f"docno {docno!r}: the field {field!r} must be a string, a list of strings or counts "
            f"by string; found {type(value).__name__}"
        )
    result: dict[str | None, float] = {}
    for level, count in items:
        if not isinstance(count, int | float):
            raise InputError(
                f"docno {docno!r}: the field {field!r} must hold counts; found {count!r} for "
                f"{level!r}"
            )
        name = recode.get(str(level), str(level))
        result[name] = result.get(name, 0.0) + count
    return {level: count for level, count in result.items() if count}


class Groups(ByContent):
    """Memberships of documents in the levels of one attribute, or of several crossed ones.

    A document may belong to one level, to several, or in part; a document whose group is not known
    belongs to the unknown level; a document may also have no row at all (see `memberships` for
    what happens to it). Make one with `from_frame`, `from_docs` or `read`; ``a * b`` crosses the
    attributes of two. A crossed attribute is kept as its factors: the product is formed for the
    documents that are asked for, so eight attributes with 11 million combinations cost no more
    than the eight.

    Two objects are equal if name, levels and memberships are; the order of documents and rows
    carries no meaning.

    Attributes:
        factors: the attributes.
        space: their levels.
    """

    identity_name = "fairtk.Groups"
    output_version = 1

    def __init__(self, factors: Sequence[Attribute]) -> None:
        self.factors: tuple[Attribute, ...] = tuple(factors)
        self.space = LevelSpace(
            tuple(f.name for f in self.factors),
            tuple(f.levels for f in self.factors),
            tuple(f.unknown for f in self.factors),
        )

    @classmethod
    @takes_tables
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

    @classmethod
    @takes_tables
    def of(cls, source: Any) -> Groups:
        """Return groups wherever they are: `Groups` as they are, a frame's, or a file's.

        A frame is named by its ``attrs["name"]`` (`fairtk.io.read_groups`), or ``group``.
        """
        if isinstance(source, cls):
            return source
        if isinstance(source, pd.DataFrame):
            noted = {key: source.attrs[key] for key in source.attrs.keys() & _NOTED}
            return cls.from_frame(source, source.attrs.get("name", GROUP), **noted)
        if isinstance(source, str | PathLike):
            return cls.read(source)
        raise InputError(f"groups are Groups, a DataFrame or a file; found {source!r:.80}")

    def write(self, path: str | PathLike[str]) -> None:
        """Write the groups, in one step; the suffix chooses TSV, CSV (both ``.gz`` too) or Parquet.

        `read` gives equal groups back. A text file starts with a comment line that notes name and
        levels where the rows alone would not tell them.

        Raises:
            InputError: the attribute is crossed; write its factors.
        """
        write_attribute(self._single("write"), path)

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
        common = np.ones(len(first), dtype=bool)
        for at in {*self._twins} - {0}:
            common &= self.factors[at].documents.rows(first.values) >= 0
        return np.flatnonzero(common)

    def __len__(self) -> int:
        return len(self._common)

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
                a document, or ``"uniform"`` would make too many levels.
        """
        if unlabeled not in UNLABELED:
            raise ParameterError(f"unlabeled must be one of {list(UNLABELED)}; found {unlabeled!r}")
        if unlabeled == "bounds" and len(self.factors) > 1:
            raise ParameterError(
                f"unlabeled='bounds' is for one attribute; {self.space.title!r} is crossed: "
                "measure its attributes one by one"
            )
        names = docnos if isinstance(docnos, np.ndarray) else np.array(list(docnos), dtype=object)
        rows_by_factor = self._rows_by_factor(names)
        is_counted, free = np.ones(len(names), dtype=bool), np.zeros(len(names))
        if unlabeled == "drop":
            is_counted = np.all([rows >= 0 for rows in rows_by_factor], axis=0)
            rows_by_factor = [np.where(is_counted, rows, -1) for rows in rows_by_factor]
        parts = []
        for factor, rows in zip(self.factors, rows_by_factor, strict=True):
            part = factor.entries(rows)
            if unlabeled == "unknown":
                part = with_unknown(factor, part, rows, names)
            elif unlabeled == "uniform":
                part = spread_evenly(self.space, factor, *known_only(factor, part, rows))
            elif unlabeled == "bounds":
                part, free = known_only(factor, part, rows)
            parts.append(part)
        return Memberships(crossed(self.space, parts).matrix, is_counted, free)

    def _rows_by_factor(self, docnos: ObjectArray) -> list[IntArray]:
        rows = {at: self.factors[at].documents.rows(docnos) for at in {*self._twins}}
        return [rows[at] for at in self._twins]

    @cached_property
    def _twins(self) -> list[int]:
        """Of each attribute, the place of the first one that has the same documents."""
        documents = [factor.documents for factor in self.factors]
        return [next(i for i, d in enumerate(documents) if d.same(own)) for own in documents]

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
        return self.memberships(self.docnos).matrix

    @takes_tables
    def coverage(self, run: Any, cutoff: int | None = None) -> pd.DataFrame:
        """Return how much of a run the groups know.

        Args:
            run: R or S, or a file.
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
        rows = self.memberships(self.docnos)
        docnos = pd.Series(self.docnos[rows.row], dtype="str")
        columns = {DOCNO: docnos, **self.space.columns(rows.level), WEIGHT: rows.weight}
        return pd.DataFrame(columns)

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
        counts = (factor.level_counts() for factor in self.factors)
        return "".join(frame_html(frame, repr(self)) for frame in counts)

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


COLUMNS = (
    QID, "retrieved", "with_row", "with_label", "row_share", "label_share", "groups_shown",
    "groups_absent",
)  # fmt: skip


def coverage(groups: Any, run: Any, cutoff: int | None = None) -> pd.DataFrame:
    """Return how much of a run the groups know, and how many groups it shows.

    The frame of `fairtk.Groups.coverage`, with one row per query of the run: ``qid``,
    ``retrieved``, ``with_row``, ``with_label``, ``row_share``, ``label_share``, ``groups_shown``
    and ``groups_absent``. With a cutoff, the ranks above it are looked at in each ranking. Groups
    and run are objects, frames or files.

    Raises:
        InputError: `groups` is something else, or the run is not valid.
    """
    if isinstance(groups, pd.DataFrame) and GROUP not in groups.columns:
        raise InputError(
            "coverage: expected Groups, found a DataFrame; write coverage(groups, run)"
        )
    known = Groups.of(groups)
    where = f"coverage of {known.name!r}"
    return coverage_of(known, Run(frame_of_run(run), where), cutoff)


def coverage_of(
    groups: Groups,
    rankings: Run,
    cutoff: int | None = None,
    memberships: Memberships | None = None,
) -> pd.DataFrame:
    """Return the same for an encoded run; `memberships`, if at hand, drop what is unlabeled."""
    seen = np.ones(len(rankings.doc), bool) if cutoff is None else rankings.position < cutoff
    query, doc = rankings.query[seen], rankings.doc[seen]
    n_queries = len(rankings.qids)
    rows = groups.memberships(rankings.docnos) if memberships is None else memberships
    named = rows.weighted(groups.space.known(rows.level).astype(np.float64))
    labeled = named.total() > 0
    retrieved = np.bincount(query, minlength=n_queries)
    with_row = np.bincount(query[rows.known[doc]], minlength=n_queries)
    with_label = np.bincount(query[labeled[doc]], minlength=n_queries)
    some = np.maximum(retrieved, 1)
    shape = (n_queries, rows.n_rows)
    n_shown = group_exposure(attention_matrix(query, doc, np.ones(len(doc)), shape), named).size
    absent = n_known(groups.space) - n_shown
    values = (
        rankings.qids, retrieved, with_row, with_label, with_row / some, with_label / some,
        n_shown, absent,
    )  # fmt: skip
    return pd.DataFrame(dict(zip(COLUMNS, values, strict=True)))


def n_known(space: LevelSpace) -> int:
    """Return the number of groups in which no attribute is unknown."""
    return math.prod(int(space.known_levels(place).sum()) for place in range(len(space.names)))


def empty_levels(groups: Groups) -> list[list[str]]:
    """Return, for each attribute, the known levels that no document has."""
    result = []
    for place, factor in enumerate(groups.factors):
        lost = ~factor.used & (groups.space.known_levels(place) > 0)
        result.append([factor.levels[i] for i in np.flatnonzero(lost)])
    return result


def unreachable(groups: Groups, target: Distributions) -> tuple[float, list[str]]:
    """Return how much of a target lies on levels that no document has, and which those are.

    The largest such share of any query. For one attribute only: crossed ones have empty
    combinations as a rule, and are returned as if they had none.
    """
    if groups.space.crossed or all(not levels for levels in empty_levels(groups)):
        return 0.0, []
    weights = target.expanded()
    lost = np.isin(weights.level, [groups.space.number(v) for v in empty_levels(groups)[0]])
    total = weights.total()
    share = weights.per_row(weights.weight * lost) / np.where(total > 0, total, 1.0)
    levels = np.unique(weights.level[lost]).tolist()
    return float(share.max(initial=0.0)), [str(groups.space.label(level)) for level in levels]
