"""`Target`: the desired distribution of exposure over groups."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display.tables import frame_html
from fairtk.errors import (
    ColumnError,
    DuplicateError,
    InputError,
    ParameterError,
    warn,
)
from fairtk.exposure import TREC
from fairtk.exposure.expected import make_grades, target_exposure
from fairtk.frames import (
    GROUP,
    QID,
    WEIGHT,
    BoolArray,
    EqualByContent,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    digest,
    require_columns,
)
from fairtk.frames.accepted import are_rows, column_of, frame_of, frame_of_rows
from fairtk.frames.ids import as_strings
from fairtk.frames.schema import Refuse, RowProblem, check_ids, check_unique, refuse_in
from fairtk.groups.exposure import attention_matrix, group_exposure
from fairtk.groups.groups import (
    Groups,
    known_levels,
    level_indices,
    level_order,
    weights_of,
    write_weights,
)
from fairtk.groups.levels import (
    OFFICIAL_TARGETS,
    POPULATION,
    RELEVANCE,
    TARGET_WORDS,
    UNIFORM,
    UNIFORM_WITH_UNKNOWN,
    UNKNOWN,
    LevelSpace,
)
from fairtk.groups.rows import Distributions, FactoredRows, SparseRows, case_masses, has_unknown
from fairtk.io.lines import STDIN, file_errors
from fairtk.io.rows import read_table
from fairtk.io.tables import check_weights, stem
from fairtk.wording import did_you_mean, format_list, missing_columns, rename_hint, short

_FEW_LEVELS = 1 << 12


def _written_out(rows: FactoredRows) -> Distributions:
    """Return rows over few levels with all weights stored; others unchanged."""
    return rows.expanded() if rows.space.size <= _FEW_LEVELS else rows


def _with_background(
    rows: SparseRows, space: LevelSpace, background: Mapping[str, Mapping[str, float]]
) -> Distributions:
    """Average the known part of distributions with backgrounds; see `FactoredRows`."""
    heads = tuple(space.attribute_index(name) for name in space.names if name in background)
    if not heads:
        return rows
    shares = tuple(_share(space, i, background[space.names[i]]) for i in heads)
    rest = tuple(i for i in range(len(space.names)) if i not in heads)

    def over(indices: tuple[int, ...]) -> SparseRows:
        level, size = space.project(rows.level, indices), space.part(indices).size
        return SparseRows.collect(rows.row, level, rows.weight, rows.n_rows, size)

    seen, head_space = over(heads), space.part(heads)
    scale = 0.5 * case_masses(head_space, seen)
    scale[:, 0] = 0.0  # unknown levels have no background
    factored = FactoredRows(space, heads, shares, scale, seen, rows, over(rest))
    half = factored.products(seen.row, seen.level)
    is_known = head_space.cases(seen.level) > 0
    factor = seen.weighted(np.where(is_known, 0.5 + half / seen.weight, 1.0))
    level = space.project(rows.level, heads)
    stored = rows.weighted(rows.weight * factor.lookup(rows.row, level))
    return _written_out(replace(factored, stored=stored))


def _backgrounds_by_attribute(
    background: Mapping[str, Any] | pd.Series | None, space: LevelSpace
) -> dict[str, Mapping[str, float]]:
    """Return a `background` argument as attribute -> level -> share."""
    if background is None:
        return {}
    if not isinstance(background, Mapping | pd.Series):
        raise ParameterError(
            f"background must map levels to shares, got {type(background).__name__}"
        )
    if len(background) == 0:
        return {}
    items = dict(background)
    nested = any(isinstance(v, Mapping | pd.Series) for v in items.values())
    if not nested:
        if space.crossed:
            raise ParameterError(
                f"background must map each of the attributes {format_list(space.names)} to its "
                "shares, e.g. {'gender': {'female': 0.5, 'male': 0.5}}"
            )
        items = {space.names[0]: items}
    result: dict[str, Mapping[str, float]] = {}
    for name, shares in items.items():
        if name not in space.names:
            raise InputError(
                f"background: unknown attribute {name!r}{did_you_mean(name, space.names)}"
            )
        if not isinstance(shares, Mapping | pd.Series):
            raise ParameterError(f"background: {name!r} must map levels to shares")
        result[name] = dict(shares)
    return result


def _share(space: LevelSpace, attribute: int, shares: Mapping[str, float]) -> FloatArray:
    name, levels = space.names[attribute], space.levels[attribute]
    result = np.zeros(len(levels))
    unknown_levels = [level for level in shares if level not in levels]
    if unknown_levels:
        raise InputError(
            f"background of {name!r}: unknown level {format_list(unknown_levels)}; "
            f"{known_levels(levels)}"
        )
    for level, share in shares.items():
        if not np.isfinite(share) or share < 0:
            raise InputError(
                f"background of {name!r}: the share of {level!r} must be at least 0, got {share}"
            )
        result[levels.index(level)] = share
    unknown = space.unknown[attribute]
    if unknown >= 0 and result[unknown] > 0:
        raise InputError(
            f"background of {name!r}: the share of the unknown level {levels[unknown]!r} must be "
            f"0, got {result[unknown]}"
        )
    if abs(result.sum() - 1) > 1e-6:
        raise InputError(f"background of {name!r}: the shares must sum to 1, got {result.sum():g}")
    result /= result.sum()
    if unknown >= 0:
        result[unknown] = 1.0
    return result


def background(name: str) -> pd.Series:
    """Return a packaged background as shares by level.

    Args:
        name: ``"trec-2022-world-population"`` (20 United Nations sub-regions, with the four of
            Oceania merged; for ``sub-geo`` and ``src-geo``), ``"trec-2022-gender"`` (female .495,
            male .495, NB .01) or ``"trec-2021-world-population"`` (the continents of 2021).

    Returns:
        Shares that sum to 1, indexed by level; ``.attrs["source"]`` is the source.

    Raises:
        NotFoundError: the name is unknown.
    """
    checks.known("background", name, _packaged())
    entry = _packaged()[name]
    counts = pd.Series(entry["weights"], dtype="float64", name=name)
    shares = counts / counts.sum()
    shares.attrs["source"] = entry["source"]
    return shares


@cache
def _packaged() -> dict[str, Any]:
    text = resources.files("fairtk.groups").joinpath("backgrounds.json").read_text("utf-8")
    return dict(json.loads(text))


WORK_ORDER = ("Stub", "Start", "C", "B", "GA", "FA")
"""The quality classes of Wikipedia articles, from most to least work needed."""


def _relevant(
    qrels: pd.DataFrame | Qrels, rel: float | None, where: str
) -> tuple[Qrels, IntArray, IntArray]:
    """Return the labels, and the query and document of each relevant one."""
    labeled = qrels if isinstance(qrels, Qrels) else Qrels(qrels, where)
    if rel is not None:
        checks.number("rel", rel, where, least=-math.inf)
    relevant = labeled.labels > 0 if rel is None else labeled.labels >= rel
    return labeled, labeled.query[relevant], labeled.doc[relevant]


def _grades_of_work(
    docnos: ObjectArray, work: Mapping[str, str] | pd.Series, order: Sequence[str]
) -> FloatArray:
    """Return the grade of each document's class, 1 for the least work; NaN without a class."""
    order = checks.listed("order", order)
    indices = {level: float(len(order) - i) for i, level in enumerate(order)}
    series = pd.Series(work)
    series = series[~series.isna()]
    unknown = [v for v in series.unique() if v not in indices]
    if unknown:
        docno = series.index[series == unknown[0]][0]
        raise InputError(
            f"Target.from_work_needed: unknown class {unknown[0]!r} of docno {str(docno)!r}"
            f"{did_you_mean(str(unknown[0]), order)}"
        )
    classed = pd.Index(as_strings(series.index), dtype=object)
    if classed.has_duplicates:
        docno = classed[classed.duplicated()][0]
        raise DuplicateError(f"Target.from_work_needed: duplicate class of docno {docno!r}")
    values = pd.Series(series.map(indices).to_numpy(dtype=float), index=classed)
    return np.asarray(values.reindex(docnos))


