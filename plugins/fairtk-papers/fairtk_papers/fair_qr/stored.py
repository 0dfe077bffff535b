"""The stored results of a system of the study."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from fairtk import Remark
from fairtk.experiment.engine import Topics
from fairtk.experiment.identity import Tree
from fairtk.experiment.packing import unpack
from fairtk.experiment.store import Store
from fairtk.frames import DOCNO, QID, RANK, SCORE
from fairtk.wording import format_list

RUN = [QID, DOCNO, SCORE, RANK]
CHOSEN = ["fold", "settings", "value", "topics", "seconds", "calls"]
"""The columns of a fold's tuning; ``calls`` is the number of new answers."""
_VARYING = re.compile(r"'[^']*'|\d+")


@dataclass(frozen=True)
class SystemResults:
    """The stored results of one system.

    Attributes:
        rankings: R, in the order of the topics.
        notes: the notes of `StudySystem` by qid, also those of failed queries.
        errors: the reason for each missing result, by qid.
        remarks: the remarks of the system on its queries.
    """

    rankings: pd.DataFrame
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[Remark] = ()

    @property
    def finished_qids(self) -> set[str]:
        """The queries with a result."""
        return self.notes.keys() - self.errors.keys()

    @property
    def empty_qids(self) -> list[str]:
        """The queries with a result that has no document."""
        return sorted(self.finished_qids.difference(self.rankings[QID]))

    @cached_property
    def traces(self) -> pd.DataFrame:
        """The rows of all traces."""
        rows = [row for note in self.notes.values() for row in note["trace"]]
        return pd.DataFrame(rows) if rows else pd.DataFrame(columns=[QID])

    @property
    def choices(self) -> pd.DataFrame:
        """The tuned settings of each fold."""
        rows = [note["chosen"] for note in self.notes.values() if note.get("chosen")]
        # a fold whose run was stopped has two equal rows
        frame = pd.DataFrame(rows, columns=CHOSEN).drop_duplicates("fold")
        return frame.sort_values("fold", ignore_index=True)

    @property
    def warnings(self) -> list[str]:
        """The warnings, see `merge_warnings`, and the texts of the remarks.

        Remarks on queries that could not be refined are left out: the next run may complete them.
        """
        texts = merge_warnings(
            ((q,), text) for q, note in self.notes.items() for text in note["warnings"]
        )
        return texts + [remark.text for remark in self.remarks if remark.kind != "not refined"]

    def total(self, name: str) -> float:
        """Return the sum of a number in the notes."""
        return float(sum(note[name] for note in self.notes.values()))


def finished_qids(store: Store, system: Any, topics: Topics) -> set[str]:
    """Return the queries with stored results of a system."""
    _, cells = _stored_cells(store, system, topics)
    return {qid for qid, cell in cells.items() if cell.error is None}


def stored_results(store: Store, system: Any, topics: Topics) -> SystemResults:
    """Return the stored results of a system, in the order of the topics."""
    chain, cells = _stored_cells(store, system, topics)
    table = store.read(cells.values())
    return SystemResults(
        pd.DataFrame(columns=RUN) if table is None else unpack(table)[RUN],
        store.notes(chain, topics.digests),
        {qid: cell.error for qid, cell in cells.items() if cell.error},
        store.remarks(chain, topics.digests),
    )


def _stored_cells(
    store: Store, system: Any, topics: Topics
) -> tuple[int | None, Mapping[str, Any]]:
    [node] = Tree({"system": system}, durable=True).ends.values()
    chain = store.number_of(node.key)
    return chain, store.cells(chain, topics.digests)


def merge_warnings(texts: Iterable[tuple[Sequence[str], str]]) -> list[str]:
    """Return warnings, those that differ only in ids and numbers merged into one.

    Args:
        texts: the queries and text of each warning.
    """
    by_shape: dict[str, tuple[str, dict[str, None]]] = {}
    several: set[str] = set()
    for qids, text in texts:
        shape = _VARYING.sub("#", text)
        first, topics = by_shape.setdefault(shape, (text, {}))
        topics.update(dict.fromkeys(qids))
        if text != first:
            several.add(shape)
    return [
        f"{first} (similar for {len(qids)} topics: {format_list(list(qids))})"
        if shape in several
        else first
        for shape, (first, qids) in by_shape.items()
    ]
