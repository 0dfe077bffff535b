"""Signatures that are read from source files: help does not import what it describes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import NamedTuple


class Parameter(NamedTuple):
    """A parameter as it is written.

    Attributes:
        name: its name.
        annotation: the annotation; `None` if it has none.
        default: its value; ``inspect.Parameter.empty`` if it has none.
        module: the module whose names the annotation uses.
    """

    name: str
    annotation: ast.expr | None
    default: object
    module: str


class Definition(NamedTuple):
    """What stands behind a name, and the module where it is written."""

    node: ast.stmt | ast.expr
    module: str


def signature(target: str) -> tuple[dict[str, Parameter], str]:
    """Return the parameters of a function or class, and its docstring.

    Args:
        target: ``module:function``, ``module:Class`` or ``module:Class.method``.

    Raises:
        ModuleNotFoundError: the module does not exist.
        AttributeError: the module does not have this name.
    """
    module, _, names = target.partition(":")
    name, _, method = names.partition(".")
    definition = written(module, name)
    if definition is None:
        raise AttributeError(f"module {module!r} has no {name!r}")
    node, module = definition
    function = node
    if isinstance(node, ast.ClassDef):
        inside = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        if method and method not in inside:
            raise AttributeError(f"class {name!r} of module {module!r} has no {method!r}")
        function = inside.get(method or "__init__", node)
        node = function if method else node
    if isinstance(function, ast.ClassDef):  # a dataclass
        fields = [n for n in function.body if isinstance(n, ast.AnnAssign)]
        pairs = [(ast.arg(ast.unparse(n.target), n.annotation), n.value) for n in fields]
    else:
        assert isinstance(function, ast.FunctionDef)
        given = function.args
        positional = [*given.posonlyargs, *given.args]
        without = [None] * (len(positional) - len(given.defaults))
        pairs = [
            *zip(positional, [*without, *given.defaults], strict=True),
            *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        ]
    parameters = {
        arg.arg: Parameter(arg.arg, arg.annotation, value_of(default, module), module)
        for arg, default in pairs
    }
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    return parameters, ast.get_docstring(node) or ""


def written(module: str, name: str) -> Definition | None:
    """Return what a module's name stands for, through its imports; `None` if it is not there.

    Imports are followed in the package of the module, and in fairtk.
    """
    for node in _statements(module):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    path = "." * node.level + (node.module or "")
                    source = resolve_name(path, _package(module))
                    ours = source.partition(".")[0] in ("fairtk", module.partition(".")[0])
                    return written(source, alias.name) if ours else None
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.name == name:
                return Definition(node, module)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                return Definition(node.value, module)
    return None


def value_of(default: ast.expr | None, module: str) -> object:
    """Return the value of a default: a literal, a name of one, or ``get_args(Choice)``.

    For anything else it is `None`: the option works, and its help shows no default.
    """
    if default is None:
        return inspect.Parameter.empty
    if isinstance(default, ast.Call) and name_of(default.func) == "get_args":
        return choices(default.args[0], module)
    if isinstance(default, ast.Name) and (behind := written(module, default.id)) is not None:
        return value_of(behind.node, behind.module) if isinstance(behind.node, ast.expr) else None
    try:
        return ast.literal_eval(default)
    except ValueError:
        return None


def members(annotation: ast.expr | None, module: str) -> Iterator[ast.expr]:
    """Yield the members of a union, and those of the unions that its names stand for."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        yield from members(annotation.left, module)
        yield from members(annotation.right, module)
        return
    alias = written(module, annotation.id) if isinstance(annotation, ast.Name) else None
    if alias is not None and isinstance(alias.node, ast.expr):
        yield from members(alias.node, alias.module)
    elif isinstance(annotation, ast.Subscript) and name_of(annotation) in _SEVERAL:
        inner = annotation.slice
        first = inner.elts[0] if isinstance(inner, ast.Tuple) else inner
        yield annotation
        yield from members(first, module)
    elif annotation is not None:
        yield annotation


def choices(annotation: ast.expr | None, module: str) -> tuple[object, ...]:
    """Return the values that the literals among the members of an annotation allow."""
    literals = [
        ast.literal_eval(member.slice)
        for member in members(annotation, module)
        if isinstance(member, ast.Subscript) and name_of(member) == "Literal"
    ]
    return tuple(v for value in literals for v in (value if isinstance(value, tuple) else [value]))


_SEVERAL = ("Sequence", "Iterable", "tuple")


def accepts_several(annotation: ast.expr) -> bool:
    """Return whether a member of an annotation stands for several values."""
    return isinstance(annotation, ast.Subscript) and name_of(annotation) in _SEVERAL


def name_of(annotation: ast.expr) -> str:
    """Return the last part of the name of a type, without its parameters."""
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return ast.unparse(annotation).rpartition(".")[2]


def _statements(module: str) -> Iterator[ast.stmt]:
    """Yield the statements of a module or of its stub, those for type checkers included."""
    for node in _tree(module).body:
        yield from node.body if isinstance(node, ast.If) else [node]


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _path(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module named {module!r}")
    path = Path(spec.origin)
    stub = path.with_suffix(".pyi")
    return stub if stub.exists() else path


def _package(module: str) -> str:
    return module if _path(module).stem == "__init__" else module.rpartition(".")[0]
