"""Tables of results as Markdown, LaTeX and HTML; names are escaped, notes stand below."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def as_text(value: Any, digits: int = 4) -> str:
    """Return a cell as tables show it: numbers with 4 digits behind the point, "-" for NaN."""
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.{digits}f}"
    return str(value)


def as_markdown(
    header: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()
) -> str:
    """Return a Markdown table; the first column is aligned left, the others right."""
    cells = [[_bar(as_text(cell)) for cell in row] for row in [header, *rows]]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    rule = [("-" * w) if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    lines = [
        "| "
        + " | ".join(
            _padded(cell, w, i) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in [cells[0], rule, *cells[1:]]
    ]
    return "\n".join([*lines, *("\n" + note for note in notes)]) + "\n"


def as_latex(
    header: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()
) -> str:
    """Return a LaTeX ``tabular`` with the rules of the package booktabs."""
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", "\\toprule", _latex_row(header)]
    lines += ["\\midrule", *(_latex_row(row) for row in rows), "\\bottomrule"]
    for note in notes:
        lines.append(f"\\multicolumn{{{len(header)}}}{{l}}{{\\footnotesize {_latex(note)}}} \\\\")
    return "\n".join([*lines, "\\end{tabular}"]) + "\n"


def as_html(header: Sequence[str], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()) -> str:
    """Return an HTML table."""
    top = "".join(f"<th>{html.escape(str(name))}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(_html_cell(cell, i) for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{below}"


def _html_cell(cell: Any, column: int) -> str:
    tag = "td" if column else "th"
    return f"<{tag}>{html.escape(as_text(cell))}</{tag}>"


def _bar(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _padded(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column else cell.ljust(width)


def _latex_row(row: Sequence[Any]) -> str:
    return " & ".join(_latex(as_text(cell)) for cell in row) + " \\\\"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))
