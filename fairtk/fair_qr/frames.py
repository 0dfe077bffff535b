"""Topics and rankings as frames, on their way into and out of the loop."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fairtk.errors import DuplicateError, InputError
from fairtk.frames.columns import DOCNO, QID, QUERY, RANK, SCORE, require
from fairtk.frames.ids import encode_ids
from fairtk.frames.rankings import encode_run


def topics_by_qid(inp: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the queries of a frame, indexed by qid as a string.

    Raises:
        DuplicateError: a qid occurs twice.
        InputError: a qid is none, or a query is missing.
    """
    topics = inp.drop(columns=[c for c in (DOCNO, SCORE, RANK) if c in inp.columns])
    topics.index = pd.Index(qids_of(inp, where), dtype=object)
    for qid, text in zip(topics.index, topics[QUERY].tolist(), strict=True):
        if not isinstance(text, str):
            raise InputError(f"{where}: qid {qid!r} needs a text as 'query'; found {text!r}")
    return topics


def qids_of(topics: pd.DataFrame, where: str) -> list[str]:
    """Return the qid of each query as text.

    Raises:
        DuplicateError: a qid occurs twice.
        InputError: a qid is none.
    """
    code, distinct = encode_ids(topics[QID], QID, where)
    qids: list[str] = distinct[code].tolist()
    twice = pd.Series(code).duplicated()
    if twice.any():
        raise DuplicateError(
            f"{where}: qid {qids[int(twice.argmax())]!r} occurs twice; one row per query is needed"
        )
    return qids


def asked(topics: pd.DataFrame, qids: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    """Return the topics of some queries, with other texts."""
    frame = topics.loc[list(qids)].reset_index(drop=True)
    frame[QUERY] = pd.Series(list(texts), dtype=topics[QUERY].dtype)
    return frame


def bare_rankings(
    found: pd.DataFrame, topics: pd.DataFrame, where: str, most: int | None = None
) -> pd.DataFrame:
    """Return rankings in order, with ranks from 0 and qids as strings, without topics' columns.

    Args:
        found: what a retriever or reranker returned (R).
        topics: the queries.
        where: who returned it, for messages.
        most: how many documents of each query are kept; None: all.

    Raises:
        InputError: the rankings are broken.
    """
    require(found, [QID, DOCNO, SCORE], where)
    run = encode_run(found, where)
    known = {*topics.columns, QID, RANK, QUERY}
    own = [c for c in found.columns if c not in known and not c.startswith("query_")]
    kept = slice(None) if most is None else run.position < most
    out = found[own].iloc[run.order[kept]].reset_index(drop=True)
    out.insert(0, QID, run.qids[run.query[kept]])
    out[RANK] = run.position[kept]
    return out


def with_topics(ranked: pd.DataFrame, topics: pd.DataFrame) -> pd.DataFrame:
    """Return rankings with the columns of their topics before them."""
    left = topics.iloc[topics.index.get_indexer(ranked[QID])].reset_index(drop=True)
    return pd.concat([left, ranked.drop(columns=QID).reset_index(drop=True)], axis=1)
