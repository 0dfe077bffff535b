"""The page: everything in one file of HTML, which asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from fairtk.errors import FairtkWarning, FormatError, InputError, MissingExtraError, ParameterError
from fairtk.io import Table, atomic_text
from fairtk.report.queries import Reported, drill_down
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

_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_KEPT = {
    *("svg", "g", "defs", "use", "clipPath", "path", "rect", "circle", "ellipse", "line"),
    *("polyline", "polygon", "text", "tspan", "image", "marker"),
    *("linearGradient", "radialGradient", "stop"),
}
_SETTINGS = {"svg.hashsalt": "fairtk", "svg.fonttype": "path"}
_LOCAL = re.compile(r"url\(\s*#")


def svg_text(figure: Any) -> str:
    """Return a figure as SVG; equal figures give equal texts.

    Args:
        figure: a ``matplotlib.figure.Figure``, or a text, which is returned as it is.
    """
    if isinstance(figure, str):
        return figure
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "report", "a figure of a report") from None
    stream = io.StringIO()
    with matplotlib.rc_context(_SETTINGS):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    figure.set_layout_engine("none")  # laid out again, it would come out a little different
    return stream.getvalue()


def inline_svg(figure: Any, name: str) -> str:
    """Return a figure to be put into a page: an ``svg`` element with the role of an image.

    Its ids begin with `name`, and its styles are attributes, which a policy without inline styles
    lets through. Whatever else than shapes and letters is in it is left out.

    Args:
        figure: as for `svg_text`.
        name: of the figure in the page; ``{name}-caption`` is the id of the words that describe it.

    Raises:
        InputError: the text is not SVG.
    """
    try:
        root = ElementTree.fromstring(svg_text(figure))
    except ElementTree.ParseError as error:
        raise InputError(f"the figure {name!r} of the report is not SVG ({error})") from None
    if root.tag != f"{{{_SVG}}}svg":
        raise InputError(f"the figure {name!r} of the report is not SVG (<{root.tag}>)")
    cleaned = _cleaned(root, f"{name}-")
    width, height = (re.match(r"[\d.]+", root.get(side, "")) for side in ("width", "height"))
    if cleaned.get("viewBox") is None and width and height:
        cleaned.set("viewBox", f"0 0 {width[0]} {height[0]}")
    cleaned.attrib.pop("height", None)  # the page gives it its width
    cleaned.attrib.update(
        {
            "xmlns": _SVG,
            "role": "img",
            "aria-labelledby": f"{name}-caption",
            "stroke-linejoin": "round",  # matplotlib's style rule for everything
            "stroke-linecap": "butt",
        }
    )
    return ElementTree.tostring(cleaned, encoding="unicode")


def _cleaned(element: ElementTree.Element, prefix: str) -> ElementTree.Element:
    found = ElementTree.Element(_plain(element.tag), _attributes(element, prefix))
    found.text, found.tail = element.text, element.tail
    found.extend(
        _cleaned(child, prefix)
        for child in element
        if isinstance(child.tag, str) and _plain(child.tag) in _KEPT
    )
    return found


def _plain(tag: str) -> str:
    return tag.removeprefix(f"{{{_SVG}}}")


def _attributes(element: ElementTree.Element, prefix: str) -> dict[str, str]:
    found = {}
    styles = element.get("style", "").split(";")
    for name, value in [
        *element.attrib.items(),
        *(tuple(part.strip() for part in style.split(":", 1)) for style in styles if ":" in style),
    ]:
        if name == _HREF or name == "href":
            if value.startswith("#"):
                found["href"] = f"#{prefix}{value[1:]}"
            elif value.startswith("data:image/png;base64,"):
                found["href"] = value
        elif name == "id":
            found[name] = prefix + value
        elif name == "style" or name.startswith(("on", "{")):
            continue
        elif "url(" not in value or _LOCAL.match(value):
            found[name] = _LOCAL.sub(f"url(#{prefix}", value)
    return found


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


_MOST_FIGURES = 6
_NUMBER = re.compile(r"(?:[<+-]?\d[\d.,]*(?: \[.*\])?|\[.*\]|undefined|none|unknown)?")


def write_report(results: Reported, path: str | PathLike[str], **options: Any) -> None:
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
    results: Reported,
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
    if cutoff < 1:
        raise ParameterError(f"a report's cutoff must be at least 1; found {cutoff}")
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
        comparison=None if compared is None else _others_table(compared, first, test, how),
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


def _others_table(compared: pd.DataFrame, baseline: str, test: str, correction: str) -> Table:
    """Return the differences from a baseline, whose own means stand in the table before."""
    others = compared[compared["system"] != baseline].rename(columns={"n": "queries"})
    return baseline_table(others, baseline, test, correction)


def _policy(css: str, js: str) -> str:
    """Return what the page may do: run and look as its own two texts say, and show pictures."""
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _figures(results: Reported) -> Iterator[tuple[str, str, str]]:
    """Yield pictures, names and captions: one measure, of cost if there is one, and each other."""
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
        yield inline_svg(results.plot_trade_off(x, y), name), name, caption


def _shown(section: Section, number: int) -> dict[str, Any]:
    name = f"section-{number + 1}"
    figure = None if section.figure is None else inline_svg(section.figure, f"{name}-figure")
    return {"section": section, "name": name, "figure": figure}


def _settings(results: Reported) -> dict[str, str]:
    """Return the settings of the experiment that are not those of its stages."""
    said = {"baseline": results.baseline} if results.baseline else {}
    left_out = ("title", "stages", "systems", "warnings", "license", "command")
    said |= {k: v for k, v in results.config.items() if k not in left_out}
    return {
        k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in said.items()
    }


def _stages(results: Reported) -> list[tuple[str, str, str]]:
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
