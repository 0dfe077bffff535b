"""Cells: what a store keeps of one query and one chain of stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fairtk.experiment.packing import Table


class StoredCell(NamedTuple):
    """Where one query's result stands.

    Attributes:
        frame: the frame; None for a failed query that no stage said anything else about.
        first: its first row there.
        size: its number of rows.
        error: why it failed; None if it did not.
    """

    frame: int | None
    first: int
    size: int
    error: str | None


class Made(NamedTuple):
    """What a chain made of some queries.

    Attributes:
        chain: the chain's number in the store.
        spans: qid, first row and number of rows of each query.
        table: the rows.
        errors: why queries failed, those with rows among them.
    """

    chain: int
    spans: Sequence[tuple[str, int, int]]
    table: Table | None
    errors: Mapping[str, str]
