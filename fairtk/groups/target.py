"""`Target`: the distribution over groups that exposure should have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from fairtk.divergence import Distributions, SparseRows
from fairtk.errors import InputError, warn
from fairtk.files.renderings import frame_html
from fairtk.frames.columns import QID, WEIGHT
from fairtk.frames.content import ByContent, digest
from fairtk.groups.factored import ProductRows, content, written_out
from fairtk.groups.files import write_weights
from fairtk.groups.groups import Groups
from fairtk.groups.levels import LevelSpace
from fairtk.groups.relevant import (
    WORK_ORDER,
    Relevant,
    backgrounds_by_attribute,
    mean_memberships,
    with_background,
)
from fairtk.groups.target_frames import (
    TargetWeights,
    population,
    read_target,
    realigned,
    target_from_frame,
)
from fairtk.renamed import refuses_old_words

_MOST_SHOWN = 10_000
"""Levels of a target that a notebook still shows."""


class Target(TargetWeights, ByContent):
    """A distribution over the levels of groups, one for all queries or one for each.

    Make one with `uniform`, `population`, `from_qrels`, `from_work_needed`, `from_frame` or
    `read`. Distributions over crossed attributes are kept sparse or as factors: the official joint
    target over all eight attributes of TREC Fair Ranking 2022, 11 million cells, takes as much
    memory as the relevant documents.

    Two targets are equal if their levels, queries and weights are.

    Attributes:
        space: attributes and levels.
        distributions: the weights, one row per query (or one row).
        qids: the queries, in the order of the rows; None: one distribution for all queries.
        undefined: for queries that have no target, the reason.
    """

    @classmethod
    def of(cls, weights: TargetWeights) -> Target:
        """Return a target of its parts."""
        return cls(weights.space, weights.distributions, weights.qids, weights.undefined)

    @classmethod
    def uniform(cls, groups: Groups, unknown: bool = True) -> Target:
        """Return equal shares of all levels, for all queries.

        Args:
            groups: the groups.
            unknown: whether the unknown level, where there is one, is among them.
        """
        if not isinstance(getattr(groups, "space", None), LevelSpace):
            raise InputError(f"Target.uniform needs Groups; found a {type(groups).__name__}")
        space = groups.space
        shares = []
        for place in range(len(space.names)):
            share = np.ones(space.shape[place]) if unknown else space.known_levels(place)
            if not share.any():
                raise InputError(f"Target.uniform: {space.names[place]!r} has no known level")
            shares.append(share / share.sum())
        return cls(space, written_out(ProductRows(space, tuple(shares), np.ones(1, dtype=bool))))

    @classmethod
    def population(
        cls, shares: pd.Series | Mapping[Any, Any], groups: Groups | None = None
    ) -> Target:
        """Return shares of a population, for all queries.

        Args:
            shares: counts or shares by level, divided by their sum. For crossed attributes either
                by tuple of levels (a series with a MultiIndex), or shares by level for each
                attribute, taken as independent.
            groups: the groups; None: the levels are those of `shares`. `fairtk.groups.background`
                gives the populations of TREC Fair Ranking 2022.

        Raises:
            InputError: a share is negative or NaN, all are 0, or the groups lack a level.
        """
        return cls.of(population(shares, groups))

    @classmethod
    @refuses_old_words
    def from_qrels(
        cls,
        qrels: pd.DataFrame,
        groups: Groups,
        background: Mapping[str, Any] | pd.Series | None = None,
        unlabeled: str = "drop",
        rel: float | None = None,
    ) -> Target:
        """Return what the relevant documents' groups are, as TREC Fair Ranking 2022, Task 1.

        The mean membership of each query's relevant documents. Where a background is given, the
        part whose level is known is averaged with it half and half, and the unknown part stays;
        for crossed attributes that is done for each pattern of known and unknown attributes
        (``avg_with_bg`` in the track's code; see `fairtk.groups.factored.BackgroundRows`).

        Args:
            qrels: ``qid``, ``docno``, ``label``.
            groups: the groups.
            background: shares by level; for crossed attributes, by attribute. Attributes without
                one are not averaged.
            unlabeled: what becomes of relevant documents without a row; see `Groups.memberships`.
            rel: smallest label of a relevant document; None: any above 0.

        Raises:
            InputError: the background names levels that the groups lack, or does not sum to 1.
            DuplicateError: a document is labeled twice.
        """
        relevant = Relevant(qrels, rel, "Target.from_qrels")
        return cls._of_relevant(relevant, groups, None, background, unlabeled)

    @classmethod
    @refuses_old_words
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

        As `from_qrels`, but a relevant document counts by its exposure in an ideal ranking, which
        shows what needs most work first: the mean of 1 / log2(max(rank, 2)) over the ranks that
        its class occupies among the relevant documents.

        Args:
            qrels: as in `from_qrels`.
            groups: the groups.
            work: the class of each document, by docno. Relevant documents without one are left
                out, as in the track's code, with a warning.
            background: as in `from_qrels`.
            order: the classes, most work needed first.
            unlabeled: as in `from_qrels`.
            rel: as in `from_qrels`.

        Raises:
            InputError: as for `from_qrels`, or a class is not in `order`.
        """
        relevant = Relevant(qrels, rel, "Target.from_work_needed")
        exposure, unstated = relevant.work_exposure(work, order)
        if unstated:
            warn(
                f"Target.from_work_needed: {unstated} of {len(exposure)} relevant documents have "
                "no class of work needed and are left out"
            )
        return cls._of_relevant(relevant, groups, exposure, background, unlabeled)

    @classmethod
    def _of_relevant(
        cls, relevant: Relevant, groups: Groups, weight: Any, background: Any, unlabeled: str
    ) -> Target:
        space = groups.space
        shares = backgrounds_by_attribute(background, space)
        rows, undefined = mean_memberships(relevant, groups, weight, unlabeled)
        return cls(space, with_background(rows, space, shares), relevant.qids, undefined)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, groups: Groups | None = None) -> Target:
        """Return the target that a frame lists.

        Args:
            frame: ``weight`` and ``group``, or a column for each crossed attribute, named like it,
                instead of ``group``; ``qid`` if it differs by query. Levels that are not listed
                have weight 0. Not changed.
            groups: the groups; None: the levels are those of the frame.

        Raises:
            ColumnError: a column is missing.
            InputError: a weight is negative or NaN, the weights of a query do not sum to 1, or a
                level is one that the groups lack.
            DuplicateError: a level is listed twice.
        """
        return cls.of(target_from_frame(frame, groups))

    @classmethod
    def read(cls, path: str | PathLike[str], groups: Groups | None = None) -> Target:
        """Read a target from a TSV, CSV or Parquet file with the columns of `from_frame`.

        Raises:
            FormatError: the file holds something that `from_frame` rejects; names file and line.
        """
        return cls.of(read_target(path, groups))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the target in one step; the suffix chooses TSV, CSV (``.gz`` too) or Parquet."""
        write_weights(self.to_frame(), path)

    def to_frame(self) -> pd.DataFrame:
        """Return the weights above 0 in the form of `from_frame`.

        Raises:
            InputError: there are too many to write out.
        """
        rows = self.distributions.expanded()
        columns: dict[str, Any] = {}
        if self.qids is not None:
            columns[QID] = pd.Series(self.qids[rows.row] if len(rows.row) else [], dtype="str")
        return pd.DataFrame(columns | self.space.columns(rows.cell) | {WEIGHT: rows.weight})

    def for_groups(self, groups: Groups) -> Target:
        """Return the target over the levels of these groups, in their order.

        Attributes are matched by name, levels by name. A target over one attribute that has no
        name (the column ``group``) fits any one attribute.

        Raises:
            InputError: attributes differ, or the groups lack a level that has weight.
        """
        found = realigned(self, groups.space)
        return self if found is self else Target.of(found)

    def for_qids(self, qids: Iterable[str]) -> Distributions:
        """Return one row for each query, empty for a query without a target.

        Args:
            qids: the queries; shape (n,).
        """
        wanted = np.array([str(q) for q in qids], dtype=object)
        if self.qids is None:
            return self.distributions.take(np.zeros(len(wanted), dtype=np.int64))
        return self.distributions.take(np.asarray(self._index.get_indexer(wanted), dtype=np.int64))

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self.qids, dtype=object)

    def marginal(self, *attributes: str) -> Target:
        """Return the target over some of the crossed attributes: sums over the others.

        Args:
            attributes: the attributes that stay.
        """
        places = tuple(self.space.index(name) for name in attributes)
        space = self.space.part(places)
        n = self.distributions.n_rows
        parts = []
        for row in range(n):  # one by one: written out, a query can have a million weights
            whole = self.distributions.take(np.array([row])).expanded()
            cell = self.space.project(whole.cell, places)
            parts.append(SparseRows.collect(whole.row, cell, whole.weight, 1, space.size))
        rows = SparseRows(
            np.concatenate([np.full(len(p.cell), i) for i, p in enumerate(parts)]),
            np.concatenate([p.cell for p in parts]),
            np.concatenate([p.weight for p in parts]),
            n,
            space.size,
        )
        return Target(space, rows, self.qids, self.undefined)

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
        return digest([list(self.space.names), list(self.space.levels), qids, content(rows)])

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
