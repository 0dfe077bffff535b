"""Groups of documents, and the distributions over groups that a ranking is compared with."""

from __future__ import annotations

from fairtk.groups.backgrounds import BACKGROUNDS, background
from fairtk.groups.groups import Groups
from fairtk.groups.levels import UNKNOWN, LevelSpace
from fairtk.groups.target import Target

__all__ = ["BACKGROUNDS", "UNKNOWN", "Groups", "LevelSpace", "Target", "background"]
