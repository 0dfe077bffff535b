"""Studies: what the papers compare, run by one engine and shown as tables, figures and a report."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
