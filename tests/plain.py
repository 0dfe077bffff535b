"""The published definitions in plain Python, for one query at a time.

Nothing is imported from fairtk: each function is written from the text of a paper or from published
code. Where the published code fails with an error, so does the function.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, float]


@dataclass(frozen=True)
class Query:
    """One query.

    Attributes:
        labels: the label of each judged document.
        rankings: the rankings, the best document first.
        groups: the share of each level, by document.
        target: the mass of each level.
        credit: the credit of each document, one dict per ranking, in rank order.
    """

    labels: dict[str, float]
    rankings: list[list[str]]
    groups: dict[str, dict[str, float]] = field(default_factory=dict)
    target: dict[str, float] = field(default_factory=dict)
    credit: list[dict[str, float]] = field(default_factory=list)

    @property
    def useful(self) -> set[str]:
        return {docno for docno, label in self.labels.items() if label > 0}

    @property
    def documents(self) -> set[str]:
        return set(self.labels) | {docno for ranking in self.rankings for docno in ranking}


def _machine_user(query: Query, k: int) -> Any:
    exposure: Any = Counter()
    for ranking in query.rankings:
        for docno in ranking[:k]:
            exposure[docno] += 1.0 / len(query.rankings)
    return exposure


def paper(query: Query, cutoff: int, **_: Any) -> Values:
    """Towards Fair RAG (Kim and Diaz 2024): Eqs. 3 to 6, bounds of Appendix C."""
    k, useful, documents = cutoff, query.useful, query.documents
    n, m = len(documents), len(useful)
    exposure = _machine_user(query, k)
    target = {}
    for docno in documents:
        if docno in useful:
            target[docno] = 1.0 if m <= k else k / m
        else:
            target[docno] = (k - m) / (n - m) if m <= k else 0.0
    spare = (k - m) ** 2 / (n - m) if n > m else 0.0
    highest = m + spare if m <= k else k**2 / m
    return {
        "EE_D": sum(e**2 for e in exposure.values()) / k,
        "EE_R": sum(exposure[d] * target[d] for d in documents) / highest,
        "EE_L": sum((exposure[d] - target[d]) ** 2 for d in documents) / (highest + k),
    }


def fair_rag(query: Query, cutoff: int, **_: Any) -> Values:
    """The code published with Towards Fair RAG: useful documents alone have a target."""
    k, useful = cutoff, query.useful
    n, m = len(query.labels), len(useful)
    if m == 0:
        raise IndexError("no useful document")
    exposure = _machine_user(query, k)
    target = dict.fromkeys(useful, 1.0 if m <= k else k / m)
    highest = m + (k - m) ** 2 / (n - m) if m <= k else k**2 / m
    loss = sum((exposure[d] - target.get(d, 0.0)) ** 2 for d in useful | set(exposure))
    return {
        "EE_D": sum(e**2 for e in exposure.values()) / k,
        "EE_R": sum(exposure[d] * target[d] for d in useful) / highest,
        "EE_L": loss / (highest + k),
    }


def expeval(
    query: Query, p: float, u: float | None, complete: bool, graded: bool = True, **_: Any
) -> Values:
    """expeval, the code published with Diaz et al. 2020; u None: RBP, else GERR."""
    stop, slip = u or 0.0, p if u is None else p * u
    grade = {d: g if graded else float(min(g, 1)) for d, g in query.labels.items()}
    exposure: Any = Counter()
    for ranking in query.rankings:
        stay = 1.0
        for rank, docno in enumerate(ranking):
            exposure[docno] += p**rank * stay / len(query.rankings)
            if grade.get(docno, 0) > 0:
                stay *= 1.0 - stop
    pool = grade if complete else {d: g for d, g in grade.items() if g > 0}
    if not pool:
        raise IndexError("no useful document")
    levels = sorted(set(pool.values()), reverse=True)
    target, above = {}, 0
    for level in levels:
        block = [docno for docno, g in pool.items() if g == level]
        q = p * (1.0 - stop) if level > 0 else p
        mean = sum(q**rank for rank in range(above, above + len(block))) / len(block)
        for docno in block:
            target[docno] = mean if level > 0 else mean * (1.0 - stop) ** above
        above += len(block)
    square, n = sum(t**2 for t in target.values()), len(pool)
    if complete:
        lowest_d = sum(slip**i for i in range(n)) ** 2 / n
        highest_d = sum(p ** (2 * i) for i in range(n))
        order = sorted(pool, key=lambda d: pool[d])  # the worst order: the lowest grade first
        worst, begin = 0.0, 0
        for level in reversed(levels):
            block = [d for d in order if pool[d] == level]
            worst += target[block[0]] * sum(slip**i for i in range(begin, begin + len(block)))
            begin += len(block)
        highest_l = sum(slip ** (2 * i) for i in range(n)) - 2 * worst + square
    else:
        lowest_d, highest_d = 0.0, 1.0 / (1.0 - p**2)
        worst = 0.0 if len(levels) > 1 else square
        highest_l = square + 1.0 / (1.0 - slip)
    retrieved = set(exposure) | set(target)
    disparity = sum(e**2 for e in exposure.values())
    loss = sum((exposure[d] - target.get(d, 0.0)) ** 2 for d in retrieved)
    relevance = sum(exposure[d] * t for d, t in target.items())
    if not query.rankings:  # bounds, and for the loss that of EE-R; both of it are 0 for one grade
        disparity, relevance, loss = highest_d, worst, 0.0 if worst == square else square
    return {
        "EE_D": _between(disparity, lowest_d, highest_d, 0.0),
        "EE_R": _between(relevance, worst, square, 1.0),
        "EE_L": _between(loss, 0.0, highest_l, 0.0),
    }


def _between(value: float, low: float, high: float, default: float) -> float:
    same = abs(high - low) <= 1e-12 * max(1.0, abs(high))
    return default if same else (value - low) / (high - low)


def _discount(rank: int) -> float:
    return 1.0 / math.log2(max(rank, 2))


def task1(query: Query, cutoff: int, **_: Any) -> Values:
    """TREC Fair Ranking 2022, Task 1: nDCG, AWRF and their product, of one ranking."""
    (ranking,) = query.rankings
    useful = query.useful
    gain = sum(_discount(i) for i, d in enumerate(ranking[:cutoff], 1) if d in useful)
    ideal = sum(_discount(i) for i in range(1, min(cutoff, len(useful)) + 1))
    exposure: Any = Counter()
    for rank, docno in enumerate(ranking[:cutoff], 1):
        for level, share in query.groups.get(docno, {}).items():
            exposure[level] += _discount(rank) * share
    ndcg, awrf = gain / ideal, 1.0 - divergence(exposure, query.target)
    return {"nDCG": ndcg, "AWRF": awrf, "Score": ndcg * awrf}


def divergence(got: Any, target: dict[str, float]) -> float:
    """Return the Jensen-Shannon divergence of shares of two sums over levels, in nats."""
    whole, mass = sum(got.values()), sum(target.values())
    divergence = 0.0
    for level in set(got) | set(target):
        s, t = got.get(level, 0.0) / whole, target.get(level, 0.0) / mass
        for one in (s, t):
            divergence += 0.5 * one * math.log(2 * one / (s + t)) if one > 0 else 0.0
    return divergence


def task2(query: Query, cutoff: int, **_: Any) -> Values:
    """TREC Fair Ranking 2022, Task 2: expected exposure of groups, useful documents alone."""
    exposure: Any = Counter()
    for ranking in query.rankings:
        for rank, docno in enumerate(ranking[:cutoff], 1):
            if docno in query.useful:
                for level, share in query.groups.get(docno, {}).items():
                    exposure[level] += _discount(rank) * share / len(query.rankings)
    scale = sum(_discount(rank) for rank in range(1, cutoff + 1)) / sum(query.target.values())
    target = {level: mass * scale for level, mass in query.target.items()}
    levels = set(exposure) | set(target)
    return {
        "GroupEE_D": sum(e**2 for e in exposure.values()),
        "GroupEE_R": sum(exposure[level] * target.get(level, 0.0) for level in levels),
        "GroupEE_L": sum((exposure[level] - target.get(level, 0.0)) ** 2 for level in levels),
    }


def trec_eval(query: Query, cutoff: int, **_: Any) -> Values:
    """trec_eval's nDCG: gains as labeled, discount 1 / log2(rank + 1); mean over rankings."""
    best = sorted((g for g in query.labels.values() if g > 0), reverse=True)[:cutoff]
    ideal = sum(g / math.log2(i + 1) for i, g in enumerate(best, 1))
    total = 0.0
    for ranking in query.rankings:
        for rank, docno in enumerate(ranking[:cutoff], 1):
            total += max(query.labels.get(docno, 0.0), 0.0) / math.log2(rank + 1)
    mean = total / max(1, len(query.rankings))
    return {"nDCG": mean / ideal if ideal > 0 else 0.0}


