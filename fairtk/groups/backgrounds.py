"""Published distributions over groups that targets are averaged with."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

import pandas as pd

from fairtk.errors import NotFoundError

BACKGROUNDS = ("trec-2022-world-population", "trec-2022-gender", "trec-2021-world-population")
"""The names of the packaged backgrounds."""


def background(name: str) -> pd.Series:
    """Return a packaged background as shares by level.

    Args:
        name: ``"trec-2022-world-population"`` (20 United Nations sub-regions, the four of Oceania
            merged; TREC's attributes ``sub-geo`` and ``src-geo``), ``"trec-2022-gender"``
            (female, male and NB: .495, .495, .01) or ``"trec-2021-world-population"`` (the seven
            continents of the track's first year with Wikipedia).

    Returns:
        Shares that sum to 1, indexed by level; ``.attrs["source"]`` says where they are from.

    Raises:
        NotFoundError: there is no such background.
    """
    if name not in BACKGROUNDS:
        raise NotFoundError("background", name, BACKGROUNDS)
    entry = _packaged()[name]
    counts = pd.Series(entry["weights"], dtype="float64", name=name)
    shares = counts / counts.sum()
    shares.attrs["source"] = entry["source"]
    return shares


@cache
def _packaged() -> dict[str, Any]:
    text = resources.files("fairtk.groups").joinpath("backgrounds.json").read_text("utf-8")
    return dict(json.loads(text))
