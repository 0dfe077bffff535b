"""Ties: how many there are, and how much they move each measure."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fairtk.diagnosis.findings import Finding
from fairtk.evaluation import EvaluatedRuns, evaluate
from fairtk.frames.columns import DOCNO, LABEL, QID, RANK, SAMPLE, SCORE
from fairtk.measures import written

COLUMNS = ["measure", "now", "lowest", "highest"]
SHUFFLES = 8
"""Random orders of the tied documents that are looked at, besides five fixed ones."""
MOVES = 0.001
"""From here on a mean that ties move is a warning."""


def tied_rows(run: pd.DataFrame) -> pd.Series:
    """Return which rows share their score with another of the same ranking."""
    keys = [QID, *([SAMPLE] if SAMPLE in run.columns else []), SCORE]
    return run.duplicated(keys, keep=False)


def effect(
    run: pd.DataFrame, qrels: pd.DataFrame, measures: list[Any], options: Mapping[str, Any]
) -> pd.DataFrame:
    """Return each measure's mean now, and the lowest and highest over orders of what is tied.

    The orders: as the run has them; by docno, both ways (trec_eval's is descending); useful
    documents first, and last; and some random ones. The first four of these are what evaluators do
    or the ends for measures of relevance; others may have values a little beyond.
    """
    orders = {f"order {i}": _ordered(run, key) for i, key in enumerate(_keys(run, qrels))}
    runs = {"now": run} | orders
    found = quietly(qrels, runs, measures, options)
    rows = []
    for measure in found.measures:
        means = [one.mean(measure) for one in found.runs]
        if not np.isnan(means[0]):
            name = found.written.get(measure) or written(measure)
            rows.append([name, means[0], min(means), max(means)])
    return pd.DataFrame(rows, columns=COLUMNS)


def quietly(
    qrels: pd.DataFrame, runs: Any, measures: list[Any], options: Mapping[str, Any]
) -> EvaluatedRuns:
    """Return the values of runs; what else there is to say has been said by other checks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(qrels, runs, measures, **options)


def said_of(run: pd.DataFrame, moved: pd.DataFrame, cutoff: int) -> Iterator[Finding]:
    """Yield how many ties there are, and which measures they move."""
    tied = tied_rows(run)
    if not tied.any():
        return
    rows = run[tied]
    n_queries, n_top = rows[QID].nunique(), int((rows[RANK] < cutoff).sum())
    text = (
        f"{len(rows)} of {len(run)} rows share their score with another of their ranking, in "
        f"{n_queries} queries; {n_top} of them in the first {cutoff} ranks"
    )
    spread = (moved["highest"] - moved["lowest"]).to_numpy()
    if len(moved) and spread.max() >= MOVES:
        parts = [
            f"{row.measure} from {row.lowest:.4f} to {row.highest:.4f} (now {row.now:.4f})"
            for row, width in zip(moved.itertuples(), spread, strict=True)
            if width >= MOVES
        ]
        text += f"; their order moves {', '.join(parts)}"
        remedy = "break ties on purpose (a second score, or FairSampler), and the same in all runs"
        yield Finding("warning", "ties", "run", text, remedy, len(rows))
        return
    text += "; their order moves no measure by more than " + f"{MOVES:g}"
    yield Finding("note", "ties", "run", text, "nothing, at this cutoff", len(rows))


def _keys(run: pd.DataFrame, qrels: pd.DataFrame) -> Iterator[np.ndarray]:
    """Yield what the tied rows are ordered by, the smallest first."""
    by_name = np.empty(len(run), dtype=np.int64)
    by_name[np.argsort(run[DOCNO].to_numpy(dtype=str), kind="stable")] = np.arange(len(run))
    labels = qrels.set_index([QID, DOCNO])[LABEL]
    useful = labels.reindex(pd.MultiIndex.from_frame(run[[QID, DOCNO]])).fillna(0).to_numpy(float)
    yield from (-by_name, by_name, -useful, useful)
    generator = np.random.default_rng(42)
    for _ in range(SHUFFLES):
        yield generator.random(len(run))


def _ordered(run: pd.DataFrame, key: np.ndarray) -> pd.DataFrame:
    """Return the run with its ties broken by a key; scores become those of the ranks."""
    keys = [QID, *([SAMPLE] if SAMPLE in run.columns else [])]
    rising = [*(True for _ in keys), False, True]
    ordered = run.assign(key=key).sort_values([*keys, SCORE, "key"], ascending=rising)
    ordered[RANK] = ordered.groupby(keys).cumcount()
    ordered[SCORE] = -ordered[RANK].astype(np.float64)
    return ordered.drop(columns="key")
