"""What ``fairtk qr`` does: settings from file and command line, the study, its tables."""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from fairtk.cli.options import engine_options, open_ledger, server_settings
from fairtk.cli.output import echo_frame, echo_table, said_command
from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.llm import takes_temperature
from fairtk.plugins import on_terminal
from fairtk.studies import kind_of_source
from fairtk.studies.fair_qr import (
    Plan,
    Settings,
    Study,
    StudyData,
    StudyFile,
    StudyResults,
    change_table,
    comparison,
    from_trec_fair,
    kind_of_settings,
    make_model,
    make_retriever,
    names_of,
    need_matplotlib,
    parse_model,
    read_study,
)

BASELINES = "fairtk-baselines"
DEFAULT_OUTPUT = "fair-qr-study"
PAPERS_TEMPERATURE = 0.3
_AT_MOST = (
    "Calls at most: every topic refined as often as allowed. Tokens and price are rough: answers "
    "as long as allowed, prompts as long as the first ones. "
)


def run(given: SimpleNamespace, dry_run: bool, status: bool, form: str) -> None:
    """Run the study, or say what it takes or what is done, and print the outcome.

    `given` has the command's other options; None and empty: not given.
    """
    with contextlib.ExitStack() as stack:
        study = _study(_file(given), given, dry_run or status, stack)
        if status:
            echo_frame(form, study.status())
            return
        if dry_run:
            _echo_plan(study.plan(), form)
            return
        need_matplotlib()  # not found out after hours
        _mention_baselines(study)
        results = study.run(lambda text: click.echo(text, err=True))
        for text in results.warnings:  # of earlier runs and of measures: in the report, too
            if text not in study.told:
                warnings.warn(text, DataWarning, stacklevel=2)
        _echo_results(results, form)  # figures take longer than all tables
        page = results.save(study.folder, command=said_command())
    if form == "table":
        click.echo(f"\nReport: {page}", err=not on_terminal(sys.stdout))


def _file(given: SimpleNamespace) -> StudyFile:
    """Return the configuration that the first argument names, or is."""
    kind = kind_of_source(given.source)
    path = Path(given.source).expanduser()
    if kind == "file":
        return read_study(path)
    data = {"folder": str(path)} if kind == "folder" else {"dataset": given.source}
    return StudyFile(data, None, Settings())


def _study(
    file: StudyFile, given: SimpleNamespace, dry_run: bool, stack: contextlib.ExitStack
) -> Study:
    asked: dict[str, Any] = {k: v for k, v in file.data.items() if k not in ("folder", "dataset")}
    if given.attributes:
        asked["attributes"] = given.attributes
    if given.split:
        asked["split"] = given.split
    settings = file.settings.changed(
        systems=given.systems or None,
        seed=given.seed,
        variations=None if given.variations else {},
        tuning=None if given.tuning else {},
    )
    models, settings = _models(file, given, settings)
    folder = Path(given.output or file.output or DEFAULT_OUTPUT)
    for name in ("split", "keywords"):
        if name in asked and "dataset" in file.data:
            raise InputError(
                f"{name!r} is for folders; the dataset {file.data['dataset']!r} says by its id "
                "which topics it has"
            )
    data = from_trec_fair(file.data.get("folder") or file.data["dataset"], **asked)
    retrievers, settings = _retrievers(file, data, folder, settings)
    engine = engine_options(file.engine, vars(given))
    study = Study(data, folder, models, settings, None, retrievers, **engine)
    study.ledger = open_ledger(file.ledger, vars(given), folder / "ledger.sqlite", dry_run, stack)
    return study


