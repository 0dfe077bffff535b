"""The smallest plugin of fairtk: one measure, a Gini coefficient of exposure."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk import FairMeasure, hookimpl
from fairtk.measures import CUTOFF


class ExposureGini(FairMeasure):
    """How unevenly a ranking policy shows the useful documents to a reader of the first k ranks.

    The Gini coefficient over the useful documents (label above 0) of the number of sampled
    rankings that show each (Gini 1912; for search by Azzopardi and Vinay, Retrievability, CIKM
    2008). Lower is more even: 0 means that all are shown equally often, 1 - 1/m that one of m gets
    all. A useful document that is never shown counts with 0, ties need no rule, and documents that
    are not useful do not count: showing many of those is no fault here (see EE_R). NaN for a query
    without a useful document; 1, the worst, if none is shown at all.
    """

    identity_name = "fairtk_hello.ExposureGini"
    output_version = 1
    NAME = "ExposureGini"
    PRETTY_NAME = "Gini coefficient of exposure"
    BETTER = "lower"
    MISSING = 1.0
    SUPPORTED_PARAMS = {"cutoff": CUTOFF}

    def score_query(self, qrels: pd.DataFrame, run: pd.DataFrame) -> float:
        """Return the coefficient of one query; `run` is cut at ``@k`` in each sample already."""
        useful = qrels.loc[qrels["label"] > 0, "docno"]
        if useful.empty:
            return np.nan
        shown = np.sort(run["docno"].value_counts().reindex(useful, fill_value=0))
        if shown.sum() == 0:
            return self.MISSING
        n = len(shown)
        return float(((2 * np.arange(1, n + 1) - n - 1) * shown).sum() / (n * shown.sum()))


@hookimpl
def fairtk_measures() -> list[FairMeasure]:
    """Return the measures of this plugin."""
    return [ExposureGini()]
