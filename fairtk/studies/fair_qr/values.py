"""What the systems of a study are worth: measures per query, tests, intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from ir_measures import nDCG

from fairtk.errors import DataWarning, FairtkWarning
from fairtk.experiment import Experiment
from fairtk.frames.columns import QID
from fairtk.groups import Groups, Target
from fairtk.measures import AWRF, E, nDCG_AWRF, nDCG_TREC
from fairtk.statistics import correct, mean_intervals, paired_test
from fairtk.studies.fair_qr.settings import Settings

NDCG, FAIRNESS, PRODUCT = "nDCG", "AWRF", "nDCG x AWRF"
MEASURES = (NDCG, FAIRNESS, PRODUCT)


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


def measured(
    runs: Mapping[str, pd.DataFrame],
    topics: pd.DataFrame,
    qrels: pd.DataFrame,
    asked: Mapping[str, Any],
    store: Path | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Return each query's values, and what the measures warned of.

    A query that a run lacks has the worst value. What the data cannot do whatever the system is no
    surprise of a study: such warnings are returned, and not shown.

    Args:
        runs: name to rankings.
        topics: the topics.
        qrels: the judgments.
        asked: measures by name.
        store: the folder of a store that keeps the values; None: they are measured each time.

    Returns:
        ``system``, ``qid``, ``measure``, ``value``; and the warnings.
    """
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        results = Experiment(runs, topics, qrels, asked.values(), save_dir=store)
    said = []
    for warning in heard:
        if issubclass(warning.category, FairtkWarning):
            said.append(str(warning.message))
        if not issubclass(warning.category, DataWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    names = dict(zip(results.measures, asked, strict=True))
    values = results.per_query.assign(measure=results.per_query["measure"].map(names))
    return values, list(dict.fromkeys(said))


def summary(
    values: pd.DataFrame, lost: Mapping[str, set[str]], settings: Settings, correction: str
) -> pd.DataFrame:
    """Return one row per system; see `StudyResults.table`.

    Args:
        values: each query's values: ``system``, ``qid``, ``measure``, ``value``; the first system
            is what the others are compared with.
        lost: the queries without a result, by system.
        settings: confidence, resamples and seed of the intervals.
        correction: of the p-values for the number of systems; ``"none"``: none.
    """
    systems = list(dict.fromkeys(values["system"]))
    table: dict[str, Any] = {"system": systems}
    for name in MEASURES:
        rows = values[values["measure"] == name]
        own = rows.pivot(index="system", columns=QID, values="value").loc[systems].to_numpy()
        answered = [
            part["value"][~part[QID].isin(lost[system])].mean()
            for system, part in rows.groupby("system", sort=False)
        ]
        # a mean that is undefined is not tested
        p = [np.nan if np.isnan(row).any() else paired_test(row, own[0]).p for row in own]
        table |= _with_interval(name, own, settings) | {f"{name} answered": answered}
        table |= _with_interval(f"{name} change", own - own[0], settings)
        table[f"{name} p"] = correct(p, correction)
    table["product of means"] = table[NDCG] * table[FAIRNESS]
    table["missing"] = [len(lost[system]) for system in systems]
    return pd.DataFrame(table)


def _with_interval(name: str, values: np.ndarray[Any, Any], settings: Settings) -> dict[str, Any]:
    """Return means over the queries with the ends of their intervals, as columns."""
    low, high = mean_intervals(
        values,
        confidence=settings.confidence,
        resamples=settings.resamples,
        seed=settings.seed,
    )
    mean = values.mean(axis=1)
    low, high = (np.where(np.isnan(mean), np.nan, end) for end in (low, high))
    return {name: mean, f"{name} low": low, f"{name} high": high}
