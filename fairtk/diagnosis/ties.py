"""Ties: how many there are, and how much they move each measure."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from fairtk.diagnosis.findings import Finding
from fairtk.evaluation import EvaluatedRuns, evaluate
from fairtk.frames.columns import DOCNO, LABEL, QID, RANK, SAMPLE, SCORE
from fairtk.measures.ee import ExpectedExposure

COLUMNS = ["measure", "now", "lowest", "highest"]
SHUFFLES = 5
"""Random orders of the tied documents that are looked at, besides five fixed ones."""
MOVES = 0.001
"""From here on a mean that ties move is a warning."""


def tied_rows(run: pd.DataFrame) -> pd.Series:
    """Return which rows share their score with another of the same ranking."""
    keys = [QID, *([SAMPLE] if SAMPLE in run.columns else []), SCORE]
    return run.duplicated(keys, keep=False)


def effect(run: pd.DataFrame, qrels: pd.DataFrame, measures: Mapping[str, Any]) -> pd.DataFrame:
    """Return each measure's mean now, and the lowest and highest over orders of what is tied.

    Without ties no row is returned, but the measures are asked for their values.

    The orders: as the run has them; by docno, both ways (trec_eval's is descending); useful
    documents first, and last; and some random ones. The first four of these are what evaluators do
    or the ends for measures of relevance; others may have values a little beyond.

    Args:
        run: the run, in the order of its ranks.
        qrels: the labels.
        measures: the measures, complete with groups and target, by what they are called.
    """
    runs = {"now": run}
    tied = bool(tied_rows(run).any())
    if tied:
        runs |= {f"order {i}": _ordered(run, key) for i, key in enumerate(_keys(run, qrels))}
    depths = {name: _depth(measure) for name, measure in measures.items()}
    means: dict[str, list[float]] = {}
    for whole in (True, False):
        asked = {name: m for name, m in measures.items() if (depths[name] is None) == whole}
        if asked and not whole:
            deepest = max(depths[name] or 0 for name in asked)
            runs = {name: frame[frame[RANK] < deepest] for name, frame in runs.items()}
            runs["now"] = run  # an evaluator that knows no ranks may order it otherwise
        if asked:
            found = quietly(qrels, runs, list(asked.values()))
            means |= {n: [one.mean(m) for one in found.runs] for n, m in asked.items()}
    defined = [name for name in measures if tied and not math.isnan(means[name][0])]
    rows = [[name, means[name][0], min(means[name]), max(means[name])] for name in defined]
    return pd.DataFrame(rows, columns=COLUMNS)


def quietly(qrels: pd.DataFrame, runs: Any, measures: list[Any]) -> EvaluatedRuns:
    """Return the values of runs; what else there is to say has been said by other checks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(qrels, runs, measures)


def _depth(measure: Any) -> int | None:
    """Return the number of ranks that a measure looks at; None: all.

    Expected exposure is normalized by the number of all documents that were retrieved.
    """
    if isinstance(measure, ExpectedExposure):
        return None
    if getattr(measure, "NAME", "") == "E":
        return _depth(measure.inner)
    return getattr(measure, "params", {}).get("cutoff")


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
    ranking = run.groupby(keys, sort=False).ngroup().to_numpy()
    order = np.lexsort((key, -run[SCORE].to_numpy(), ranking))
    start = np.flatnonzero(np.diff(ranking[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(start, np.diff([*start, len(order)]))
    return run.iloc[order].assign(**{RANK: place, SCORE: -place.astype(np.float64)})
