"""The exported names of fairtk, and of fairtk-papers if it is installed, with their objects."""

import importlib
import inspect
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def exports():
    """Return each exported object by its qualified name; of several names, the first."""
    named, seen = {}, set()
    for name in sorted(_names(), key=lambda name: (name.count("."), name)):
        package, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(package), attribute)
        if id(value) not in seen:
            seen.add(id(value))
            named[name] = value
    return named


def parameters(annotation):
    """Yield ``"function parameter"`` of exported functions, classes and methods.

    `annotation` is a compiled pattern of the annotations of the parameters.
    """
    for name, value in exports().items():
        functions = {}
        if inspect.isclass(value) and not issubclass(value, BaseException):
            functions[name] = value.__init__
            for key, method in vars(value).items():
                method = getattr(method, "__func__", method)
                if inspect.isfunction(method) and (key == "__call__" or key[0] != "_"):
                    functions[f"{name}.{key}"] = method
        elif inspect.isfunction(value):
            functions[name] = value
        for qualified, function in functions.items():
            for parameter in inspect.signature(function).parameters.values():
                if annotation.search(str(parameter.annotation)):
                    yield f"{qualified} {parameter.name}"


def _names():
    """Return the names of `docs/api.txt` that exist."""
    for line in (ROOT / "docs" / "api.txt").read_text(encoding="utf-8").splitlines():
        name, _, decision = line.partition(" ")
        exists = name and name != "#" and not decision.strip().startswith("new")
        if exists and find_spec(name.partition(".")[0]):
            yield name
