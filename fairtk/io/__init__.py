"""Read and write files: one strict reader and one writer for each format.

Every reader takes plain, gzipped and Parquet files, which it recognizes by their content, keeps
ids as the strings they are (``001``, ``NA`` and ``null`` too), and names the line of an error.
Every writer chooses the format by the suffix and replaces the file in one step, so that no reader
sees an incomplete file.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
