"""The smallest plugin of fairtk: one measure, a Gini coefficient of exposure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk import FairMeasure, hookimpl
from fairtk.measures import CUTOFF


class ExposureGini(FairMeasure):
    """How unevenly a ranking policy exposes the useful documents in the first k ranks.

    The Gini coefficient over the useful documents (label above 0) of the number of sampled rankings
    with each document (Gini 1912; for search: Azzopardi and Vinay, Retrievability, CIKM 2008).
    Lower is more even: 0 if all occur equally often, 1 - 1/m if one of m gets all the exposure. A
    useful document that is never retrieved counts with 0. Other documents do not count (see EE_R).
    NaN for a query without a useful document; 1, the worst value, if none is retrieved.
    """

    identity_name = "fairtk_hello.ExposureGini"
    output_version = 1
    NAME = "ExposureGini"
    PRETTY_NAME = "Gini coefficient of exposure"
    BETTER = "lower"
    MISSING = 1.0
    SUPPORTED_PARAMS = {"cutoff": CUTOFF}

    def score_query(self, qrels: pd.DataFrame, run: pd.DataFrame) -> float:
        """Return the coefficient of one query; `run` is truncated at ``@k`` in each sample."""
        useful = qrels.loc[qrels["label"] > 0, "docno"]
        if useful.empty:
            return np.nan
        counts = np.sort(run["docno"].value_counts().reindex(useful, fill_value=0))
        if counts.sum() == 0:
            return self.MISSING
        n = len(counts)
        return float(((2 * np.arange(1, n + 1) - n - 1) * counts).sum() / (n * counts.sum()))


@hookimpl
def fairtk_measures() -> list[FairMeasure]:
    """Return the measures of this plugin."""
    return [ExposureGini()]
