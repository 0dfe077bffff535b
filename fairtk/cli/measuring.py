"""What ``fairtk evaluate`` and ``fairtk compare`` share: arguments and options."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from fairtk.cli.output import TARGET_HELP
from fairtk.errors import InputError

FILE = click.Path(exists=True, dir_okay=False, allow_dash=True)

_OPTIONS = (
    click.argument("qrels"),
    click.argument("runs", type=FILE, nargs=-1, required=True),
    click.option(
        "-m",
        "--measure",
        "measures",
        multiple=True,
        required=True,
        help='A measure, e.g. -m EE_D@5 -m "E(nDCG@5)"; `fairtk measures` lists them. Repeatable.',
    ),
    click.option(
        "--answers",
        type=FILE,
        multiple=True,
        help="Generated answers (columns qid, sample, qanswer) for EU; one file per run, in order.",
    ),
    click.option(
        "--gold",
        type=FILE,
        help="Gold answers (columns qid, gold_answer) for EU, if the qrels have none.",
    ),
    click.option(
        "--groups",
        type=FILE,
        multiple=True,
        help="Groups of documents (columns docno, group, weight), for AWRF and other measures that "
        "need groups. Repeatable: an attribute per file, named after it.",
    ),
    click.option(
        "--target",
        "targets",
        metavar="FILE|uniform|qrels",
        multiple=True,
        help=TARGET_HELP + " Repeatable: each measure takes the first over its attributes.",
    ),
    click.option(
        "--order",
        type=click.Choice(["auto", "rank", "score"]),
        default="auto",
        show_default=True,
        help="What orders a run: auto refuses runs whose ranks and scores disagree.",
    ),
)


def measuring_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments QRELS and RUNS, and the options of measuring."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextlib.contextmanager
def only_results_on_stdout() -> Iterator[None]:
    """Send what measures of plugins print to stderr: what is printed after is the result."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def check_stdin(qrels: str, runs: tuple[str, ...], *others: str | None) -> None:
    """Raise if more than one file is standard input.

    Raises:
        InputError: it is given twice.
    """
    if [qrels, *runs, *others].count("-") > 1:
        raise InputError("'-' (standard input) can be given once only")
