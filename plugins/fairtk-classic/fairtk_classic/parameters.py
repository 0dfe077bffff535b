"""The parameters that the measures share."""

from __future__ import annotations

from functools import partial

from fairtk import checks
from fairtk.exposure import BrowsingModel
from fairtk.measures import CUTOFF, GROUPS, TARGET, ObjectParam, Param
from fairtk.plugins import parse_browsing_model

__all__ = [
    "BASE",
    "COMBINE",
    "CUTOFF",
    "EMPTY",
    "GROUPS",
    "PROTECTED",
    "SMOOTHING",
    "STEP",
    "TARGET",
    "UNLABELED",
    "amortize",
    "browsing",
    "population",
]

PROTECTED = Param(str, desc="the level that is compared with all others together")
UNLABELED = Param(
    str,
    default="drop",
    choices=("drop", "group", "uniform"),
    desc="documents without a known group: drop: they belong to no group; group: the unknown level "
    "counts as a group; uniform: they belong equally to all known groups",
)
STEP = Param(
    int,
    default=10,
    desc="the distance of prefixes, in documents",
    check=partial(checks.integer, least=2),
)


def _base(name: str, value: object, where: str) -> None:
    if value != "e":
        checks.number(name, value, where, least=1, ends="()", rule="be 'e' or above 1")


BASE = Param(
    (str, int, float),
    default="e",
    desc="base of the logarithm: 'e' or a number above 1",
    check=_base,
)
SMOOTHING = Param(
    (int, float),
    default=0.0,
    desc="weight of the target mixed into the observed shares, so that logarithms are finite",
    check=partial(checks.number, most=1, ends="[)"),
)
EMPTY = Param(
    str,
    default="undefined",
    choices=("undefined", "skip"),
    desc="a group without a (relevant) document: the query has no value, or the group is left out",
)
COMBINATIONS = (
    "min/max",
    "max/min",
    "max-min",
    "max-deviation",
    "mean-deviation",
    "l2",
    "variance",
)
COMBINE = Param(str, default="min/max", choices=COMBINATIONS, desc="how the groups are compared")


def browsing(default: str) -> ObjectParam:
    """Return the parameter ``browsing`` with a default."""
    return ObjectParam(
        parse_browsing_model,
        BrowsingModel,
        default=default,
        desc="browsing model, the attention of each rank: DCG, RBP(p=0.5), TREC, MU, ...",
    )


def population(default: str) -> Param:
    """Return the parameter ``population`` with a default."""
    return Param(
        str,
        default=default,
        choices=("judged+ranked", "ranked", "judged", "collection"),
        desc="the documents for means and sizes of groups; collection: "
        "all documents that have groups",
    )


def amortize(default: bool) -> Param:
    """Return the parameter ``amortize`` with a default."""
    return Param(
        bool,
        default=default,
        desc="average exposure over the samples first, then compare; otherwise average the values",
    )
