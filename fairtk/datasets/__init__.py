"""Datasets for ir_datasets: queries, documents, candidates, qrels and gold answers.

Importing fairtk registers them: ``ir_datasets.load("lamp/4/dev")``,
``pt.get_dataset("irds:lamp/4/dev")`` and ``pt.get_dataset("fair:lamp/4/dev")`` return the same
data.
"""

from __future__ import annotations

from importlib.util import find_spec

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in __all__ if find_spec(f"{__name__}.{name}") is None]  # no subpackages
