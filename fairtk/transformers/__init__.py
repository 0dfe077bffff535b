"""PyTerrier transformers: candidates, scorers, samplers, exposures, generators, FAIR-QR.

`FairTransformer` is their base class, also for plugins.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
