"""Tables of results: the notes below them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fairtk.drawing import spread
from fairtk.files.renderings import Table, texts


def as_texts(frame: pd.DataFrame, caption: str = "") -> Table:
    """Return a frame as a table of texts."""
    rows = [list(row) for row in frame.itertuples(index=False)]
    return texts(list(frame.columns), rows, caption)


def spreads(
    per_query: pd.DataFrame, systems: Sequence[str], measures: Sequence[str]
) -> list[list[str]]:
    """Return a picture of the queries' values for each system and measure, ends by measure."""
    by_measure = per_query.groupby("measure")["value"]
    low, high = by_measure.min().to_dict(), by_measure.max().to_dict()
    values = dict(iter(per_query.groupby(["system", "measure"])["value"]))
    return [
        ["", *(spread(values[s, m], low[m], high[m]) if (s, m) in values else "" for m in measures)]
        for s in systems
    ]


def notes(counts: pd.DataFrame, systems: Sequence[str], failed: bool) -> list[str]:
    """Return what to say below means of which some queries are left out, or failed."""
    said_of = []
    for measure, part in counts[counts["undefined"] > 0].groupby("measure", sort=False):
        said = ", ".join(
            f"{s}: {u}" for s, u in zip(part["system"], part["undefined"], strict=True)
        )
        if len(part) == len(systems) and part["undefined"].nunique() == 1:
            said = str(part["undefined"].iloc[0])
        said_of.append(f"Queries where {measure} is undefined and left out: {said}.")
    if failed:
        said_of.append(
            "Failed queries count with the worst value of each measure; the next run with the "
            "same save_dir tries them again."
        )
    return said_of
