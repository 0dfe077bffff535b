"""Read and write files: one strict reader and one writer for each format.

Readers accept plain, gzipped and Parquet files, which they recognize by content. Ids stay strings
(``001``, ``NA``), and an error names the line. Writers choose the format by the suffix and replace
the file atomically.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
