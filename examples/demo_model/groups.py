"""Invented group annotations of the demo's movies: who produced them and where.

Two attributes: ``production`` (independent, regional, major) and ``origin`` (six regions of the
world, ``@UNKNOWN`` for some movies, and two regions with half the weight each for co-productions).
The shares differ from theme to theme, so that what a ranking shows is not balanced by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PRODUCTIONS = ("independent", "major", "regional")
ORIGINS = ("Africa", "Asia", "Europe", "Latin America", "North America", "Oceania")
UNKNOWN = "@UNKNOWN"
P_UNKNOWN = 0.12
P_COPRODUCTION = 0.1


class GroupRow(NamedTuple):
    """Membership of one movie in one group.

    Attributes:
        docno: the movie, "qid/pid".
        group: the group's name.
        weight: share of the movie that counts for the group; the weights of one movie within one
            attribute sum to 1.
        attribute: ``"production"`` or ``"origin"``.
    """

    docno: str
    group: str
    weight: float
    attribute: str


def annotate(docnos: Sequence[str], themes: Sequence[int], seed: int) -> list[GroupRow]:
    """Invent the annotations.

    Args:
        docnos: the movies.
        themes: the index of each movie's theme.
        seed: the same seed gives the same annotations.

    Returns:
        One or two rows per movie and attribute, in the order of ``docnos``.
    """
    rng = np.random.default_rng([seed, 1])
    n_themes = max(themes, default=-1) + 1
    production = rng.dirichlet([2.0, 4.0, 1.5], size=n_themes)
    origin = rng.dirichlet([0.5, 1.5, 3.0, 0.8, 4.0, 0.4], size=n_themes)
    rows = []
    for docno, theme in zip(docnos, themes, strict=True):
        name = PRODUCTIONS[rng.choice(len(PRODUCTIONS), p=production[theme])]
        rows.append(GroupRow(docno, name, 1.0, "production"))
        draw = rng.random()
        regions = rng.choice(len(ORIGINS), size=2, replace=False, p=origin[theme])
        if draw < P_UNKNOWN:
            rows.append(GroupRow(docno, UNKNOWN, 1.0, "origin"))
        elif draw < P_UNKNOWN + P_COPRODUCTION:
            rows += [GroupRow(docno, ORIGINS[r], 0.5, "origin") for r in sorted(regions)]
        else:
            rows.append(GroupRow(docno, ORIGINS[regions[0]], 1.0, "origin"))
    return rows
