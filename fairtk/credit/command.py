"""``fairtk providers``: exposure or credit of providers over all queries."""

from __future__ import annotations

from typing import Any

from fairtk.cli.options import plot_option, printing_options
from fairtk.cli.output import frame_lines, show, wrapped_lines
from fairtk.cli.signature import signature_command
from fairtk.display.tables import interval_text, number_text

_MOST_ROWS = 20


@signature_command(
    "Compare each provider's share of exposure with its merit.",
    {"fairtk.credit:providers": "qrels run providers cutoff browsing top seed parent"},
)
@plot_option("Also write a figure of the Lorenz curves")
@printing_options
def command(plot: str | None, form: str, output: str | None, **options: Any) -> None:
    """Compare each provider's share of exposure in RUN with its merit by QRELS.

    Providers own documents, e.g. authors, outlets or domains. The exposure of a provider is the sum
    over its documents and all queries. Its merit is the exposure that it would have under the ideal
    policy for QRELS.

    The table has both shares and their difference. Below it, amortized is the sum of the absolute
    differences over providers. Chance alone makes shares differ, most with few queries: the column
    "by chance" has the mean value without any other difference between providers. The numbers do
    not say whether the labels are fair to providers, nor why some get less exposure.

    \b
    Examples:
      fairtk providers qrels.txt bm25.run --providers authors.tsv
      fairtk providers qrels.txt samples.run --providers outlets.tsv --cutoff 10 --plot lorenz.svg
    """  # noqa: D301 - click reads the backslash
    from fairtk.credit import providers

    result = providers(**options)
    if plot:
        result.plot(plot)
    of = result.settings["of"]
    shares = result.table[["provider", "documents", "exposure", "merit", "gap"]]
    lines = frame_lines(shares.head(_MOST_ROWS).rename(columns={"exposure": of}))
    if len(result.table) > _MOST_ROWS:
        lines.append(f"... and {len(result.table) - _MOST_ROWS} more (all with --format csv)")
    cells = [
        [
            row.name,
            number_text(row.value, 4),
            number_text(row.chance, 4),
            f"({row.note})" if row.note else interval_text(row.low, row.high),
        ]
        for row in result.summary.itertuples(index=False)
    ]
    heads = ["all providers", "value", "by chance", "95 % interval"]
    lines += ["", *wrapped_lines(heads, cells, (1, 2))]
    lines += ["", f"{result.unknown:.1%} of {of} is on documents without a provider."]
    show(lines, result.table, form, output)
