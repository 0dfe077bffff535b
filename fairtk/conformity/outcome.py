"""What `conformance` found."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pandas as pd


@dataclass
class Conformity:
    """How fairtk's numbers compare with plain implementations and published numbers.

    Attributes:
        table: one row per definition and value: ``definition``, ``value``, ``measure`` (fairtk's),
            ``queries``, ``agree`` (to 1e-9), ``departs`` (for a known cause), ``unexplained`` and
            ``largest`` (the largest difference that is not explained; 0: none), and with the
            packaged fixtures ``published`` and ``reproduced``: the number of values that the
            published code gave, and how many of them fairtk reproduces.
        differences: one row per pair, value and cause: ``one`` and ``other`` (``fairtk``, a
            definition), ``value``, ``cause`` in words, ``queries`` and ``largest`` difference.
        source: what was compared, in words.
    """

    table: pd.DataFrame
    differences: pd.DataFrame
    source: str

    @property
    def conforms(self) -> bool:
        """Whether every difference has a cause, and every published number is reproduced."""
        short = 0
        if "published" in self.table.columns:
            short = int((self.table["published"] - self.table["reproduced"]).sum())
        return not int(self.table["unexplained"].sum()) and not short

    def to_json(self) -> str:
        """Return everything as JSON."""
        parts = {
            name: json.loads(frame.to_json(orient="records", double_precision=15))
            for name, frame in (("table", self.table), ("differences", self.differences))
        }
        return json.dumps(
            {"conforms": self.conforms, "source": self.source, **parts},
            indent=2,
            ensure_ascii=False,
        )
