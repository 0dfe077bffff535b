"""``fairtk measures``: what can be measured."""

from __future__ import annotations

import inspect
from typing import Any

import click

from fairtk.cli.output import echo_rows, echo_table, format_option
from fairtk.errors import InputError, install_hint
from fairtk.measures import FairMeasure
from fairtk.measures.pages import default_text, page_of, plain_text

_COLUMNS = ["kind", "name", "better", "summary", "from"]


@click.command("measures")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="List ir_measures' own measures, too.")
@format_option
def command(name: str | None, everything: bool, form: str) -> None:
    """List measures, string utilities and browsing models, or explain the one called NAME."""
    if name is not None:
        _explain(name)
        return
    rows = _measures() + _utilities() + _browsing_models()
    if everything:
        rows += _others()
    if form != "table":
        echo_rows(form, _COLUMNS, rows)
        return
    titles = {
        "measure": "Measures (`fairtk measures NAME` explains one, as it does with those below)",
        "utility": "String utilities, for EU(utility='...')",
        "browsing model": "Browsing models, for browsing='...'",
        "ir_measures": "Measures of ir_measures; over samples: E(...)",
    }
    for number, (kind, title) in enumerate(titles.items()):
        chosen = [row[1:] for row in rows if row[0] == kind]
        if not chosen:
            continue
        click.echo("\n" * bool(number) + title)
        if kind in ("measure", "utility"):
            echo_table(
                ["name", "better", "from", "summary"], [[n, b, o, s] for n, b, s, o in chosen]
            )
        else:
            echo_table(["name", "from", "summary"], [[n, o, s] for n, b, s, o in chosen])


def _measures() -> list[list[str]]:
    from fairtk.plugins import registry

    return [
        ["measure", entry.name, _direction(entry.value), _first_line(entry.value), entry.owner]
        for entry in registry.measures.entries()
    ]


def _utilities() -> list[list[str]]:
    from fairtk.plugins import registry

    return [
        [
            "utility",
            entry.name,
            "higher" if entry.value.higher_is_better else "lower",
            entry.value.summary + _extra(entry.value.extra),
            entry.owner,
        ]
        for entry in registry.utilities.entries()
    ]


def _browsing_models() -> list[list[str]]:
    from fairtk.plugins import registry

    return [
        [
            "browsing model",
            entry.name + _signature(entry.value),
            "",
            _first_line(entry.value),
            entry.owner,
        ]
        for entry in registry.browsing_models.entries()
    ]


def _others() -> list[list[str]]:
    import ir_measures

    from fairtk.plugins import registry

    ours = set(registry.measures.names())
    return [
        ["ir_measures", name, "", measure.SHORT_DESC or _first_line(measure), "ir_measures"]
        for name, measure in sorted(ir_measures.measures.registry.items())
        if name not in ours
    ]


def _explain(name: str) -> None:
    """Print what a measure, utility or browsing model is, and its parameters."""
    from fairtk.plugins import registry

    if name in registry.utilities:
        factory = registry.utilities.load(name)
        title, described, rows = f"{name}: string utility", factory, _options(factory)
    elif name in registry.browsing_models:
        described = registry.browsing_models.get(name)
        title, rows = f"{name}: browsing model", _options(described)
    else:
        from fairtk.measures import parse

        measure = parse(name)
        if isinstance(measure, FairMeasure):
            _show_page(measure)
            return
        title, described = measure.NAME, type(measure)
        rows = [
            [p, default_text(info), info.desc or ""] for p, info in measure.SUPPORTED_PARAMS.items()
        ]
    click.echo(f"{title}\n\n{_description(described)}")
    if rows:
        click.echo()
        columns = ["parameter", "default", "meaning"]
        if not any(row[2] for row in rows):  # an Args section says it
            columns, rows = columns[:2], [row[:2] for row in rows]
        echo_table(columns, rows)


def _show_page(measure: FairMeasure) -> None:
    """Print a measure's page, the one that the site has, too."""
    page = page_of(measure)
    click.echo(f"{page.name}: {page.title}\n\n{page.description.replace('``', '`')}")
    for heading, text in page.sections.items():
        click.echo(f"\n{heading}\n{plain_text(text)}")
    if page.notes:
        click.echo(f"\n{page.notes}")
    click.echo()
    echo_table(["fact", ""], [[name, text] for name, text in page.facts.items()])
    if page.parameters:
        click.echo()
        echo_table(["parameter", "default", "meaning"], page.parameters)
    click.echo(f"\nHow to cite it: fairtk cite {page.name}")


def _description(thing: Any) -> str:
    # without the marks of documentation tools
    lines = (inspect.getdoc(thing) or "no description").splitlines()
    text = "\n".join(line for line in lines if not line.startswith(".. "))
    return text.replace("``", "`").strip()


def _options(factory: Any) -> list[list[str]]:
    parameters = inspect.signature(factory).parameters.values()
    return [
        [p.name, "" if p.default in (p.empty, None) else repr(p.default), ""] for p in parameters
    ]


def _direction(measure: Any) -> str:
    try:
        return str(measure.better)
    except InputError:  # E, EU: the direction is that of what they are given
        return "as inside"


def _signature(model: type) -> str:
    fields = inspect.signature(model).parameters.values()
    inside = ", ".join(f"{f.name}={f.default!r}" for f in fields)
    return f"({inside})" if inside else ""


def _first_line(thing: Any) -> str:
    kind = thing if isinstance(thing, type) else type(thing)
    lines = (inspect.getdoc(kind) or "").splitlines()
    return lines[0] if lines else ""


def _extra(extra: str | None) -> str:
    return f" ({install_hint(extra)})" if extra else ""
