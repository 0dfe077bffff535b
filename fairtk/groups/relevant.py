"""Targets from relevance labels: the official ones of TREC Fair Ranking 2022."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairtk.divergence import Distributions, SparseRows
from fairtk.errors import DuplicateError, InputError, ParameterError, listed
from fairtk.exposure.browsing import TREC
from fairtk.exposure.expected import make_grades, target_exposure, total
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.ids import as_strings
from fairtk.frames.qrels import Qrels
from fairtk.groups.crossed import Crossed
from fairtk.groups.exposure import Shown, group_exposure
from fairtk.groups.factored import BackgroundRows, half_of_background, written_out
from fairtk.groups.levels import LevelSpace, only

WORK_ORDER = ("Stub", "Start", "C", "B", "GA", "FA")
"""The quality classes of Wikipedia articles, most work needed first."""


class Relevant:
    """The relevant documents of all queries: labels of at least `rel`, or above 0."""

    def __init__(self, qrels: pd.DataFrame, rel: float | None, where: str) -> None:
        known = Qrels(qrels, where)
        kept = known.labels > 0 if rel is None else known.labels >= rel
        self.qids = known.qids
        self.docnos = known.docnos
        self.query: IntArray = known.query[kept]
        self.doc: IntArray = known.doc[kept]

    def work_exposure(
        self, work: Mapping[str, str] | pd.Series, order: Sequence[str]
    ) -> tuple[FloatArray, int]:
        """Return each relevant document's target exposure by its class, and how many have no class.

        An ideal ranking shows relevant documents by work needed, most first, and shuffles them
        inside a class: each gets the mean discount of its class's block of ranks; 0 without a
        class.
        """
        places = {level: float(len(order) - i) for i, level in enumerate(order)}
        series = pd.Series(work)
        series = series[~series.isna()]
        unknown = [v for v in series.unique() if v not in places]
        if unknown:
            docno = series.index[series == unknown[0]][0]
            raise InputError(
                f"Target.from_work_needed: docno {str(docno)!r} has the class {unknown[0]!r}; "
                f"known: {list(order)}"
            )
        docnos = pd.Index(as_strings(series.index), dtype=object)
        if docnos.has_duplicates:
            docno = docnos[docnos.duplicated()][0]
            raise DuplicateError(f"Target.from_work_needed: docno {docno!r} has two classes")
        values = pd.Series(series.map(places).to_numpy(dtype=float), index=docnos)
        grade = values.reindex(self.docnos).to_numpy()[self.doc]
        grades = make_grades(self.query, grade, len(self.qids))
        exposure = np.append(target_exposure(grades, TREC(), None), 0.0)[grades.of_pair]
        return np.where(np.isnan(grade), 0.0, exposure), int(np.isnan(grade).sum())


def mean_memberships(
    relevant: Relevant, groups: Crossed, weight: FloatArray | None, unlabeled: str
) -> tuple[SparseRows, dict[str, str]]:
    """Return the mean memberships of each query's relevant documents, and what has none and why.

    Documents count by their weight, or all alike; `unlabeled` as in `Groups.memberships`.
    """
    if unlabeled == "bounds":
        raise ParameterError("a target cannot be made with unlabeled='bounds'; use 'drop'")
    found = groups.memberships(relevant.docnos, unlabeled)
    weights = np.ones(len(relevant.doc)) if weight is None else weight
    n = len(relevant.qids)
    rows = group_exposure(Shown(relevant.query, relevant.doc, weights, n), found).normalized()
    count = np.bincount(relevant.query, minlength=n)
    undefined = {}
    for place in np.flatnonzero(rows.total() == 0):
        many = int(count[place])
        undefined[str(relevant.qids[place])] = (
            f"none of its {many} relevant documents is in the groups" if many else
            "it has no relevant document"
        )  # fmt: skip
    return rows, undefined


def with_background(
    rows: SparseRows, space: LevelSpace, background: Mapping[str, Mapping[str, float]]
) -> Distributions:
    """Average the known part of distributions with backgrounds; see `BackgroundRows`."""
    averaged = tuple(space.index(name) for name in space.names if name in background)
    if not averaged:
        return rows
    shares = tuple(_share(space, i, background[space.names[i]]) for i in averaged)
    head = space.part(averaged)
    tail_places = tuple(i for i in range(len(space.names)) if i not in averaged)
    heads = space.project(rows.cell, averaged)
    tails = space.project(rows.cell, tail_places)
    size_of_tail = space.part(tail_places).size
    seen = SparseRows.collect(rows.row, heads, rows.weight, rows.n_rows, head.size)
    tail = SparseRows.collect(rows.row, tails, rows.weight, rows.n_rows, size_of_tail)
    case = np.zeros(len(seen.cell), dtype=np.int64)
    for place, unknown in enumerate(head.unknown):
        case |= (head.codes(seen.cell, place) != unknown).astype(np.int64) << place
    n_cases = 1 << len(averaged)
    mass = total(seen.row * n_cases + case, seen.weight, rows.n_rows * n_cases)
    mass = mass.reshape(rows.n_rows, n_cases)
    half = half_of_background(head, shares, mass, seen.row, seen.cell)
    factor = np.where(case > 0, 0.5 + half / seen.weight, 1.0)
    found = np.searchsorted(seen.key, rows.row * head.size + heads)
    stored = SparseRows(rows.row, rows.cell, rows.weight * factor[found], rows.n_rows, rows.n_cells)
    return written_out(BackgroundRows(space, averaged, shares, stored, seen, tail, mass))


def backgrounds_by_attribute(
    background: Mapping[str, Any] | pd.Series | None, space: LevelSpace
) -> dict[str, Mapping[str, float]]:
    """Return a `background` argument as shares by level, by attribute."""
    if background is None or len(background) == 0:
        return {}
    if not isinstance(background, Mapping | pd.Series):
        raise ParameterError(
            f"background must map levels to shares; found {type(background).__name__}"
        )
    items = dict(background)
    nested = any(isinstance(v, Mapping | pd.Series) for v in items.values())
    if not nested:
        if space.crossed:
            raise ParameterError(
                f"the attributes {list(space.names)} are crossed: background must map an "
                "attribute to its shares, e.g. {'gender': {'female': 0.5, 'male': 0.5}}"
            )
        items = {space.names[0]: items}
    result: dict[str, Mapping[str, float]] = {}
    for name, shares in items.items():
        if name not in space.names:
            raise InputError(f"background: {name!r} is none of the attributes {list(space.names)}")
        if not isinstance(shares, Mapping | pd.Series):
            raise ParameterError(f"background: {name!r} must map levels to shares")
        result[name] = dict(shares)
    return result


def _share(space: LevelSpace, attribute: int, shares: Mapping[str, float]) -> FloatArray:
    name, levels = space.names[attribute], space.levels[attribute]
    result = np.zeros(len(levels))
    lacking = [level for level in shares if level not in levels]
    if lacking:
        raise InputError(
            f"background of {name!r}: the groups lack the level {listed(lacking)}; they have "
            f"{only(levels)}"
        )
    for level, share in shares.items():
        if not np.isfinite(share) or share < 0:
            raise InputError(
                f"background of {name!r}: the share of {level!r} must be 0 or above; found {share}"
            )
        result[levels.index(level)] = share
    unknown = space.unknown[attribute]
    if unknown >= 0 and result[unknown] > 0:
        raise InputError(
            f"background of {name!r}: the unknown level {levels[unknown]!r} can have no share"
        )
    if abs(result.sum() - 1) > 1e-6:
        raise InputError(
            f"background of {name!r}: the shares must sum to 1; found {result.sum():g}"
        )
    result /= result.sum()
    if unknown >= 0:
        result[unknown] = 1.0
    return result
