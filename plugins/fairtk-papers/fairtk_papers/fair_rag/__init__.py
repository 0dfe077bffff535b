"""The study of *Towards Fair RAG* (Kim and Diaz 2024, arXiv 2409.11598)."""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
