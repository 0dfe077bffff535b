"""The eight fairness dimensions of TREC Fair Ranking 2022 and how metadata become levels.

Levels and rules are those of the track's code (fair-trec/trec2022-fair-public, PageAlignments.py
and MetricInputs.py): a page without a region, source, gender or occupation is ``@UNKNOWN``; the
four regions of Oceania are one; ``cisgender`` and ``transgender`` are dropped before ``female``
and ``male``, and every other identity is ``NB``; sources of unknown region (``UNK``) count as
``@UNKNOWN``. Rows are divided by their sum, but for gender: a page with two genders counts fully
for both. The guidelines' ninth attribute, the age of the topic, is not evaluated by the track.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from fairtk.errors import NotFoundError
from fairtk.groups import UNKNOWN, background

Kind = Literal["list", "counts", "one"]

_GENDER = re.compile(r"(?:cis|trans)gender\s+((?:fe)?male)")
_OCEANIA = frozenset({"Australia and New Zealand", "Melanesia", "Micronesia", "Polynesia"})

_REGIONS = (
    UNKNOWN,
    *("Antarctica", "Caribbean", "Central America", "Central Asia", "Eastern Africa"),
    *("Eastern Asia", "Eastern Europe", "Middle Africa", "Northern Africa", "Northern America"),
    *("Northern Europe", "Oceania", "South America", "South-eastern Asia", "Southern Africa"),
    *("Southern Asia", "Southern Europe", "Western Africa", "Western Asia", "Western Europe"),
)
_OCCUPATIONS = (
    UNKNOWN,
    *("activist", "agricultural worker", "artist", "athlete", "biologist", "businessperson"),
    *("chemist", "civil servant", "clergyperson", "computer scientist", "designer"),
    *("earth scientist", "educator", "engineer", "health professional", "humanities scholar"),
    *("information professional", "journalist", "jurist", "linguist", "mathematician"),
    *("media professional", "military personnel", "musician", "performing artist", "physicist"),
    *("politician", "scientist", "social scientist", "sportsperson (non-athlete)"),
    *("transportation occupation", "writer"),
)


@dataclass(frozen=True)
class Dimension:
    """One fairness dimension."""

    name: str  # the track's name of it
    key: str  # the key in the metadata
    kind: Kind  # the metadata hold a list of values, counts by value, or one value
    levels: tuple[str, ...]  # the official levels, the unknown one first
    summary: str  # what it is
    background: str | None = None  # the packaged background of the official target, if any
    normalized: bool = True  # a page's memberships sum to 1
    open: bool = False  # metadata may have further levels without a warning

    @property
    def unknown(self) -> int:
        """The place of the unknown level; -1: there is none."""
        return 0 if self.levels[0] == UNKNOWN else -1

    def level(self, value: str) -> str:
        """Return the level of a value of the metadata."""
        if self.name == "gender":
            short = _GENDER.sub(r"\1", value)
            return short if short in self.levels else "NB"
        if self.levels is _REGIONS:
            if value in _OCEANIA:
                return "Oceania"
            return UNKNOWN if value == "UNK" else value
        return value


_WORLD = "trec-2022-world-population"
_ALL = (
    Dimension("sub-geo", "page_subcont_regions", "list", _REGIONS,
              "regions that the article is about", _WORLD),
    Dimension("src-geo", "source_subcont_regions", "counts", _REGIONS,
              "regions of the article's sources", _WORLD),
    Dimension("gender", "gender", "list", (UNKNOWN, "female", "male", "NB"),
              "gender of the person the article is about", "trec-2022-gender", normalized=False),
    Dimension("occ", "occupations", "list", _OCCUPATIONS,
              "occupations of the person the article is about", open=True),
    Dimension("alpha", "first_letter_category", "one", ("a-d", "e-k", "l-r", "s-"),
              "first letter of the title"),
    Dimension("age", "creation_date_category", "one",
              ("2001-2006", "2007-2011", "2012-2016", "2017-2022"), "when the article was created"),
    Dimension("pop", "relative_pageviews_category", "one",
              ("Low", "Medium-Low", "Medium-High", "High"), "how often the article is read"),
    Dimension("langs", "num_sitelinks_category", "one",
              ("English only", "2-4 languages", "5+ languages"), "languages that have the article"),
)  # fmt: skip

DIMENSIONS: dict[str, Dimension] = {d.name: d for d in _ALL}
"""The official dimensions by name, in the track's order."""

WORK = "qual_cat"
"""The key of the article's quality, from which Task 2 tells the work it needs."""


def dimension(name: str) -> Dimension:
    """Return a dimension; an unknown one is a `NotFoundError`."""
    if name not in DIMENSIONS:
        raise NotFoundError("dimension of TREC Fair Ranking 2022", name, DIMENSIONS)
    return DIMENSIONS[name]


def backgrounds(names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Return the background shares of those dimensions that have any, by dimension."""
    found = {}
    for name in names:
        of = dimension(name).background
        if of is not None:
            found[name] = background(of).to_dict()
    return found