TOLERANCE = 1e-6
"""The tolerance for the sum of a query's weights."""


_MOST_SHOWN = 10_000
"""The maximum number of levels that a notebook shows."""


@dataclass(eq=False, repr=False)
class Target(EqualByContent):
    """A distribution over the levels of groups, one for all queries or one per query.

    Create a target with `uniform`, `population`, `from_qrels`, `from_work_needed`, `from_frame` or
    `read`. Distributions over crossed attributes are sparse or factored, so millions of levels need
    little memory. Targets are equal if their levels, queries and weights are.

    Attributes:
        space: the attributes and their levels.
        distributions: the weights, one row per query, or one for all.
        qids: the queries, in the order of the rows; `None` for one distribution for all queries.
        undefined: the reason why a query has no target, by qid.
        name: the name in measures, unless another one is registered; by default the digest.
    """

    identity_name = "fairtk.Target"
    output_version = 1
    space: LevelSpace
    distributions: Distributions
    qids: ObjectArray | None = None
    undefined: dict[str, str] = field(default_factory=dict)
    name: str = ""

    @classmethod
    def uniform(cls, groups: Groups, unknown: bool = False) -> Target:
        """Return equal shares of the named groups, for all queries.

        Args:
            groups: the groups.
            unknown: whether the unknown level of each attribute gets a share, too.

        Raises:
            InputError: an attribute has only the unknown level.
        """
        checks.boolean("unknown", unknown, "Target.uniform")
        space = _space_of(groups, "Target.uniform")
        shares = []
        for index in range(len(space.names)):
            share = np.ones(space.shape[index]) if unknown else space.known_levels(index)
            if not share.any():
                raise InputError(
                    f"Groups {space.names[index]!r}: no document has a known group, which the "
                    "target 'uniform' requires; give documents groups, or use 'uniform+unknown'"
                )
            shares.append(share / share.sum())
        name = UNIFORM_WITH_UNKNOWN if unknown and max(space.unknown) >= 0 else UNIFORM
        return cls(space, _written_out(FactoredRows.product(space, shares)), name=name)

    @classmethod
    def population(
        cls, shares: pd.Series | Mapping[Any, Any] | Groups, groups: Groups | None = None
    ) -> Target:
        """Return shares of a population, for all queries.

        Args:
            shares: counts or shares by level, which are divided by their sum. For crossed
                attributes, by tuple of levels (a series with a MultiIndex), or by attribute and
                level if attributes are independent. `Groups` mean the shares of all their
                documents. `fairtk.groups.background` returns the populations of TREC Fair Ranking.
            groups: the groups; `None` to use the levels of `shares`.

        Raises:
            InputError: a share is negative or NaN, all are 0, or a level is not in the groups.
        """
        where = "Target.population"
        if isinstance(shares, Groups):
            members, space = shares.memberships(shares.docnos), shares.space
            row = np.zeros(len(members.level), dtype=np.int64)
            rows = SparseRows.collect(row, members.level, members.weight, 1, space.size)
            return cls(space, rows.normalized(), name=POPULATION)
        if not isinstance(shares, Mapping | pd.Series):
            raise InputError(f"{where}: expected a series or dict, got {type(shares).__name__}")
        items: dict[Any, Any] = dict(shares)
        if items and all(isinstance(v, Mapping | pd.Series) for v in items.values()):
            return cls._independent(items, groups)
        target = cls.from_frame(_shares_of_levels(shares, items, groups, where), groups)
        return replace(target, name=POPULATION)

    @classmethod
    def _independent(cls, items: dict[Any, Any], groups: Groups | None) -> Target:
        singles = [cls.population(shares) for shares in items.values()]
        space = LevelSpace(
            tuple(str(name) for name in items),
            tuple(t.space.levels[0] for t in singles),
            tuple(t.space.unknown[0] for t in singles),
        )
        shares = [t.distributions.expanded().dense()[0] for t in singles]
        target = cls(space, FactoredRows.product(space, shares), name=POPULATION)
        return target if groups is None else target.for_groups(groups)

    @classmethod
    def from_qrels(
        cls,
        qrels: pd.DataFrame | Qrels,
        groups: Groups,
        background: Mapping[str, Any] | pd.Series | None = None,
        unlabeled: str = "drop",
        rel: float | None = None,
    ) -> Target:
        """Return the mean membership of each query's relevant documents.

        This is the target of TREC Fair Ranking 2022, Task 1. With a background, the known part is
        the mean of the documents' shares and the background, and the unknown part stays; for
        crossed attributes, for each combination of known and unknown attributes (``avg_with_bg`` in
        the track's code).

        Args:
            qrels: ``qid``, ``docno``, ``label``, or `fairtk.frames.Qrels`.
            groups: the groups.
            background: shares by level that sum to 1; for crossed attributes, by attribute and
                level. Attributes without a background are not averaged.
            unlabeled: how relevant documents without a row are handled; see `Groups.memberships`.
            rel: the smallest label of a relevant document; `None` for any above 0.

        Raises:
            InputError: the background has levels that are not in the groups, or does not sum to 1.
            DuplicateError: a query has two labels for a document.
        """
        labeled, query, doc = _relevant(qrels, rel, "Target.from_qrels")
        weight = np.ones(len(doc))
        target = cls._of_relevant(labeled, query, doc, weight, groups, background, unlabeled)
        has_background = background is not None and len(background) > 0
        return replace(target, name=f"{RELEVANCE}+{POPULATION}" if has_background else RELEVANCE)

    @classmethod
    def from_work_needed(
        cls,
        qrels: pd.DataFrame,
        groups: Groups,
        work: Mapping[str, str] | pd.Series,
        background: Mapping[str, Any] | pd.Series | None = None,
        order: Sequence[str] = WORK_ORDER,
        unlabeled: str = "drop",
        rel: float | None = None,
    ) -> Target:
        """Return the target of TREC Fair Ranking 2022, Task 2.

        This is `from_qrels` with each relevant document weighted by its exposure if documents that
        need most work come first: the mean of 1 / log2(max(rank, 2)) over the ranks of its class
        among the relevant documents.

        Args:
            qrels: as in `from_qrels`.
            groups: the groups.
            work: the quality class of each document, by docno. As in the track's code, relevant
                documents without a class are left out, with a warning.
            background: as in `from_qrels`.
            order: the classes, from most to least work needed.
            unlabeled: as in `from_qrels`.
            rel: as in `from_qrels`.

        Raises:
            InputError: as in `from_qrels`, or a class is not in `order`.
        """
        labeled, query, doc = _relevant(qrels, rel, "Target.from_work_needed")
        grade = _grades_of_work(labeled.docnos.text, work, order)[doc]
        unstated = np.isnan(grade)
        # the order within a class is random, so its documents share the mean discount
        grades = make_grades(query, grade, len(labeled.qids))
        exposure = np.append(target_exposure(grades, TREC(), None), 0.0)[grades.of_pair]
        weight = np.where(unstated, 0.0, exposure)
        if unstated.any():
            warn(
                f"Target.from_work_needed: {unstated.sum()} of {len(doc)} relevant documents have "
                "no class of work needed and are left out"
            )
        return cls._of_relevant(labeled, query, doc, weight, groups, background, unlabeled)

    @classmethod
    def _of_relevant(
        cls,
        labeled: Qrels,
        query: IntArray,
        doc: IntArray,
        weight: FloatArray,
        groups: Groups,
        background: Any,
        unlabeled: str,
    ) -> Target:
        """Return the mean memberships of each query's documents, averaged with backgrounds."""
        space, qids = _space_of(groups, "Target"), labeled.qids.text
        shares = _backgrounds_by_attribute(background, space)
        if isinstance(unlabeled, str) and unlabeled == "bounds":
            raise ParameterError("unlabeled='bounds' is not supported for targets; use 'drop'")
        memberships = groups.memberships(labeled.docnos, unlabeled)
        attention = attention_matrix(query, doc, weight, (len(qids), memberships.n_rows))
        rows = group_exposure(attention, memberships).normalized()
        count = np.bincount(query, minlength=len(qids))
        undefined = {
            str(qids[index]): f"none of its {count[index]} relevant documents is in the groups"
            if count[index]
            else "it has no relevant document"
            for index in np.flatnonzero(rows.total() == 0)
        }
        return cls(space, _with_background(rows, space, shares), qids, undefined)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, groups: Groups | None = None) -> Target:
        """Return the target in a frame.

        Args:
            frame: ``weight`` and ``group`` (or one column per crossed attribute), and ``qid`` for
                one distribution per query, as a frame, named tuples or records; or a dict
                ``{group: weight}`` or ``{qid: {group: weight}}``. Weights of a query sum to 1;
                levels without a row have weight 0. Not changed.
            groups: the groups; `None` to use the levels of the frame.

        Raises:
            ColumnError: a column is missing.
            InputError: a weight is negative or NaN, the weights of a query do not sum to 1, or a
                level is not in the groups.
            DuplicateError: a level occurs twice.
        """
        frame = _target_frame(frame)
        return cls._of_frame(frame, groups, partial(refuse_in, "Target", frame=frame))

    @classmethod
    def read(cls, path: str | PathLike[str], groups: Groups | None = None) -> Target:
        """Read a target from a TSV, CSV or Parquet file with the columns of `from_frame`.

        Raises:
            FormatError: a column is missing, or `from_frame` would raise; names file and line.
        """
        rows = read_table(path)
        check_weights(rows, [WEIGHT], "a target file")
        with file_errors(path):
            target = cls._of_frame(rows.frame, groups, rows.refuse)
        return replace(target, name=stem(rows.path))

    @classmethod
    def of(
        cls, source: Any, groups: Groups | None = None, qrels: Any = None, where: str = "Target"
    ) -> Target:
        """Return a target from any form of it.

        Args:
            source: a `Target`, any form of `from_frame`, a file, ``"uniform"`` (equal shares of the
                named groups), ``"uniform+unknown"`` (also of the unknown level), ``"population"``
                (the shares of all documents), or ``"relevance"`` (the shares of the relevant
                documents).
            groups: the groups; required for the names.
            qrels: the labels, for ``"relevance"``.
            where: the caller, for messages.

        Raises:
            InputError: ``"relevance"`` without labels, or as in `from_frame` and `read`.
        """
        source = _target_frame(source)
        if isinstance(source, cls):
            return source
        if isinstance(source, pd.DataFrame):
            return cls.from_frame(source, groups)
        if not isinstance(source, str | PathLike):
            raise InputError(
                f"{where}: expected a Target, a DataFrame, a dict {{group: weight}}, one of "
                f"{format_list(TARGET_WORDS, 9)}, or a file, got {source!r:.80}"
            )
        if source in OFFICIAL_TARGETS:
            raise InputError(
                f"{where}: the target {source!r} requires the track's metadata file as groups "
                "(-g gender=trec_2022_articles_discrete.json.gz); in Python, use "
                f"fairtk.datasets.trec_fair.targets(..., task={OFFICIAL_TARGETS[source]})"
            )
        if source not in TARGET_WORDS:
            if source != STDIN and not Path(source).exists():
                words = did_you_mean(str(source), (*TARGET_WORDS, *OFFICIAL_TARGETS))
                raise InputError(f"{source}: no such file or target{words}")
            return cls.read(source, groups)
        if groups is None:
            raise InputError(f"{where}: groups are required for the target {source!r}")
        if source in (UNIFORM, UNIFORM_WITH_UNKNOWN):
            return cls.uniform(groups, unknown=source == UNIFORM_WITH_UNKNOWN)
        if source == POPULATION:
            return cls.population(groups)
        if qrels is None:
            raise InputError(f"{where}: `qrels` are required for the target {source!r}")
        return cls.from_qrels(qrels, groups)

    @classmethod
    def _of_frame(cls, frame: pd.DataFrame, groups: Groups | None, refuse: Refuse) -> Target:
        columns = _attribute_columns(frame, groups, "Target")
        row, qids = np.zeros(len(frame), dtype=np.int64), None
        if QID in frame.columns:
            row, ids = check_ids(frame[QID], QID, refuse)
            qids = ids.text
        if not len(frame):
            raise InputError("Target: no rows; give each level a weight")
        space, level = _numbered(frame, columns, groups, refuse)
        weight = weights_of(frame, refuse)
        check_unique(row, level, "duplicate level", refuse)
        n = 1 if qids is None else len(qids)
        total = np.bincount(row, weights=weight, minlength=n)
        wrong = np.flatnonzero(np.abs(total - 1) > TOLERANCE)
        if len(wrong):
            rows = np.flatnonzero(row == wrong[0])
            query = "" if qids is None else f" of qid {qids[wrong[0]]!r}"
            message = f"the weights{query} must sum to 1, got {total[wrong[0]]:.8g}"
            remedy = "divide counts by their sum"
            refuse(RowProblem(rows, message, remedy=remedy))
        return cls(space, SparseRows.collect(row, level, weight, n, space.size), qids)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the target atomically, as TSV or CSV (also with ``.gz``) or Parquet."""
        write_weights(self.to_frame(), path)

    def to_frame(self) -> pd.DataFrame:
        """Return the weights above 0, in the form of `from_frame`.

        Raises:
            InputError: a factored target has more than 5 million weights.
        """
        rows = self.distributions.expanded()
        columns: dict[str, Any] = {}
        if self.qids is not None:
            columns[QID] = pd.Series(self.qids[rows.row] if len(rows.row) else [], dtype="str")
        return pd.DataFrame(columns | self.space.columns(rows.level) | {WEIGHT: rows.weight})

    def for_groups(self, groups: Groups) -> Target:
        """Return the target over the levels of these groups, in their order.

        Attributes and levels are matched by name. An attribute named ``group`` matches any single
        attribute.

        Raises:
            InputError: attributes differ, or a level with weight is not in the groups.
        """
        ours, space, rows = self.space, _space_of(groups, "for_groups"), self.distributions
        if ours == space:
            return self
        indices = _matched(ours, space)
        tables = [
            pd.Index(space.levels[j], dtype=object).get_indexer(ours.levels[i])
            for i, j in enumerate(indices)
        ]
        if isinstance(rows, FactoredRows):
            if not rows.is_product:
                raise InputError(
                    f"the target over {format_list(ours.names)} must have the levels and the order "
                    f"of attributes of the groups {format_list(space.names)}; make the target from "
                    "these groups"
                )
            shares = [np.zeros(n) for n in space.shape]
            for i, j in enumerate(indices):
                is_missing = (tables[i] < 0) & (rows.shares[i] > 0)
                _refuse(is_missing, ours, i, space)
                stays = tables[i] >= 0
                shares[j][tables[i][stays]] = rows.shares[i][stays]
            return Target(space, FactoredRows.product(space, shares), self.qids, name=self.name)
        number = np.zeros(len(rows.level), dtype=np.int64)
        for i, j in enumerate(indices):
            codes = ours.codes(rows.level, i)
            is_missing = (tables[i] < 0) & (np.bincount(codes, minlength=ours.shape[i]) > 0)
            _refuse(is_missing, ours, i, space)
            number += tables[i][codes] * space.strides[j]
        moved = SparseRows.collect(rows.row, number, rows.weight, rows.n_rows, space.size)
        return Target(space, moved, self.qids, self.undefined, self.name)

    def for_qids(self, qids: Iterable[str]) -> Distributions:
        """Return one row per query, shape (n,); empty for a query without a target."""
        return self.distributions.take(self._rows_of(qids))

    def drop_unknown(self, exposure: SparseRows, qids: Iterable[str]) -> SparseRows:
        """Return exposure of groups without the unknown levels, if the target has no share there.

        If a query's target gives the unknown level no share, documents of unknown group are left
        out of the comparison, like documents without a row. Otherwise the unknown level is a group
        like any other, as in TREC Fair Ranking 2022. A level of crossed attributes is unknown if
        one of its attributes is. Without a target, nothing is left out.

        Args:
            exposure: the exposure over the levels of this target; one row per element of `qids`.
            qids: the queries.
        """
        if max(self.space.unknown) < 0:
            return exposure
        unknown = np.flatnonzero(~self.space.known(exposure.level))
        is_group = self._unknown_is_a_group[self._rows_of(qids)[exposure.row[unknown]]]
        if is_group.all():
            return exposure
        weight = exposure.weight.copy()
        weight[unknown[~is_group]] = 0.0
        entries = (exposure.row, exposure.level, weight)
        return SparseRows.collect(*entries, exposure.n_rows, exposure.n_levels)

    @cached_property
    def _unknown_is_a_group(self) -> BoolArray:
        """Whether the unknown level is a group, per row; True at -1, for no target."""
        rows = self.distributions
        return np.append(has_unknown(self.space, rows) | (rows.total() == 0), True)

    def _rows_of(self, qids: Iterable[str]) -> IntArray:
        """Return the row of each query, -1 for a query without a target."""
        names = np.array([*map(str, checks.listed("qids", qids))], dtype=object)
        if self.qids is None:
            return np.zeros(len(names), dtype=np.int64)
        return np.asarray(self._index.get_indexer(names), dtype=np.int64)

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.qids, dtype=object)

    def marginal(self, *attributes: str) -> Target:
        """Return the target over some of the crossed attributes, summed over the others.

        Args:
            attributes: the attributes to keep.
        """
        from scipy import sparse

        indices = tuple(self.space.attribute_index(name) for name in attributes)
        space, parts = self.space.part(indices), []
        for row in range(self.distributions.n_rows):  # one by one: each may have a million weights
            weights = self.distributions.take(np.array([row])).expanded()
            level = self.space.project(weights.level, indices)
            parts.append(
                SparseRows.collect(weights.row, level, weights.weight, 1, space.size).matrix
            )
        rows = SparseRows(sparse.vstack(parts, format="csr"))
        return Target(space, rows, self.qids, self.undefined, self.name)

    def digest(self) -> str:
        """Return a digest of the content; see `fairtk.frames.digest`."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        rows, qids = self.distributions, None
        if self.qids is not None:
            order = np.argsort(self.qids.astype(str), kind="stable")
            rows = rows.take(order)
            defined = rows.total() > 0
            rows, qids = rows.take(np.flatnonzero(defined)), list(self.qids[order][defined])
        return digest([list(self.space.names), list(self.space.levels), qids, rows.content()])

    @property
    def key(self) -> str:
        """Attributes and content digest, e.g. ``gender#1a2b3c4d``."""
        return f"{self.space.title}#{self.digest()[:8]}"

    def _repr_html_(self) -> str:
        frame = self.to_frame() if self.space.size <= _MOST_SHOWN else pd.DataFrame()
        return frame_html(frame, repr(self))

    def __repr__(self) -> str:
        queries = "all queries" if self.qids is None else f"{len(self.qids)} queries"
        return f"<Target over {self.space.title} for {queries}>"


