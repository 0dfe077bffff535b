"""``fairtk doctor``: what is wrong with a run, its labels and its groups."""

from __future__ import annotations

import textwrap
import warnings

import click

from fairtk.cli.options import (
    FILE,
    cutoff_option,
    groups_option,
    measures_option,
    printing_options,
    run_argument,
    target_option,
)
from fairtk.cli.output import TABLE, echo, echo_frame
from fairtk.errors import DataWarning, InputError
from fairtk.plugins import to_stderr

_WIDTH = 98


@click.command("doctor", short_help="Find problems in a run, its labels and groups.")
@click.argument("qrels", type=FILE)
@run_argument
@groups_option
@target_option
@measures_option(
    "A measure that ties may move; by default EE_D, EE_R, EE_L and E(nDCG) at the cutoff, AWRF "
    "with groups and target."
)
@cutoff_option("Ranks that are looked at.")
@click.option("--support", type=click.IntRange(min=1), default=10, show_default=True,
              help="Groups with fewer documents have little support.")  # fmt: skip
@printing_options
def command(
    qrels: str,
    run: str,
    groups: tuple[str, ...],
    target: str | None,
    measures: tuple[str, ...],
    cutoff: int,
    support: int,
    form: str,
    output: str | None,
) -> None:
    """Examine RUN beside QRELS and groups: a verdict, what is wrong, and what to do.

    Everything is said at once: broken rows are counted and left out, and all checks see the rest.
    Looked for: broken, cut off and repeated lines, ids written in two ways, queries missing on
    either side, missing labels, ties and how much they move each measure, samples of unequal number
    or length, groups with few documents, targets that no ranking reaches.

    The exit code is 2 if something is an error (numbers would be wrong), with --strict also if
    something is a warning; else 0. `fairtk.doctor` does the same in Python.

    \b
    Examples:
      fairtk doctor qrels.txt bm25.run
      fairtk doctor qrels.txt bm25.run --groups gender.tsv --target uniform -k 20
      fairtk doctor qrels.txt bm25.run --format json --output doctor.json --strict
    """  # noqa: D301 - click reads the backslash
    from fairtk.analysis.doctor import doctor

    with to_stderr():
        diagnosis = doctor(
            run, qrels, groups, target=target, measures=measures, cutoff=cutoff, support=support
        )
    if form == "json":
        echo(diagnosis.to_json(), output)
    elif form == TABLE:
        lines = [f"{count} {name}" for name, count in diagnosis.counts.items()]
        parts = [diagnosis.verdict, ", ".join(lines), ""]
        for finding in diagnosis.findings:
            parts += _wrapped(f"{finding.level}: {finding.text}", "  ")
            parts += _wrapped(f"  -> {finding.remedy}", "     ")
        echo("\n".join(parts).rstrip(), output)
    else:
        echo_frame(form, diagnosis.table, output)
    if diagnosis.number("error"):
        raise InputError(f"{run}: {diagnosis.summary}")
    if diagnosis.number("warning"):
        warnings.warn(f"{run}: {diagnosis.summary}", DataWarning, stacklevel=1)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
