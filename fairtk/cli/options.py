"""Arguments and options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fairtk.cli.output import STDIN, TABLE
from fairtk.errors import InputError

FORMATS = (TABLE, "csv", "json", "latex", "markdown")
"""As in `fairtk.io`, whose import would slow down ``--help``."""


class InputFile(click.Path):
    """A file to read; ``-`` is standard input.

    Args:
        exists: whether the file must exist; otherwise the value may also be e.g. a data set.
    """

    def __init__(self, exists: bool = True) -> None:
        super().__init__(exists=exists, dir_okay=not exists, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == STDIN and ctx is not None:
            if STDIN in ctx.meta:
                raise InputError("'-' (standard input) can be given only once")
            ctx.meta[STDIN] = True
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            params = () if ctx is None else ctx.command.params
            if "@" not in str(value) or not any("-m" in other.opts for other in params):
                raise
            text = f"{error.message.rstrip('.')}; if it is a measure, write -m before it"
            raise click.BadParameter(text, ctx, param) from None


class GroupsFile(InputFile):
    """A file of groups, ``FILE`` or ``NAME=FILE``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text if the file exists."""
        from fairtk.io.tables import name_and_path

        super().convert(name_and_path(value)[1], param, ctx)
        return value


class FigureFile(click.Path):
    """A figure to write."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path if its suffix is that of a figure."""
        from fairtk.display.figures import figure_format

        figure_format(value)
        return super().convert(value, param, ctx)


FILE = InputFile()
GROUPS_FILE = GroupsFile()
FILE_OR_NAME = InputFile(exists=False)
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

SHARED: dict[str, dict[str, Any]] = {
    "answers": {
        "type": FILE,
        "metavar": "FILE",
        "help": "Generated answers (columns qid, sample, qanswer), for EU; one file per run, in "
        "the order of the runs.",
    },
    "checked": {
        "type": FILE_OR_NAME,
        "metavar": "FILE|DATASET",
        "help": "Labels by people for some queries, drawn at random, if QRELS has labels by a "
        "model: they correct its bias in means, differences and intervals.",
    },
    "cluster": {
        "type": str,
        "metavar": "[COLUMN=]FILE|COLUMN",
        "help": "Clusters of queries that are not independent, such as the questions of one user, "
        "which intervals and tests take into account: a file with the columns qid and cluster (or "
        "qid and another column), or a column of the input.",
    },
    "folder": {"type": str},
    "gold": {
        "type": FILE,
        "metavar": "FILE",
        "help": "Gold answers (columns qid, gold_answer), for EU, if the qrels have none.",
    },
    "groups": {
        "type": GROUPS_FILE,
        "metavar": "[NAME=]FILE",
        "help": "A file of groups (columns docno, group and optionally weight), for AWRF and other "
        "measures that need groups. Each file is one attribute, named NAME or after the file. In "
        "the metadata file of TREC Fair Ranking 2022, NAME is the attribute: gender, sub-geo, ...",
    },
    "measures": {
        "metavar": "MEASURE",
        "help": 'A measure, e.g. -m EE_D@5 -m "E(nDCG@5)"; `fairtk measures` lists them.',
    },
    "providers": {"type": GROUPS_FILE, "metavar": "FILE"},
    "qrels": {"type": FILE_OR_NAME, "metavar": "FILE|DATASET"},
    "run": {"type": FILE},
    "runs": {"type": FILE},
    "target": {
        "type": FILE_OR_NAME,
        "metavar": "FILE|NAME",
        "help": "The share of exposure that each group should have: `uniform` (equal shares of the "
        "named groups), `uniform+unknown` (the unknown group has a share, too), `population` (its "
        "share of all documents in the groups file), `relevance` (its share of each query's "
        "relevant documents), `trec-2022-task-1` or `trec-2022-task-2` (the official target; "
        "--groups must be the track's metadata), or a file with the columns group and weight (one "
        "column per attribute if groups are crossed; also qid if the shares differ by query). If a "
        "target gives @UNKNOWN no share, documents of unknown group are left out. Groups of a file "
        "may have no documents. With several, each measure uses the first that fits its groups, or "
        "names one, e.g. AWRF(target='uniform')@20 or AWRF(target='shares.tsv')@20; a measure "
        "cannot name a target that requires qrels, such as `relevance`: give it first.",
    },
}
"""Settings of arguments and options by parameter, for all commands."""


def plot_option(help: str) -> Decorator:
    """Return the option ``--plot``."""
    text = f"{help} (.svg, .pdf or .png)."
    return click.option("--plot", type=FigureFile(), metavar="FILE", help=text)


page_option = click.option(
    "--page",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write an HTML page with the figure and all tables.",
)


def all_of(*options: Decorator) -> Decorator:
    """Return a decorator that adds options in order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


format_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default=TABLE,
    show_default=True,
    help="The format of the output; csv and json have all digits.",
)
"""The option ``--format`` of commands that print a table."""
output_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write the output to this file.",
)
printing_options = all_of(format_option, output_option)
"""The options for format and output file."""
STRICT = "--strict"
STRICT_OPTION = click.Option(
    [STRICT],
    is_flag=True,
    expose_value=False,
    help="Treat warnings as errors (`fairtk --help` lists them).",
)
"""Only for the help of commands: `fairtk.cli.group` removes it from the arguments."""
