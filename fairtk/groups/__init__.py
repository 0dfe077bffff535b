"""Groups of documents, and the distributions over groups that a ranking is compared with.

Imported on first use: measures of groups are known without the classes of groups and targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtk.starting.doors import lazily

if TYPE_CHECKING:
    from fairtk.groups.backgrounds import BACKGROUNDS as BACKGROUNDS
    from fairtk.groups.backgrounds import background as background
    from fairtk.groups.exposure import Memberships as Memberships
    from fairtk.groups.exposure import group_exposure as group_exposure
    from fairtk.groups.exposure import shown_documents as shown_documents
    from fairtk.groups.groups import Groups as Groups
    from fairtk.groups.levels import UNKNOWN as UNKNOWN
    from fairtk.groups.levels import Level as Level
    from fairtk.groups.levels import LevelSpace as LevelSpace
    from fairtk.groups.target import Target as Target

__getattr__, __dir__, __all__ = lazily(__name__)
