"""The command line: its commands, warnings and errors of one line, exit codes."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import click

from fairtk import __version__, plugins
from fairtk.builtin import connect
from fairtk.cli.output import COMMAND
from fairtk.errors import (
    WARNINGS,
    DataWarning,
    FairtkError,
    InputError,
    PluginError,
    UndefinedWarning,
    on_command_line,
    printable,
    suggestion,
    warning_name,
)
from fairtk.plugins import on_terminal, to_stderr

FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)


def notice(message: Warning | str, category: type[Warning]) -> str:
    """Return a warning as a line that begins with its name."""
    text = " ".join(str(message).split())
    return printable(f"{warning_name(category)}: {text}")


STRICT = "--strict"
FAILED_WORK, WRONG_INPUT = 1, 2
INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 and the number of the signal, as shells have it."""


class WrongInput(click.ClickException):
    """An error that the user can mend in what was given; others have the code `FAILED_WORK`."""

    exit_code = WRONG_INPUT


def described(error: Exception, debug: bool) -> click.ClickException:
    """Return an error of one line, whatever the library below wrote, with its exit code."""
    text = " ".join(" ".join([str(error), *getattr(error, "__notes__", ())]).split())
    if isinstance(error, OSError) and not isinstance(error, FairtkError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    wrong = isinstance(error, InputError | DataWarning | UndefinedWarning)
    if isinstance(error, Warning):
        text = f"{notice(error, type(error))} ({STRICT})"
    elif isinstance(error, MemoryError):
        left = "free some, or give fewer queries or samples at a time"
        text = f"memory ran out ({text or 'no more is known'}); {left}"
    elif not isinstance(error, FairtkError | OSError):
        hint = "" if debug else "; the option --debug shows where"
        text = f"{type(error).__name__}: {text or 'no message'}{hint}"
    return (WrongInput if wrong else click.ClickException)(printable(text))


@contextlib.contextmanager
def plain_warnings(debug: bool, strict: bool) -> Iterator[None]:
    """Show warnings as one line each on stderr, each only once; or raise them.

    A line is like ``warning: undefined: ...``. Warnings for developers are shown with `debug` only.
    """
    if sys.warnoptions and not strict:
        yield
        return
    lines: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = notice(message, category)
        if text not in lines and (debug or not issubclass(category, FOR_DEVELOPERS)):
            lines.add(text)
            print(f"warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "always")
        if strict:
            for category in FOR_DEVELOPERS:
                warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield


COMMANDS = {
    "demo": "Run the whole pipeline on the packaged collection and model.",
    "evaluate": "Measure run files against qrels.",
    "compare": "Compare run files with a baseline: paired tests, intervals.",
    "sample": "Draw fair rankings from the run of any retriever.",
    "doctor": "Say what is wrong with a run, its labels and groups.",
    "explain": "Say which group, rank or query costs how much of AWRF or EE_L.",
    "sensitivity": "Say whether the order of runs holds under other choices.",
    "frontier": "Sweep alpha over runs: exact curves, areas, equal utility.",
    "groups": "Inspect groups of documents, and how much of a run they know.",
    "providers": "Say what providers get over all queries: shares, Gini, merit.",
    "qr": "Compare FAIR-QR with its baselines: tables, figures, costs.",
    "rag": "Compare fair rankings by what a generator answers from them.",
    "prompts": "Write a study's prompts for batch APIs, and read answers.",
    "report": "Show results as one HTML page: words, tables, figures, queries.",
    "export": "Write results for other tools: Parquet and JSON, TREC's files.",
    "measures": "List measures, string utilities and browsing models.",
    "datasets": "List the data sets that fairtk adds to ir_datasets.",
    "cite": "Print BibTeX of what measures, data and systems rest on.",
    "plugins": "List plugins, what each gave, and what is wrong with it.",
}
"""The built-in commands; each is the attribute ``command`` of a module of this package."""

_DEBUG = "--debug"
_STRICT_HELP = "Warnings are errors (`fairtk --help` lists them)."


class FairtkGroup(click.Group):
    """A click group that imports its commands when they are called, and asks plugins for more."""

    _plugins_asked = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the built-in commands, then those of plugins."""
        self._ask_plugins()
        return [*COMMANDS, *sorted(self.commands.keys() - COMMANDS.keys())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing its module; None if there is no such command."""
        command: click.Command | None
        if cmd_name in COMMANDS:
            command = importlib.import_module(f"fairtk.cli.{cmd_name}").command
        else:
            self._ask_plugins()
            command = super().get_command(ctx, cmd_name)
        if command is not None and all(STRICT not in p.opts for p in command.params):
            _prepare(command, cmd_name in COMMANDS)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of the command line, those of all commands, once they are checked."""
        _refuse_broken_text(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command to run; an unknown one comes with the nearest known name."""
        name = args[0]
        ctx.meta[COMMAND] = shlex.join(["fairtk", *args])
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            commands = self.list_commands(ctx)
            ctx.fail(f"unknown command {name!r}{suggestion(name, commands, limit=len(commands))}")
        if name not in COMMANDS:  # it may have commands of its own
            _begin()
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing the built-in ones."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.commands.get(name)
            text = COMMANDS.get(name) or (command.get_short_help_str(80) if command else "")
            if command is None or not command.hidden:
                rows.append((name, text))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of warnings."""
        with formatter.section(f"Warnings, by name (errors with {STRICT})"):
            formatter.write_dl([(name, _first_line(kind)) for name, kind in WARNINGS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors become one line on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            debug = bool(ctx.params.get("debug"))
            if debug:
                traceback.print_exc()
            raise described(error, debug) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; in standalone mode (the default) exit with its code.

        ``--debug`` and ``--strict`` may stand anywhere. Wrong usage is one line, too.
        """
        words = sys.argv[1:] if args is None else list(args)
        end = words.index("--") if "--" in words else len(words)
        flags = [flag for flag in (_DEBUG, STRICT) if flag in words[:end]]
        words = [word for word in words[:end] if word not in flags] + words[end:]
        debug = [_DEBUG] if _DEBUG in flags else []
        run: Callable[[], Any] = functools.partial(
            super().main, [*debug, *words], prog_name, complete_var, standalone_mode=False, **extra
        )
        with plain_warnings(_DEBUG in flags, STRICT in flags):
            return self._exit_after(run) if standalone_mode else run()

    def _exit_after(self, run: Callable[[], Any]) -> NoReturn:
        code: Any
        try:
            code = run()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = error.exit_code
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "fairtk"
            text = error.format_message().rstrip(".")
            click.echo(f"Error: {printable(text)} (see {where} --help)", err=True)
            code = error.exit_code
        except (click.ClickException, Warning) as error:
            failure = described(error, True) if isinstance(error, Warning) else error
            failure.show()
            code = failure.exit_code
        except click.Abort as error:
            click.echo("Aborted.", err=True)
            by_user = isinstance(error.__cause__, KeyboardInterrupt)
            code = INTERRUPTED if by_user else FAILED_WORK
        sys.exit(code if isinstance(code, int) else 0)

    def _ask_plugins(self) -> None:
        if self._plugins_asked:
            return
        self._plugins_asked = True
        owners = dict.fromkeys(COMMANDS, "fairtk")
        for plugin in plugins.HOST.with_commands():
            # A group of its own shows what this plugin adds, and keeps it from replacing others.
            group = click.Group()
            try:
                with to_stderr():
                    plugin.implementation.fairtk_commands(group)
                for name in group.commands:
                    if name in owners:
                        raise PluginError(
                            f"the command {name!r} is given by two plugins, {owners[name]} and "
                            f"{plugin}; uninstall one of them"
                        )
            except (Exception, SystemExit) as error:
                plugins.HOST.reject(plugin, error)
                continue
            for name, command in group.commands.items():
                owners[name] = str(plugin)
                self.add_command(command, name)


@click.group(
    "fairtk",
    cls=FairtkGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name="fairtk")
@click.option(_DEBUG, is_flag=True, help="Show the traceback of an error.")
@click.option(STRICT, is_flag=True, expose_value=False, help="Warnings are errors.")
def cli(debug: bool) -> None:
    """Measure and change how fairly retrieval and RAG pipelines expose documents."""


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit.

    The code is 0 if all is well, 2 for wrong input, 1 for failed work, 130 after Ctrl-C.

    Args:
        args: the arguments; None takes the process's.
    """
    cli.main(sys.argv[1:] if args is None else args, prog_name="fairtk")


def _prepare(command: click.Command, built_in: bool) -> None:
    """Give a command, and those below it, what all have."""
    # `main` takes it out of the arguments; here it is for the help
    option = click.Option([STRICT], is_flag=True, expose_value=False, help=_STRICT_HELP)
    command.params.append(option)
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _prepare(below, built_in)
    if built_in and command.callback is not None:
        command.callback = _connected(command.callback)


def _connected(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command begin with what ``import fairtk`` does elsewhere: its help needs none of it."""

    @functools.wraps(callback)
    def called(*args: Any, **options: Any) -> Any:
        _refuse_overwriting(click.get_current_context())
        _begin()
        try:
            with on_command_line():
                return callback(*args, **options)
        except InputError as error:
            runs = options.get("runs") or [options.get("run")]
            if options.get("qrels") and runs and runs[0] and not options.get("no_qrels"):
                _refuse_swapped(options["qrels"], runs, error)
            if options.get("no_qrels"):
                _refuse_labels([options["qrels"], *options["runs"]], error)
            raise

    return called


_NOT_TEXT = re.compile("[\0\ud800-\udfff]")


def _refuse_broken_text(words: Sequence[str]) -> None:
    """Raise a `click.UsageError` if a word of the command line is not Unicode text.

    U+0000 is in no file name, and an unpaired surrogate stands for a byte that is not UTF-8.
    """
    for before, word in pairwise(["", *words]):
        if _NOT_TEXT.search(word):
            name = before if before.startswith("-") else "an argument"
            if word.startswith("-"):
                name = word.partition("=")[0] if word.startswith("--") else word[:2]
            raise click.UsageError(
                f"{name} must be Unicode text, got {word!r}; file names must be UTF-8"
            )


def _refuse_overwriting(context: click.Context) -> None:
    """Raise if what a command writes is what it reads."""
    from fairtk.cli.options import InputFile

    read: dict[str, str] = {}
    for param in context.command.params:
        if isinstance(param.type, InputFile) or isinstance(param, click.Argument):
            paths = context.params.get(param.name or "")
            for text in paths if isinstance(paths, tuple) else [paths]:
                if isinstance(text, str) and os.path.exists(text):
                    read[os.path.realpath(text)] = text
    for param in context.command.params:
        place = context.params.get(param.name or "")
        writes = param.name == "output" or type(param.type) is click.Path
        if writes and isinstance(place, str) and os.path.realpath(place) in read:
            raise InputError(
                f"{param.opts[-1]} {place} would overwrite {read[os.path.realpath(place)]}, which "
                "the command reads; write to another file"
            )


def _refuse_swapped(qrels: str, runs: Sequence[str], error: InputError) -> None:
    """Say that a run and labels stand in each other's place, where that is what went wrong."""
    from fairtk.io import read_qrels, read_run

    if not _is_read(read_run, qrels):
        return
    for file in runs:
        if _is_read(read_qrels, file):
            raise InputError(
                f"QRELS stands before RUN: {qrels} is a run, {file} holds labels; give them in "
                "this order"
            ) from error


def _refuse_labels(runs: Sequence[str], error: InputError) -> None:
    """Say that one of the runs holds labels, where that is what went wrong."""
    from fairtk.io import read_qrels, read_run

    for file in runs:
        if not _is_read(read_run, file) and _is_read(read_qrels, file):
            raise InputError(
                f"{file} holds labels, and with --no-qrels all files are RUNS: leave out one of "
                "the two"
            ) from error


def _is_read(read: Callable[[str], Any], file: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            read(file)
    except (FairtkError, OSError):
        return False
    return True


def _begin() -> None:
    connect()
    if on_terminal(sys.stderr):
        from fairtk.cli.output import reading_bar
        from fairtk.io import FOLLOWED

        FOLLOWED.set(reading_bar)


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").splitlines()[0]
