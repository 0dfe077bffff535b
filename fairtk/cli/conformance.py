"""``fairtk conformance``: fairtk's numbers beside the published definitions."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from fairtk.cli.options import FILE, cutoff_option, printing_options, target_option
from fairtk.cli.output import TABLE, echo, echo_frame, table_lines
from fairtk.errors import FairtkError
from fairtk.plugins import to_stderr

_WIDTH = 98


@click.command("conformance", short_help="Compare fairtk's numbers with the published definitions.")
@click.argument("qrels", type=FILE, required=False)
@click.argument("run", type=FILE, required=False)
@click.option("--groups", type=FILE, help="Groups of documents, for the definitions by group.")
@target_option
@cutoff_option("Ranks that the machine user and the track read.")
@click.option("-p", type=click.FloatRange(0, 1, max_open=True), default=0.5, show_default=True,
              help="Patience of expeval's user.")  # fmt: skip
@click.option("-u", type=click.FloatRange(0, 1),
              help="How likely that user leaves after a useful document (GERR).  "
              "[default: never (RBP)]")  # fmt: skip
@printing_options
def command(
    qrels: str | None, run: str | None, form: str, output: str | None, **options: Any
) -> None:
    """Compare fairtk's numbers with plain implementations of the published definitions.

    Without QRELS and RUN on packaged fixtures, beside the numbers that the published code gave for
    them; else on that run. The definitions: Towards Fair RAG (the paper's text, and its code),
    expeval, TREC Fair Ranking 2022 (Tasks 1 and 2), trec_eval's nDCG; of a RUN with credit (frame
    C) those of AE_D, AE_R, AE_L, CreditGap and, with groups, AWRF of credit. Each difference, of
    fairtk from a definition and of definitions from each other, comes with its cause.

    The exit code is 1 if a difference has no known cause, or a published number is not reproduced.
    CSV has the table of agreement alone. `fairtk.conformance` does the same in Python.

    \b
    Examples:
      fairtk conformance
      fairtk conformance qrels.txt sampled.run --cutoff 5
      fairtk conformance qrels.txt bm25.run --groups gender.tsv --target uniform --cutoff 20
      fairtk conformance qrels.txt credit.tsv --cutoff 5
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis.conformance import conformance

    with to_stderr():
        outcome = conformance(run, qrels, **options)
    if form == "json":
        echo(outcome.to_json(), output)
    elif form == TABLE:
        echo(_text(outcome), output)
    else:
        echo_frame(form, outcome.table, output)
    if not outcome.conforms:
        raise FairtkError(
            "fairtk does not conform: the table says where values differ without a known cause, "
            "or published numbers are not reproduced; please report it with run and qrels"
        )


def _text(outcome: Any) -> str:
    columns = [c for c in outcome.table.columns if c not in ("measure", "largest")]
    rows = [[str(row[c]) for c in columns] for _, row in outcome.table.iterrows()]
    lines = [f"On {outcome.source}:", "", *table_lines(columns, rows, range(2, len(columns)))]
    for (one, other), part in outcome.differences.groupby(["one", "other"], sort=False):
        lines += ["", f"{one} and {other} differ:"]
        for cause, of in part.groupby("cause", sort=False):
            gaps = ", ".join(
                f"{row.value} {row.queries}x"
                + ("" if row.largest != row.largest else f" (by up to {row.largest:.4f})")
                for row in of.itertuples()
            )
            lines += textwrap.wrap(f"- {gaps}: {cause}", _WIDTH, subsequent_indent="  ")
    lines += ["", "All differences have a cause." if outcome.conforms else "Not all are explained."]
    return "\n".join(lines)
