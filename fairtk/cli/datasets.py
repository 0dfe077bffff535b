"""``fairtk datasets``: list data sets."""

from __future__ import annotations

from fairtk.cli.options import printing_options
from fairtk.cli.output import show, wrapped_lines
from fairtk.cli.signature import signature_command


@signature_command("List the data sets that fairtk adds to ir_datasets.")
@printing_options
def command(form: str, output: str | None) -> None:
    """List the data sets that fairtk and its plugins add to ir_datasets.

    The output ends with the line of Python that loads one. Read the warnings before use.
    """
    import pandas as pd

    from fairtk.plugins import registry

    entries = registry.datasets.entries()
    columns = ["id", "summary", "warning", "citation", "from"]
    rows = [[e.name, e.value.summary, e.value.warning, e.value.citation, e.owner] for e in entries]
    cells = [[e.name, e.owner, e.value.summary] for e in entries]
    lines = wrapped_lines(["id", "from", "summary"], cells)
    ids: dict[str, list[str]] = {}
    for entry in entries:
        if entry.value.warning:
            ids.setdefault(entry.value.warning, []).append(entry.name)
    if ids:
        lines += ["", "Read before use:"]
        lines += [f"  {', '.join(names)}: {warning}" for warning, names in ids.items()]
    use = 'To load one: pt.get_dataset("irds:ID"), or ir_datasets.load("ID") after import fairtk.'
    show([*lines, "", use], pd.DataFrame(rows, columns=columns), form, output)
