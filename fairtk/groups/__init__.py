"""Groups of documents: levels, memberships, targets, and how far apart distributions over groups
are.

Imported on first use: measures of groups are known without the classes of groups and targets.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
