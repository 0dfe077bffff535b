"""The reference: the measures' definitions in plain Python, a query at a time.

EE-D, EE-R and EE-L as in Towards Fair RAG (Eqs. 3 to 6, Appendix C) for the machine user, with
graded targets; AWRF as in TREC Fair Ranking 2022; nDCG, P and RR as in trec_eval.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from campaign_case import Refused
from campaign_values import Reading

NAN = math.nan
Ranking = list[tuple[str, float]]
Labels = dict[str, dict[str, float]]


@dataclass
class Run:
    """Rankings by query and sample.

    Attributes:
        rankings: (docno, score) pairs in order.
        sampled: whether the run has the column of samples.
    """

    rankings: dict[str, dict[int, Ranking]] = field(default_factory=dict)
    sampled: bool = False

    def orders(self, qid: str) -> list[list[str]]:
        """Return the documents of each ranking of a query."""
        return [[docno for docno, _ in ranking] for ranking in self.rankings[qid].values()]


def run_of(reading: Reading, form: str) -> Run:
    """Return the rankings that a run file says."""
    records, lines = reading.records, reading.lines
    run = Run()
    sample = _samples([r.get("sample") for r in records], lines, form)
    run.sampled = sample is not None
    rows: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for at, record in enumerate(records):
        key = (record["qid"], 0 if sample is None else sample[at])
        if any(record["docno"] == other["docno"] for other, _ in rows[key]):
            raise Refused(f"docno {record['docno']!r} twice in a ranking", lines[at])
        rows[key].append((record, lines[at]))
    for (qid, number), own in rows.items():
        if form == "task":
            ranking = [(record["docno"], -float(i)) for i, (record, _) in enumerate(own)]
        else:
            ranking = _ordered(own)
        run.rankings.setdefault(qid, {})[number] = ranking
    return run


def _ordered(own: list[Any]) -> Ranking:
    own = sorted(own, key=lambda row: row[0]["docno"], reverse=True)
    own.sort(key=lambda row: (row[0].get("rank", 0), -row[0]["score"]))
    for (one, _), (two, line) in zip(own, own[1:], strict=False):
        if two["score"] > one["score"]:
            raise Refused("ranks disagree with scores", line)
    return [(record["docno"], record["score"]) for record, _ in own]


def _samples(words: list[Any], lines: list[int | None], form: str) -> list[int] | None:
    if not words or words[0] is None:
        return None
    if form == "task":
        if min(words) < 0:
            raise Refused("negative seq_no", lines[words.index(min(words))])
        return [word - (min(words) > 0) for word in words]  # the track counts from 1
    for pattern, least in (("[0-9]{1,18}", 1), ("[Qq][0-9]{1,18}", 2)):
        if all(re.fullmatch(pattern, w) for w in words) and len(set(words)) >= least:
            return [int(w.lstrip("Qq")) for w in words]
    if len(set(words)) > 1:
        odd = next(i for i, word in enumerate(words) if word != words[0])
        raise Refused("samples mixed with something else", lines[odd])
    return None


def labels_of(reading: Reading) -> Labels:
    """Return the labels that a qrels file says."""
    labels: Labels = {}
    for record, line in zip(reading.records, reading.lines, strict=True):
        own = labels.setdefault(record["qid"], {})
        if record["docno"] in own:
            raise Refused("a document is labeled twice", line)
        own[record["docno"]] = record["label"]
    return labels


def groups_of(reading: Reading) -> dict[str, dict[str, float]]:
    """Return the weights that a group file says, not yet normalized."""
    groups: dict[str, dict[str, float]] = {}
    last: dict[str, int | None] = {}
    for record, line in zip(reading.records, reading.lines, strict=True):
        own = groups.setdefault(record["docno"], {})
        if record["group"] in own:
            raise Refused("document and group occur twice", line)
        own[record["group"]] = record.get("weight", 1.0)
        last[record["docno"]] = line
    for docno, own in groups.items():
        if not sum(own.values()) > 0:
            raise Refused(f"the weights of {docno!r} sum to 0", last[docno])
    return groups


def levels_of(groups: Mapping[str, Mapping[str, float]]) -> set[str]:
    """Return all levels."""
    return {level for own in groups.values() for level in own}


def target_of(reading: Reading, levels: set[str]) -> dict[Any, dict[str, float]]:
    """Return the shares that a target file says, by qid (None: for all)."""
    target: dict[Any, dict[str, float]] = {}
    for record, line in zip(reading.records, reading.lines, strict=True):
        own = target.setdefault(record.get("qid"), {})
        if record["group"] in own:
            raise Refused("a level is listed twice", line)
        if record["group"] not in levels:
            raise Refused("a level that the groups lack", line)
        own[record["group"]] = record["weight"]
    for own in target.values():
        if abs(sum(own.values()) - 1) > 1e-6:
            raise Refused("the weights do not sum to 1", None)
    if not target:
        raise Refused("no rows")
    return {qid: {k: w / sum(own.values()) for k, w in own.items()} for qid, own in target.items()}


def shares(weights: Mapping[str, float]) -> dict[str, float]:
    """Return weights that sum to 1; without those of 0."""
    whole = sum(weights.values())
    return {level: weight / whole for level, weight in weights.items() if weight > 0}


# Expected exposure --------------------------------------------------------------------------------


def exposures(labels: Mapping[str, float], orders: list[list[str]] | None, k: int) -> Any:
    """Return EE_D@k, EE_R@k and EE_L@k of one query; None for orders: the run lacks it."""
    useful = {d: g for d, g in labels.items() if g > 0}
    if orders is None:
        return 1.0, (0.0 if useful else NAN), (1.0 if useful else NAN)
    documents = set(labels).union(*map(set, orders))
    depth = min(k, len(documents))
    exposure = {d: sum(d in o[:k] for o in orders) / len(orders) for d in documents}
    target, above = {}, 0
    for grade in sorted(set(useful.values()), reverse=True) + [0]:
        block = [d for d in documents if useful.get(d, 0) == grade]
        inside = min(max(depth - above, 0), len(block))
        target |= dict.fromkeys(block, inside / len(block) if block else 0.0)
        above += len(block)
    disparity = sum(e * e for e in exposure.values())
    relevance = sum(exposure[d] * target[d] for d in documents)
    square = sum(t * t for t in target.values())
    loss = disparity - 2 * relevance + square
    if not useful:
        return disparity / depth, NAN, NAN
    return disparity / depth, relevance / square, loss / (depth + square)


# What trec_eval computes --------------------------------------------------------------------------


def ndcg(labels: Mapping[str, float], order: list[str], k: int) -> float:
    """Return nDCG@k with trec_eval's discount and gains."""
    ideal = _dcg(sorted((g for g in labels.values() if g > 0), reverse=True)[:k])
    got = _dcg([max(labels.get(d, 0), 0) for d in order[:k]])
    return got / ideal if ideal else 0.0


