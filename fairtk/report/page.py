"""The page: one HTML file that works offline.

The trade-off figure and the means come first. Tests, definitions, queries, settings and warnings
are folded below.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

from fairtk import __version__, checks
from fairtk.display import Table, svg_text
from fairtk.display.tables import shorten
from fairtk.errors import InputError, MissingExtraError, ParameterError
from fairtk.experiment.results import Results, compared_systems
from fairtk.io.atomic import atomic_text
from fairtk.io.lines import read_json
from fairtk.report.queries import drill_down
from fairtk.report.tables import (
    CONFIDENCE,
    baseline_table,
    bias_text,
    caption_texts,
    coverage_table,
    difference_table,
    interval_table,
    is_tested,
    limits,
    mean_cells,
    overview,
    page_warnings,
    reading,
)
from fairtk.report.trade_off import main_measures, trade_off
from fairtk.statistics.corrections import Correction
from fairtk.statistics.tests import Test


def picture(figure: Any) -> str:
    """Return a figure as a data URL, in which browsers run and load nothing.

    Args:
        figure: see `fairtk.display.svg_text`.
    """
    data = base64.b64encode(svg_text(figure).encode(errors="replace")).decode("ascii")
    return f"data:image/svg+xml;base64,{data}"


_PART = re.compile(r"system-(\d+)-.*")


def inline_picture(figure: Any) -> str:
    """Return a figure as part of a page, whose style gives it its colors, in dark mode, too.

    Artists with an id of `fairtk.display.figures.name_parts` are highlighted with
    the rows of their system.

    Args:
        figure: a ``matplotlib.figure.Figure``.
    """
    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set_visible(False)
    root = ElementTree.fromstring(svg_text(figure))
    for parent in root.iter():
        parent.tag = parent.tag.partition("}")[2]
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
        # the policy of a page allows no style attributes
        for rule in parent.attrib.pop("style", "").split(";"):
            name, _, value = map(str.strip, rule.partition(":"))
            if value:
                parent.set(name, value)
        for name in [name for name in parent.attrib if name.startswith("{")]:
            parent.set(name.partition("}")[2], parent.attrib.pop(name))
        if system := _PART.fullmatch(parent.get("id", "")):
            parent.attrib |= {"class": "system", "data-system": system[1]}
    for shape in root.iterfind(".//defs/path"):
        # each use of a shape has its colors, too; a page cannot change those of the shape itself
        shape.attrib.pop("fill", None)
        shape.attrib.pop("stroke", None)
    size = {name: root.attrib[name] for name in ("width", "height", "viewBox")}
    root.attrib = {"class": "chart", "aria-hidden": "true", **size}
    return ElementTree.tostring(root, encoding="unicode")


FILE = "sections.json"
"""The file of sections in a folder of results, for `fairtk report`."""


@dataclass(frozen=True)
class Section:
    """A section of a report. Texts are plain: all markup is escaped.

    Attributes:
        title: the heading.
        prose: the paragraphs.
        table: a table, sortable on the page.
        figure: a ``matplotlib.figure.Figure``, or the text of an SVG file.
        alternative: the text alternative of the figure, required with a figure.

    Raises:
        ParameterError: a figure has no text alternative.
    """

    title: str
    prose: tuple[str, ...] = ()
    table: Table | None = None
    figure: Any = None
    alternative: str = ""

    def __post_init__(self) -> None:
        if self.figure is not None and not self.alternative.strip():
            raise ParameterError(
                f"Section {self.title!r}: a text alternative is required for the figure; pass "
                "alternative='...'"
            )


def save_sections(folder: str | PathLike[str], sections: Iterable[Section]) -> Path:
    """Write sections to a folder of results, where ``fairtk report`` reads them.

    Args:
        folder: the folder of results.
        sections: the sections in order; figures are stored as SVG.

    Returns:
        The path of the file.
    """
    path = checks.path("folder", folder) / FILE
    sections = [
        checks.instance("sections", section, Section)
        for section in checks.listed("sections", sections)
    ]
    records = [
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
        json.dump(records, stream, indent=1, ensure_ascii=False)
        stream.write("\n")
    return path


def load_sections(folder: str | PathLike[str]) -> list[Section]:
    """Read the sections that `save_sections` wrote; an empty list if there is no file.

    Args:
        folder: the folder of results.

    Raises:
        FormatError: the file is not JSON.
    """
    path = checks.path("folder", folder) / FILE
    sections = []
    for record in read_json(path) if path.exists() else ():
        table = None if record["table"] is None else Table(**record["table"])
        sections.append(Section(**{**record, "prose": tuple(record["prose"]), "table": table}))
    return sections


_NUMBER = re.compile(r"(?:[<+-]?\d[\d.,]*\*?(?: \[.*\])?|\[.*\]|undefined|none|unknown)?")
_BREAKS = re.compile(r"(?<=[,=])|(?<=\w\()(?=.{12})|(?=@)|(?<=_)(?=[A-Za-z]{4})")
"""Positions where a long name may be wrapped."""
_UNWRAPPED_LETTERS = 12
_TITLE_LETTERS, _NAME_LETTERS, _CELL_LETTERS = 120, 48, 600


def write_report(results: Results, path: str | PathLike[str], **options: Any) -> None:
    """Write the report of results as one HTML file, atomically.

    Args:
        results: `fairtk.Results`.
        path: the file; its folder must exist.
        options: options of `page_text`.
    """
    text = page_text(results, **options)
    with atomic_text(path) as stream:
        stream.write(text)


def page_text(
    results: Results,
    *,
    title: str | None = None,
    baseline: str | None = None,
    test: Test = "t",
    correction: Correction | None = "holm",
    cutoff: int = 10,
    cluster: Any = None,
    sections: Iterable[Section] = (),
    description: str | None = None,
    license: str | None = None,
    command: str | None = None,
    pages: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the report of results as HTML; equal results give equal texts.

    Args:
        results: `fairtk.Results`.
        title: the title of the page; `None` for that of the results, or "Report".
        baseline: the system that others are compared with; `None` for the baseline of the results,
            or the first system.
        test: the paired test (`fairtk.Results.compare`).
        correction: how the p-values of a measure are corrected for the number of systems; results
            of a study keep the study's correction.
        cutoff: the number of ranks to show in each ranking.
        cluster: clusters of queries that are not independent, such as the questions of one user. A
            column of the topics, the qrels or the runs, a file with qid and this column (also
            ``"COLUMN=FILE"``), a frame, or a dict from qid to cluster; `None` for those of the
            results, if any.
        sections: more sections, folded below the tests.
        description: a sentence on the systems, below the title; `None` for that of the results.
        license: the license of the data; `None` for that of the results.
        command: the command that writes this page again; `None` if unknown.
        pages: addresses of the pages of a study by name, empty for this page.

    Raises:
        ParameterError: `cutoff` is less than 1.
        NotFoundError: the baseline, test or correction is unknown.
        MissingExtraError: Jinja2 is not installed.
    """
    checks.instance("results", results, Results, "report")
    checks.integer("cutoff", cutoff)
    if cluster is not None:
        results = results.with_clusters(cluster, "report")
    how = results.config.get("correction") or correction or "none"
    first = baseline or results.baseline or results.systems[0]
    details = drill_down(results, cutoff)
    messages = page_warnings(results, details.systems)
    compared = None
    if results.measures and len(results.systems) > 1:
        drawing = {"test": test, "confidence": CONFIDENCE}
        compared = compared_systems(results, first, drawing, how, on_untested=messages.append)
    bias = ""
    try:
        bias = bias_text(results.sampling_bias())
    except InputError as error:  # a plugin is not installed, or groups are not registered
        messages.append(f"The sampling bias is unknown: {error}")
    remarks = " ".join(filter(None, [*caption_texts(results), bias]))
    cells = mean_cells(results, compared)
    differences, tests = None, None
    if compared is not None:
        differences = difference_table(results, compared, first, test, how)
        others = compared[compared["system"] != first].rename(columns={"n": "queries"})
        tests = baseline_table(others, first, test, how)
        tests = tests._replace(caption=f"{tests.caption} {remarks}".strip())
    return _rendered(
        "page.html",
        title=title or results.config.get("title") or "Report",
        description=description or results.config.get("description"),
        overview=overview(results, details.systems),
        remarks=remarks,
        measures=_measures(results),
        systems=results.systems,
        cells=cells,
        intervals=interval_table(results, cells, remarks) if cells else None,
        differences=differences,
        is_tested=compared is not None and is_tested(compared),
        figures=_figures(results, first),
        limits=limits(results, details.systems),
        warnings=list(dict.fromkeys(messages)),
        tests=tests,
        pages=dict(pages),
        is_named=bool(baseline or results.baseline),
        first=first,
        sections=[
            {
                "section": section,
                "name": f"section-{number}",
                "figure": None if section.figure is None else picture(section.figure),
            }
            for number, section in enumerate(sections, 1)
        ],
        details=details,
        coverage=coverage_table(results, details.systems),
        failures=results.failures.to_dict("records"),
        settings=_settings(results),
        stages=_stages(results),
        environment=results.environment,
        license=license or results.config.get("license"),
        made_by=results.config.get("command"),
        command=command,
        sources=results.cite().strip(),
    )


