"""Groups of documents, and the distributions over groups that a ranking is compared with."""

from __future__ import annotations

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
