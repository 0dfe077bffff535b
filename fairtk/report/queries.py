"""The queries of a page: compressed rankings and answers of all systems.

Equal rankings with equal answers are stored once, with a count. The page decompresses the JSON of
a query when the query is opened.
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

from fairtk.display.tables import number_text, shorten
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
from fairtk.frames.answers import flattened

if TYPE_CHECKING:
    from fairtk.experiment.results import Results

BYTES = 1_200_000
"""The limit for the compressed queries of a page, so that a page is below 2 MB."""
_SHOWN_TEXT, _SHOWN_QUERY, _SHOWN_IN_LIST = 100, 600, 120


@dataclass
class SystemRankings:
    """Counts of a system's rankings and answers.

    Attributes:
        qids: the queries with a ranking or an answer.
        samples: rankings per query, e.g. ``"25"`` or ``"3 to 25"``.
        rankings: the number of rankings.
        distinct: the number of distinct rankings, summed over queries.
        answers: the number of distinct answers, summed over queries.
        answered: whether the system generates answers.
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
        index: the compressed list of queries.
        packed: the compressed queries, up to `BYTES`.
        n_queries: the number of all queries.
        systems: the counts of each system.
        depth: the number of ranks shown of the longest ranking.
    """

    index: str
    packed: list[str]
    n_queries: int
    systems: dict[str, SystemRankings]
    depth: int


def drill_down(results: Results, cutoff: int) -> DrillDown:
    """Collect and compress the rankings and answers of all systems.

    Args:
        results: the results.
        cutoff: the number of ranks to show.
    """
    queries: dict[str, dict[str, Any]] = {}
    for qid in dict.fromkeys(results.per_query[QID]):
        queries[qid] = _query()
    systems = {}
    for index, name in enumerate(results.systems):
        systems[name] = _collect(results.rankings(name), name, index, cutoff, queries)
    for index, name in enumerate(results.systems):
        failed = results.failures[results.failures["system"] == name]
        for qid, error in zip(failed[QID], failed["error"], strict=True):
            queries.setdefault(qid, _query())["e"][index] = str(error)
    _add_labels(queries, results.qrels)
    packed = [pack(_public(query, len(results.systems))) for query in queries.values()]
    n_packed = int(np.searchsorted(np.cumsum([len(text) for text in packed]), BYTES, side="right"))
    lengths = [len(docs) for q in queries.values() for s in q["s"].values() for _, docs, _ in s]
    depth = max(lengths, default=0)
    overview = {
        "systems": results.systems,
        "measures": results.measures,
        "cutoff": depth,
        "qids": list(queries),
        "texts": [shorten(query["q"], _SHOWN_IN_LIST) for query in queries.values()],
        "values": _values(results, list(queries)),
    }
    return DrillDown(pack(overview), packed[:n_packed], len(queries), systems, depth)


def pack(value: Any) -> str:
    """Return a value as compressed JSON in base64."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # data may have unpaired surrogates, which cannot be encoded
    data = text.encode("utf-8", errors="replace")
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def _query() -> dict[str, Any]:
    return {
        "q": "",
        "docs": {},
        "t": [],
        "answers": {},
        "s": {},
        "e": {},
        "l": {},
        "g": [],
        "p": [],
    }


