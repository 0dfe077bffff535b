"""Comparison of fairtk with plain implementations of published definitions, on random queries."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plain
import pytest
from plain import Query

import fairtk
from fairtk import Groups, Target

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "agreement.md"
CUTOFFS = (1, 3, 5)
QUERIES = 300
TASK1 = "TREC 2022, Task 1"


def random_query(rng):
    """Return a query; some have no useful, few, or only useful documents, or are not in the run."""
    docnos = [f"d{i}" for i in range(rng.integers(4, 15))]
    judged = [d for d in docnos if rng.random() < 0.8] or docnos[:1]
    share = rng.choice([0, 0.5, 1], p=[0.05, 0.9, 0.05])
    labels = {d: int(rng.integers(1, 3)) if rng.random() < share else 0 for d in judged}
    depth = rng.integers(1, len(docnos) + 1)
    n_samples = 0 if rng.random() < 0.03 else rng.integers(1, 4)
    rankings = [rng.permutation(docnos)[:depth].tolist() for _ in range(n_samples)]
    groups = {}
    for docno in docnos:
        if rng.random() < 0.8:
            levels = rng.choice(["x", "y", "z"], rng.integers(1, 3), replace=False).tolist()
            groups[docno] = {level: 1 / len(levels) for level in levels}
    target = dict(zip("xyz", rng.dirichlet([1, 1, 1]).tolist(), strict=True))
    credit = [
        {d: math.nan if rng.random() < 0.05 else float(rng.integers(-1, 4)) for d in ranking}
        for ranking in rankings
    ]
    return Query(labels, rankings, groups, target, credit)


def frames(queries):
    """Return labels, a run with credit, groups, and the target of each query."""
    labels, run, members, targets = [], [], [], []
    for qid, query in queries.items():
        labels += [(qid, qid + d, label) for d, label in query.labels.items()]
        for sample, (ranking, credit) in enumerate(zip(query.rankings, query.credit, strict=True)):
            run += [(qid, sample, qid + d, r, -float(r), credit[d]) for r, d in enumerate(ranking)]
        for d, levels in query.groups.items():
            members += [(qid + d, level, weight) for level, weight in levels.items()]
        targets += [(qid, level, weight) for level, weight in query.target.items()]
    columns = ["qid", "sample", "docno", "rank", "score", "credit"]
    groups = Groups.from_frame(pd.DataFrame(members, columns=["docno", "group", "weight"]))
    target = Target.from_frame(pd.DataFrame(targets, columns=["qid", "group", "weight"]), groups)
    qrels = pd.DataFrame(labels, columns=["qid", "docno", "label"])
    return qrels, pd.DataFrame(run, columns=columns), groups, target


# The cases in which fairtk departs from a definition; the page says how.


def absent(query, k):
    return not query.rankings


def no_useful(query, k):
    return not query.useful


def few_documents(query, k):
    return len(query.documents) < k


def all_useful(query, k):
    return len(query.useful) == len(query.labels) <= k


def no_groups(query, k):
    return not any(d in query.groups for ranking in query.rankings for d in ranking[:k])


def undefined_credit_only(query, k):
    return bool(query.documents - set(query.labels).union(*plain.credited(query)))


@dataclasses.dataclass
class Definition:
    """A published definition, fairtk's measures of its values, and the cases of departures."""

    name: str
    values: Callable[..., dict[str, float]]
    measures: dict[str, Any]
    departures: dict[str, tuple[Callable[[Query, int], bool], ...]]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    has_missing: bool = False
    """Whether it has a value of a query missing from the run."""


def plain_values(definition, query, k):
    """Return the plain values; none if the published code has none, or fails with an error."""
    if not query.rankings and not definition.has_missing:
        return {}
    try:
        return definition.values(query, cutoff=k, **definition.settings)
    except (ZeroDivisionError, IndexError, ValueError):
        return {}


def agreement(definitions):
    """Return how many values agree, and differ in a known case, by definition and value.

    `definitions` takes a cutoff, groups and a target, and returns each `Definition`.
    """
    rng = np.random.default_rng(16)
    queries = {f"q{i}": random_query(rng) for i in range(QUERIES)}
    single = {
        q: dataclasses.replace(query, rankings=query.rankings[:1]) for q, query in queries.items()
    }
    qrels, credit, groups, target = frames(queries)
    run = credit.drop(columns="credit")
    runs = {
        "credit": credit.drop(columns="score"),
        "credit of groups": credit.drop(columns="score"),
        TASK1: run[run["sample"] == 0].drop(columns="sample"),
    }
    counts = Counter()
    for k in CUTOFFS:
        for one in definitions(k, groups, target):
            systems = {"run": runs.get(one.name, run)}
            results = fairtk.evaluate(qrels, systems, list(one.measures.values()))
            values = results.per_query.set_index(["measure", "qid"])["value"]
            for qid, query in (single if one.name == TASK1 else queries).items():
                expected = plain_values(one, query, k)
                for name, label in zip(one.measures, results.measures, strict=True):
                    ours, other = values[label, qid], expected.get(name, math.nan)
                    agrees = ours == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True)
                    known = any(case(query, k) for case in one.departures[name])
                    assert agrees or known, (one.name, name, k, one.settings, query, ours, other)
                    counts[one.name, name, agrees] += 1
    return counts


def rows_of(counts):
    """Return the rows of the page's table."""
    return "\n".join(
        f"| {name} | {value} | {counts[name, value, True]:,} | {counts[name, value, False]:,} |"
        for name, value in dict.fromkeys(key[:2] for key in counts)
    )
