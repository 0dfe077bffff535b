"""`TargetWeights`: what a target is made of."""

from __future__ import annotations

from collections.abc import Mapping

from fairtk.divergence import Distributions
from fairtk.frames.arrays import ObjectArray
from fairtk.groups.levels import LevelSpace


class TargetWeights:
    """A distribution over the levels of groups, one for all queries or one for each.

    Attributes:
        space: attributes and levels.
        distributions: the weights, one row per query (or one row).
        qids: the queries, in the order of the rows; None: one distribution for all queries.
        undefined: for queries that have no target, the reason.
    """

    def __init__(
        self,
        space: LevelSpace,
        distributions: Distributions,
        qids: ObjectArray | None = None,
        undefined: Mapping[str, str] | None = None,
    ) -> None:
        self.space = space
        self.distributions = distributions
        self.qids = qids
        self.undefined: dict[str, str] = dict(undefined or {})
