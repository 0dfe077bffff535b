"""The lists that a loop kept, put together and ordered anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from fairtk.frames.columns import DOCNO, QID, RANK, SCORE

POOLS = ("last", "refined", "union")
DEEP = 200  # documents of each list that a re-ranking by exposure chooses from


def chosen_lists(kept: Sequence[int], pool: str) -> list[int]:
    """Return which of a query's lists are pooled.

    Args:
        kept: iterations whose lists were kept, in order; the first retrieval is 0.
        pool: ``"last"``: the last one; ``"refined"``: all but the first retrieval's (or that, if
            there is no other); ``"union"``: all.
    """
    if pool == "last":
        return list(kept[-1:])
    if pool == "refined":
        return [i for i in kept if i > 0] or list(kept)
    return list(kept)


def pooled(
    runs: Sequence[pd.DataFrame], lists: Mapping[str, Sequence[int]], k: int
) -> pd.DataFrame:
    """Return the pooled documents of each query: those of the latest list first, by rank.

    Args:
        runs: the retrieved rankings of each iteration (R, ranks from 0).
        lists: the iterations to pool, by qid.
        k: how many documents of each list.
    """
    parts = [runs[0].iloc[:0]]
    for iteration, run in enumerate(runs):
        if wanted := [qid for qid, found in lists.items() if iteration in found]:
            parts.append(run[(run[RANK] < k) & run[QID].isin(wanted)])
    whole = pd.concat(parts[::-1], ignore_index=True)
    query = pd.Index(list(lists), dtype=object).get_indexer(whole[QID])
    order = np.argsort(query, kind="stable")  # the latest list is first, and by rank, already
    return _ranked(whole.iloc[order].drop_duplicates([QID, DOCNO]))


def _ranked(whole: pd.DataFrame) -> pd.DataFrame:
    """Return rows, those of each query together, with the ranks that their order says."""
    query = pd.factorize(whole[QID])[0]
    whole = whole.reset_index(drop=True)
    whole[RANK] = np.arange(len(query)) - np.searchsorted(query, query)
    return whole


def by_first_scores(
    pool: pd.DataFrame, first: pd.DataFrame, unknown: float | None = None
) -> pd.DataFrame:
    """Return a pool in the order of the first retrieval, with its scores.

    Documents that the first retrieval did not return come last, in the pool's order, with scores
    below the others'.

    Args:
        pool: the pooled documents, in order.
        first: the rankings of the original queries.
        unknown: the score of documents that the first retrieval did not return, in place of those.
    """
    known = first[[QID, DOCNO, SCORE, RANK]].rename(columns={SCORE: "_score", RANK: "_rank"})
    both = pool.merge(known, on=[QID, DOCNO], how="left")  # a document is once in each
    score, rank = both["_score"].to_numpy(), both["_rank"].fillna(np.inf).to_numpy()
    query = pd.factorize(both[QID])[0]
    lowest = np.full(len(both), np.inf)
    np.fmin.at(lowest, query, score)
    below = np.where(lowest == np.inf, 0.0, lowest)[query] - 1.0 - both[RANK].to_numpy()
    out = both.drop(columns=["_score", "_rank"])
    out[SCORE] = np.where(rank < np.inf, score, below if unknown is None else unknown)
    return _ranked(out.iloc[np.lexsort((both[RANK], rank, query))])


def in_pool_order(pool: pd.DataFrame) -> pd.DataFrame:
    """Return a pool of several lists with scores that say its order: 0, -1, -2, ..."""
    return pool.assign(**{SCORE: -pool[RANK].astype(np.float64)})