def _target_frame(source: Any) -> Any:
    """Return a table, rows, or a dict of weights as a frame; anything else unchanged."""
    if isinstance(source, Iterator):
        source = list(source)
    if isinstance(source, pd.Series):
        source = source.to_dict()
    if not isinstance(source, Mapping):
        return frame_of_rows(source, (GROUP, WEIGHT)) if are_rows(source) else frame_of(source)
    if {*source} >= {GROUP, WEIGHT} and not any(map(pd.api.types.is_scalar, source.values())):
        return pd.DataFrame(source)  # a dict of columns
    if source and all(isinstance(weights, Mapping) for weights in source.values()):
        rows = [(qid, group, w) for qid, of in source.items() for group, w in of.items()]
        columns = map(column_of, zip(*rows, strict=True)) if rows else ([], [], [])
        return pd.DataFrame(dict(zip((QID, GROUP, WEIGHT), columns, strict=True)))
    return pd.DataFrame({GROUP: column_of(source), WEIGHT: column_of(source.values())})


def _shares_of_levels(
    shares: Any, items: dict[Any, Any], groups: Groups | None, where: str
) -> pd.DataFrame:
    """Return shares by level as a frame, divided by their sum."""
    series = pd.Series(items, dtype="float64") if items else pd.Series(dtype="float64")
    wrong = ~np.isfinite(series.to_numpy()) | (series.to_numpy() < 0)
    if wrong.any():
        level = list(items)[wrong.argmax()]
        raise InputError(f"{where}: the share of {level!r} must be at least 0, got {items[level]}")
    if not series.sum() > 0:
        raise InputError(f"{where}: the sum of shares must be above 0, got {series.sum():g}")
    names = list(getattr(getattr(shares, "index", None), "names", [None]))
    if any(isinstance(level, tuple) for level in items):
        names = list(groups.space.names) if groups is not None and None in names else names
        parts = list(zip(*items, strict=True))
        if len(parts) != len(names) or None in names:
            raise InputError(f"{where}: the index levels of the series must have attribute names")
        frame = pd.DataFrame({n: [str(v) for v in p] for n, p in zip(names, parts, strict=True)})
    else:
        frame = pd.DataFrame({GROUP: [str(v) for v in items]})
    frame[WEIGHT] = series.to_numpy() / series.sum()
    return frame


