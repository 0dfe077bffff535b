"""Commands whose arguments and options are parameters of public functions.

They are read from source files: the functions are imported only when the command runs.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import click
from click.core import ParameterSource

from fairtk.cli.options import FILE, SHARED, STRICT_OPTION, GroupsFile
from fairtk.cli.source import Parameter, accepts_several, choices, members, name_of, signature

ARGUMENTS = ("qrels", "run", "runs", "folder")
"""The required parameters that are arguments of a command."""
OPTIONS = {"answers": "answers", "form": "format", "groups": "groups", "n_samples": "samples"}
"""The options whose name is not that of the parameter, or its singular."""
SHORT = {"alpha": "-a", "cutoff": "-k", "groups": "-g", "measure": "-m", "samples": "-n"}
FALSE = ("False", "None", "{}")


def signature_command(
    short_help: str, functions: Mapping[str, str] = types.MappingProxyType({})
) -> Callable[[Callable[..., None]], SignatureCommand]:
    """Return a decorator that turns a function into a command; its docstring is the help.

    Options of `click.option` below this decorator replace parameters of the same name; others
    follow them.

    Args:
        short_help: the line in the list of commands.
        functions: the names of parameters by function (``module:function``), in the order of the
            help.
    """
    return partial(SignatureCommand, functions, short_help)


class SignatureCommand(click.Command):
    """A command that reads its parameters from signatures when they are needed.

    Args:
        functions: see `signature_command`.
        short_help: see `signature_command`.
        callback: the function of the command.
    """

    def __init__(
        self, functions: Mapping[str, str], short_help: str, callback: Callable[..., None]
    ) -> None:
        name, text = callback.__module__.rpartition(".")[2], inspect.getdoc(callback)
        super().__init__(name, callback=callback, help=text, short_help=short_help)
        self.functions = functions
        self.given: list[click.Parameter] = getattr(callback, "__click_params__", [])[::-1]
        del self.params  # set by click; the property below replaces it

    @cached_property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]
        """The arguments and options."""
        given = {param.name: param for param in self.given}
        params: list[click.Parameter] = []
        for target, names in self.functions.items():
            parameters, text = signature(target)
            texts = descriptions(text)
            for name in names.split():
                param = given.pop(name, None)
                if param is None:
                    param = parameter(parameters[name], texts.get(name, ""))
                params.append(param)
        params = [*params, *given.values()]
        formats = [
            format_option(kind)
            for kind in FORMATS
            if any(is_file_of(param, kind) for param in params)
        ]
        cells = cell_options() if any(map(is_file_of_groups, params)) else []
        return [*params, *formats, *cells, STRICT_OPTION]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; files are passed with their format, and the settings of cells."""
        separator = ctx.params.pop("separator", None)
        unknown_values = ctx.params.pop("unknown_values", ()) or None
        if separator is not None or unknown_values is not None:
            for param in filter(is_file_of_groups, self.params):
                name = str(param.name)
                ctx.params[name] = with_cells(ctx.params[name], separator, unknown_values)
        for kind in FORMATS:
            form = ctx.params.pop(f"{kind}_format", None)
            if form is not None:
                names = [param.name for param in self.params if is_file_of(param, kind)]
                if kind == "run" and ctx.params.get("no_qrels"):
                    names.append("qrels")
                for name in names:
                    ctx.params[name] = with_format(ctx.params[str(name)], form)
        return super().invoke(ctx)


FORMATS = {
    "qrels": ("fairtk.io.qrels:read_qrels", ("qrels", "checked")),
    "run": ("fairtk.io.runs:read_run", ("run", "runs", "baseline")),
}
"""The reader of each kind of file with formats, and the names of parameters for such files."""


def is_file_of(param: click.Parameter, kind: str) -> bool:
    """Return whether a parameter is a file of runs or of qrels."""
    is_named = param.name in FORMATS[kind][1] or f"--{kind}" in param.opts
    return is_named and isinstance(param.type, click.Path)


def format_option(kind: str) -> click.Option:
    """Return the option for the format of files: ``--run-format`` or ``--qrels-format``."""
    parameter = signature(FORMATS[kind][0])[0]["format"]
    allowed = choices(parameter.annotation, parameter.module)
    return click.Option(
        [f"--{kind}-format"],
        type=click.Choice([str(choice) for choice in allowed]),
        help=f"The format of {'QRELS' if kind == 'qrels' else 'runs'}, if the file does not name "
        f"it (`fairtk.io.read_{kind}` describes the formats).",
    )


def with_format(files: Any, form: str) -> Any:
    """Return one or several files with the name of their format."""
    from fairtk.io import FormattedFile

    if isinstance(files, tuple):
        return tuple(FormattedFile(file, form) for file in files)
    return None if files is None else FormattedFile(files, form)


def is_file_of_groups(param: click.Parameter) -> bool:
    """Return whether a parameter is a file of groups or providers."""
    return isinstance(param.type, GroupsFile)


def cell_options() -> list[click.Option]:
    """Return the options for the cells of group files: ``--separator`` and ``--unknown-value``."""
    return [
        click.Option(
            ["--separator"],
            metavar="TEXT",
            help="The separator of several groups in a cell of a groups file, e.g. '|'. The text "
            "of a list, such as ['x', 'y'], is then this list.",
        ),
        click.Option(
            ["--unknown-value", "unknown_values"],
            metavar="TEXT",
            multiple=True,
            help="A text of a groups file that means an unknown group, e.g. n/a, in any case. With "
            "'', only empty groups are unknown. Repeatable.",
        ),
    ]