def _collect(
    frame: pd.DataFrame, name: str, index: int, cutoff: int, queries: dict[str, dict[str, Any]]
) -> SystemRankings:
    if frame.empty:
        return SystemRankings()
    if DOCNO not in frame.columns:  # answers without retrieval
        frame, cutoff = frame.assign(**{DOCNO: "none"}), 0
    ordered = frame if SCORE in frame.columns else frame.assign(**{SCORE: 0.0})  # or by rank
    rankings = Run(ordered, f"report (system {name!r})")
    texts = frame[next((c for c in ("title", TEXT) if c in frame.columns), DOCNO)].to_numpy()
    query_texts = frame[QUERY].to_numpy() if QUERY in frame.columns else None
    codes, answers = _answers(frame, rankings)
    matrix = _matrix(rankings, cutoff)
    top = rankings.position < cutoff
    pairs = pd.DataFrame({"query": rankings.query[top], "doc": rankings.doc[top]})
    pairs = pairs.drop_duplicates()
    sorted_rows = np.flatnonzero(top)[pairs.index.to_numpy()]
    rows, documents = rankings.order[sorted_rows], rankings.by_parent()
    labeled = documents.docnos[documents.doc[sorted_rows]]  # the documents of passages
    doc = pairs["doc"].to_numpy()
    doc_ends = np.searchsorted(pairs["query"].to_numpy(), np.arange(len(rankings.qids) + 1))
    ends = np.searchsorted(rankings.ranking_query, np.arange(len(rankings.qids) + 1))
    total = SystemRankings({str(q) for q in rankings.qids}, answered=answers is not None)
    for i, qid in enumerate(rankings.qids):
        query = queries.setdefault(str(qid), _query())
        if query_texts is not None and not query["q"]:
            row = rankings.order[rankings.ranking_start[ends[i]]]
            query["q"] = shorten(_plain(query_texts[row]), _SHOWN_QUERY)
        local = {-1: -1}
        part = slice(doc_ends[i], doc_ends[i + 1])
        for row, code, parent in zip(rows[part], doc[part].tolist(), labeled[part], strict=True):
            docno = str(rankings.docnos[code])
            if docno not in query["docs"]:
                query["docs"][docno] = len(query["t"])
                query["p"].append(str(parent))
                query["t"].append(
                    "" if texts[row] == docno else shorten(_plain(texts[row]), _SHOWN_TEXT)
                )
            local[code] = query["docs"][docno]
        part = slice(ends[i], ends[i + 1])
        samples = np.column_stack([matrix[part], codes[part]])
        distinct, first, counts = np.unique(samples, axis=0, return_index=True, return_counts=True)
        order = np.lexsort((first, -counts))
        entries = []
        for row, count in zip(distinct[order].tolist(), counts[order].tolist(), strict=True):
            docs = [local[code] for code in row[:-1] if code >= 0]
            answer = None
            if answers is not None:
                answer = query["answers"].setdefault(answers[row[-1]], len(query["answers"]))
            entries.append((count, docs, answer))
        query["s"][index] = entries
        total.rankings += len(samples)
        total.distinct += len({tuple(docs) for _, docs, _ in entries})
        total.answers += len({answer for _, _, answer in entries}) if total.answered else 0
    least, most = int(rankings.n_samples.min()), int(rankings.n_samples.max())
    total.samples = str(most) if least == most else f"{least} to {most}"
    return total


def _matrix(rankings: Run, cutoff: int) -> IntArray:
    """Return the first documents of each ranking, padded with -1."""
    top = rankings.position < cutoff
    width = int(rankings.position[top].max(initial=0)) + 1
    matrix = np.full((rankings.n_rankings, width), -1, dtype=np.int64)
    matrix[rankings.ranking[top], rankings.position[top]] = rankings.doc[top]
    return matrix


def _answers(frame: pd.DataFrame, rankings: Run) -> tuple[IntArray, list[str] | None]:
    """Return the index of each ranking's answer, and the distinct answers."""
    if QANSWER not in frame.columns:
        return np.zeros(rankings.n_rankings, dtype=np.int64), None
    texts = frame[QANSWER].to_numpy()[rankings.order[rankings.ranking_start[:-1]]]
    codes, distinct = pd.factorize(np.array([_shown(text) for text in texts], dtype=object))
    return codes.astype(np.int64), [str(text) for text in distinct]


def _shown(cell: Any) -> Any:
    """Return an answer, or several answers as a list with numbers."""
    _, several = flattened([cell])
    if len(several) == 1:
        return _plain(several[0])
    return "\n".join(f"{number}. {_plain(text)}" for number, text in enumerate(several, 1))


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
            is_list = isinstance(gold, list | tuple | np.ndarray)
            if qid in queries:
                queries[qid]["g"] = [_plain(text) for text in (gold if is_list else [gold])]


def _public(query: dict[str, Any], systems: int) -> dict[str, Any]:
    """Return a query in the format of the page's script."""
    labels = query["l"]
    return {
        "q": query["q"],
        "g": query["g"],
        "d": list(query["docs"]),
        "t": query["t"],
        "l": [labels.get(docno, 0) for docno in query["p"]],
        "a": list(query["answers"]),
        "s": [query["s"].get(index) for index in range(systems)],
        "e": query["e"],
    }


def _values(results: Results, qids: list[str]) -> list[list[list[float | None]]]:
    """Return the values by measure, system and query, rounded as in tables; `None` if undefined.

    So the page's script, which rounds halves in another way, only writes their decimals.
    """
    tables = []
    for measure in results.measures:
        values = results.per_query[results.per_query["measure"] == measure]
        table = values.pivot(index="system", columns=QID, values="value")
        table = table.reindex(index=results.systems, columns=qids)
        tables.append([[_rounded(value) for value in row] for row in table.to_numpy().tolist()])
    return tables


def _rounded(value: float) -> float | None:
    return float(number_text(value)) if math.isfinite(value) else None


def _plain(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or value is pd.NA or value != value else str(value)