def write_analysis(
    path: str | PathLike[str],
    *,
    title: str,
    overview: str,
    figure: Any,
    caption: str,
    table: Table,
    systems: Sequence[int],
    readings: Mapping[str, str],
    comparisons: Section,
    sections: Iterable[Section],
    command: str | None,
) -> None:
    """Write the page of an analysis, such as a frontier: the figure and a table come first.

    Args:
        path: the file; its folder must exist.
        title: the title of the page.
        overview: one sentence on what was compared.
        figure: a ``matplotlib.figure.Figure``.
        caption: the caption of the figure, also its text alternative.
        table: the table next to the figure.
        systems: the index of each row's system, with which the row is highlighted.
        readings: how to read the values of each measure.
        comparisons: the section below the sentences on measures.
        sections: more sections, folded.
        command: the command that writes this page again; `None` if unknown.

    Raises:
        MissingExtraError: Jinja2 is not installed.
    """
    text = _rendered(
        "analysis.html",
        title=title,
        overview=overview,
        description="",
        figure=inline_picture(figure),
        caption=caption,
        table=table,
        systems=systems,
        readings=readings,
        comparisons=comparisons,
        sections=list(sections),
        command=command,
        environment={"fairtk": __version__},
    )
    with atomic_text(Path(path)) as stream:
        stream.write(text)


