"""Groups of documents, and the distributions over groups that a ranking is compared with.

Imported on first use: measures of groups are known without the classes of groups and targets.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairtk.groups.backgrounds import BACKGROUNDS, background
    from fairtk.groups.exposure import Memberships, group_exposure, shown_documents
    from fairtk.groups.groups import Groups
    from fairtk.groups.levels import UNKNOWN, Level, LevelSpace
    from fairtk.groups.target import Target

_MODULES = {
    "BACKGROUNDS": "backgrounds",
    "Groups": "groups",
    "Level": "levels",
    "LevelSpace": "levels",
    "Memberships": "exposure",
    "Target": "target",
    "UNKNOWN": "levels",
    "background": "backgrounds",
    "group_exposure": "exposure",
    "shown_documents": "exposure",
}

__all__ = [
    "BACKGROUNDS",
    "Groups",
    "Level",
    "LevelSpace",
    "Memberships",
    "Target",
    "UNKNOWN",
    "background",
    "group_exposure",
    "shown_documents",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
