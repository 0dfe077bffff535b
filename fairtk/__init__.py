"""fairtk: who gets seen, by people or by a language model, and what that costs or gains.

Importing fairtk loads the plugins, makes their measures known to ir_measures and their data sets
to ir_datasets. Transformers and everything heavy are imported on first use. The console script
loads the plugins when a command runs.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import lazy_loader

__version__ = "0.4.0"
_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in __all__ if find_spec(f"{__name__}.{name}") is None]  # no subpackages


def __getattr__(name: str) -> Any:
    """Return a public name; the error for a name of a subpackage names the subpackage."""
    try:
        return _attribute(name)
    except AttributeError as error:
        stubs = sorted(Path(__file__).parent.glob("*/__init__.pyi"))
        homes = [stub.parent.name for stub in stubs if f" as {name}\n" in stub.read_text("utf-8")]
        raise AttributeError(
            f"{error}; it is fairtk.{homes[0]}.{name}" if homes else error
        ) from None


if not getattr(sys.modules.get("fairtk_command"), "is_running", False):
    from fairtk.builtin import connect

    connect()
