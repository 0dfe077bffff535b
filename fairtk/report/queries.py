"""The queries of a page: rankings and answers of all systems, packed.

Equal rankings with one answer are stored once, with their number. Each query is compressed JSON,
which the page reads when the query is opened.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fairtk.display.tables import shorten
from fairtk.frames import (
    DOCNO,
    GOLD_ANSWER,
    LABEL,
    QANSWER,
    QID,
    QUERY,
    SCORE,
    TEXT,
    IntArray,
    Run,
)

if TYPE_CHECKING:
    from fairtk.experiment import Results

BYTES = 1_200_000
"""Of packed queries in one page, which with its tables and figures stays below 2 MB."""
_SHOWN_TEXT, _SHOWN_QUERY, _SHOWN_IN_LIST = 100, 600, 120


@dataclass
class SystemRankings:
    """What a system gave, in numbers.

    Attributes:
        qids: the queries with a ranking or an answer.
        samples: rankings per query, e.g. ``"25"`` or ``"3 to 25"``.
        rankings: their number.
        distinct: the number of distinct rankings, query by query.
        answers: the number of distinct answers, query by query.
        answered: whether it gives answers.
    """

    qids: set[str] = field(default_factory=set)
    samples: str = "0"
    rankings: int = 0
    distinct: int = 0
    answers: int = 0
    answered: bool = False


@dataclass
class DrillDown:
    """The queries of a page.

    Attributes:
        index: what the list of queries needs, packed.
        packed: the queries, each packed; those beyond `BYTES` are left out.
        n_queries: the number of all queries.
        systems: what each system gave.
        depth: the ranks that are shown of the longest ranking.
    """

    index: str
    packed: list[str]
    n_queries: int
    systems: dict[str, SystemRankings]
    depth: int


def drill_down(results: Results, cutoff: int) -> DrillDown:
    """Collect and pack the rankings and answers of all systems.

    Args:
        results: the results.
        cutoff: the ranks that are shown.
    """
    queries: dict[str, dict[str, Any]] = {}
    for qid in dict.fromkeys(results.per_query[QID]):
        queries[qid] = _query()
    systems = {}
    for place, name in enumerate(results.systems):
        systems[name] = _collect(results.rankings(name), name, place, cutoff, queries)
    for place, name in enumerate(results.systems):
        lost = results.failures[results.failures["system"] == name]
        for qid, error in zip(lost[QID], lost["error"], strict=True):
            queries.setdefault(qid, _query())["e"][place] = str(error)
    _add_labels(queries, results.qrels)
    packed = [pack(_public(query, len(results.systems))) for query in queries.values()]
    n_packed = int(np.searchsorted(np.cumsum([len(text) for text in packed]), BYTES, side="right"))
    lengths = [len(docs) for q in queries.values() for s in q["s"].values() for _, docs, _ in s]
    depth = max(lengths, default=0)
    index = {
        "systems": results.systems,
        "measures": results.measures,
        "cutoff": depth,
        "qids": list(queries),
        "texts": [shorten(query["q"], _SHOWN_IN_LIST) for query in queries.values()],
        "values": _values(results, list(queries)),
    }
    return DrillDown(pack(index), packed[:n_packed], len(queries), systems, depth)


def pack(value: Any) -> str:
    """Return a value as compressed JSON in letters that need no escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # halves of characters have no UTF-8, and are data of others
    data = text.encode("utf-8", errors="replace")
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def _query() -> dict[str, Any]:
    return {"q": "", "docs": {}, "t": [], "answers": {}, "s": {}, "e": {}, "l": {}, "g": []}


