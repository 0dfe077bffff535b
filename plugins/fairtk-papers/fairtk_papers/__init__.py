"""The studies of two papers: *Towards Fair RAG* (`fair_rag`) and *FAIR-QR* (`fair_qr`).

Installing the distribution adds the commands ``fairtk rag`` and ``fairtk qr``.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
