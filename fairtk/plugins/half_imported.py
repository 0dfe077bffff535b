"""Modules whose import has begun but not ended, and a call when it has.

``import fairtk_hello`` imports fairtk, and fairtk loads its plugins, ``fairtk_hello`` among them,
of which only the first lines have run by then. Python offers no public way to see that or to be
told of the end: the module's spec carries the private flag ``_initializing``. Without the flag, a
module counts as complete, and all else here has no effect.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec

_WAITING: dict[str, list[Callable[[], None]]] = {}


def half_imported(module: str) -> str:
    """Return the outermost package of a module, or the module, that is half imported; or ``""``.

    Args:
        module: a dotted name; it need not have been imported.
    """
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        spec = getattr(sys.modules.get(name), "__spec__", None)
        if getattr(spec, "_initializing", False):
            return name
    return ""


def when_imported(module: str, then: Callable[[], None]) -> None:
    """Call a function as soon as a half imported module is complete (or has failed).

    Args:
        module: what `half_imported` returned.
        then: called once. If the spec is of an unknown kind, it is never called.
    """
    spec = getattr(sys.modules.get(module), "__spec__", None)
    if type(spec) is ModuleSpec:
        spec.__class__ = _WatchedSpec
    if isinstance(spec, _WatchedSpec):
        _WAITING.setdefault(module, []).append(then)


class _WatchedSpec(ModuleSpec):
    """A spec that notices when Python's import machinery resets its flag."""

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__.get("_initializing", False))

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__dict__["_initializing"] = value
        if not value:
            for then in _WAITING.pop(self.name, []):
                then()