def credited(query: Query) -> list[dict[str, float]]:
    """Return the shares of credit in each answer where it is defined: a_d / sum(a), least 0."""
    shares = []
    for answer in query.credit:
        above = {docno: 0.0 if a < 0 else a for docno, a in answer.items()}
        whole = sum(above.values())
        if whole > 0:  # neither 0 nor NaN
            shares.append({docno: a / whole for docno, a in above.items()})
    return shares


def _credit_and_exposure(query: Query, k: int) -> tuple[Any, Any]:
    """Return alpha and the share of the first k places, both means over the same rankings."""
    alpha: Any = Counter()
    exposure: Any = Counter()
    shares = credited(query)
    if not shares:
        raise ValueError("no ranking of the query has defined credit")
    for share in shares:
        for place, (docno, a) in enumerate(share.items()):
            alpha[docno] += a / len(shares)
            exposure[docno] += (1.0 / min(k, len(share)) if place < k else 0.0) / len(shares)
    return alpha, exposure


def credit(query: Query, cutoff: int, **_: Any) -> Values:
    """Attributed exposure: alpha_d = mean of a_d / sum(a); EE's target, divided by its sum."""
    alpha, exposure = _credit_and_exposure(query, cutoff)
    values = {
        "AE_D": sum(a**2 for a in alpha.values()),
        "CreditGap": sum((a - exposure[docno]) ** 2 for docno, a in alpha.items()),
    }
    if not query.useful:
        return values
    documents = set(query.labels).union(*query.credit)
    grade = {docno: max(query.labels.get(docno, 0.0), 0.0) for docno in documents}
    above, target = 0, dict.fromkeys(documents, 0.0)
    for level in sorted(set(grade.values()), reverse=True):
        block = [docno for docno in documents if grade[docno] == level]
        places = min(max(cutoff - above, 0), len(block))  # of the first k, which all are read
        target |= dict.fromkeys(block, places / len(block))
        above += len(block)
    whole = sum(target.values())
    target = {docno: t / whole for docno, t in target.items()}
    distance = sum((alpha[docno] - t) ** 2 for docno, t in target.items())
    values["AE_R"] = sum(alpha[docno] * t for docno, t in target.items()) / max(target.values())
    values["AE_L"] = distance / (1.0 + sum(t**2 for t in target.values()))
    return values


def credit_of_groups(query: Query, cutoff: int, **_: Any) -> Values:
    """Credit by group: AWRF of alpha, and the gap to the groups' shares of exposure."""
    alpha, exposure = _credit_and_exposure(query, cutoff)
    of_groups: Any = Counter()
    gap: Any = Counter()
    for docno, a in alpha.items():
        members: Any = Counter(query.groups.get(docno, {}))
        members["@UNKNOWN"] += max(0.0, 1.0 - sum(members.values()))
        for level, share in members.items():
            if share > 1e-12 and (a or exposure[docno]):
                gap[level] += (a - exposure[docno]) * share
        for level, share in query.groups.get(docno, {}).items():
            of_groups[level] += a * share
    values = {}
    if set(gap) != {"@UNKNOWN"}:
        values["CreditGap"] = sum(part**2 for part in gap.values())
    if sum(of_groups.values()) > 0 and query.target:
        values["AWRF"] = 1.0 - divergence(of_groups, query.target)
    return values
