"""Reports: results as one HTML page that works offline, its tables, and statistics.

For example::

    results.report("report.html")

`Section` adds prose, a table or a figure to a page.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