def _collect(
    frame: pd.DataFrame, name: str, place: int, cutoff: int, queries: dict[str, dict[str, Any]]
) -> SystemRankings:
    """Add a system's rankings to the queries."""
    if frame.empty:
        return SystemRankings()
    if DOCNO not in frame.columns:  # answers without retrieval: no documents to show
        frame, cutoff = frame.assign(**{DOCNO: "none"}), 0
    ordered = frame if SCORE in frame.columns else frame.assign(**{SCORE: 0.0})  # or by rank
    rankings = Run(ordered, f"report (system {name!r})")
    texts = frame[next((c for c in ("title", TEXT) if c in frame.columns), DOCNO)].to_numpy()
    asked = frame[QUERY].to_numpy() if QUERY in frame.columns else None
    codes, answers = _answers(frame, rankings)
    matrix = _matrix(rankings, cutoff)
    top = rankings.position < cutoff
    pairs = pd.DataFrame({"query": rankings.query[top], "doc": rankings.doc[top]})
    pairs = pairs.drop_duplicates()
    rows = rankings.order[np.flatnonzero(top)[pairs.index.to_numpy()]]
    doc = pairs["doc"].to_numpy()
    doc_ends = np.searchsorted(pairs["query"].to_numpy(), np.arange(len(rankings.qids) + 1))
    ends = np.searchsorted(rankings.ranking_query, np.arange(len(rankings.qids) + 1))
    total = SystemRankings({str(q) for q in rankings.qids}, answered=answers is not None)
    for i, qid in enumerate(rankings.qids):
        query = queries.setdefault(str(qid), _query())
        if asked is not None and not query["q"]:
            row = rankings.order[rankings.ranking_start[ends[i]]]
            query["q"] = shorten(_plain(asked[row]), _SHOWN_QUERY)
        local = {-1: -1}
        for row, code in zip(rows[doc_ends[i] : doc_ends[i + 1]],
                             doc[doc_ends[i] : doc_ends[i + 1]].tolist(), strict=True):  # fmt: skip
            docno = str(rankings.docnos[code])
            if docno not in query["docs"]:
                query["docs"][docno] = len(query["t"])
                query["t"].append(
                    "" if texts[row] == docno else shorten(_plain(texts[row]), _SHOWN_TEXT)
                )
            local[code] = query["docs"][docno]
        mine = slice(ends[i], ends[i + 1])
        samples = np.column_stack([matrix[mine], codes[mine]])
        distinct, first, counts = np.unique(samples, axis=0, return_index=True, return_counts=True)
        order = np.lexsort((first, -counts))
        entries = []
        for row, count in zip(distinct[order].tolist(), counts[order].tolist(), strict=True):
            docs = [local[code] for code in row[:-1] if code >= 0]
            answer = None
            if answers is not None:
                answer = query["answers"].setdefault(answers[row[-1]], len(query["answers"]))
            entries.append((count, docs, answer))
        query["s"][place] = entries
        total.rankings += len(samples)
        total.distinct += len({tuple(docs) for _, docs, _ in entries})
        total.answers += len({answer for _, _, answer in entries}) if total.answered else 0
    least, most = int(rankings.n_samples.min()), int(rankings.n_samples.max())
    total.samples = str(most) if least == most else f"{least} to {most}"
    return total


def _matrix(rankings: Run, cutoff: int) -> IntArray:
    """Return the first documents of each ranking; -1 where there are no more."""
    top = rankings.position < cutoff
    width = int(rankings.position[top].max(initial=0)) + 1
    matrix = np.full((rankings.n_rankings, width), -1, dtype=np.int64)
    matrix[rankings.ranking[top], rankings.position[top]] = rankings.doc[top]
    return matrix


def _answers(frame: pd.DataFrame, rankings: Run) -> tuple[IntArray, list[str] | None]:
    """Return the place of each ranking's answer among the distinct ones, and these."""
    if QANSWER not in frame.columns:
        return np.zeros(rankings.n_rankings, dtype=np.int64), None
    texts = frame[QANSWER].to_numpy()[rankings.order[rankings.ranking_start[:-1]]]
    codes, distinct = pd.factorize(np.array([_plain(text) for text in texts], dtype=object))
    return codes.astype(np.int64), [str(text) for text in distinct]


def _add_labels(queries: Mapping[str, dict[str, Any]], qrels: pd.DataFrame | None) -> None:
    if qrels is None:
        return
    if LABEL in qrels.columns and DOCNO in qrels.columns:
        useful = qrels[qrels[LABEL] > 0]
        for qid, docno, label in zip(useful[QID], useful[DOCNO], useful[LABEL], strict=True):
            if qid in queries:
                queries[qid]["l"][str(docno)] = float(label)
    if GOLD_ANSWER in qrels.columns:
        first = qrels.drop_duplicates(QID)
        for qid, gold in zip(first[QID], first[GOLD_ANSWER], strict=True):
            several = isinstance(gold, list | tuple | np.ndarray)
            if qid in queries:
                queries[qid]["g"] = [_plain(text) for text in (gold if several else [gold])]


def _public(query: dict[str, Any], systems: int) -> dict[str, Any]:
    """Return a query as the page reads it."""
    labels = query["l"]
    return {
        "q": query["q"],
        "g": query["g"],
        "d": list(query["docs"]),
        "t": query["t"],
        "l": [labels.get(docno, 0) for docno in query["docs"]],
        "a": list(query["answers"]),
        "s": [query["s"].get(place) for place in range(systems)],
        "e": query["e"],
    }


def _values(results: Results, qids: list[str]) -> list[list[list[float | None]]]:
    """Return the values by measure, system and query, with five digits; None: undefined."""
    tables = []
    for measure in results.measures:
        values = results.per_query[results.per_query["measure"] == measure]
        table = values.pivot(index="system", columns=QID, values="value")
        table = table.reindex(index=results.systems, columns=qids)
        tables.append([[_digits(value) for value in row] for row in table.to_numpy().tolist()])
    return tables


def _digits(value: float) -> float | None:
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or value is pd.NA or value != value else str(value)
