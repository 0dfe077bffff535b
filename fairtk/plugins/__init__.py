"""Plugins: hooks, the host that loads plugins, and registries of measures and other objects."""

from __future__ import annotations

from importlib.util import find_spec

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in __all__ if find_spec(f"{__name__}.{name}") is None]  # no subpackages
