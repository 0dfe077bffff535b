"""The page: everything in one file of HTML, which asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from fairtk import checks
from fairtk.errors import FairtkWarning, FormatError, InputError, MissingExtraError, ParameterError
from fairtk.io import Table, atomic_text, svg_text
from fairtk.report.queries import drill_down
from fairtk.report.tables import (
    baseline_table,
    coverage_table,
    mean_table,
    measured,
    overview,
    tested,
    unsaid,
    warned,
)

if TYPE_CHECKING:
    from fairtk.experiment import Results

_SVG = "{http://www.w3.org/2000/svg}svg"


def picture(figure: Any, name: str) -> str:
    """Return a figure as the address of an image: browsers run and load nothing in those.

    Args:
        figure: as for `fairtk.io.svg_text`.
        name: of the figure in the page, for the message.

    Raises:
        InputError: the text is not SVG.
    """
    text = svg_text(figure)
    try:
        tag = ElementTree.fromstring(text).tag
    except ElementTree.ParseError as error:
        raise InputError(f"the figure {name!r} of the report is not SVG ({error})") from None
    if tag != _SVG:
        raise InputError(f"the figure {name!r} of the report is not SVG (<{tag}>)")
    data = base64.b64encode(text.encode(errors="replace")).decode("ascii")
    return f"data:image/svg+xml;base64,{data}"


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
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError) as error:
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
    figure = entry["figure"]
    if not isinstance(figure, str | None):
        raise TypeError(f"the figure of {entry['title']!r} is no text")
    return Section(str(entry["title"]), prose, table, figure, str(entry["alternative"]))


_MOST_FIGURES = 6
_NUMBER = re.compile(r"(?:[<+-]?\d[\d.,]*(?: \[.*\])?|\[.*\]|undefined|none|unknown)?")


def write_report(results: Results, path: str | PathLike[str], **options: Any) -> None:
    """Write the report of results as one file of HTML, in one step.

    Args:
        results: `fairtk.Results`.
        path: the file; its folder must exist.
        options: those of `page_text`.
    """
    text = page_text(results, **options)
    with atomic_text(path) as stream:
        stream.write(text)


def page_text(
    results: Results,
    *,
    title: str | None = None,
    baseline: str | None = None,
    test: str = "t",
    correction: str | None = "holm",
    cutoff: int = 10,
    sections: Iterable[Section] = (),
    license: str | None = None,
    command: str | None = None,
) -> str:
    """Return the report of results as HTML; equal results give equal texts.

    Args:
        results: `fairtk.Results`.
        title: of the page; None: what the results' configuration has as ``title``, or "Report".
        baseline: what others are compared with; None: the results' baseline, or the first system.
        test: see `fairtk.Results.compare`.
        correction: see there.
        cutoff: the ranks that are shown of each ranking.
        sections: what is shown after the comparisons.
        license: of the data; None: what the results' configuration has as ``license``.
        command: that makes this page again, if one does.

    Raises:
        ParameterError: `cutoff` is less than 1.
        NotFoundError: there is no such baseline, test or correction.
        MissingExtraError: Jinja2 or matplotlib is not installed.
    """
    checks.whole("a report's cutoff", cutoff, rule="be at least 1")
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("Jinja2", "report", "a report") from None
    how = correction or "none"
    first = baseline or results.baseline or results.systems[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        several = results.measures and len(results.systems) > 1
        compared = results.compare(first, test, correction) if several else None
        others = None  # the baseline's own means stand in the table before
        if compared is not None:
            others = compared[compared["system"] != first].rename(columns={"n": "queries"})
        details = drill_down(results, cutoff)
        figures = list(_figures(results))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairtkWarning)  # of pairs that no table shows
        measures = measured(results, compared, first, test, how)
    said = warned(results, details.systems)
    for warning in caught:
        if isinstance(warning.message, FairtkWarning):
            said.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    folder = files("fairtk.report") / "page"
    parts = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")}
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["right"] = _right
    environment.filters["parts"] = re.compile(r"(?<=[,=])|(?<=\w\()").split
    text: str = environment.get_template("page.html").render(
        title=title or results.config.get("title") or "Report",
        policy=_policy(parts["page.css"], parts["page.js"]),
        css=parts["page.css"],
        js=parts["page.js"],
        overview=overview(results, details.systems),
        measures=measures,
        tested=tested(first, test, how) if several else "",
        unsaid=unsaid(results, details.systems),
        warnings=list(dict.fromkeys(said)),
        means=mean_table(results) if results.measures else None,
        comparison=None if others is None else baseline_table(others, first, test, how),
        named=baseline or results.baseline,
        first=first,
        figures=figures,
        sections=[_shown(section, i) for i, section in enumerate(sections)],
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
    return text


def _policy(css: str, js: str) -> str:
    """Return what the page may do: run and look as its own two texts say, and show pictures."""
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _figures(results: Results) -> Iterator[dict[str, str]]:
    """Yield figures of one measure, of cost if there is one, and each other: ``address``, ``name``,
    ``title`` and ``caption``.
    """
    measures = results.measures
    if len(measures) < 2:
        return
    x = next((m for m in measures if results.better(m) == "lower"), measures[0])
    others = [m for m in measures if m != x][:_MOST_FIGURES]
    for i, y in enumerate(others):
        means = results.means[[x, y]]
        points = "; ".join(
            f"{name}: {means.loc[name, x]:.3f}, {means.loc[name, y]:.3f}" for name in means.index
        )
        caption = (
            f"{y} ({results.better(y)} is better) against {x} ({results.better(x)} is better): a "
            f"point per system, lines are 95% intervals over queries. {x}, {y} of {points}."
        )
        name = f"figure-{i + 1}"
        address = picture(results.plot_trade_off(x, y), name)
        yield {"address": address, "name": name, "title": f"{y} against {x}", "caption": caption}


def _shown(section: Section, number: int) -> dict[str, Any]:
    name = f"section-{number + 1}"
    figure = None
    if section.figure is not None:
        own = f"{name}-figure"
        address, caption = picture(section.figure, own), section.alternative
        figure = {"address": address, "name": own, "title": section.title, "caption": caption}
    return {"section": section, "name": name, "figure": figure}


def _settings(results: Results) -> dict[str, str]:
    """Return the settings of the experiment that are not those of its stages."""
    said = {"baseline": results.baseline} if results.baseline else {}
    left_out = ("title", "stages", "systems", "warnings", "license", "command")
    said |= {k: v for k, v in results.config.items() if k not in left_out}
    return {
        k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in said.items()
    }


def _stages(results: Results) -> list[tuple[str, str, str]]:
    """Return name, pipeline and settings of each system; settings are known of durable runs."""
    stages, labels = results.config.get("stages", {}), results.config.get("systems", {})
    found = []
    for name in results.systems:
        known = [stage for stage in stages.get(name, []) if stage is not None]
        said = json.dumps(known, indent=2, ensure_ascii=False) if known else ""
        if said or name in labels:
            found.append((name, str(labels.get(name, "")), said))
    return found


def _right(table: Table) -> list[bool]:
    """Return for each column whether it has numbers, which are aligned to the right."""
    if not table.rows:
        return [False] * len(table.columns)
    return [
        all(_NUMBER.fullmatch(cell) for cell in column) for column in zip(*table.rows, strict=True)
    ]
