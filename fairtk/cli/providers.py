"""``fairtk providers``: exposure, or credit, of those behind documents, over all queries."""

from __future__ import annotations

from typing import Any

import click

from fairtk.cli.options import FILE, cutoff_option, plot_option, printing_options
from fairtk.cli.output import TABLE, echo, echo_frame, table_lines
from fairtk.plugins import to_stderr

_MOST_ROWS = 20


@click.command("providers", short_help="Show each provider's share over all queries and its merit.")
@click.argument("qrels", type=FILE)
@click.argument("run", type=FILE)
@click.option("--providers", "owners", type=FILE, required=True,
              help="Who is behind each document: docno, group, optional weight.")  # fmt: skip
@cutoff_option("Ranks that are read.", default=5)
@click.option("--browsing", default="MU", show_default=True, help="The browsing model.")
@click.option("--top", type=float, default=0.1, show_default=True,
              help="The share of providers whose part is shown as top.")  # fmt: skip
@click.option("--seed", type=int, default=42, show_default=True, help="Of the bootstrap.")
@plot_option("The Lorenz curves")
@printing_options
def command(
    qrels: str,
    run: str,
    owners: str,
    plot: str | None,
    form: str,
    output: str | None,
    **settings: Any,
) -> None:
    """Show what providers get over all queries of RUN, beside what QRELS say they merit.

    A provider is an author, an outlet, a domain: whoever has several documents. Exposure adds up
    over queries; merit is the exposure that the ideal policy gives, from QRELS. amortized is the
    sum over providers of how far share and merit share are apart. Intervals are by bootstrap over
    queries.

    The number does not say whether labels do providers justice, nor why some are shown less.

    \b
    Examples:
      fairtk providers qrels.txt bm25.run --providers authors.tsv
      fairtk providers qrels.txt samples.run --providers outlets.tsv --cutoff 10 --plot lorenz.svg
    """  # noqa: D301 - click reads the backslash
    from fairtk.credit import providers

    with to_stderr():
        result = providers(qrels, run, owners, **settings)
    if plot:
        result.plot(plot)
    if form != TABLE:
        echo_frame(form, result.table, output)
        return
    shares = [
        [
            row.provider,
            str(row.documents),
            *(f"{v:.4f}" for v in (row.exposure, row.merit, row.gap)),
        ]
        for row in result.table.head(_MOST_ROWS).itertuples()
    ]
    of = result.settings["of"]
    lines = table_lines(["provider", "documents", of, "merit", "gap"], shares, range(1, 5))
    if len(result.table) > _MOST_ROWS:
        lines.append(f"... and {len(result.table) - _MOST_ROWS} more; --format csv has all")
    cells = [
        [row.name, f"{row.value:.4f}", f"[{row.low:.4f}, {row.high:.4f}]"]
        for row in result.summary.itertuples(index=False)
    ]
    lines += ["", *table_lines(["all providers", "value", "95 % interval"], cells, (1,))]
    lines += ["", f"{result.unknown:.1%} of {of} is on documents without a provider."]
    echo(lines, output)
