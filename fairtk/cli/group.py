"""The command line: commands, one-line warnings and errors, exit codes."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakSet

import click

from fairtk import __version__
from fairtk.cli.options import STRICT, STRICT_OPTION, GroupsFile, InputFile
from fairtk.cli.output import COMMAND
from fairtk.cli.signature import SignatureCommand, in_options
from fairtk.errors import (
    WARNINGS,
    DataWarning,
    FairtkError,
    InputError,
    MissingPluginError,
    PluginError,
    UndefinedWarning,
    warning_name,
)
from fairtk.plugins.entry_points import COMMAND_GROUP, Plugin, installed_plugins
from fairtk.plugins.streams import on_terminal, to_stderr
from fairtk.wording import did_you_mean, printable

FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)


def notice(message: Warning | str, category: type[Warning]) -> str:
    """Return a warning as a line that begins with its name."""
    text = " ".join(str(message).split())
    return printable(f"{warning_name(category)}: {text}")


COMMANDS_OF_PLUGINS = {"qr": "fairtk-papers", "rag": "fairtk-papers"}
"""The commands that the project's plugins add, by distribution."""
FAILED_WORK, WRONG_INPUT = 1, 2
INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of the signal, as in shells."""


def described(error: Exception, debug: bool) -> tuple[str, int]:
    """Return an error as one line, and its exit code.

    Errors that the user can fix in the input exit with `WRONG_INPUT`, others with `FAILED_WORK`.
    """
    text = " ".join(" ".join([str(error), *getattr(error, "__notes__", ())]).split())
    if isinstance(error, OSError) and not isinstance(error, FairtkError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    is_input = isinstance(error, InputError | DataWarning | UndefinedWarning)
    if isinstance(error, Warning):
        text = f"{notice(error, type(error))} ({STRICT})"
    elif isinstance(error, MemoryError):
        fix = "free some, or use fewer queries or samples at a time"
        text = f"out of memory ({text or 'no details'}); {fix}"
    elif not isinstance(error, FairtkError | OSError):
        hint = "" if debug else "; --debug shows the traceback"
        text = f"{type(error).__name__}: {text or 'no message'}{hint}"
    return text, WRONG_INPUT if is_input else FAILED_WORK


@contextlib.contextmanager
def plain_warnings(debug: bool, strict: bool) -> Iterator[None]:
    """Print each distinct warning once on stderr, e.g. ``warning: undefined: ...``, or raise it.

    Warnings for developers are printed only with `debug`.
    """
    lines: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = notice(message, category)
        if text not in lines and (debug or not issubclass(category, FOR_DEVELOPERS)):
            lines.add(text)
            context = click.get_current_context(silent=True)
            if context is not None:
                text = in_options(text, context.command)
            print(f"warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "always")
        if strict:
            for category in FOR_DEVELOPERS:
                warnings.simplefilter("ignore", category)
        warnings.showwarning = show
        yield


_DEBUG = "--debug"
WRITTEN = ("output", "page", "plot")
"""The parameters that name a file to write."""


class FairtkGroup(click.Group):
    """A click group whose commands are entry points, imported when they are called or listed."""

    @functools.cached_property
    def entry_points(self) -> list[Plugin]:
        """The entry points of commands; duplicate names are rejected."""
        points = installed_plugins(COMMAND_GROUP)
        owners: dict[str, Plugin] = {}
        for point in points:
            owner = owners.setdefault(point.command, point)
            if owner is not point:
                point.reject(PluginError(f"{owner} has a command of the same name"))
        return points

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, sorted."""
        points = [point.command for point in self.entry_points if not point.problem]
        return sorted({*self.commands, *points})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; `None` if it is unknown or rejected."""
        command = super().get_command(ctx, cmd_name)
        for point in self.entry_points if command is None else ():
            if point.command == cmd_name and not point.problem:
                # listing the commands skips this check, a fifth of its time
                command = _load(point, check_version=COMMAND in ctx.meta)
        if command is not None:
            _prepare(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command to run; suggest a name for an unknown one."""
        name = args[0]
        ctx.meta[COMMAND] = shlex.join(["fairtk", *args])
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            rejected = any(point.command == name for point in self.entry_points)
            if name in COMMANDS_OF_PLUGINS and not rejected:
                raise MissingPluginError(f"the command {name!r}", COMMANDS_OF_PLUGINS[name])
            commands = self.list_commands(ctx)
            ctx.fail(f"unknown command {name!r}{did_you_mean(name, commands, limit=len(commands))}")
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of warnings."""
        with formatter.section(f"Warnings, by name (errors with {STRICT})"):
            formatter.write_dl(
                [(name, (kind.__doc__ or "").splitlines()[0]) for name, kind in WARNINGS.items()]
            )

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; in standalone mode (the default) exit with its code.

        ``--debug`` and ``--strict`` may be anywhere before ``--``.
        """
        words = sys.argv[1:] if args is None else list(args)
        end = words.index("--") if "--" in words else len(words)
        debug, strict = (flag in words[:end] for flag in (_DEBUG, STRICT))
        words = [word for word in words[:end] if word not in (_DEBUG, STRICT)] + words[end:]
        run = functools.partial(super().main, words, prog_name, complete_var, False, **extra)
        with plain_warnings(debug, strict):
            return sys.exit(_exit_code(run, debug)) if standalone_mode else run()


