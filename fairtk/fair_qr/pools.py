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
    parts = []
    for iteration, run in enumerate(runs):
        wanted = [qid for qid, found in lists.items() if iteration in found]
        part = run[run[RANK] < k]
        parts.append(part[part[QID].isin(wanted)].assign(_age=len(runs) - iteration))
    whole = pd.concat(parts[::-1], ignore_index=True)
    whole["_query"] = pd.Index(list(lists), dtype=object).get_indexer(whole[QID])
    whole = whole.sort_values(["_query", "_age", RANK], kind="stable")
    whole = whole.drop_duplicates([QID, DOCNO]).drop(columns=["_query", "_age"])
    whole[RANK] = whole.groupby(QID, sort=False).cumcount()
    return whole.reset_index(drop=True)


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
    both = pool.merge(known, on=[QID, DOCNO], how="left", validate="one_to_one")
    found = both["_rank"].notna().to_numpy()
    query = pd.factorize(both[QID])[0]
    order = np.lexsort((both[RANK], both["_rank"].fillna(np.inf), query))
    lowest = both.groupby(QID, sort=False)["_score"].transform("min").fillna(0.0)
    below = lowest - 1.0 - both[RANK] if unknown is None else unknown
    both[SCORE] = np.where(found, both["_score"], below)
    out = both.drop(columns=["_score", "_rank"]).iloc[order].reset_index(drop=True)
    out[RANK] = out.groupby(QID, sort=False).cumcount()
    return out


def in_pool_order(pool: pd.DataFrame) -> pd.DataFrame:
    """Return a pool of several lists with scores that say its order: 0, -1, -2, ..."""
    return pool.assign(**{SCORE: -pool[RANK].astype(np.float64)})
