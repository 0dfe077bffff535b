"""Analyses: costs by group, curves over alpha, precision, sensitivity, off-policy estimates.

This subpackage is optional: nothing else in fairtk imports it.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
