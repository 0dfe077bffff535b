"""``fairtk groups``: inspect group files and their coverage of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairtk.cli.options import FILE, GROUPS_FILE, plot_option, printing_options
from fairtk.cli.output import frame_lines, show, wrapped_lines
from fairtk.cli.signature import signature_command

if TYPE_CHECKING:
    from fairtk.frames import Run
    from fairtk.groups import Groups

_MOST_ROWS = 40


@signature_command(
    "Show groups of documents, and their coverage of a run.",
    {"fairtk:Groups.coverage": "run cutoff", "fairtk:doctor": "target"},
)
@click.argument("files", type=GROUPS_FILE, nargs=-1, required=True, metavar="[NAME=]FILE...")
@click.option("--cross", is_flag=True, help="Cross the attributes of all FILES.")
@click.option("--coverage", "run", type=FILE, multiple=True, metavar="RUN",
              help="Show how many documents of this run have a group. Repeatable.")  # fmt: skip
@click.option("--qrels", type=FILE, help="Relevance labels for --target relevance.")
@plot_option("Also draw the shares of groups in each --coverage RUN, with --target as marks")
@printing_options
def command(
    files: tuple[str, ...],
    cross: bool,
    run: tuple[str, ...],
    cutoff: int | None,
    target: tuple[str, ...],
    qrels: str | None,
    plot: str | None,
    form: str,
    output: str | None,
) -> None:
    """Show the groups in FILES, and with --coverage how many documents of a run have a group.

    A file has the columns docno, group and optionally weight (TSV, CSV or Parquet; .gz), with one
    row per document and group. An empty group or @UNKNOWN means that the group is unknown. The
    attribute is named NAME, or after the file. Labels such as gender or place were made by people
    for a purpose: look at unknown values and missing groups before you measure with them.

    Without --coverage, the output has one row per group: its number of documents, its share of the
    weight, and its share in the target (the mean over queries). With --coverage, it has one row per
    query of the run: how many documents were retrieved, are in FILES, and have a known group; and
    how many groups are present and absent.

    --plot draws the groups of one attribute: their shares of the documents in the file, or with
    --coverage of the retrieved documents in each run, next to each other.

    \b
    Examples:
      fairtk groups gender.tsv region.tsv
      fairtk groups gender.tsv region.tsv --cross --target relevance --qrels qrels.txt
      fairtk groups gender.tsv --coverage bm25.run --cutoff 20
      fairtk groups gender.tsv --coverage bm25.run --coverage fair.run -k 20 --target uniform \\
        --plot shares.svg
    """  # noqa: D301 - click reads the backslash
    import pandas as pd

    from fairtk.display import write_figure
    from fairtk.experiment.inputs import GivenGroups, unique_names
    from fairtk.io.qrels import as_qrels
    from fairtk.io.runs import as_run
    from fairtk.report.group_tables import level_table, plot_shares, summary_table

    text = ""
    if not run and cutoff is not None:
        text = "-k/--cutoff requires --coverage RUN"
    elif run and target and plot is None:
        text = "--coverage and --target cannot be combined without --plot"
    elif plot is not None and len(files) > 1 and not cross:
        text = "--plot requires one FILE, or --cross"
    elif not target and qrels is not None:
        text = "--qrels requires --target relevance"
    if text:
        raise click.UsageError(text, click.get_current_context())
    evidence = GivenGroups.read(files, target)
    if qrels is not None:
        evidence.labels = as_qrels(qrels, "groups")
    attributes = [evidence.crossed] if cross else list(evidence.attributes.values())
    names = unique_names(run) if run else []
    runs = {name: as_run(file, "coverage") for name, file in zip(names, run, strict=True)}
    if plot is not None:
        write_figure(plot_shares(attributes[0], evidence, runs, cutoff), plot)
    if runs:
        _echo_coverage(attributes, runs, cutoff, form, output)
        return
    tables = [level_table(groups, evidence) for groups in attributes]
    summary = summary_table(attributes)
    lines = wrapped_lines(summary.columns, summary.rows, range(1, 5))
    for groups, table in zip(attributes, tables, strict=True):
        if groups.space.crossed:
            table = table.sort_values("share", ascending=False, kind="stable")
        levels = table.drop(columns="attribute").rename(columns={"group": groups.name})
        lines += ["", *frame_lines(levels.head(_MOST_ROWS))]
        if len(table) > _MOST_ROWS:
            lines.append(f"... and {len(table) - _MOST_ROWS} more; --format csv has all")
    show(lines, pd.concat(tables), form, output)


def _echo_coverage(
    attributes: list[Groups],
    runs: dict[str, Run],
    cutoff: int | None,
    form: str,
    output: str | None,
) -> None:
    import pandas as pd

    frames = {
        (name, groups.name): groups.coverage(run, cutoff)
        for name, run in runs.items()
        for groups in attributes
    }
    keys = ["run", "attribute"]
    table = pd.concat(frames, names=keys).reset_index(keys).reset_index(drop=True)
    if len(runs) == 1:
        table = table.drop(columns="run")
    lines = [*frame_lines(table, digits=2), ""]
    for (name, attribute), frame in frames.items():
        where = "in the run" if len(runs) == 1 else f"in {name}"
        if cutoff is not None:
            ranks = f"in the first {cutoff} ranks" if cutoff > 1 else "at rank 1"
            where = ranks if len(runs) == 1 else f"{ranks} of {name}"
        labeled, all_of = int(frame["with_label"].sum()), int(frame["retrieved"].sum())
        thin = int((frame["label_share"] < 0.5).sum())
        lines.append(
            f"{attribute}: the group is known for {labeled} of {all_of} documents {where}; in "
            f"{thin} of {len(frame)} queries for less than half."
        )
    show(lines, table, form, output)
