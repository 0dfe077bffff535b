"""Files to frames and back: one strict reader and one writer for every format; tables and figures
as text.

Every reader takes plain, gzipped and Parquet files (told apart by content, not by name), keeps ids
as the strings they are (``001``, ``NA`` and ``null`` too), and says which line is broken. Every
writer chooses the format by the suffix and replaces the file in one step, so that a reader never
sees half of it.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
