"""Expected utility, normalized by the best answer that any run of the experiment gave."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from fairtk.errors import ParameterError, UndefinedWarning, listed
from fairtk.frames.columns import QID, SAMPLE, require
from fairtk.studies.fair_rag.points import (
    ALPHA,
    DETERMINISTIC,
    GENERATOR,
    MODEL,
    ORACLE,
    TASK,
    VALUE,
    sampled,
)

OVER = ("retriever", "generator")
BEST = "best"


def normalized_utility(
    utilities: pd.DataFrame,
    *,
    over: str = "retriever",
    deterministic: bool = False,
    nothing: float = 1.0,
) -> pd.DataFrame:
    """Return each query's expected utility over the best utility of a single ranking.

    *Towards Fair RAG*, Eqs. 25 and 26: EU_q / u_max, where u_max is the largest utility of any
    sampled ranking of the query, the oracle's among them. That is a maximum over rankings, not over
    means; it depends on how many were drawn.

    Args:
        utilities: ``task``, ``retriever``, ``generator``, ``alpha``, ``qid``, ``sample`` and
            ``value``: the utility of each answer, higher better (of an error, 4 minus it: LaMP-3).
            A row with alpha "oracle" counts for all retrievers of its task and generator.
        over: whose rankings count beside the oracle's: ``"retriever"`` (one retriever's, as Eq. 25
            and the published code) or ``"generator"`` (all runs with a generator, as section
            3.3.3 says).
        deterministic: whether the deterministic run counts, too. In the published code it does
            not, so that its value can exceed 1.
        nothing: the value where u_max is 0: 1 in the published code; NaN says undefined.

    Returns:
        ``task``, ``retriever``, ``generator``, ``alpha``, ``qid``, ``EU`` (the mean), ``best``
        (u_max) and ``value``. In [0, 1] where utilities are at least 0, but for the deterministic
        run. NaN, with a warning, for queries without an answer of the oracle.

    Raises:
        ParameterError: `over` is neither.
        ColumnError: a column is missing.
        InputError: an alpha is neither a number nor one of the two words.
    """
    where = "normalized_utility"
    if over not in OVER:
        raise ParameterError(f"{where}: over must be one of {OVER}; found {over!r}")
    require(utilities, [*MODEL, ALPHA, QID, SAMPLE, VALUE], where)
    counted = sampled(utilities[ALPHA])
    if deterministic:
        counted |= utilities[ALPHA] == DETERMINISTIC
    place = [TASK, GENERATOR, QID]
    own = place if over == "generator" else [*MODEL, QID]
    highest = utilities[counted].groupby(own)[VALUE].max().rename("_own").reset_index()
    oracle = utilities[utilities[ALPHA] == ORACLE].groupby(place)[VALUE].max()
    means = utilities.groupby([*MODEL, ALPHA, QID], sort=False)[VALUE].mean().rename("EU")
    table = means.reset_index().merge(highest, on=own, how="left")
    table = table.merge(oracle.rename("_oracle").reset_index(), on=place, how="left")
    lacking = table["_oracle"].isna()
    best = table["_own"].fillna(-np.inf).clip(lower=table["_oracle"])  # the oracle's own rows
    table[BEST] = best.where(~lacking)
    # the published code: 1 wherever the best is 0, whatever the mean
    ratio = table["EU"] / table[BEST].where(table[BEST] != 0)
    table[VALUE] = ratio.where(table[BEST] != 0, nothing).where(~lacking)
    if lacking.any():
        qids = list(dict.fromkeys(table.loc[lacking, QID]))
        warnings.warn(
            f"{where}: no answer of the oracle for {len(qids)} queries ({listed(qids)}): their "
            "largest utility is unknown, so their values are undefined",
            UndefinedWarning,
            stacklevel=2,
        )
    return table[[*MODEL, ALPHA, QID, "EU", BEST, VALUE]]
