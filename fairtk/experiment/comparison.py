"""Systems against a baseline, measure by measure, on the queries that both have a value for."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from fairtk.errors import NotFoundError
from fairtk.frames.columns import QID
from fairtk.statistics import correct, paired_test

COLUMNS = [
    *("system", "measure", "mean", "n", "difference", "low", "high", "p", "p_corrected"),
    *("effect", "undefined", "note"),
]


def compared(
    per_query: pd.DataFrame,
    means: pd.DataFrame,
    baseline: str,
    test: str,
    correction: str | None,
    confidence: float,
) -> pd.DataFrame:
    """Return one row per system and measure; the baseline's own have a mean alone.

    Args:
        per_query: ``system``, ``qid``, ``measure``, ``value``.
        means: the mean of each system (rows) and measure (columns).
        baseline: the system that the others are compared with.
        test: see `fairtk.statistics.paired_test`.
        correction: see `fairtk.statistics.correct`; the tests of one measure are one family.
        confidence: of the intervals of the differences.

    Raises:
        NotFoundError: there is no such system, test or correction.
    """
    systems = list(means.index)
    if baseline not in systems:
        raise NotFoundError("system", baseline, systems)
    values = {
        key: part.set_index(QID)["value"]
        for key, part in per_query.groupby(["measure", "system"], sort=False)
    }
    tables = []
    for measure in means.columns:
        base = values[measure, baseline]
        rows = []
        for system in systems:
            mine = values[measure, system].reindex(base.index).to_numpy(dtype=np.float64)
            row = {
                "system": system,
                "measure": measure,
                "mean": float(means.loc[system, measure]),
                "undefined": int(np.isnan(mine).sum()),
                "note": "",
            }
            if system == baseline:
                nothing = dict.fromkeys(("difference", "low", "high", "p", "effect"), math.nan)
                rows.append({**row, **nothing, "n": len(mine) - row["undefined"]})
                continue
            found = paired_test(mine, base.to_numpy(), test, confidence=confidence)
            names = ("n", "difference", "low", "high", "p", "effect", "note")
            rows.append({**row, **{name: getattr(found, name) for name in names}})
        table = pd.DataFrame(rows)
        table["p_corrected"] = correct(table["p"].to_numpy(dtype=np.float64), correction)
        tables.append(table)
    return (
        pd.concat(tables, ignore_index=True)[COLUMNS] if tables else pd.DataFrame(columns=COLUMNS)
    )
