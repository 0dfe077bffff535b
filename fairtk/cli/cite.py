"""``fairtk cite``: what to cite."""

from __future__ import annotations

import click

from fairtk.cli.output import echo, output_option


@click.command("cite")
@click.argument("names", nargs=-1, metavar="[MEASURE|DATASET|SYSTEM]...")
@output_option
def command(names: tuple[str, ...], output: str | None) -> None:
    """Print BibTeX of the sources of measures, data sets and systems; of the tools, without any.

    Names are those of `fairtk measures`, `fairtk datasets` and `fairtk plugins`: `AWRF`,
    `E(nDCG@5)`, `lamp/4/dev`, `FairSampler`.
    """
    from fairtk.documentation import cite

    text = cite(*names)
    if not text:
        click.echo(f"no source is known for {', '.join(names)}", err=True)
        return
    echo(text, output)
