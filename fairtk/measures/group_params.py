"""Parameters of group measures: the groups, the target, what becomes of unlabeled documents."""

from __future__ import annotations

from fairtk.groups import registered
from fairtk.measures.params import ObjectParam, Param

GROUPS = ObjectParam(
    registered.GROUPS.find,
    "fairtk.groups:Groups",
    desc="the groups of the documents: an object, a registered name, or a file",
    write=registered.GROUPS.key,
)
TARGET = ObjectParam(
    registered.TARGETS.find,
    "fairtk.groups:Target",
    desc="the distribution to compare with: an object, a registered name, or a file",
    write=registered.TARGETS.key,
)
_POLICIES = ("drop", "unknown", "uniform", "best", "worst")


def _policy(value: str) -> str:
    if value == "bounds":
        return "'bounds' is two values: measure 'best' and 'worst', its two ends"
    return "" if value in _POLICIES else f"must be one of {list(_POLICIES)}"


UNLABELED = Param(
    str,
    default="drop",
    check=_policy,
    desc="documents without a group: drop (TREC), unknown, uniform; best and worst: over all ways "
    "to complete what is unknown",
)
AMORTIZE = Param(bool, default=True, desc="average exposure over samples first, then compare")
