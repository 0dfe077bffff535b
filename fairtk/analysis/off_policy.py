"""Answers that were generated under sampled policies, as places in each query's candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from fairtk.errors import ColumnError, InputError
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import DOCNO, QANSWER, QID, SAMPLE, SCORE, require
from fairtk.frames.ids import Ids
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import Rankings, encode_run, order_by
from fairtk.measures.eu import ExpectedUtility
from fairtk.measures.evidence import Evidence
from fairtk.plackett_luce import (
    METHODS,
    draw_rankings,
    log_step_probabilities,
    log_weights,
    score_gaps,
)

COMPARED = 20
"""Rankings up to this number are compared with what the sampler draws."""
DRAWN = 64
"""How many rankings of each query say how likely a policy's own rankings are."""
QUERIES = 100
"""How many queries are looked at for that."""
FAR = 6.0
"""Standard errors between two means that chance does not explain."""


class ScoredCandidates:
    """The documents of each query in the order in which a sampler takes them: by score and docno.

    Args:
        scores: the run R that was sampled from.
        where: who asks, for messages.

    Attributes:
        run: the run, encoded.
        start: first sorted row of each query, and the number of rows at the end.
        score: score of each sorted row.
    """

    def __init__(self, scores: pd.DataFrame, where: str) -> None:
        require(scores, [QID, DOCNO, SCORE], where)
        if SAMPLE in scores.columns:
            raise ColumnError(
                f"{where} takes the run that was sampled from, but the frame has the column "
                f"{SAMPLE!r}: give it the retriever's run"
            )
        self.run = run = encode_run(scores, where)
        self.start = run.ranking_start
        self.score = scores[SCORE].to_numpy(dtype=np.float64)[run.order]
        self._order = order_by(
            (-self.score, run.ranking), lambda rows: (run.doc[rows], run.docnos), False
        )
        self.score = self.score[self._order]

    @cached_property
    def _places(self) -> tuple[pd.Index, IntArray]:
        run = self.run
        within = np.empty(len(self._order), dtype=np.int64)
        within[self._order] = np.arange(len(self._order)) - self.start[run.ranking]
        return pd.Index(run.query * max(1, run.documents.size) + run.doc), within

    def places(self, ranked: Rankings, doc: IntArray, rows: IntArray, where: str) -> IntArray:
        """Return the places, from 0, of the documents of some rows of a run.

        Args:
            ranked: the run.
            doc: the place of each of its distinct documents among those of this one, or -1.
            rows: the rows.
            where: who asks, for messages.

        Raises:
            InputError: a document is none of its query's candidates.
        """
        own = self.run
        query = own_queries(own, ranked)[ranked.query[rows]]
        doc = doc[ranked.doc[rows]]
        known, within = self._places
        found = known.get_indexer(np.where(doc < 0, -1, query * max(1, own.documents.size) + doc))
        strange = np.flatnonzero((found < 0) | (query < 0))
        if len(strange):
            row = int(rows[strange[0]])
            raise InputError(
                f"{where}: the policy cannot draw docno {ranked.docno(row)!r} for qid "
                f"{str(ranked.qids[ranked.query[row]])!r}: it is not in scores ({len(strange)} "
                "such rows); give the run that the rankings were sampled from"
            )
        return np.asarray(within[found])

    def log_weights(self, query: int, alphas: Sequence[float] | FloatArray) -> FloatArray:
        """Return the log-weights of a query's documents below the heaviest; (n, n_alphas)."""
        rows = slice(self.start[query], self.start[query + 1])
        return log_weights(self.score[rows], np.asarray(alphas, dtype=np.float64))

    def drawn(
        self, alpha: float, n_samples: int, cutoff: int, seed: int, method: str, last: int
    ) -> list[IntArray]:
        """Return what `FairSampler` draws for each of the queries 0 to last - 1, as places.

        One array for each, of shape (n_samples, depth).
        """
        start = self.start[: last + 1]
        keys = self.run.qids[self.run.ranking_query[:last]].tolist()
        gaps = score_gaps(self.score[: start[-1]], start, alpha)
        draws = draw_rankings(gaps, start, keys, n_samples, cutoff, seed, method)
        depth = np.minimum(np.diff(start), cutoff)
        parts = np.split(draws.row, np.cumsum(depth * n_samples)[:-1])
        return [
            part.reshape(n_samples, k) - first
            for part, k, first in zip(parts, depth.tolist(), start[:-1], strict=True)
        ]


def own_queries(own: Rankings, other: Rankings) -> IntArray:
    """Return the query of one run of each query of another; -1: none."""
    return Ids(own.qids).find(Ids(other.qids))


@dataclass(frozen=True)
class Generated:
    """The answers generated under one policy, as arrays over its rankings, sorted by query.

    Attributes:
        sample: the sample number of each.
        value: the utility of the answer of each.
        top: the documents at the first places of each, by query; shape (n, depth) each.
        start: first ranking of each query, and the number of rankings at the end.
    """

    sample: IntArray
    value: FloatArray
    top: list[IntArray]
    start: IntArray


