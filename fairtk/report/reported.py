"""What a report reads: the public face of `fairtk.Results`."""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd


class Reported(Protocol):
    """Results as `fairtk.Results` documents them."""

    systems: list[str]
    measures: list[str]
    per_query: pd.DataFrame
    failures: pd.DataFrame
    baseline: str | None
    config: dict[str, Any]
    environment: dict[str, Any]

    @property
    def means(self) -> pd.DataFrame:
        """One row per system, one column per measure."""

    @property
    def counts(self) -> pd.DataFrame:
        """``system``, ``measure``, ``mean``, ``n``, ``undefined``, ``failed``."""

    @property
    def qrels(self) -> pd.DataFrame | None:
        """The labels that the measures read."""

    def rankings(self, name: str) -> pd.DataFrame:
        """Return all rows of a system."""

    def better(self, measure: str) -> str:
        """Return ``"higher"`` or ``"lower"``."""

    def compare(
        self,
        baseline: str | None = None,
        test: str = "t",
        correction: str | None = "holm",
        confidence: float = 0.95,
    ) -> pd.DataFrame:
        """Compare all systems with one."""

    def cite(self) -> str:
        """Return BibTeX of what the results rest on."""

    def plot_trade_off(self, x: str, y: str) -> Any:
        """Draw two measures against each other."""
