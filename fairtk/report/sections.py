"""Sections of a report: what a study shows beside the tables that all results have."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from fairtk.errors import FormatError, ParameterError
from fairtk.files import atomic_text
from fairtk.files.renderings import Table
from fairtk.report.svg import svg_text

FILE = "sections.json"
"""The sections of a folder of results; `fairtk report` shows them."""


@dataclass(frozen=True)
class Section:
    """A part of a report. All texts are shown as they are: nothing in them is markup.

    Attributes:
        title: its heading.
        prose: paragraphs.
        table: a table of texts, sortable on the page.
        figure: a ``matplotlib.figure.Figure``, or the text of an SVG file.
        alternative: what the figure shows, in words; must be given with a figure.

    Raises:
        ParameterError: there is no title, or a figure without words.
    """

    title: str
    prose: tuple[str, ...] = ()
    table: Table | None = None
    figure: Any = None
    alternative: str = ""

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise ParameterError("Section: a section of a report needs a title")
        if isinstance(self.prose, str):
            raise ParameterError(f"Section {self.title!r}: prose must be a tuple of paragraphs")
        if self.figure is not None and not self.alternative.strip():
            raise ParameterError(
                f"Section {self.title!r}: a figure needs a text alternative, alternative='...'"
            )


def save_sections(folder: str | PathLike[str], sections: Iterable[Section]) -> Path:
    """Write sections beside saved results, figures as SVG, where ``fairtk report`` finds them.

    Args:
        folder: where the results are.
        sections: in their order.

    Returns:
        The file.
    """
    path = Path(folder) / FILE
    said = [
        {
            "title": section.title,
            "prose": list(section.prose),
            "table": None if section.table is None else section.table._asdict(),
            "figure": None if section.figure is None else svg_text(section.figure),
            "alternative": section.alternative,
        }
        for section in sections
    ]
    with atomic_text(path) as stream:
        json.dump(said, stream, indent=1, ensure_ascii=False)
        stream.write("\n")
    return path


def load_sections(folder: str | PathLike[str]) -> list[Section]:
    """Return the sections that `save_sections` wrote; none if there is no such file.

    Args:
        folder: where the results are.

    Raises:
        FormatError: the file is damaged.
    """
    path = Path(folder) / FILE
    if not path.exists():
        return []
    try:
        return [_section(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(
            f"not the sections of a report ({error}); remove the file, or save them again", path
        ) from None


def _section(entry: dict[str, Any]) -> Section:
    table = entry["table"]
    if table is not None:
        rows = [[str(cell) for cell in row] for row in table["rows"]]
        table = Table([str(c) for c in table["columns"]], rows, str(table["caption"]))
        if any(len(row) != len(table.columns) for row in rows):
            raise ValueError(f"a row of the table of {entry['title']!r} has too many or few cells")
    prose = tuple(str(text) for text in entry["prose"])
    return Section(str(entry["title"]), prose, table, entry["figure"], str(entry["alternative"]))
