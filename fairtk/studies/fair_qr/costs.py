"""What refining costs: calls, tokens, price, seconds, and how often a query was refined."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from fairtk.frames.columns import QID
from fairtk.llm import ChatModel, Prices
from fairtk.studies.kept import KeptCell

_QUARTILES = (0.25, 0.5, 0.75)
_RECORDED = ["prompt_tokens", "completion_tokens", "seconds"]
_COSTS = [
    *("calls", "prompt_tokens", "completion_tokens", "price", "model seconds", "own seconds"),
    *("alone seconds", "latency", "training seconds"),
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


def cost_row(kept: KeptCell, llm: ChatModel | None, prices: Prices) -> pd.DataFrame:
    """Return the mean costs of a query, as one row.

    Args:
        kept: what there is of the cell.
        llm: the model; None: the loop's words come from none, as the placebo's.
        prices: of models.
    """
    traces = kept.traces if llm is not None else pd.DataFrame(columns=[QID])
    calls = traces[traces["iteration"] > 0] if len(traces) else pd.DataFrame(columns=_RECORDED)
    asked, told, seconds = (calls[name].to_numpy(dtype=np.float64) for name in _RECORDED)
    rows = zip(asked, told, strict=True)
    price = [prices.of(llm, _known(a), _known(t)) for a, t in rows if llm is not None]
    traced = traces[QID].nunique() or 1
    queries = len(kept.records)
    waited = float(np.nansum(seconds)) / traced
    own = (kept.total("seconds") - kept.total("waited")) / queries
    alone = own if math.isnan(kept.alone) else kept.alone
    # without a call nothing was paid, but what calls cost is not known
    known = llm is None or traces.empty or prices.known(llm)
    paid = math.fsum(price) if known else math.nan
    numbers = [len(calls), float(asked.sum()), float(told.sum()), paid]
    rest = [waited, own, alone, waited + alone, kept.total("training")]
    return pd.DataFrame([[*(number / traced for number in numbers), *rest]], columns=_COSTS)


def _known(count: float) -> float | None:
    return None if math.isnan(count) else count