def _exit_code(run: Callable[[], Any], debug: bool) -> int:
    """Run a command and return its exit code; errors become one line on stderr."""
    try:
        code = run()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        if isinstance(error, click.NoSuchOption):
            error = _with_choice(error)
        where = error.ctx.command_path if error.ctx is not None else "fairtk"
        text = f"{error.format_message().rstrip('.')} (see {where} --help)"
        code = error.exit_code
    except click.ClickException as error:
        text, code = error.format_message(), error.exit_code
    except click.Abort as error:
        click.echo("Aborted.", err=True)
        return INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else FAILED_WORK
    except Exception as error:
        if debug:
            traceback.print_exc()
        text, code = described(error, debug)
    click.echo(f"Error: {printable(text)}", err=True)
    return code


def _with_choice(error: click.NoSuchOption) -> click.UsageError:
    """Return the error with the suggestion ``--format latex`` for ``--latex``."""
    value = error.option_name.lstrip("-")
    for param in error.ctx.command.params if error.ctx is not None else ():
        if isinstance(param.type, click.Choice) and value in param.type.choices:
            option = f"{param.opts[-1]} {value}"
            return click.UsageError(f"{error.message} Did you mean {option!r}?", error.ctx)
    return error


@click.group(
    "fairtk",
    cls=FairtkGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", prog_name="fairtk")
@click.option(_DEBUG, is_flag=True, expose_value=False, help="Show the traceback of an error.")
@click.option(STRICT, is_flag=True, expose_value=False, help="Treat warnings as errors.")
def cli() -> None:
    """Measure and improve how fairly retrieval and RAG pipelines expose documents.

    Start with one of these, and read `fairtk COMMAND --help`:

    \b
      fairtk demo
      fairtk evaluate qrels.txt bm25.run -m EE_D@5
    """  # noqa: D301 - click reads the backslash


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit.

    The exit code is 0 on success, 2 for wrong input, 1 for other failures, 130 after Ctrl-C.

    Args:
        args: the arguments; `None` for ``sys.argv``.
    """
    cli.main(args, prog_name="fairtk")


def _load(point: Plugin, check_version: bool) -> click.Command | None:
    """Import a command; reject it if that fails."""
    try:
        if check_version:
            point.check_version()
        with to_stderr():
            command = point.point.load()
        if not isinstance(command, click.Command):
            raise PluginError(f"{point.module} must be a click command, got {command!r}")
        command.name = point.command
    except (Exception, SystemExit) as error:
        point.reject(error)
        return None
    return command


_PREPARED: WeakSet[click.Command] = WeakSet()


def _prepare(command: click.Command) -> None:
    """Add what all commands share to a command and its subcommands."""
    if command in _PREPARED:
        return
    _PREPARED.add(command)
    if command.callback is not None:
        command.callback = _connected(command.callback)
    if not isinstance(command, SignatureCommand):  # it adds the option when it reads its parameters
        command.params.append(STRICT_OPTION)
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _prepare(below)


def _connected(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Connect fairtk and check the output files before a command runs, but not for its help."""

    @functools.wraps(callback)
    def called(*args: Any, **options: Any) -> Any:
        context = click.get_current_context()
        _check_written_files(context)
        _begin()
        try:
            return callback(*args, **options)
        except FairtkError as error:
            error.args = (in_options(str(error), context.command),)
            raise

    return called


def _check_written_files(context: click.Context) -> None:
    """Raise if a command would write to a file that it reads, or to a folder that is absent."""
    from fairtk.io.tables import name_and_path

    read: dict[str, str] = {}
    written: list[tuple[click.Parameter, str]] = []
    for param in context.command.params:
        values = context.params.get(param.name or "")
        for text in values if isinstance(values, tuple) else (values,):
            if not isinstance(text, str):
                continue
            file = name_and_path(text)[1] if isinstance(param.type, GroupsFile) else text
            if param.name in WRITTEN:
                written.append((param, file))
            elif isinstance(param.type, InputFile) or isinstance(param, click.Argument):
                read[os.path.realpath(file)] = file
    for param, file in written:
        same = read.get(os.path.realpath(file))
        if same is not None and os.path.exists(same):
            raise InputError(
                f"{param.opts[-1]} {file} would overwrite the input {same}; choose another file"
            )
        is_file = not getattr(param.type, "dir_okay", True)
        folder = os.path.dirname(file) or os.curdir
        if is_file and not os.path.isdir(folder):
            raise InputError(f"{param.opts[-1]} {file}: no such folder {folder!r}; create it first")


def _begin() -> None:
    from fairtk.builtin import connect

    connect()
    if on_terminal(sys.stderr):
        from fairtk.cli.output import reading_bar
        from fairtk.io import lines

        lines.READ_PROGRESS = reading_bar