def _matched(ours: LevelSpace, space: LevelSpace) -> list[int]:
    if len(ours.names) == len(space.names) == 1 and GROUP in (*ours.names, *space.names):
        return [0]
    if sorted(ours.names) != sorted(space.names):
        raise InputError(
            f"target and groups must have the same attributes, got {format_list(ours.names)} and "
            f"{format_list(space.names)}"
        )
    return [space.attribute_index(name) for name in ours.names]


def _refuse(is_missing: BoolArray, ours: LevelSpace, place: int, space: LevelSpace) -> None:
    if is_missing.any():
        names = [ours.levels[place][i] for i in np.flatnonzero(is_missing)]
        index = _matched(ours, space)[place]
        raise InputError(
            f"unknown level {format_list(names)} of {space.names[index]!r} in the target; "
            f"{known_levels(space.levels[index])}"
        )


def _space_of(groups: Any, where: str) -> LevelSpace:
    space = getattr(groups, "space", None)
    if not isinstance(space, LevelSpace):
        raise ParameterError(f"{where}: groups must be `fairtk.Groups`, got {short(groups)}")
    return space


def _attribute_columns(frame: pd.DataFrame, groups: Groups | None, where: str) -> list[str]:
    require_columns(frame, (), where)
    columns = [str(c) for c in frame.columns if c not in (QID, WEIGHT)]
    if WEIGHT not in frame.columns:
        attributes = [GROUP] if groups is None else [GROUP, *groups.space.names]
        named = [c for c in columns if c in attributes]
        expected = format_list([*(named or columns or [GROUP]), WEIGHT], 9)
        hint = rename_hint([WEIGHT], expected, frame.columns)
        raise ColumnError(f"{where}: {missing_columns([WEIGHT], expected, frame.columns)}{hint}")
    if groups is None:
        if GROUP in columns:
            return [GROUP]
        if not columns:
            expected = format_list([GROUP, WEIGHT])
            raise ColumnError(f"{where}: {missing_columns([GROUP], expected, frame.columns)}")
        return columns
    names = list(_space_of(groups, where).names)
    if len(names) == 1 and GROUP in columns:
        return [GROUP]
    missing = [n for n in names if n not in columns]
    if missing:
        needed = [GROUP] if len(names) == 1 else missing
        expected = f"{format_list([GROUP] if len(names) == 1 else names, 9)} for {groups.name!r}"
        raise ColumnError(f"{where}: {missing_columns(needed, expected, frame.columns)}")
    return names


def _numbered(
    frame: pd.DataFrame, columns: list[str], groups: Groups | None, refuse: Refuse
) -> tuple[LevelSpace, IntArray]:
    coded = []
    for column in columns:
        codes, values = pd.factorize(frame[column])
        if (codes < 0).any():
            refuse(RowProblem(np.flatnonzero(codes < 0), f"{column} is missing"))
        coded.append((codes.astype(np.int64), list(as_strings(values))))
    if groups is not None:
        space = groups.space
    else:
        levels = tuple(level_order(values, UNKNOWN) for _, values in coded)
        unknown = tuple(v.index(UNKNOWN) if UNKNOWN in v else -1 for v in levels)
        space = LevelSpace(tuple(columns), levels, unknown)
    number = np.zeros(len(frame), dtype=np.int64)
    for index, (codes, names) in enumerate(coded):
        of = f" of {space.names[index]!r}"
        own = level_indices(codes, names, space.levels[index], of, refuse)
        number += own * space.strides[index]
    return space, number
