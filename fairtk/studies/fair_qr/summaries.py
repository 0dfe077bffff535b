"""The rows of a comparison: means, intervals and differences from BM25 of each cell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from fairtk.frames.columns import QID
from fairtk.statistics import mean_intervals
from fairtk.studies.fair_qr.cells import BM25, Cell
from fairtk.studies.fair_qr.settings import Settings
from fairtk.studies.fair_qr.values import FAIRNESS, MEASURES, NDCG


def summary(
    cells: Iterable[Cell],
    values: pd.DataFrame,
    tests: pd.DataFrame,
    missing: pd.DataFrame,
    settings: Settings,
) -> pd.DataFrame:
    """Return one row per cell; see `StudyResults.table`.

    Args:
        cells: the cells.
        values: the values per query of these cells and of BM25.
        tests: the p-values of these cells.
        missing: the queries without a result.
        settings: confidence, resamples and seed of the intervals.
    """
    rows = []
    for cell in cells:
        row: dict[str, Any] = cell.names
        lost = _rows(missing, cell)[QID].unique()
        bm25 = Cell(cell.attribute, BM25)
        for name in MEASURES:
            row[name] = _of(values, cell, name)
            row[f"{name} answered"] = _mean_of(values, cell, name, set(lost))
            row[f"{name} change"] = row[name] - _of(values, bm25, name)
            row[f"{name} p"] = float(_rows(tests, cell, name)["p"].iloc[0])
        row["missing"] = len(lost)
        rows.append(row)
    frame = pd.DataFrame(rows)
    return _with_intervals(frame, settings) if rows else frame


def _with_intervals(frame: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """Return means and intervals in place of the arrays of values."""
    columns = [c for c in frame.columns if len(frame) and isinstance(frame[c].iloc[0], np.ndarray)]
    out: dict[str, Any] = {}
    for name in frame.columns:
        if name not in columns:
            out[name] = frame[name]
            continue
        table = np.stack(frame[name].tolist())
        ends = mean_intervals(
            table,
            confidence=settings.confidence,
            resamples=settings.resamples,
            seed=settings.seed,
        )
        mean = table.mean(axis=1)
        low, high = (np.where(np.isnan(mean), np.nan, end) for end in ends)
        out |= {name: mean, f"{name} low": low, f"{name} high": high}
    made = pd.DataFrame(out)
    made.insert(made.columns.get_loc("missing"), "product of means", made[NDCG] * made[FAIRNESS])
    return made


def _rows(frame: pd.DataFrame, cell: Cell, measure: str | None = None) -> pd.DataFrame:
    found = np.ones(len(frame), dtype=bool)
    for name, value in cell.names.items():
        found &= (frame[name] == value).to_numpy()
    if measure is not None:
        found &= (frame["measure"] == measure).to_numpy()
    return frame[found]


def _of(values: pd.DataFrame, cell: Cell, measure: str) -> np.ndarray:
    rows = _rows(values, cell, measure).sort_values(QID)
    return np.asarray(rows["value"], dtype=np.float64)


def _mean_of(values: pd.DataFrame, cell: Cell, measure: str, without: set[str]) -> float:
    """Return the mean over the queries with a result; NaN if there is none."""
    rows = _rows(values, cell, measure)
    return float(rows["value"][~rows[QID].isin(without)].mean())
