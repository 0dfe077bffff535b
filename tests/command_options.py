"""Combinations of the options of a command, read from the command itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import click

from fairtk.cli.group import cli

NUMBERS = {click.INT: ("-1", "0", "1", "3"), click.FLOAT: ("-1", "0", "0.5", "nan")}
ANY = ("unknown", "")
"""Values of an option whose values the type does not tell: they are used or refused."""


def option_words(command: str, values: Mapping[str, Sequence[str]]) -> dict[str, list[list[str]]]:
    """Return the words of each value of each option of a command, by option.

    Args:
        command: the command.
        values: the values of options that take a text, a file or few numbers, by parameter; other
            options have those of their type.
    """
    parsed_command = cli.get_command(click.Context(cli), command)
    options = {p.name: p for p in parsed_command.params if isinstance(p, click.Option)}
    words: dict[str, list[list[str]]] = {}
    for name, option in options.items():
        flag = option.opts[-1]
        if option.is_flag:
            words[name] = [[text] for text in (*option.opts[-1:], *option.secondary_opts)]
            continue
        texts = values.get(name, NUMBERS.get(option.type, ANY))
        if isinstance(option.type, click.Choice):
            texts = option.type.choices
        words[name] = [[flag, text] for text in texts]
        if option.multiple and len(texts) > 1:
            words[name].append([word for text in texts for word in (flag, text)])
    return words


def single_options(words: Mapping[str, list[list[str]]]) -> Iterator[list[str]]:
    """Yield no option, then each value of each option."""
    yield []
    for alternatives in words.values():
        yield from alternatives


def pairs_of_options(words: Mapping[str, list[list[str]]]) -> Iterator[list[str]]:
    """Yield each value of each option with each value of each other option."""
    for one, other in itertools.combinations(words.values(), 2):
        for first, second in itertools.product(one, other):
            yield [*first, *second]


def unexpected(result: click.testing.Result, writes_file: bool = False) -> str:
    """Return what is wrong with the outcome of a command; empty for a table or a reason.

    A table is text on stdout (or a file) with exit code 0. A reason is one line on stderr that
    begins with ``Error: `` with exit code 1 or 2, and is not an error of Python or a library.
    """
    lines = result.stderr.splitlines()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"exception {result.exception!r}"
    if "Traceback" in result.stderr:
        return "a traceback"
    errors = [line for line in lines if line.startswith("Error: ")]
    if result.exit_code == 0:
        return "no table" if errors or not (result.stdout.strip() or writes_file) else ""
    if result.exit_code not in (1, 2):
        return f"exit code {result.exit_code}"
    if len(errors) != 1 or lines[-1] != errors[0]:
        return f"no reason on one line: {result.stderr!r}"
    return errors[0] if "--debug shows the traceback" in errors[0] else ""
