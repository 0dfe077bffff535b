"""Reports: statistics over queries, tables, and results as one page of HTML that asks for nothing.

    results.report("report.html")

`Section` adds what a study has beyond tables of means: prose, a table, a figure.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
