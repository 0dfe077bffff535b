"""Statistics over queries: tests, intervals, corrections, power, slopes and areas of curves.

For example::

    paired_test(fair, plain, "randomization").p
    low, high = mean_intervals([fair, plain])
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
