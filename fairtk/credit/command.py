"""``fairtk providers``: exposure or credit of providers over all queries."""

from __future__ import annotations

from typing import Any

import click

from fairtk.cli.options import FILE, plot_option, printing_options
from fairtk.cli.output import frame_lines, show, wrapped_lines
from fairtk.cli.signature import signature_command
from fairtk.display.tables import interval_text, number_text

_MOST_ROWS = 20


@signature_command(
    "Compare each provider's share of exposure with its merit.",
    {"fairtk.credit:providers": "qrels providers cutoff browsing top seed parent"},
)
@click.argument("runs", type=FILE, nargs=-1, required=True, metavar="RUNS...")
@plot_option("Also write a figure: the Lorenz curves of one run, or the shares in several runs")
@printing_options
def command(
    runs: tuple[str, ...], plot: str | None, form: str, output: str | None, **options: Any
) -> None:
    """Compare each provider's share of exposure in RUNS with its merit by QRELS.

    Providers own documents, e.g. authors, outlets or domains; a file of groups works, too. The
    exposure of a provider is the sum over its documents and all queries. Its merit is the exposure
    that it would have under the ideal policy for QRELS.

    The table has both shares and their difference, or with several runs the share in each, and one
    merit, or one for each run if they differ. Below it, amortized is the sum of the absolute
    differences over providers. Chance alone makes shares differ, most with few queries: the column
    "by chance" has the mean value without any other difference between providers. The numbers do
    not say whether the labels are fair to providers, nor why some get less exposure.

    \b
    Examples:
      fairtk providers qrels.txt bm25.run --providers authors.tsv
      fairtk providers qrels.txt samples.run --providers outlets.tsv --cutoff 10 --plot lorenz.svg
      fairtk providers qrels.txt bm25.run fair.run --providers authors.tsv --plot shares.svg
    """  # noqa: D301 - click reads the backslash
    import pandas as pd

    from fairtk.credit import plot_shares, providers
    from fairtk.credit.amortized import compared_shares
    from fairtk.experiment.inputs import unique_names

    measured = [providers(run=run, **options) for run in runs]
    results = dict(zip(unique_names(runs), measured, strict=True))
    of = measured[0].settings["of"]
    if len(results) == 1:
        table = measured[0].table
        shares = table[["provider", "documents", "exposure", "merit", "gap"]]
        shares = shares.rename(columns={"exposure": of})
    else:
        table = pd.concat([result.table.assign(run=name) for name, result in results.items()])
        shares = _side_by_side(*compared_shares(results))
    if plot and len(results) == 1:
        measured[0].plot(plot)
    elif plot:
        plot_shares(results, plot)
    lines = frame_lines(shares.head(_MOST_ROWS))
    if len(shares) > _MOST_ROWS:
        lines.append(f"... and {len(shares) - _MOST_ROWS} more (all with --format csv)")
    for name, result in results.items():
        cells = [
            [
                row.name,
                number_text(row.value, 4),
                number_text(row.chance, 4),
                f"({row.note})" if row.note else interval_text(row.low, row.high),
            ]
            for row in result.summary.itertuples(index=False)
        ]
        title = "all providers" if len(results) == 1 else name
        lines += ["", *wrapped_lines([title, "value", "by chance", "95 % interval"], cells, (1, 2))]
    lines.append("")
    for name, result in results.items():
        where = "" if len(results) == 1 else f"{name}: "
        lines.append(f"{where}{result.unknown_text}.")
    show(lines, table, form, output)


def _side_by_side(shares: Any, merits: Any) -> Any:
    """Return ``provider``, and each system's share and merit, or the merit of all systems first."""
    import pandas as pd

    if len(merits.columns) == 1:
        return pd.concat([merits, shares], axis=1).reset_index(allow_duplicates=True)
    merits = merits.add_prefix("merit in ")
    both = [frame.iloc[:, [i]] for i in range(len(shares.columns)) for frame in (merits, shares)]
    return pd.concat(both, axis=1).reset_index(allow_duplicates=True)
