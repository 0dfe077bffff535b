"""Tables as text: CSV, JSON, Markdown, LaTeX, HTML and aligned columns."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairtk import checks
from fairtk.wording import printable

Row = Sequence[Any]


class Table(NamedTuple):
    """A table of texts: column names, rows of cells, a caption, and a note below."""

    columns: list[str]
    rows: list[list[str]]
    caption: str = ""
    note: str = ""


class MarkedText(str):
    """The text of a cell with marks for LaTeX and Markdown; elsewhere it is plain text.

    Attributes:
        place: 1 for the best of its column (bold), 2 for the second (underlined), otherwise 0.
        signs: letters or daggers, as superscript.
    """

    __slots__ = ("place", "signs")

    place: int
    signs: str

    def __new__(cls, text: str, place: int = 0, signs: str = "") -> MarkedText:
        """Return the text with its marks."""
        cell = super().__new__(cls, text)
        cell.place, cell.signs = place, signs
        return cell


def csv_text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows as CSV with a header, all digits, and ``nan`` for NaN."""
    lines = []
    for row in (checks.listed("columns", columns), *rows):
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\r\n").writerow(row)  # so it quotes both characters
        lines.append(buffer.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def json_text(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows as a JSON array of objects, with null for NaN and a string for infinity."""
    records = [dict(zip(columns, map(_json_value, row), strict=True)) for row in rows]
    inside = ",\n  ".join(json.dumps(r, ensure_ascii=False, allow_nan=False) for r in records)
    return f"[\n  {inside}\n]\n" if records else "[]\n"


def markdown_text(table: Table) -> str:
    """Return a table in Markdown, with the caption below."""
    lines = ["| " + " | ".join(map(cell_text, table.columns)) + " |"]
    lines.append("|" + " --- |" * len(table.columns))
    lines += ["| " + " | ".join(map(cell_text, row)) + " |" for row in table.rows]
    caption = f"\n*{cell_text(table.caption)}*\n" if table.caption else ""
    note = f"\n{cell_text(table.note)}\n" if table.note else ""
    return "\n".join(lines) + "\n" + caption + note


def latex_text(table: Table) -> str:
    r"""Return a table in LaTeX (booktabs), for ``\input``."""
    body = [" & ".join(map(_tex, row)) + r" \\" for row in table.rows]
    cells = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    sides = ["l" if any(map(_is_left, column)) else "r" for column in cells]
    lines = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{_tex(table.caption)}}}"] if table.caption else []),
        rf"\begin{{tabular}}{{{''.join(sides)}}}",
        r"\toprule",
        " & ".join(map(_tex, table.columns)) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *([rf"\par\smallskip{{\footnotesize {_tex(table.note)}}}"] if table.note else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def cell_text(text: str) -> str:
    """Return a text as one line of Markdown with its markup escaped."""
    if isinstance(text, MarkedText):
        before, after = _IN_MARKDOWN[text.place]
        signs = f"<sup>{text.signs}</sup>" if text.signs else ""
        return f"{before}{cell_text(str(text))}{after}{signs}"
    escaped = "".join(f"\\{c}" if c in "\\`*_{}[]<>#|&~$" else c for c in str(text).strip())
    return " ".join(escaped.split())


def aligned_lines(table: Table, numbers: Sequence[int] = (), width: int | None = None) -> list[str]:
    """Return the lines of a table in aligned columns, without its caption and note.

    The columns `numbers` are aligned to the right, and the last column is wrapped so that lines
    have at most `width` characters. Control characters are escaped.
    """
    cells = [[printable(str(cell)) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(map(text_width, column)) for column in zip(*cells, strict=True)]
    before = sum(widths[:-1]) + 2 * len(widths[:-1])
    last_width = widths[-1] if width is None else max(24, width - before)
    cells.insert(1, ["-" * w for w in [*widths[:-1], min(widths[-1], last_width)]])
    lines = []
    for row in cells:
        spaces = [" " * (w - text_width(cell)) for w, cell in zip(widths, row, strict=True)]
        padded = [
            space + cell if i in numbers else cell + space
            for i, (cell, space) in enumerate(zip(row, spaces, strict=True))
        ]
        last = [padded[-1]]
        if len(row[-1]) > last_width:
            last = textwrap.wrap(row[-1], last_width)
        lines.append("  ".join([*padded[:-1], last[0]]).rstrip())
        lines += [" " * before + more for more in last[1:]]
    return lines


WIDTH = 80
"""The width of a terminal in columns."""


def fitted_lines(table: Table, numbers: Sequence[int], keys: int = 1) -> list[str]:
    """Return the lines of a table in at most 80 columns, without its caption and note.

    A wider table has shortened names and text, with a legend below; if that is not enough, it is
    split into several tables.

    Args:
        table: the table.
        numbers: the columns that are aligned to the right; their cells are never shortened.
        keys: the number of first columns that each table repeats.
    """
    numbers = checks.listed("numbers", numbers)
    lines = aligned_lines(table, numbers)
    if max(map(text_width, lines)) <= WIDTH:
        return lines
    head, *rows = [[printable(str(cell)) for cell in row] for row in (table.columns, *table.rows)]
    texts = [cell for row in rows for i, cell in enumerate(row) if i not in numbers]
    short = _unique_short([*head, *texts], _MAX_CELL)
    cells = [[short.get(cell, cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(text_width, column)) + 2 for column in zip(*cells, strict=True)]
    parts = [list(range(keys))]
    for column in range(keys, len(widths)):
        if sum(widths[i] for i in [*parts[-1], column]) - 2 > WIDTH and len(parts[-1]) > keys:
            parts.append(list(range(keys)))
        parts[-1].append(column)
    lines = []
    for part in parts:
        head, *rows = ([row[i] for i in part] for row in cells)
        aligned = [position for position, i in enumerate(part) if i in numbers]
        lines += [*[""] * bool(lines), *aligned_lines(Table(head, rows), aligned)]
    legend = [
        line
        for full, name in short.items()
        if name != full
        for line in wrapped(f"{name}: {full}", "  ")
    ]
    return [*lines, *[""] * bool(legend), *legend]


_MAX_CELL = 20


def _unique_short(texts: Sequence[str], length: int) -> dict[str, str]:
    """Return a short form of each text; equal forms are numbered."""
    short: dict[str, str] = {}
    for text in texts:
        name, number = shorten(text, length), 1
        while text not in short and name in short.values():
            number += 1
            name = f"{shorten(text, length - 1 - len(str(number)))}#{number}"
        short.setdefault(text, name)
    return short


def text_width(text: str) -> int:
    """Return the width of a text on a terminal, in columns."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return a text as lines of at most `WIDTH` columns; lines after the first are indented."""
    width = WIDTH if text_width(text) <= len(text) else WIDTH // 2  # letters of two columns
    return textwrap.wrap(printable(text), width, subsequent_indent=indent)


def shorten(text: str, length: int) -> str:
    """Return a text truncated with an ellipsis; the cutoff of a measure, as in ``@5``, is kept."""
    if len(text) <= length:
        return text
    cutoff = re.search(r"(?:\)?@\d{1,4})?$", text)
    end = cutoff[0] if cutoff else ""
    return text[: length - 1 - len(end)].rstrip() + "…" + end


def wrap_label(text: str, width: int) -> str:
    """Return a label wrapped at spaces, and in measures at commas and parentheses."""
    marked = re.sub(r"(?<=[,(])(?=\S)", "\0 ", text)
    return textwrap.fill(marked, width).replace("\0 ", "").replace("\0\n", "\n")


UNDEFINED = "undefined"
"""The text of NaN in tables and sentences."""
_EXACT = 12
"""The number of decimals to which sums in different orders are equal."""


def number_text(value: float, digits: int = 4, *, sign: str = "") -> str:
    """Return a value for a table or a sentence, "undefined" for NaN.

    All tables, sentences and figures use it, so that a value has the same digits everywhere: a mean
    that should be 0.3375 may be 0.33749999999999997.

    Args:
        value: the value.
        digits: the number of decimals.
        sign: ``"+"`` to write the sign of a positive value.
    """
    if math.isnan(value):
        return UNDEFINED
    return f"{round(float(value), max(digits, _EXACT)):{sign}z.{digits}f}"


_MOST_DIGITS = 15
"""The maximum number of decimals of an interval."""


def interval_text(low: float, high: float, digits: int = 4, *, sign: str = "") -> str:
    """Return an interval with the number of decimals with which its ends differ.

    Args:
        low: the lower end; NaN for no interval.
        high: the upper end.
        digits: the smallest number of decimals.
        sign: ``"+"`` to write the signs of positive ends.

    Returns:
        ``"[0.1, 0.2]"``, or ``"undefined"``. An interval is never written with the width 0.
    """
    if math.isnan(low):
        return UNDEFINED
    while digits < _MOST_DIGITS and number_text(low, digits) == number_text(high, digits):
        digits += 1
    return f"[{number_text(low, digits, sign=sign)}, {number_text(high, digits, sign=sign)}]"


def rounded_text(value: float, digits: int) -> str:
    """Return the text of `number_text`, but e.g. ``"<0.01"`` for a value that rounds to 0."""
    text = number_text(value, digits)
    if value != 0 and text != UNDEFINED and float(text) == 0:
        text = f"{'<' if value > 0 else '>-'}{10.0**-digits:.{digits}f}"
    return text


def format_rows(
    columns: Sequence[str], rows: Sequence[Row], caption: str = "", digits: int = 4
) -> Table:
    """Return rows as a table of texts: floats with `digits` decimals, `None` as an empty cell."""
    columns = [*map(str, checks.listed("columns", columns))]
    return Table(columns, [[_text(v, digits) for v in row] for row in rows], caption)


def html_text(table: Table, pictures: Sequence[Sequence[str]] = ()) -> str:
    """Return a table in HTML, with the caption below.

    Args:
        table: the table.
        pictures: HTML to append to each cell, by row and column; empty for no pictures.
    """
    top = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    empty = [""] * len(table.columns)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(cell)}{' ' * bool(picture)}{picture}</td>"
            for cell, picture in zip(row, row_pictures, strict=True)
        )
        + "</tr>"
        for row, row_pictures in zip(table.rows, pictures or [empty] * len(table.rows), strict=True)
    )
    below = "".join(f"<p>{html.escape(t)}</p>" for t in (table.caption, table.note) if t)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{below}"


