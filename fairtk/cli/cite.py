"""``fairtk cite``: BibTeX entries."""

from __future__ import annotations

import re

import click

from fairtk.cli.options import printing_options
from fairtk.cli.output import TABLE, show
from fairtk.cli.signature import signature_command

_COLUMNS = ("key", "author", "title", "year")
_BRACES = {ord(brace): None for brace in "{}"}  # of BibTeX, for capitals


@signature_command("Print BibTeX entries for measures, data sets and systems.")
@click.argument("names", nargs=-1, metavar="[MEASURE|DATASET|SYSTEM]...")
@printing_options
def command(names: tuple[str, ...], form: str, output: str | None) -> None:
    """Print BibTeX entries for measures, data sets and systems.

    `fairtk measures`, `fairtk datasets` and `fairtk plugins` list the names. Without a name, print
    the entries for fairtk and the tools it uses. The formats other than table have one row per
    source, with its key, author, title and year.

    \b
    Examples:
      fairtk cite AWRF "E(nDCG@5)"
      fairtk cite lamp/4/dev FairSampler -o references.bib
    """  # noqa: D301 - click reads the backslash
    import pandas as pd

    from fairtk.plugins import cite

    text = cite(*names)
    if not text:
        click.echo(f"Note: no source is known for {', '.join(names)}.", err=True)
    entries = text.split("\n\n") if text else []
    rows = [[_field(entry, column) for column in _COLUMNS] for entry in entries]
    if text or form != TABLE:
        show(text, pd.DataFrame(rows, columns=_COLUMNS), form, output)


def _field(entry: str, name: str) -> str:
    pattern = r"@\w+\{([^,\s]+)" if name == "key" else rf"^\s*{name}\s*=\s*[{{\"](.*?)[}}\"],?$"
    match = re.search(pattern, entry, re.MULTILINE | re.DOTALL)
    return " ".join(match[1].translate(_BRACES).split()) if match else ""
