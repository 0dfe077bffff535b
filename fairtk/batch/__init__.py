"""Batches: write prompts to files for a batch API or a cluster, and read the answers.

For example::

    from fairtk.batch import Batches
    from fairtk.llm import Ledger

    batches = Batches(Ledger("answers.sqlite"))

An optional subpackage: nothing else in fairtk imports it.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