def frame_html(
    frame: Any, caption: str, most: int = 20, pictures: Sequence[Sequence[str]] = ()
) -> str:
    """Return the first rows of a frame in HTML, without the index, for notebooks.

    The caption has the number of omitted rows. See `html_text` for `pictures`.
    """
    left = len(frame) - most
    more = f" ({left} more rows)" if left > 0 else ""
    return html_text(as_texts(frame.head(most), caption + more), pictures[:most])


def frames_text(*frames: Any) -> str:
    """Return frames as text, one below the other, without their indexes and empty notes."""
    parts = [
        f.drop(columns="note") if "note" in f and f["note"].eq("").all() else f for f in frames
    ]
    return "\n\n".join(part.to_string(index=False) for part in parts if len(part))


TEXTS: dict[str, Callable[[Table], str]] = {"latex": latex_text, "markdown": markdown_text}
"""Functions that format a `Table`, by format."""

RENDERED: dict[str, Callable[[Sequence[str], Sequence[Row]], str]] = {
    "csv": csv_text,
    "json": json_text,
    "latex": lambda columns, rows: latex_text(format_rows(columns, rows)),
    "markdown": lambda columns, rows: markdown_text(format_rows(columns, rows)),
}
"""Functions that format columns and rows, by format."""

_MARKED = re.compile(r"[+-]?\d+\.\d+[+-]")
_NUMERIC = re.compile(r"(?:[<>+-]*\d[\d.]*[+-]?|unknown|undefined)?")
_IN_MARKDOWN = (("", ""), ("**", "**"), ("<ins>", "</ins>"))
_IN_TEX = (("", ""), (r"\textbf{", "}"), (r"\underline{", "}"))
_TEX = {
    "\\": r"\textbackslash{}",
    "|": r"\textbar{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "\u2191": r"$\uparrow$",
    "\u2193": r"$\downarrow$",
    "\u2020": r"\dag{}",
    "\u2021": r"\ddag{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def _is_left(cell: str) -> bool:
    """Return whether a cell is aligned left: it is not a number, or has signs."""
    return bool(getattr(cell, "signs", "")) or not _NUMERIC.fullmatch(cell.strip())


def _tex(text: str) -> str:
    if isinstance(text, MarkedText):
        before, after = _IN_TEX[text.place]
        signs = rf"\textsuperscript{{{_tex(text.signs)}}}" if text.signs else ""
        return f"{before}{_tex(str(text))}{after}{signs}"
    text = " ".join(str(text).split())
    if _MARKED.fullmatch(text):
        return f"{text[:-1]}$^{{{text[-1]}}}$"
    escaped = "".join(_TEX.get(c, c) for c in text)
    if escaped[:1] in ("[", "*"):  # otherwise LaTeX reads an argument of the line break
        escaped = f"{{{escaped[0]}}}{escaped[1:]}"
    return escaped


def _text(value: Any, digits: int) -> str:
    if value is None:
        return ""
    return number_text(value, digits) if isinstance(value, float) else str(value)


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def frame_lines(frame: Any, digits: int = 4, width: int | None = None) -> list[str]:
    """Return a frame in aligned columns, numbers to the right; see `aligned_lines`."""
    from pandas.api.types import is_numeric_dtype

    numbers = [i for i, kind in enumerate(frame.dtypes) if is_numeric_dtype(kind)]
    return aligned_lines(as_texts(frame, digits=digits), numbers, width)


def as_texts(frame: Any, caption: str = "", digits: int = 4) -> Table:
    """Return a frame as a table of texts."""
    return format_rows(list(frame.columns), frame_rows(frame), caption, digits)


def frame_rows(frame: Any) -> list[list[Any]]:
    """Return the rows of a frame, with `None` for ``pd.NA``."""
    from pandas import NA

    rows = frame.to_numpy(dtype=object).tolist()
    return [[None if value is NA else value for value in row] for row in rows]
