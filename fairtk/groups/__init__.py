"""Groups of documents, and the distributions over groups that a ranking is compared with.

Imported on first use: measures of groups are known without the classes of groups and targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtk.starting.doors import lazily

if TYPE_CHECKING:
    from fairtk.groups.backgrounds import BACKGROUNDS, background
    from fairtk.groups.exposure import Memberships, group_exposure, shown_documents
    from fairtk.groups.groups import Groups
    from fairtk.groups.levels import UNKNOWN, Level, LevelSpace
    from fairtk.groups.target import Target

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

__getattr__ = lazily(
    __name__,
    {
        "backgrounds": ("BACKGROUNDS", "background"),
        "exposure": ("Memberships", "group_exposure", "shown_documents"),
        "groups": ("Groups",),
        "levels": ("Level", "LevelSpace", "UNKNOWN"),
        "target": ("Target",),
    },
)
