"""Signatures that are read from source files: help does not import what it describes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import NamedTuple

from fairtk.errors import PluginError


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
        PluginError: the parameters are not in the source of fairtk or the package.
    """
    module, _, names = target.partition(":")
    name, _, method = names.partition(".")
    definition = written(module, name)
    if definition is None:
        raise AttributeError(f"module {module!r} has no {name!r}")
    node, module = definition
    if isinstance(node, ast.ClassDef) and method:
        members_of_class = _functions(node)
        if method not in members_of_class:
            raise AttributeError(f"class {name!r} of module {module!r} has no {method!r}")
        node = members_of_class[method]
    parameters = _parameters(Definition(node, module))
    if parameters is None:
        raise PluginError(
            f"{target}: the parameters cannot be read from the source, because it is neither a "
            "function nor a dataclass nor a class with __init__ (its own or that of a base class "
            "that is imported from fairtk or the same package)"
        )
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    return parameters, ast.get_docstring(node) or ""


def _functions(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}


def _parameters(definition: Definition) -> dict[str, Parameter] | None:
    """Return the parameters of a function or class; `None` if they are not in the source."""
    node, module = definition
    if isinstance(node, ast.ClassDef) and "__init__" in _functions(node):
        node = _functions(node)["__init__"]
    if isinstance(node, ast.FunctionDef):
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        without = [None] * (len(positional) - len(given.defaults))
        pairs = [
            *zip(positional, [*without, *given.defaults], strict=True),
            *zip(given.kwonlyargs, given.kw_defaults, strict=True),
        ]
        return {arg.arg: _parameter(arg.arg, arg.annotation, value, module) for arg, value in pairs}
    if not isinstance(node, ast.ClassDef):
        return None
    written_bases = (written(module, name_of(base)) for base in node.bases)
    of_bases = [
        of_base
        for base in written_bases
        if base is not None and (of_base := _parameters(base)) is not None
    ]
    if not any(name_of(_called(decorator)) == "dataclass" for decorator in node.decorator_list):
        return of_bases[0] if of_bases else None
    parameters: dict[str, Parameter] = {}
    for of_base in reversed(of_bases):
        parameters |= of_base
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and name_of(field.annotation) not in _NO_FIELDS:
            name = ast.unparse(field.target)
            parameters[name] = _parameter(name, field.annotation, field.value, module)
    return parameters


_NO_FIELDS = ("ClassVar", "KW_ONLY")


def _parameter(
    name: str, annotation: ast.expr | None, default: ast.expr | None, module: str
) -> Parameter:
    return Parameter(name, annotation, value_of(default, module), module)


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


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
    elif isinstance(annotation, ast.Subscript) and name_of(annotation) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        yield from members(annotation.slice.elts[0], module)
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
    """Yield the statements of a module or of its stub, those of all branches included."""
    waiting: list[ast.AST] = [_tree(module)]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Module | ast.If | ast.Try | ast.ExceptHandler | ast.With):
            waiting = [*ast.iter_child_nodes(node), *waiting]
        elif isinstance(node, ast.stmt):
            yield node


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
