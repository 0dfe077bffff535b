"""How the documents that a loop found are ordered in the end."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairtk.errors import InputError, ParameterError, listed
from fairtk.fair_qr.frames import bare_rankings, with_topics
from fairtk.fair_qr.near_target import by_exposure
from fairtk.fair_qr.pools import POOLS, by_first_scores, in_pool_order, pooled
from fairtk.fair_qr.shares import ShareMeter
from fairtk.frames.columns import QID

EXPOSURE = "exposure"


@dataclass(frozen=True)
class Ordering:
    """Orders pools; see `fairtk.FairQR` for the settings.

    Attributes:
        rerank: ``"relevance"``, ``"exposure"`` or False.
        pool: one of `fairtk.fair_qr.pools.POOLS`.
        reranker: R -> R, or None.
        weight: of closeness.
        floor: share of the expected relevance that is kept.
    """

    rerank: str | bool
    pool: str
    reranker: Any
    weight: float
    floor: float

    def __post_init__(self) -> None:
        if self.rerank is not False and self.rerank not in ("relevance", EXPOSURE):
            raise ParameterError(
                "FairQR: rerank must be True, False, 'relevance' or 'exposure'; found "
                f"{self.rerank!r}"
            )
        if self.pool not in POOLS:
            raise ParameterError(f"FairQR: pool must be one of {POOLS}; found {self.pool!r}")
        for name, number, most in (("weight", self.weight, math.inf), ("floor", self.floor, 1.0)):
            good = isinstance(number, int | float) and not isinstance(number, bool)
            if not (good and 0 <= number <= most and number < math.inf):
                wanted = "in [0, 1]" if most == 1 else "a finite number of 0 or above"
                raise ParameterError(f"FairQR: {name} must be {wanted}; found {number!r}")

    @property
    def no_op(self) -> bool:
        """Whether the pool's order gives back the first ranking."""
        return self.pool == "union" and self.rerank == "relevance" and self.reranker is None

    def order(
        self,
        runs: Sequence[pd.DataFrame],
        k: int,
        topics: pd.DataFrame,
        meter: ShareMeter,
        lists: Mapping[str, Sequence[int]],
    ) -> pd.DataFrame:
        """Return pooled lists in their final order.

        Args:
            runs: the rankings of each iteration, those of the original queries first.
            k: documents of each list that are pooled.
            topics: the queries.
            meter: what exposure is measured with.
            lists: the iterations whose lists are pooled, by qid.

        Raises:
            InputError: the reranker loses a query, or its rankings are broken.
        """
        pool = pooled(runs, lists, k)
        if self.rerank is False:
            return pool if self.pool == "last" else in_pool_order(pool)
        near = self.rerank == EXPOSURE
        ordered = (
            by_first_scores(pool, runs[0], math.nan if near else None)
            if self.reranker is None
            else self._reranked(pool, topics)
        )
        return by_exposure(ordered, meter, self.weight, self.floor) if near else ordered

    def _reranked(self, pool: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
        where = f"FairQR: the output of {self.reranker!r}"
        found = self.reranker.transform(with_topics(in_pool_order(pool), topics))
        out = bare_rankings(found, topics, where)
        lost = set(pool[QID]) - set(out[QID])
        if lost:
            raise InputError(
                f"{where} has no documents for the qids {listed(sorted(lost))}; a reranker must "
                "keep every query"
            )
        return out