def _rendered(template: str, **variables: Any) -> str:
    """Return a page of a template, with style and script."""
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("Jinja2", "report", "a report") from None
    folder = files("fairtk.report") / "page"
    css, js = ((folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js"))
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["right"] = _right
    environment.filters["shorten"] = shorten
    environment.filters["parts"] = _parts
    text: str = environment.get_template(template).render(
        lengths={"title": _TITLE_LETTERS, "name": _NAME_LETTERS, "cell": _CELL_LETTERS},
        policy=_policy(css, js),
        css=css,
        js=js,
        **variables,
    )
    return text


def _policy(css: str, js: str) -> str:
    """Return the content security policy: only the page's own script and style, and data URLs."""
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _measures(results: Results) -> list[dict[str, str]]:
    return [
        {
            "label": measure.label,
            "words": measure.full_name,
            "better": measure.better,
            "reading": reading(measure),
        }
        for measure in results.measures
    ]


_MOST_FIGURES = 6


def _figures(results: Results, baseline: str) -> list[dict[str, Any]]:
    """Return the trade-off figures: the two main measures first, then the others with its x."""
    main = main_measures(results)
    if main is None:
        return []
    x = main[0]
    others = [m for m in results.measures if m not in main]
    figures = [trade_off(results, x, y, baseline) for y in (main[1], *others)]
    return list(filter(None, figures))[:_MOST_FIGURES]


def _settings(results: Results) -> dict[str, str]:
    """Return the settings of the experiment, without those of its stages."""
    settings = {"baseline": results.baseline} if results.baseline else {}
    excluded = (*("title", "description", "stages", "systems", "license", "command"),)
    settings |= {k: v for k, v in results.config.items() if k not in excluded}
    return {
        k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)
        for k, v in settings.items()
    }


def _stages(results: Results) -> list[tuple[str, str, str]]:
    """Return the name, pipeline and settings of each system; only saved results have settings."""
    stages, labels = results.config.get("stages", {}), results.config.get("systems", {})
    rows = []
    for name in results.systems:
        known = [stage for stage in stages.get(name, []) if stage is not None]
        settings = json.dumps(known, indent=2, ensure_ascii=False) if known else ""
        if settings or name in labels:
            rows.append((name, str(labels.get(name, "")), settings))
    return rows


def _parts(name: str) -> list[str]:
    """Return the parts of a name, between which it may be wrapped; a short name is one part."""
    return _BREAKS.split(name) if len(name) > _UNWRAPPED_LETTERS else [name]


def _right(table: Table) -> list[bool]:
    """Return whether each column is numeric, and so aligned to the right."""
    if not table.rows:
        return [False] * len(table.columns)
    return [
        all(_NUMBER.fullmatch(cell) for cell in column) for column in zip(*table.rows, strict=True)
    ]
