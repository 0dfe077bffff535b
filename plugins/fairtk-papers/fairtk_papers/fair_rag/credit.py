"""Credit of the study: its measures by policy, and the prompts that it requires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from fairtk.credit import AE_D, AE_R, CreditGap
from fairtk.frames import CREDIT, DOCNO, LABEL, QID, RANK, SAMPLE
from fairtk.measures import LabeledRun, evaluate
from fairtk_papers.fair_rag.settings import SUBSETS
from fairtk_papers.fair_rag.tables import (
    BELOW,
    CREDIT_MEASURES,
    DETERMINISTIC,
    EXPOSURE_SUFFIX,
    GAP,
    POSITION,
    SUM,
    UNDEFINED,
)


def credit_values(
    frames: Mapping[float | str, pd.DataFrame], qrels: pd.DataFrame, cutoff: int
) -> pd.DataFrame:
    """Return the credit measures of each policy per query.

    Exposure is measured like credit, as an equal share for each document of a prompt, over the
    rankings whose credit is defined. So both have the same scale and the same minimum. Values of
    sampled systems are unbiased estimates; those of the deterministic system are exact.

    Args:
        frames: credit frames (C) with ``rank`` and ``sample``, by alpha.
        qrels: the labels.
        cutoff: k, the number of documents in a prompt.

    Returns:
        ``alpha``, ``qid``, ``measure``, ``value``. The measures are ``AE_D`` and ``AE_R``, both
        also ``of exposure``; ``CreditGap``; ``credit sum``, the mean total credit of a ranking, in
        units of the utility; ``credit undefined``, the share of rankings whose credit is NaN or
        nowhere positive, which the other measures exclude; ``credit below 0``, the share of
        documents with negative credit, which counts as 0; ``credit at place 1`` to k, the mean
        share of the credit at a position.
    """
    parts = []
    labels = qrels[[QID, DOCNO, LABEL]]
    credit_measures = [
        AE_D(estimator="unbiased") @ cutoff,
        AE_R @ cutoff,
        CreditGap(estimator="unbiased") @ cutoff,
    ]
    names = dict(zip(credit_measures, CREDIT_MEASURES, strict=True))
    for alpha, credit in frames.items():
        frame = credit.reset_index(drop=True)
        ranking = frame.groupby([QID, SAMPLE], sort=False)
        complete = ~frame[CREDIT].isna().groupby([frame[QID], frame[SAMPLE]]).transform("any")
        positive = frame[CREDIT].clip(lower=0)
        total = positive.groupby([frame[QID], frame[SAMPLE]]).transform("sum")
        defined = complete & (total > 0)
        even = frame.assign(**{CREDIT: np.where(defined, 1.0, np.nan)})
        for suffix, run in (("", frame), (EXPOSURE_SUFFIX, even)):
            run = run.drop(columns=SAMPLE) if alpha == DETERMINISTIC else run
            labeled = LabeledRun.of(labels, run, f"credit of {alpha}")
            scores = evaluate(credit_measures, labeled)
            for measure, name in names.items():
                if not suffix or name != GAP:  # always 0 for exposure
                    columns = {QID: [*labeled.qids], "value": scores[measure].values}
                    parts.append(
                        pd.DataFrame({**columns, "measure": name + suffix, "alpha": alpha})
                    )
        share = (positive / total.where(defined)).groupby([frame[QID], frame[RANK]]).mean()
        positions = share.rename("value").reset_index()
        positions["measure"] = POSITION + (positions.pop(RANK) + 1).astype(str)
        first = ~frame.duplicated([QID, SAMPLE])
        per_query = pd.DataFrame(
            {
                SUM: ranking[CREDIT].sum(min_count=1).groupby(QID).mean(),
                UNDEFINED: (~defined[first]).groupby(frame[QID]).mean(),
                BELOW: (frame[CREDIT] < 0).groupby(frame[QID]).mean(),
            }
        ).rename_axis(QID)
        long = per_query.reset_index().melt(QID, var_name="measure", value_name="value")
        parts += [part.assign(alpha=alpha) for part in (positions, long)]
    return pd.concat(parts, ignore_index=True)[["alpha", QID, "measure", "value"]]


def list_subsets(
    rankings: Iterable[tuple[str, tuple[str, ...]]], method: str
) -> set[tuple[str, tuple[str, ...]]]:
    """Return the distinct lists of documents that credit requires, as (qid, docnos) pairs.

    Args:
        rankings: pairs of qid and docnos.
        method: ``"one-out"`` or ``"shapley"``.
    """
    lists: set[tuple[str, tuple[str, ...]]] = set()
    for qid, docnos in rankings:
        k = len(docnos)
        lengths = range(k + 1) if SUBSETS[method] == "all" else (k - 1, k)
        lists.update((qid, part) for n in lengths for part in combinations(docnos, n))
    return lists
