"""What the lists of each iteration were worth, before and after re-ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fairtk.fair_qr.loop import label_texts
from fairtk.fair_qr.pools import chosen_lists
from fairtk.fair_qr.progress import SHARE, Progress, trace_frame
from fairtk.fair_qr.shares import RelevanceMeter, ShareMeter

_CALL = ("prompt_tokens", "completion_tokens", "seconds")


@dataclass(frozen=True)
class LookingBack:
    """Measures the lists of a loop.

    Attributes:
        meter: measures the groups' shares.
        qrels: for nDCG; None: it is not measured.
        again: whether lists are measured as they would be returned, too.
    """

    meter: ShareMeter
    qrels: pd.DataFrame | None
    again: bool

    @property
    def columns(self) -> list[str]:
        """The measured values of each step, as columns of the trace."""
        shares = [f"{SHARE}{level}" for level in label_texts(self.meter)]
        judged = ["nDCG"] if self.qrels is not None else []
        after = ["AWRF_reranked", *(f"{name}_reranked" for name in judged)] if self.again else []
        return ["divergence", "AWRF", *judged, *after, "retrieved", *shares, *_CALL]

    def back(
        self,
        queries: Sequence[Progress],
        runs: Sequence[pd.DataFrame],
        pool: str,
        returned: Callable[[dict[str, list[int]]], pd.DataFrame],
    ) -> pd.DataFrame:
        """Return the trace, with the values of each iteration's lists in the steps of its queries.

        Args:
            queries: the loops.
            runs: the rankings of each iteration.
            pool: which lists are returned.
            returned: the rankings that lists, by qid, are returned as.
        """
        judge = None
        if self.qrels is not None:
            judge = RelevanceMeter(self.qrels, self.meter.depth, self.meter.browsing)
        for iteration, run in enumerate(runs):
            reached = [q for q in queries if q.steps[-1].iteration >= iteration]
            there = [q for q in reached if q.at(iteration).query]
            qids = np.array([q.qid for q in there], dtype=object)
            found: dict[str, Any] = {}
            if judge is not None:
                found["nDCG"] = judge.measure(run, qids)
            if self.again:
                kept = {q.qid: [i for i in q.kept if i < iteration] for q in there}
                lists = {
                    q: chosen_lists([*earlier, iteration], pool) for q, earlier in kept.items()
                }
                ranked = returned(lists)
                found["AWRF_reranked"] = self.meter.measure(ranked, qids).awrf
                if judge is not None:
                    found["nDCG_reranked"] = judge.measure(ranked, qids)
            for name, values in found.items():
                for query, value in zip(there, values.tolist(), strict=True):
                    values_of = query.at(iteration).values
                    if not math.isnan(values_of.get("AWRF", math.nan)):
                        values_of[name] = value
        return trace_frame(queries, self.columns)