def _retrievers(
    file: StudyFile, data: StudyData, folder: Path, settings: Settings
) -> tuple[Any, Settings]:
    """Return the retrievers by name, the study's own BM25 as None, and the settings with its
    own.
    """
    if not file.retrievers:
        return None, settings
    first, *others = (dict(table) for table in file.retrievers)
    if first.get("kind", "bm25") != "bm25":
        raise ParameterError(
            "the first [[retriever]] must be kind = 'bm25': systems are compared with it"
        )
    own, *names = names_of(file.retrievers, "retriever", "kind")
    options = {key: value for key, value in first.items() if key not in ("name", "kind")}
    made = {
        name: make_retriever(name, table, data, folder, settings)
        for name, table in zip(names, others, strict=True)
    }
    return {own: None, **made}, settings.changed(bm25={**settings.bm25, **options})


def _models(file: StudyFile, given: SimpleNamespace, settings: Settings) -> tuple[Any, Settings]:
    """Return the model, or several by name, and the settings with its temperature."""
    tables = [dict(table) for table in file.llms] or [{}]
    if given.model:
        chosen = parse_model(given.model)
        # settings of another backend do not fit this one
        fits = tables[0] if tables[0].get("backend") == chosen["backend"] else {}
        tables = [{**fits, **chosen}]
    served = server_settings(vars(given))
    for table in tables if served else ():
        if len(tables) == 1 or kind_of_settings(table).server:
            table |= served
    refining = dict(settings.fair_qr)
    if len(tables) == 1:
        table = {key: value for key, value in tables[0].items() if key != "name"}
        if table.get("temperature", "none") != "none":  # else FairQR's own default would win
            refining = {"temperature": table["temperature"], **refining}
        return make_model(table), settings.changed(fair_qr=refining)
    warm = refining.get("temperature", PAPERS_TEMPERATURE)
    made = {}
    for name, table in zip(names_of(tables, "llm", "model"), tables, strict=True):
        own = {key: value for key, value in table.items() if key != "name"}
        if takes_temperature(kind_of_settings(own)):
            own.setdefault("temperature", warm)
        made[name] = make_model(own)
    # each model has its own
    return made, settings.changed(fair_qr={**refining, "temperature": None})


def _mention_baselines(study: Study) -> None:
    from fairtk.plugins import registry

    if not study.settings.systems and not registry.study_systems.names():
        click.echo(
            f"Note: the baselines are in the plugin {BASELINES}, which is not installed; "
            "comparing with BM25 alone.",
            err=True,
        )


def _echo_plan(plan: Plan, form: str) -> None:
    if form != "table":
        echo_frame(form, plan.rows)
        return
    rows = [list(row) for row in plan.rows.itertuples(index=False)]
    if rows:
        shown = [
            [*map(str, row[:1]), *(_number(v) for v in row[2:6]), _price(row[6]), str(row[1])]
            for row in [*rows, ["all", "", "", *plan.total.values()]]
        ]
        heads = ["attribute", "topics", "calls", "prompt tokens", "answer tokens", "price"]
        echo_table([*heads, "systems"], shown, numbers=range(1, 6))
    click.echo(
        f"{_AT_MOST if rows else ''}"
        f"{plan.done} of {plan.cells} systems are done; {plan.recorded} answers are recorded and "
        "are not paid for again."
    )


def _echo_results(results: StudyResults, form: str) -> None:
    if form != "table":
        echo_frame(form, results.table)
        return
    table = comparison(results)
    echo_table([*table.columns, ""], [[*row, ""] for row in table.rows])
    click.echo(table.caption)
    for attribute in results.explained:
        click.echo(change_table(results, attribute).caption.partition(" Shown:")[0])
    if len(results.missing):
        lost = results.missing
        click.echo(
            f"Warning: {len(lost)} results are missing, e.g. {lost['system'].iloc[0]} for topic "
            f"{lost['qid'].iloc[0]}: {lost['reason'].iloc[0]}; run the same command to try "
            "calls that failed again; what was refused, cut off or unreadable is in the ledger, "
            "and asked for again with --retry-unusable",
            err=True,
        )


def _number(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "unknown" if math.isnan(value) else f"{value:,.0f}"


def _price(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.4f}"
