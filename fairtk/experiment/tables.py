"""Results in a notebook: HTML with everything escaped; all other forms are `fairtk.files`'."""

from __future__ import annotations

import html

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
