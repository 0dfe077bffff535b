"""The studies of two papers: *Towards Fair RAG* (`fair_rag`) and *FAIR-QR* (`fair_qr`).

Installing the distribution adds the commands ``fairtk rag`` and ``fairtk qr``, and the measures of
code published with papers (`published_code`).
"""

from __future__ import annotations

from importlib.util import find_spec

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in __all__ if find_spec(f"{__name__}.{name}") is None]  # no subpackages
