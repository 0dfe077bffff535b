"""What the systems of a study are worth: measures per query, tests, intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from ir_measures import nDCG

from fairtk.errors import DataWarning, FairtkWarning
from fairtk.frames.columns import DOCNO, QID, RANK, SCORE
from fairtk.groups import Groups, Target
from fairtk.measures import AWRF, E, nDCG_AWRF, nDCG_TREC

NDCG, FAIRNESS, PRODUCT = "nDCG", "AWRF", "nDCG x AWRF"
MEASURES = (NDCG, FAIRNESS, PRODUCT)
_NUMBERS = 1 << 24  # in memory at a time while resampling


def measures(groups: Groups, target: Target, cutoff: int, ndcg: str) -> dict[str, Any]:
    """Return the three measures of the paper's Table 1, by name.

    Args:
        groups: the groups.
        target: the exposure that they should have.
        cutoff: the ranks that count.
        ndcg: ``"TREC"`` or ``"trec_eval"``.
    """
    relevance = nDCG_TREC @ cutoff if ndcg == "TREC" else E(nDCG @ cutoff)
    return {
        NDCG: relevance,
        FAIRNESS: AWRF(groups=groups, target=target) @ cutoff,
        PRODUCT: nDCG_AWRF(groups=groups, target=target, ndcg=ndcg) @ cutoff,
    }


def experiment(
    runs: Mapping[str, pd.DataFrame],
    topics: pd.DataFrame,
    qrels: pd.DataFrame,
    asked: Mapping[str, Any],
    correction: str,
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return each query's values, p-values of paired t-tests against the first system, warnings.

    Both come from ``pt.Experiment``. A query that a run lacks has the worst value.

    Args:
        runs: name to rankings; the first is the baseline.
        topics: the topics.
        qrels: the judgments.
        asked: measures by name.
        correction: of the p-values for the number of systems; ``"none"``: none.

    Returns:
        ``system``, ``qid``, ``measure``, ``value``; and ``system``, ``measure``, ``p`` (NaN for the
        baseline, and where no query differs: there is nothing to test, or to correct for); and
        what the measures warned of.
    """
    import pyterrier as pt

    names = list(runs)
    frames = [run if len(run) else _nothing() for run in runs.values()]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        shared: dict[str, Any] = {
            "eval_metrics": list(asked.values()),
            "names": names,
            "verbose": False,
        }
        per_query = pt.Experiment(frames, topics, qrels, perquery=True, **shared)
        tests: dict[str, Any] = {"baseline": 0} if len(frames) > 1 else {}
        means = pt.Experiment(frames, topics, qrels, **shared, **tests)
    said = []
    for warning in heard:
        if issubclass(warning.category, FairtkWarning):
            said.append(str(warning.message))
        # the test of a system that equals the baseline everywhere divides 0 by 0
        if not issubclass(warning.category, DataWarning | RuntimeWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    back = {str(measure): name for name, measure in asked.items()}
    values = per_query.rename(columns={"name": "system"})
    values["measure"] = values["measure"].astype(str).map(back)
    rows = [
        (row["name"], name, float(row.get(f"{measure} p-value", np.nan)))
        for row in means.to_dict("records")
        for measure, name in back.items()
    ]
    p = pd.DataFrame(rows, columns=["system", "measure", "p"])
    if correction != "none":
        p["p"] = p.groupby("measure")["p"].transform(lambda found: corrected(found, correction))
    return values[["system", QID, "measure", "value"]], p, list(dict.fromkeys(said))


def _nothing() -> pd.DataFrame:
    """Return a run without any of the topics: ``pt.Experiment`` refuses one without rows."""
    return pd.DataFrame({QID: [""], DOCNO: [""], SCORE: [0.0], RANK: [0]})


def corrected(p: pd.Series, method: str) -> pd.Series:
    """Return p-values corrected for their number; those that are NaN stay so, and do not count.

    Args:
        p: the p-values.
        method: ``"holm"``, ``"bonferroni"`` or ``"fdr_bh"`` (Benjamini-Hochberg).
    """
    from scipy.stats import false_discovery_control

    there = p.notna().to_numpy()
    found = np.array(p[there], dtype=np.float64)
    if method == "fdr_bh":
        found = false_discovery_control(found) if len(found) else found
    elif method == "bonferroni":
        found = found * len(found)
    else:
        order = np.argsort(found, kind="stable")
        found[order] = np.maximum.accumulate(found[order] * np.arange(len(found), 0, -1))
    out = p.copy()
    out[there] = np.minimum(found, 1.0)
    return out


def intervals(
    values: Any, confidence: float, resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return bootstrap intervals of means over queries (percentiles), by scipy.

    All rows are resampled alike, so that intervals of rows of one table belong together.

    Args:
        values: one row per mean, one column per query.
        confidence: of the intervals, e.g. 0.95.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        The lower and the upper ends; NaN where there is a single query, or a value is undefined.
    """
    from scipy.stats import bootstrap

    table = np.asarray(values, dtype=np.float64)
    low, high = np.full(len(table), np.nan), np.full(len(table), np.nan)
    defined = np.isfinite(table).all(axis=1)
    if table.shape[1] < 2 or not defined.any():
        return low, high
    found = bootstrap(
        (table[defined],),
        np.mean,
        axis=1,
        confidence_level=confidence,
        n_resamples=resamples,
        batch=max(1, _NUMBERS // table.size),
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    low[defined], high[defined] = found.low, found.high
    return low, high