def _dcg(gains: list[float]) -> float:
    return sum(gain / math.log2(i + 2) for i, gain in enumerate(gains))


def precision(labels: Mapping[str, float], order: list[str], k: int) -> float:
    """Return P@k."""
    return sum(labels.get(d, 0) > 0 for d in order[:k]) / k


def reciprocal(labels: Mapping[str, float], order: list[str], k: int) -> float:
    """Return RR@k."""
    found = [i for i, d in enumerate(order[:k]) if labels.get(d, 0) > 0]
    return 1 / (found[0] + 1) if found else 0.0


def by_score(ranking: Ranking) -> list[str]:
    """Return the documents in trec_eval's order: by score, ties by docno, descending."""
    return [docno for docno, _ in sorted(ranking, key=lambda row: (row[1], row[0]), reverse=True)]


PLAIN = {"nDCG": ndcg, "P": precision, "RR": reciprocal}


# Groups -------------------------------------------------------------------------------------------


def attention(rank: int) -> float:
    """Return the discount of TREC Fair Ranking 2022; rank from 0."""
    return 1 / math.log2(max(rank + 1, 2))


def awrf(
    groups: Mapping[str, Mapping[str, float]],
    target: Mapping[str, float] | None,
    orders: list[list[str]] | None,
    k: int,
) -> float:
    """Return AWRF@k of one query: 1 - JSD, natural logarithm, exposure averaged over samples."""
    if not target:
        return NAN
    if orders is None:
        return 0.0
    shown: dict[str, float] = defaultdict(float)
    for order in orders:
        for rank, docno in enumerate(order[:k]):
            for level, share in shares(groups.get(docno, {})).items() if docno in groups else ():
                shown[level] += attention(rank) * share
    if not shown:
        return NAN
    return 1 - jensen_shannon(shares(shown), shares(target))


def jensen_shannon(one: Mapping[str, float], two: Mapping[str, float]) -> float:
    """Return the divergence of two distributions, in nats."""
    total = 0.0
    for level in one.keys() | two.keys():
        p, q = one.get(level, 0.0), two.get(level, 0.0)
        middle = (p + q) / 2
        total += p * math.log(p / middle) / 2 if p else 0.0
        total += q * math.log(q / middle) / 2 if q else 0.0
    return total


def target_from_labels(
    groups: Mapping[str, Mapping[str, float]], labels: Mapping[str, float]
) -> dict[str, float]:
    """Return the mean membership of the relevant documents; empty: there is none."""
    summed: dict[str, float] = defaultdict(float)
    for docno, label in labels.items():
        if label > 0 and docno in groups:
            for level, share in shares(groups[docno]).items():
                summed[level] += share
    return shares(summed) if summed else {}


def utility(answers: list[str], gold: Any) -> float:
    """Return the share of answers that are (one of) the gold answer."""
    accepted = [text.strip() for text in (gold if isinstance(gold, list) else [gold])]
    return sum(answer.strip() in accepted for answer in answers) / len(answers)
