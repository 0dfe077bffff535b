"""Front doors of packages whose names are imported on first use: each name is written once."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable
from typing import Any


def lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    They know the names that its ``__init__.py`` imports below ``if TYPE_CHECKING:``, where type
    checkers read them. Modules among them are no part of ``__all__``.
    """
    body = ast.parse(pkgutil.get_data(package, "__init__.py") or b"").body
    block = next(part for part in body if isinstance(part, ast.If))
    lines = [line for line in block.body if isinstance(line, ast.ImportFrom)]
    homes = {alias.name: str(line.module) for line in lines for alias in line.names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(homes[name]), name)

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, known, [name for name, home in homes.items() if home != package]
