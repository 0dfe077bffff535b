"""The pages of measures, for the site and for ``fairtk measures NAME``.

Text and an example are in ``pages/NAME.md`` of the measure's package, or of one above it;
direction, parameters and the value of a missing query come from its class.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from typing import Any

from fairtk.measures.base import FairMeasure
from fairtk.measures.params import NOT_GIVEN
from fairtk.plugins.references import read_package_file

SECTIONS = (
    "Formula",
    "Range",
    "What it does not say",
    "Missing and undefined",
    "Example",
    "Source",
    "Related",
    "Published code",
)
"""The sections of a page, in order; a plugin may omit some."""

_SYMBOLS = {
    r"\varepsilon": "e",
    r"\sigma": "s",
    r"\tau": "t",
    r"\cdot": "*",
    r"\qquad": "    ",
    r"\delta": "d",
    r"\,": " ",
    r"\_": "_",
}
"""Symbols of formulas in plain text; other symbols become their names, such as ``sum``."""


@dataclass(frozen=True)
class MeasurePage:
    """The page of one measure."""

    name: str  # the measure
    title: str  # its full name
    description: str  # its docstring
    facts: dict[str, str]  # its direction, the value of a missing query, and required columns
    sections: dict[str, str]  # Markdown by heading, of `SECTIONS`
    parameters: list[list[str]]  # name, default and meaning of each


def page_of(measure: FairMeasure) -> MeasurePage:
    """Return the page of a measure, whatever its parameters."""
    kind = type(measure)
    text = (inspect.getdoc(kind) or "no description").strip()
    direction = {"higher": "higher is better", "lower": "lower is better"}[kind.BETTER]
    worst = (
        "undefined (NaN), unless the text says otherwise"
        if kind.MISSING != kind.MISSING
        else f"{kind.MISSING:g}"
    )
    facts = {
        "direction": direction + (" (or as the measure inside)" if kind.POSITIONAL else ""),
        "a query missing from the run": worst,
        "reads from the run": ", ".join(kind.RUN_COLUMNS),
        "reads from the qrels": ", ".join(kind.QREL_COLUMNS),
    }
    rows = [[n, default_text(p), p.desc or ""] for n, p in kind.SUPPORTED_PARAMS.items()]
    sections = _sections(_file_of(kind), kind.NAME)
    return MeasurePage(kind.NAME, kind.PRETTY_NAME, text, facts, sections, rows)


def default_text(param: Any) -> str:
    """Return a parameter's default as text; ``""`` without a default."""
    nothing = param.default is NOT_GIVEN or param.default is None
    return "" if nothing else repr(param.default)


def plain_text(markdown: str) -> str:
    """Return Markdown for a terminal: formulas in plain text, code without fences."""
    text = re.sub(r"\$\$(.+?)\$\$", lambda m: "    " + _letters(m.group(1)), markdown, flags=re.S)
    return re.sub(r"^```\w*\n?", "", text, flags=re.M).strip()


def _letters(formula: str) -> str:
    text = " ".join(formula.split())
    text = re.sub(r"\\(?:mathrm|operatorname|text)\{((?:[^{}]|\\_)*)\}", r"\1", text)
    before = None
    while before != text:
        before = text
        text = re.sub(r"([_^])\{([\w*]+)\}", r"\1\2", text)
        text = re.sub(r"([_^])\{([^{}]+)\}", r"\1(\2)", text)
        text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", _quotient, text)
    text = re.sub(r"\\([a-zA-Z]+|[,_])", lambda m: _SYMBOLS.get(m[0], m[1]), text)
    return re.sub(r" {2,3}(?! )", " ", text)


def _quotient(match: re.Match[str]) -> str:
    above, below = (x if x.isalnum() else f"({x})" for x in match.groups())
    return f"{above} / {below}"


def _file_of(kind: type) -> str:
    """Return the text of the measure's page; ``""`` without a page."""
    name: str = kind.NAME  # type: ignore[attr-defined]
    package = getattr(sys.modules.get(kind.__module__), "__package__", "") or ""
    while package:
        if text := read_package_file(package, f"pages/{name}.md"):
            return text
        package = package.rpartition(".")[0]
    return ""


def _sections(text: str, name: str) -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", text, flags=re.M)[1:]
    sections = dict(zip(parts[::2], (p.strip() for p in parts[1::2]), strict=True))
    unknown = [heading for heading in sections if heading not in SECTIONS]
    if unknown:
        raise ValueError(f"the page of {name} has the section {unknown[0]!r}; known: {SECTIONS}")
    return sections
