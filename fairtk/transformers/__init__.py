"""PyTerrier transformers: candidates, scorers, samplers, exposures, generators, FAIR-QR.

For those who write one: `FairTransformer`, the base, and checks of settings.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
