"""Tables of results: notes below them, and HTML with everything escaped for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence

import pandas as pd

from fairtk.files.renderings import Table


def html_text(table: Table) -> str:
    """Return a table in HTML, its caption below."""
    top = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    below = f"<p>{html.escape(table.caption)}</p>" if table.caption else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{below}"


def notes(counts: pd.DataFrame, systems: Sequence[str], failed: bool) -> list[str]:
    """Return what to say below means of which some queries are left out, or failed.

    Args:
        counts: as `Results.counts`.
        systems: the systems' names.
        failed: whether any query failed.
    """
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