def read_generated(
    frames: Mapping[str, pd.DataFrame],
    candidates: ScoredCandidates,
    qrels: Qrels,
    measure: ExpectedUtility,
    cutoff: int,
) -> list[Generated]:
    """Return the answers of frames, by what each is called in messages, checked.

    Raises:
        ColumnError: a frame has no answers, or no documents.
        InputError: a ranking has other documents than the candidates, or too few; two answers of
            one ranking differ; a gold answer is missing.
    """
    evidences = []
    for where, frame in frames.items():
        require(frame, [QID, DOCNO, QANSWER], where)
        evidences.append(Evidence(qrels, frame, where))
    known = candidates.run.documents.find_each([e.rankings.documents for e in evidences])
    return [
        _generated(evidence, doc, candidates, measure, cutoff)
        for evidence, doc in zip(evidences, known, strict=True)
    ]


def _generated(
    evidence: Evidence,
    doc: IntArray,
    candidates: ScoredCandidates,
    measure: ExpectedUtility,
    cutoff: int,
) -> Generated:
    ranked, where = evidence.rankings, evidence.where
    _, value = measure.of_answers(evidence)
    query = own_queries(candidates.run, ranked)[ranked.ranking_query]
    sizes = np.diff(candidates.start)
    length = np.diff(ranked.ranking_start)
    kept = np.flatnonzero(ranked.position < cutoff)
    place = candidates.places(ranked, doc, kept, where)
    depth = np.minimum(sizes[query], cutoff)
    short = np.flatnonzero(length < depth)
    if len(short):
        at = int(short[0])
        raise InputError(
            f"{where}: the ranking of qid {str(ranked.qids[ranked.ranking_query[at]])!r}, sample "
            f"{ranked.ranking_sample[at]}, has {length[at]} documents, and cutoff={cutoff} needs "
            f"{depth[at]} ({len(short)} such rankings); give the number of documents that the "
            "generator read as cutoff"
        )
    first = np.append(0, np.cumsum(depth))[:-1]
    order = np.argsort(query, kind="stable")
    start = np.searchsorted(query[order], np.arange(len(sizes) + 1))
    top = []
    for number, (a, b) in enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True)):
        width = min(int(sizes[number]), cutoff)
        top.append(place[first[order[a:b]][:, None] + np.arange(width)])
    return Generated(ranked.ranking_sample[order], value[order], top, start)


def refuse_other_draws(
    given: Generated, candidates: ScoredCandidates, alpha: float, cutoff: int, seed: int, where: str
) -> None:
    """Raise unless the rankings are those that `FairSampler` draws, by one of its methods.

    Raises:
        InputError: names the first query and sample that differ from those of the last method.
    """
    compared = given.sample < COMPARED
    if not compared.any():
        return
    n_samples = int(given.sample[compared].max()) + 1
    for method in METHODS:
        drawn = candidates.drawn(alpha, n_samples, cutoff, seed, method, len(given.top))
        differs = [
            (drawn[number][given.sample[rows][compared[rows]]] != top[compared[rows]]).any(axis=1)
            for number, top in enumerate(given.top)
            for rows in [slice(given.start[number], given.start[number + 1])]
        ]
        other = np.flatnonzero(np.concatenate(differs))
        if len(other) == 0:
            return
    at = int(np.flatnonzero(compared)[other[0]])
    number = int(np.searchsorted(given.start, at, side="right")) - 1
    raise InputError(
        f"{where}: the ranking of qid {str(candidates.run.qids[number])!r}, sample "
        f"{given.sample[at]}, is not the one that FairSampler(alpha={alpha}, seed={seed}) draws "
        "from these scores: it is of another seed (say which: seed=...), alpha or run"
    )


def refuse_other_policy(
    given: Generated, candidates: ScoredCandidates, alpha: float, cutoff: int, where: str
) -> None:
    """Raise if the rankings are less or more likely than the policy's own, beyond chance.

    The mean log-probability over queries is compared with that of `DRAWN` rankings drawn here.

    Raises:
        InputError: says how far off it is.
    """
    looked_at = np.flatnonzero([len(top) > 0 for top in given.top])[:QUERIES].tolist()
    if not looked_at:
        return
    drawn = candidates.drawn(alpha, DRAWN, cutoff, 0, "independent", looked_at[-1] + 1)
    away = variance = 0.0
    for number in looked_at:
        own = given.top[number][:DRAWN]
        both = np.concatenate([own, drawn[number]])
        weights = candidates.log_weights(number, [alpha])
        likely = log_step_probabilities(weights, both).sum(axis=0)[:, 0]
        parts = likely[: len(own)], likely[len(own) :]
        squares = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
        away += float(parts[0].mean() - parts[1].mean())
        variance += squares / (len(both) - 2) * (1 / len(own) + 1 / DRAWN)
    if abs(away) > FAR * np.sqrt(variance) + 1e-9:
        kind = "likelier" if away > 0 else "less likely"
        raise InputError(
            f"{where}: the rankings are {kind} than draws of FairSampler(alpha={alpha}) from these "
            f"scores are ({abs(away) / np.sqrt(variance):.0f} standard errors): they are of "
            "another alpha or run"
        )
