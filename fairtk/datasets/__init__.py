"""Datasets in ir_datasets' terms, with queries, documents, candidates and gold answers.

Importing fairtk registers them with ir_datasets: ``ir_datasets.load("lamp/4/dev")``,
``pt.get_dataset("irds:lamp/4/dev")`` and ``pt.get_dataset("fair:lamp/4/dev")`` are the same data.
The registration does not import these modules.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
