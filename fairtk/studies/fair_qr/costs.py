"""What refining costs: calls, tokens, price, seconds, and how often a query was refined."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from fairtk.frames.columns import QID
from fairtk.llm import ChatModel, Prices
from fairtk.studies.fair_qr.saved import SavedCell

_QUARTILES = (0.25, 0.5, 0.75)
_COSTS = [
    *("calls", "prompt_tokens", "completion_tokens", "price", "model seconds", "own seconds"),
    *("latency", "training seconds"),
]


def iterations(traces: pd.DataFrame) -> pd.DataFrame:
    """Return mean and quartiles of how often queries were refined; no row without a trace.

    Args:
        traces: rows of `fairtk.FairQR.trace`.

    Returns:
        Two rows: ``count`` (``"asked"``: calls that a query took, ``"kept"``: refinements that it
        kept), ``mean``, ``25%``, ``50%``, ``75%``, ``largest``, ``queries``.
    """
    names = ["count", "mean", "25%", "50%", "75%", "largest", "queries"]
    if traces.empty:
        return pd.DataFrame(columns=names)
    later = (traces["iteration"] > 0).to_numpy(dtype=bool)
    rows = []
    for name, counted in (("asked", later), ("kept", later & traces["kept"].to_numpy(dtype=bool))):
        counts = pd.Series(counted, index=traces[QID]).groupby(level=0).sum()
        rows.append(
            [name, counts.mean(), *counts.quantile(_QUARTILES), int(counts.max()), len(counts)]
        )
    return pd.DataFrame(rows, columns=names)


def cost_row(saved: SavedCell, qids: Sequence[str], llm: ChatModel, prices: Prices) -> pd.DataFrame:
    """Return the mean costs of a query, as one row; none if the cell took no time yet.

    Args:
        saved: the cell.
        qids: the topics.
        llm: the model.
        prices: of models.
    """
    spent = saved.noted("time", None)
    if not spent or not spent["queries"]:
        return pd.DataFrame(columns=_COSTS)
    traces = saved.traces(qids)
    own = (spent["seconds"] - spent["waited"]) / spent["queries"]
    row = {"calls": 0.0, "prompt_tokens": 0.0, "completion_tokens": 0.0, "price": 0.0}
    waited = 0.0
    if len(traces):
        calls = traces[traces["iteration"] > 0]
        queries = traces[QID].nunique()
        asked, told = (
            calls[name].to_numpy(dtype=np.float64)
            for name in ("prompt_tokens", "completion_tokens")
        )
        price = [prices.of(llm, _known(a), _known(t)) for a, t in zip(asked, told, strict=True)]
        waited = float(calls["seconds"].fillna(0.0).sum()) / queries
        row = {
            "calls": len(calls) / queries,
            "prompt_tokens": float(asked.sum()) / queries,
            "completion_tokens": float(told.sum()) / queries,
            "price": math.fsum(price) / queries,
        }
    return pd.DataFrame(
        [
            {
                **row,
                "model seconds": waited,
                "own seconds": own,
                "latency": waited + own,
                "training seconds": float(saved.noted("training", 0.0)),
            }
        ]
    )


def _known(count: float) -> float | None:
    return None if math.isnan(count) else count