def with_cells(files: Any, separator: str | None, unknown_values: tuple[str, ...] | None) -> Any:
    """Return one or several files of groups with the settings of their cells."""
    from fairtk.io.formats import GroupFile

    if isinstance(files, tuple):
        return tuple(GroupFile(file, separator, unknown_values) for file in files)
    return None if files is None else GroupFile(files, separator, unknown_values)


def parameter(parameter: Parameter, description: str) -> click.Parameter:
    """Return the argument or option for a parameter with a description."""
    name, default = parameter.name, parameter.default
    kind, is_repeatable = option_type(parameter)
    is_repeatable |= isinstance(default, tuple)
    is_required = default is inspect.Parameter.empty
    settings: dict[str, Any] = {"type": kind} | SHARED.get(name, {})
    if name in ARGUMENTS and is_required:
        return click.Argument(
            [name], type=settings["type"], nargs=-1 if is_repeatable else 1, required=True
        )
    help_text, default_text = split_description(description)
    settings.setdefault("help", help_text)
    if is_repeatable:
        settings["help"] += " Repeatable."
    if default_text and default is None and name not in SHARED:
        settings["help"] += f"  [default: {default_text}]"
    if kind is bool:
        settings |= {"type": None, "is_flag": True}
    elif not is_required and default not in (None, ()):
        settings |= {"default": default, "show_default": True}
    return click.Option(
        [*option_names(name, is_repeatable), name],
        multiple=is_repeatable,
        required=is_required,
        **settings,
    )


def option_names(name: str, is_repeatable: bool) -> list[str]:
    """Return the names of the option for a parameter: ``-m`` and ``--measure`` for `measures`."""
    name = OPTIONS.get(name) or (name.removesuffix("s") if is_repeatable else name)
    if len(name) == 1:
        return [f"-{name}"]
    return [*([SHORT[name]] if name in SHORT else []), "--" + name.replace("_", "-")]


def option_type(parameter: Parameter) -> tuple[Any, bool]:
    """Return click's type for a parameter, and whether it accepts several values."""
    types = list(members(parameter.annotation, parameter.module))
    is_repeatable = any(accepts_several(member) for member in types)
    if allowed := choices(parameter.annotation, parameter.module):
        return click.Choice(allowed), is_repeatable
    names = [name_of(member) for member in types]
    if "PathLike" in names:
        return FILE, is_repeatable
    kinds = {"bool": bool, "int": int, "float": float}
    return next((kind for name, kind in kinds.items() if name in names), str), is_repeatable


_SECTION = re.compile(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_DEFAULT = re.compile(r"[.;,]? `?None`?(?::| for| to| if) (.*?)\.?$")
_MARKS = re.compile(r"``\"?|\"?``| \(`fairtk[^)]*\)")


def descriptions(docstring: str) -> dict[str, str]:
    """Return the descriptions of parameters in the docstring of a function."""
    section = _SECTION.search(docstring)
    entries = _ENTRY.findall(section[1]) if section else []
    return {name: " ".join(text.split()) for name, text in entries}


def split_description(text: str) -> tuple[str, str]:
    """Return the first sentence of a description, and the default from its "`None` for ..."."""
    is_value = text.startswith('``"')  # which is lower case
    text = _MARKS.sub("", text)
    default = _DEFAULT.search(text)
    sentence = re.split(r"\.(?: (?=[A-Z])|$)", _DEFAULT.sub("", text))[0]
    if not is_value:
        sentence = sentence[:1].upper() + sentence[1:]
    return f"{sentence}.", default[1] if default else ""


def given_options(names: str) -> dict[str, Any]:
    """Return the values of the parameters that the user gave to the running command."""
    context = click.get_current_context()
    given = [n for n in names.split() if context.get_parameter_source(n) != ParameterSource.DEFAULT]
    return {name: context.params[name] for name in given}


def in_options(text: str, command: click.Command) -> str:
    """Return a message with the parameters of a command replaced by its options.

    `` `gold` `` becomes ``--gold``, `` `order='rank'` `` becomes ``--order rank``, and ``cutoff
    must`` at the start becomes ``--cutoff must``. ``fairtk.io.read_run(..., format='msmarco')``
    becomes ``--run-format msmarco``.
    """
    params = {param.name: param for param in command.params}
    functions = getattr(command, "functions", {})
    names = "|".join(re.split("[:.]", target)[-1] for target in functions)

    def option(match: re.Match[str]) -> str:
        name, value = match["name"] or match["first"], match["value"]
        param = params.get(name)
        if param is None:
            return match[0]
        if isinstance(param, click.Argument):
            return name.upper()
        if getattr(param, "is_flag", False):
            return (param.secondary_opts if value in FALSE else param.opts)[-1]
        return " ".join([param.opts[-1], *([value.strip("'\"[]")] if value else [])])

    def reader(match: re.Match[str]) -> str:
        kind, form = match.groups()
        return f"--{kind}-format {form}" if f"{kind}_format" in params else match[0]

    text = re.sub(r"fairtk\.io\.read_(run|qrels)\(\.\.\., format='([\w-]+)'\)", reader, text)
    quoted = r"`(?P<name>\w+)(=(?P<value>[^`]*))?`"
    at_start = rf"^((?:{names}|the \w+): )?(?P<first>\w+)(?= must )"
    return re.sub(f"{quoted}|{at_start}", option, text)
