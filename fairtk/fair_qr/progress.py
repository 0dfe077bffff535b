"""What a loop did for each query, step by step, and the frame that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fairtk.fair_qr.parsing import changes

SHARE = "share:"
"""Prefix of the trace's columns with the groups' shares of exposure."""


@dataclass
class Step:
    """One retrieval of one query, or the failed attempt at one.

    Attributes:
        iteration: 0 for the original query.
        query: the keywords; empty if there are none.
        before: the keywords that were refined; empty at iteration 0.
        group: the group that was asked for; empty at iteration 0.
        values: measured values by column of the trace.
        kept: whether the list is kept.
        note: why the loop ended here, or what went wrong.
    """

    iteration: int
    query: str
    before: str = ""
    group: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    kept: bool = False
    note: str = ""


@dataclass
class Progress:
    """The state of one query's loop.

    Attributes:
        qid: the query.
        original: its text.
        keywords: the keywords of the list that is kept.
        steps: what was done, in order.
        kept: iterations whose lists are kept.
        active: whether the loop goes on.
        missing: why the query has no result; empty: it has one.
    """

    qid: str
    original: str
    keywords: str
    steps: list[Step] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    active: bool = True
    missing: str = ""

    def at(self, iteration: int) -> Step:
        """Return the step whose list an iteration has: the last one of that number."""
        return next(step for step in reversed(self.steps) if step.iteration == iteration)

    def stop(self, note: str) -> None:
        """End the loop, with a note at the last step."""
        self.active = False
        self.steps[-1].note = note


def trace_frame(queries: Sequence[Progress], columns: Sequence[str]) -> pd.DataFrame:
    """Return one row per query and iteration.

    Args:
        queries: the loops.
        columns: the measured values that steps have.
    """
    rows = []
    for query in queries:
        for step in query.steps:
            added, dropped = changes(step.before, step.query) if step.before else ([], [])
            rows.append(
                {
                    "qid": query.qid,
                    "iteration": step.iteration,
                    "query": step.query,
                    "added": " ".join(added),
                    "dropped": " ".join(dropped if step.query else []),
                    "group": step.group,
                    **{column: step.values.get(column, np.nan) for column in columns},
                    "kept": step.kept,
                    "note": step.note,
                }
            )
    names = ["qid", "iteration", "query", "added", "dropped", "group", *columns, "kept", "note"]
    return pd.DataFrame(rows, columns=names)
