"""What labels could have been where nobody judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from fairtk.frames.columns import DOCNO, LABEL, QID, SAMPLE, SCORE

USEFUL, BY_SCORE = "unjudged useful", "unjudged by score"


def judgments(
    qrels: pd.DataFrame, runs: Mapping[str, pd.DataFrame]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a name and labels that have one for every document that a run retrieved, as well.

    ``unjudged useful``: each such document is useful. ``unjudged by score``: one is where its mean
    score over the runs (scaled to [0, 1] in each query, 0 in a run that lacks it: CombSUM by Fox
    and Shaw 1994) is at least the median of the query's useful documents that a run retrieved.

    Args:
        qrels: the labels.
        runs: the runs, by name.
    """
    scores = _mean_scores(runs)
    judged = pd.MultiIndex.from_frame(qrels[[QID, DOCNO]])
    open_ = scores[~scores.index.isin(judged)]
    ones = pd.Series(1, index=open_.index)
    yield USEFUL, _with(qrels, ones)
    useful = pd.MultiIndex.from_frame(qrels.loc[qrels[LABEL] > 0, [QID, DOCNO]])
    least = scores[scores.index.isin(useful)].groupby(level=QID).median()
    needed = least.reindex(open_.index.get_level_values(QID)).to_numpy()
    yield BY_SCORE, _with(qrels, pd.Series((open_.to_numpy() >= needed).astype(int), open_.index))


def _mean_scores(runs: Mapping[str, pd.DataFrame]) -> pd.Series:
    """Return the mean scaled score of each document that a run retrieved."""
    parts = []
    for run in runs.values():
        keys = [QID, *([SAMPLE] if SAMPLE in run.columns else [])]
        lowest, highest = (run.groupby(QID)[SCORE].transform(f) for f in ("min", "max"))
        width = (highest - lowest).to_numpy()
        scaled = np.where(width > 0, (run[SCORE] - lowest) / np.where(width > 0, width, 1), 1.0)
        of = pd.Series(scaled, pd.MultiIndex.from_frame(run[[QID, DOCNO]]))
        n = run[keys].drop_duplicates().groupby(QID).size()
        total = of.groupby(level=[QID, DOCNO]).sum()
        parts.append(total / n.reindex(total.index.get_level_values(QID)).to_numpy())
    return pd.concat(parts).groupby(level=[QID, DOCNO]).sum() / len(runs)


def _with(qrels: pd.DataFrame, labels: pd.Series) -> pd.DataFrame:
    """Return labels with more of them; other columns repeat what the query has."""
    more = labels.rename(LABEL).reset_index()
    more = more[more[QID].isin(qrels[QID])]
    first = qrels.drop_duplicates(QID).set_index(QID)
    for name in qrels.columns.drop([QID, DOCNO, LABEL]):
        more[name] = first[name].reindex(more[QID]).to_numpy()
    return pd.concat([qrels, more[qrels.columns]], ignore_index=True)
