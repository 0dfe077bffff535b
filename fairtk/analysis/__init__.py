"""Can I trust this number? Evaluating and comparing runs, how sure values are, what choices
change, what is wrong with data.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
