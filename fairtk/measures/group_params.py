"""Parameters of group measures: the groups, the target, what becomes of unlabeled documents.

The code of groups is imported when the first measure with groups is made.
"""

from __future__ import annotations

from typing import Any

from fairtk.measures.params import ObjectParam, Param


def _registered(name: str, argument: Any) -> Any:
    from fairtk.groups import registered

    return getattr(registered, name)(argument)


GROUPS = ObjectParam(
    lambda text: _registered("find_groups", text),
    "fairtk.groups:Groups",
    desc="the groups of the documents: an object, a registered name, or a file",
    write=lambda groups: str(_registered("groups_key", groups)),
)
TARGET = ObjectParam(
    lambda text: _registered("find_target", text),
    "fairtk.groups:Target",
    desc="the distribution to compare with: an object, a registered name, or a file",
    write=lambda target: str(_registered("target_key", target)),
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
