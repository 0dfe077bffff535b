"""``fairtk doctor``: find problems in a run, its labels and its groups."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fairtk.cli.options import FILE, printing_options
from fairtk.cli.output import echo, show, wrapped_on_terminal
from fairtk.cli.signature import in_options, signature_command
from fairtk.errors import DataWarning, InputError

if TYPE_CHECKING:
    from fairtk.experiment.findings import Finding


@signature_command(
    "Find problems in a run, its labels and groups.",
    {"fairtk:doctor": "qrels run groups target measures cutoff support parent"},
)
@click.argument("run", nargs=-1, required=True, type=FILE, metavar="RUNS...")
@click.option("-m", "--measure", "measures", multiple=True, metavar="MEASURE",
              help="Report how ties affect this measure. Repeatable.  [default: EE_D, EE_R, "
              "EE_L and E(nDCG) at the cutoff, AWRF with groups and target]")  # fmt: skip
@printing_options
def command(
    qrels: str, run: tuple[str, ...], form: str, output: str | None, **options: Any
) -> None:
    """Check RUNS, QRELS and groups for problems before you measure, and say how to fix them.

    One call reports all problems: malformed rows are counted and skipped, and the checks use the
    other rows. The checks find malformed, truncated and duplicate lines, ids with two spellings,
    queries missing from either file, missing labels, ties and their effect on each measure, samples
    that differ in number or length, groups with few documents, and targets that no ranking can
    reach.

    The exit code is 2 if there is an error (values would be wrong), with --strict also if there is
    a warning, and otherwise 0. `fairtk.doctor` does the same in Python.

    \b
    Examples:
      fairtk doctor qrels.txt bm25.run
      fairtk doctor qrels.txt bm25.run --groups gender.tsv --target uniform -k 20
      fairtk doctor qrels.txt bm25.run --format json --output doctor.json --strict
      fairtk doctor qrels.txt *.run
    """  # noqa: D301 - click reads the backslash
    from fairtk.experiment.doctor import doctor

    diagnosis = doctor(qrels, run, **options)
    if form == "json":
        echo(diagnosis.to_json(), output)
    else:
        counts = ", ".join(f"{count} {name}" for name, count in diagnosis.counts.items())
        lines = [diagnosis.verdict, counts, ""]
        for finding in diagnosis.findings:
            remedy = in_options(finding.remedy, click.get_current_context().command)
            lines += wrapped_on_terminal(f"{finding.level}: {finding.text}", "  ")
            lines += wrapped_on_terminal(f"  -> {remedy}", "     ")
        show("\n".join(lines).rstrip(), diagnosis.table, form, output)
    if diagnosis.number("error"):
        errors = [finding for finding in diagnosis.findings if finding.level == "error"]
        about = {name for finding in errors for name in finding.about.split(", ")}
        files = {"run": _runs_of(errors, run), "qrels": [qrels], **options}
        names = [str(file) for name in files if name in about for file in files[name]]
        raise InputError(f"{', '.join(names)}: {diagnosis.summary}")
    if diagnosis.number("warning"):
        warnings.warn(f"{', '.join(run)}: {diagnosis.summary}", DataWarning, stacklevel=1)


def _runs_of(findings: Sequence[Finding], files: Sequence[str]) -> Sequence[str]:
    """Return the files of runs that findings are about; of one of several, they have its name."""
    from fairtk.experiment.inputs import run_names

    texts = [finding.text for finding in findings if "run" in finding.about.split(", ")]
    by_name = run_names(files)[0]
    of = [[name for name in by_name if text.startswith(f"{name}: ")] for text in texts]
    if len(files) == 1 or not all(of):
        return files
    return [by_name[name] for name in by_name if any(name in names for names in of)]
