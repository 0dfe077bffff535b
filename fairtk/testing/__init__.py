"""Contracts for testing plugins, and small frames for tests.

A contract is a class of tests for pytest. Subclass it, name the subclass ``Test...``, and set the
object under test::

    from fairtk.testing import MeasureContract

    class TestTopShare(MeasureContract):
        measure = TopShare() @ 5

fairtk's own measures, transformers, utilities, prompts and data pass the same contracts.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
