"""What the systems of a study are worth: measures per query, tests, intervals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from ir_measures import nDCG

from fairtk.errors import DataWarning, FairtkWarning
from fairtk.experiment.evaluation import Evaluation
from fairtk.frames.columns import QID
from fairtk.groups import Groups, Target
from fairtk.measures import AWRF, E, nDCG_AWRF, nDCG_TREC
from fairtk.statistics import correct, paired_test

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


def experiment(
    runs: Mapping[str, pd.DataFrame],
    topics: pd.DataFrame,
    qrels: pd.DataFrame,
    asked: Mapping[str, Any],
    correction: str,
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return each query's values, p-values of paired t-tests against the first system, warnings.

    A query that a run lacks has the worst value.

    Args:
        runs: name to rankings; the first is the baseline.
        topics: the topics.
        qrels: the judgments.
        asked: measures by name.
        correction: of the p-values for the number of systems; ``"none"``: none.

    Returns:
        ``system``, ``qid``, ``measure``, ``value``; and ``system``, ``measure``, ``p`` (NaN for the
        baseline, where a value is undefined, and where no query differs: there is nothing to test,
        or to correct for); and what the measures warned of.
    """
    evaluation = Evaluation(asked.values(), qrels, topics[QID].astype(str).tolist())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        frames = [evaluation.values(name, run)[0] for name, run in runs.items()]
    said = []
    for warning in heard:
        if issubclass(warning.category, FairtkWarning):
            said.append(str(warning.message))
        if not issubclass(warning.category, DataWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    back = {evaluation.labels[measure]: name for name, measure in asked.items()}
    values = pd.concat(frames, ignore_index=True)
    values["measure"] = values["measure"].map(back)
    p = _tests(values, list(runs), list(asked), correction)
    return values[["system", QID, "measure", "value"]], p, list(dict.fromkeys(said))


def _tests(
    values: pd.DataFrame, systems: list[str], names: list[str], correction: str
) -> pd.DataFrame:
    """Return the p-values of paired t-tests against the first system, corrected per measure."""
    parts = []
    for name in names:
        rows = values[values["measure"] == name]
        wide = rows.pivot(index=QID, columns="system", values="value")
        # a mean that is undefined is not tested
        p = [
            paired_test(wide[system], wide[systems[0]]).p if wide[system].notna().all() else np.nan
            for system in systems
        ]
        parts.append(
            pd.DataFrame({"system": systems, "measure": name, "p": correct(p, correction)})
        )
    return pd.concat(parts, ignore_index=True)
