"""The costs of systems, from the notes of their stages."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fairtk.experiment.values import SystemRows
from fairtk.frames import QID
from fairtk.measures.costs import COSTS, reason_column


class StageNotes(NamedTuple):
    """The notes of a stage on queries."""

    name: str  # for messages
    calls_model: bool
    notes: Mapping[str, Any]  # by qid


def costs_of(stages: Iterable[StageNotes], qids: Iterable[str]) -> pd.DataFrame:
    """Return the costs of queries, and the reasons for unknown ones; the index has the qids.

    The cost of a stage is in its note, a dict, under the names of `COSTS`; `None` is unknown. A
    stage that calls no model, or that leaves no such note, costs nothing.
    """
    stages, qids = list(stages), list(qids)
    columns: dict[str, list[Any]] = {n: [] for name in COSTS for n in (name, reason_column(name))}
    for name in COSTS:
        for qid in qids:
            total, unknown = 0.0, ""
            for stage in stages:
                note = stage.notes.get(qid)
                of_stage = note.get(name) if isinstance(note, Mapping) else None
                is_noted = isinstance(note, Mapping) and name in note
                if of_stage is not None:
                    total += of_stage
                elif is_noted or stage.calls_model:
                    unknown = f"{stage.name} reports no {name}"
            columns[name].append(math.nan if unknown else total)
            columns[reason_column(name)].append(unknown)
    return pd.DataFrame(columns, index=pd.Index(qids, dtype=object))


def with_costs(frame: pd.DataFrame, names: Iterable[str], costs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a system with columns for costs and reasons; existing ones are kept."""
    codes, qids = pd.factorize(frame[QID])
    position = costs.index.get_indexer(pd.Index(np.asarray(qids, dtype=object)))
    new = {}
    for name in names:
        if name not in frame.columns:
            for column in (name, reason_column(name)):
                new[column] = costs[column].to_numpy()[position][codes]
    return frame.assign(**new)


def rows_with_costs(rows: SystemRows, costs: Callable[[str], pd.DataFrame]) -> SystemRows:
    """Return the function for rows with the columns for costs that are asked for by name.

    Args:
        rows: the function for rows.
        costs: returns `costs_of` a system; called once per system.
    """
    cached = functools.cache(costs)

    def with_columns(
        system: str, columns: Collection[str] | None = None, **options: Any
    ) -> pd.DataFrame:
        names = [name for name in COSTS if columns is not None and name in columns]
        if not names:
            return rows(system, columns, **options)
        read = [*(columns or ()), *map(reason_column, names)]
        return with_costs(rows(system, read, **options), names, cached(system))

    return with_columns
