"""``fairtk measures``: list and describe measures."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import click

from fairtk.cli.options import printing_options
from fairtk.cli.output import show, wrapped_lines
from fairtk.cli.signature import signature_command
from fairtk.errors import InputError, NotFoundError
from fairtk.wording import install_hint

_COLUMNS = ["kind", "name", "better", "summary", "from"]


@signature_command("List measures, string utilities and browsing models.")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Also list the measures of ir_measures.")
@printing_options
def command(name: str | None, everything: bool, form: str, output: str | None) -> None:
    """List measures, string utilities and browsing models, or describe NAME.

    NAME is a name in the list, or any measure. The description has the definition, the parameters
    and how to cite the measure.

    \b
    Examples:
      fairtk measures
      fairtk measures AWRF
      fairtk measures --all --format csv
    """  # noqa: D301 - click reads the backslash
    import pandas as pd

    if name is not None:
        lines, parts = _page(name)
        show(lines, pd.DataFrame(parts.items(), columns=["part", "text"]), form, output)
        return
    rows = list(_rows(everything))
    titles = {
        "measure": "Measures (`fairtk measures NAME` describes any name below)",
        "utility": "String utilities, for EU(utility='...')",
        "browsing model": "Browsing models, for browsing='...'",
        "ir_measures": "Measures of ir_measures (over samples: E(...))",
    }
    table = pd.DataFrame(rows, columns=_COLUMNS)
    lines = []
    for kind, title in titles.items():
        chosen = table.loc[table["kind"] == kind, ["name", "better", "from", "summary"]]
        if not chosen["better"].any():  # browsing models have no direction
            chosen = chosen.drop(columns="better")
        if len(chosen):
            lines += ["", title, *wrapped_lines(list(chosen), chosen.to_numpy().tolist())]
    show(lines[1:], table, form, output)


def _rows(everything: bool) -> Iterator[list[str]]:
    """Yield the cells of `_COLUMNS` for each measure, utility and browsing model."""
    import ir_measures

    from fairtk.measures.costs import COSTS
    from fairtk.plugins import registry

    for entry in registry.measures.entries():
        about = _first_line(entry.value)
        yield ["measure", entry.name, _direction(entry.value), about, entry.owner]
    for cost in COSTS.values():
        yield [
            "measure",
            cost.NAME,
            cost.BETTER,
            _first_line(cost),
            registry.measures.owner("EE_D"),
        ]
    for entry in registry.utilities.entries():
        spec = entry.value
        better = "higher" if spec.higher_is_better else "lower"
        about = spec.summary + (f" ({install_hint(spec.extra)})" if spec.extra else "")
        yield ["utility", entry.name, better, about, entry.owner]
    for entry in registry.browsing_models.entries():
        name = entry.name + _signature(entry.value)
        yield ["browsing model", name, "", _first_line(entry.value), entry.owner]
    for name, measure in sorted(ir_measures.measures.registry.items()) if everything else ():
        if name not in registry.measures and name not in COSTS:
            about = measure.SHORT_DESC or _first_line(measure)
            yield ["ir_measures", name, "", about, "ir_measures"]


def _page(name: str) -> tuple[list[str], dict[str, str]]:
    """Return the description of a measure, utility or browsing model as lines and by part."""
    title, description, sections, parameters = _described(name)
    parts = {"title": title, "description": description, **sections}
    parts |= {f"parameter {p}": ": ".join(filter(None, texts)) for p, *texts in parameters}
    lines = [title, "", description]
    for heading, text in sections.items():
        lines += ["", heading, text]
    if parameters:
        lines += ["", *wrapped_lines(["parameter", "default", "meaning"], parameters)]
    return lines, parts


def _described(name: str) -> tuple[str, str, dict[str, str], list[list[str]]]:
    """Return the title, description, sections and parameters for a name."""
    from fairtk.measures import FairMeasure, parse
    from fairtk.measures.pages import default_text, page_of, plain_text
    from fairtk.measures.parsing import known_names
    from fairtk.plugins import registry

    if name in registry.utilities:
        utility = registry.utilities.load(name)
        return f"{name}{_signature(utility)}: string utility", _description(utility), {}, []
    if name in registry.browsing_models:
        model = registry.browsing_models.get(name)
        return f"{name}{_signature(model)}: browsing model", _description(model), {}, []
    known = {*known_names(), *registry.utilities.names(), *registry.browsing_models.names()}
    if name.isidentifier() and name not in known:
        raise NotFoundError("measure, utility or browsing model", name, known)
    measure = parse(name)
    if not isinstance(measure, FairMeasure):
        parameters = [
            [p, default_text(info), info.desc or ""] for p, info in measure.SUPPORTED_PARAMS.items()
        ]
        return measure.NAME, _description(type(measure)), {}, parameters
    page = page_of(measure)  # as on the site
    sections = {heading: plain_text(text) for heading, text in page.sections.items()}
    sections |= page.facts
    if measure.CITATION:
        sections["How to cite it"] = f"fairtk cite {page.name}"
    description = page.description.replace("``", "`")
    return f"{page.name}: {page.title}", description, sections, page.parameters


def _description(thing: Any) -> str:
    lines = (inspect.getdoc(thing) or "no description").splitlines()
    text = "\n".join(line for line in lines if not line.startswith(".. "))
    return text.replace("``", "`").strip()


def _direction(measure: Any) -> str:
    try:
        return str(measure.better)
    except InputError:  # E, EU: the direction is that of their arguments
        return "as inside"


def _signature(model: type) -> str:
    fields = inspect.signature(model).parameters.values()
    needed = {f.name: "..." if f.default is f.empty else repr(f.default) for f in fields}
    inside = ", ".join(f"{name}={default}" for name, default in needed.items())
    return f"({inside})" if inside else ""


def _first_line(thing: Any) -> str:
    kind = thing if isinstance(thing, type) else type(thing)
    lines = (inspect.getdoc(kind) or "").splitlines()
    return lines[0] if lines else ""
