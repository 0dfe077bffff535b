"""Runs, labels, groups and targets of a reading, and the reference values of measures.

They are written from the definitions: EE's machine user with graded targets over at most as many
positions as there are documents, and AWRF with the discounts of TREC Fair Ranking 2022. nDCG and
the Jensen-Shannon divergence are those of `plain`, the plain versions that `tests/oracle` compares.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import plain
from campaign_case import Refused
from campaign_reader import Reading

NAN = math.nan
Ranking = list[tuple[str, float]]
Labels = dict[str, dict[str, float]]
Groups = dict[str, dict[str, float]]


@dataclass
class Run:
    """Rankings, as (docno, score) pairs in order, by query and sample.

    Attributes:
        is_sampled: whether the run has the column of samples.
    """

    rankings: dict[str, dict[int, Ranking]] = field(default_factory=dict)
    is_sampled: bool = False

    @property
    def has_several(self) -> bool:
        """Whether a query has several rankings."""
        return any(len(rankings) > 1 for rankings in self.rankings.values())

    def orders(self, qid: str) -> list[list[str]]:
        """Return the documents of each ranking of a query; empty if the run does not have it."""
        rankings = self.rankings.get(qid, {}).values()
        return [[docno for docno, _ in ranking] for ranking in rankings]

    def trec_orders(self, qid: str) -> list[list[str]]:
        """Return `orders` as trec_eval sees them: by score, ties by docno, descending."""
        if self.has_several:
            return self.orders(qid)
        rankings = self.rankings.get(qid, {}).values()
        by_score = [sorted(ranking, key=lambda row: row[::-1]) for ranking in rankings]
        return [[docno for docno, _ in reversed(ranking)] for ranking in by_score]


def run_of(reading: Reading, form: str) -> Run:
    """Return the rankings of a run."""
    records, lines = reading.records, reading.lines
    samples = _samples([r.get("sample") for r in records], lines, form)
    run = Run(is_sampled=samples is not None)
    rows: dict[tuple[str, int], dict[str, Any]] = defaultdict(dict)
    for index, record in enumerate(records):
        key = (record["qid"], samples[index] if samples else 0)
        if record["docno"] in rows[key]:
            raise Refused("duplicate docno in a ranking", lines[index])
        rows[key][record["docno"]] = (record.get("rank", 0), -record.get("score", -index), index)
    for (qid, sample), ranking in rows.items():
        docnos = sorted(ranking, reverse=True)
        if form == "task":
            docnos = list(ranking)  # the order of the file
        else:
            docnos.sort(key=lambda docno: ranking[docno][:2])
        scores = [-ranking[docno][1] for docno in docnos]
        for docno, above, score in zip(docnos[1:], scores, scores[1:], strict=False):
            if score > above and form != "task":
                raise Refused("ranks disagree with scores", lines[ranking[docno][2]])
        run.rankings.setdefault(qid, {})[sample] = list(zip(docnos, scores, strict=True))
    return run


def _samples(words: list[Any], lines: list[int | None], form: str) -> list[int] | None:
    if not words or words[0] is None:
        return None
    if form == "task":
        return [word - (min(words) > 0) for word in words]  # the track counts from 1
    for pattern, least in (("[0-9]{1,18}", 1), ("[Qq][0-9]{1,18}", 2)):
        if all(re.fullmatch(pattern, w) for w in words) and len(set(words)) >= least:
            return [int(w.lstrip("Qq")) for w in words]
    if len(set(words)) > 1:
        index = next(i for i, word in enumerate(words) if word != words[0])
        raise Refused("samples and other words", lines[index])
    return None


def labels_of(reading: Reading) -> Labels:
    """Return the labels of qrels."""
    return _mapping(reading, "qid", "docno", "label")


def groups_of(reading: Reading) -> Groups:
    """Return the weights of groups, not normalized."""
    groups = _mapping(reading, "docno", "group", "weight")
    last = dict(zip((r["docno"] for r in reading.records), reading.lines, strict=True))
    for docno, weights in groups.items():
        if not sum(weights.values()) > 0:
            raise Refused(f"the weights of {docno!r} sum to 0", last[docno])
    return groups


def target_of(reading: Reading, groups: Groups) -> dict[Any, dict[str, float]]:
    """Return the shares of a target, by qid; the only key is `None` if they are for all queries."""
    for record, line in zip(reading.records, reading.lines, strict=True):
        if record["group"] not in levels_of(groups):
            raise Refused("a level missing from the groups", line)
    target = _mapping(reading, "qid", "group", "weight")
    if not target or any(abs(sum(w.values()) - 1) > 1e-6 for w in target.values()):
        raise Refused("the weights do not sum to 1")
    return {qid: shares(weights) for qid, weights in target.items()}


def _mapping(reading: Reading, outer: str, inner: str, value: str) -> dict[Any, dict[str, float]]:
    mapping: dict[Any, dict[str, float]] = {}
    for record, line in zip(reading.records, reading.lines, strict=True):
        values = mapping.setdefault(record.get(outer), {})
        if record[inner] in values:
            raise Refused(f"duplicate row for {record[inner]!r}", line)
        values[record[inner]] = record.get(value, 1.0)
    return mapping


def levels_of(groups: Groups) -> set[str]:
    """Return all levels."""
    return {level for weights in groups.values() for level in weights}


def shares(weights: Mapping[str, float]) -> dict[str, float]:
    """Return weights that sum to 1, without those of 0."""
    total = sum(weights.values())
    return {level: weight / total for level, weight in weights.items() if weight > 0}


# Values of measures -------------------------------------------------------------------------------


def exposures(labels: Mapping[str, float], orders: list[list[str]], k: int) -> list[float]:
    """Return EE_D@k, EE_R@k and EE_L@k of a query; no orders: the run does not have it."""
    useful = {d: g for d, g in labels.items() if g > 0}
    if not orders:
        return [1.0, 0.0 if useful else NAN, 1.0 if useful else NAN]
    documents = set(labels).union(*orders)
    depth = min(k, len(documents))
    exposure = {d: sum(d in order[:k] for order in orders) / len(orders) for d in documents}
    target, above = {}, 0
    for grade in [*sorted(set(useful.values()), reverse=True), 0]:
        block = [d for d in documents if useful.get(d, 0) == grade]
        inside = min(max(depth - above, 0), len(block))
        target |= {d: inside / len(block) for d in block}
        above += len(block)
    disparity = sum(e * e for e in exposure.values())
    relevance = sum(exposure[d] * target[d] for d in documents)
    square = sum(t * t for t in target.values())
    loss = disparity - 2 * relevance + square
    if not useful:
        return [disparity / depth, NAN, NAN]
    return [disparity / depth, relevance / square, loss / (depth + square)]


def ndcg(labels: dict[str, float], orders: list[list[str]], k: int) -> float:
    """Return nDCG@k of a query, the mean over its rankings."""
    return plain.trec_eval(plain.Query(labels, orders), k)["nDCG"]


def awrf(groups: Groups, target: dict[str, float], orders: list[list[str]], k: int) -> float:
    """Return AWRF@k of a query, with exposure averaged over its rankings."""
    if not target:
        return NAN
    if not orders:
        return 0.0
    exposure: dict[str, float] = defaultdict(float)
    for order in orders:
        for rank, docno in enumerate(order[:k], start=1):
            for level, share in shares(groups.get(docno, {})).items():
                exposure[level] += share / math.log2(max(rank, 2))
    return 1 - plain.divergence(exposure, target) if exposure else NAN


def target_from_labels(groups: Groups, labels: Mapping[str, float]) -> dict[str, float]:
    """Return the mean membership of the relevant documents; empty if none has a group."""
    total: dict[str, float] = defaultdict(float)
    for docno, label in labels.items():
        for level, share in shares(groups.get(docno, {})).items() if label > 0 else ():
            total[level] += share
    return shares(total)


def utility(answers: list[str], gold: list[str]) -> float:
    """Return the share of answers that are one of the gold answers."""
    accepted = [text.strip() for text in gold]
    return sum(answer.strip() in accepted for answer in answers) / len(answers)
