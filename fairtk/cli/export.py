"""``fairtk export``: export results for other tools."""

from __future__ import annotations

import json
from typing import Any

import click

from fairtk.cli.output import echo
from fairtk.cli.signature import signature_command


def _print_schema(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given:
        from fairtk.experiment import results_schema

        echo(json.dumps(results_schema(), indent=2))
        ctx.exit()


@signature_command(
    "Export results to Parquet and JSON, or to TREC files.",
    {
        "fairtk.experiment:export": (
            "source folder form setting qrels gold measures groups target chains"
        ),
    },
)
@click.argument("source", metavar="STORE|STUDY")
@click.option("-o", "--output", "folder", required=True, metavar="DIR",
              help="The folder to write; it must be new or empty.")  # fmt: skip
@click.option("--schema", is_flag=True, is_eager=True, expose_value=False, callback=_print_schema,
              help="Print the JSON Schema of the exported folder and exit.")  # fmt: skip
def command(**options: Any) -> None:
    """Export results to Parquet and JSON, or to TREC files, for programs without fairtk.

    STORE is the save_dir of an experiment, or a folder written by `Results.save`. STUDY is the
    output folder of a study. A save_dir has rankings, answers and credit, but no values of
    measures: to export values, give --qrels and measures. The results of a study have one folder
    per attribute or model, next to the tables of the study.

    DIR has tables in Parquet: values (one row per query), means, rankings, failures and, if the
    results have them, answers, credit, notes, topics, qrels and values of checked queries. It also
    has config.json, environment.json and a manifest with the digests of all files. The site's page
    on exported results describes them. `fairtk.experiment.export` does the same in Python.

    \b
    Examples:
      fairtk export my-experiment -o results --qrels qrels.txt -m EE_D@5 -m "E(nDCG@5)"
      duckdb -c "SELECT system, measure, avg(value) FROM 'results/values.parquet' GROUP BY ALL"
      fairtk export my-study -o of-study
      duckdb -c "SELECT system, measure, avg(value) FROM 'of-study/*/values.parquet' GROUP BY ALL"
      fairtk export my-experiment -o runs --format trec
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment import export
    from fairtk.experiment.saved import CONFIG

    for folder in export(**options):
        click.echo(f"Results: {folder}")
        config = folder / CONFIG
        if config.exists() and not json.loads(config.read_text(encoding="utf-8"))["measures"]:
            click.echo(
                "Note: no values are written, because a save_dir has none; to measure, give "
                "--qrels and -m, e.g. -m EE_D@5."
            )
