"""All rankings of a few documents, and the checks of the ends of a measure's range."""

import warnings
from itertools import combinations, permutations

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from ir_measures import iter_calc

from fairtk import Groups
from fairtk.errors import MissingWarning

MISSING = "missing"


def orders(docs, least=1):
    """All rankings of all subsets of at least so many documents."""
    for size in range(least, len(docs) + 1):
        for chosen in combinations(docs, size):
            yield from permutations(chosen)


def policies(rankings, seed, n=20):
    """Each ranking alone, and pairs of rankings as samples."""
    rng = np.random.default_rng(seed)
    rankings = list(rankings)
    pairs = [[rankings[i] for i in rng.integers(len(rankings), size=2)] for _ in range(n)]
    return [[r] for r in rankings] + pairs


def values(measures, samples, labels):
    """The value of each measure for each policy, one query each, and for a missing query."""
    names = [f"q{i}" for i in range(len(samples))]
    run = pd.DataFrame(
        [
            (name, doc, -float(rank), sample)
            for name, drawn in zip(names, samples, strict=True)
            for sample, ranking in enumerate(drawn)
            for rank, doc in enumerate(ranking)
        ],
        columns=["query_id", "doc_id", "score", "sample"],
    )
    rows = [(name, doc, label) for name in [*names, MISSING] for doc, label in labels.items()]
    qrels = pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
    results = {m: {} for m in measures}
    with warnings.catch_warnings(action="ignore", category=MissingWarning):
        for metric in iter_calc(measures, qrels, run):
            results[metric.measure][metric.query_id] = metric.value
    return {m: (v.pop(MISSING), np.array(list(v.values()))) for m, v in results.items()}


def check(measure, missing, results, low=-np.inf, high=np.inf):
    results = results[~np.isnan(results)]
    if not len(results):
        return
    assert results.min() >= low - 1e-9, measure
    assert results.max() <= high + 1e-9, measure
    if not np.isnan(missing):
        worse = results - missing if measure.better == "higher" else missing - results
        assert worse.min() >= -1e-9, (measure, missing, results)


labels_of_three = st.lists(st.integers(-1, 2), min_size=3, max_size=3).filter(lambda g: max(g) > 0)


def two_groups(weight=1.0):
    rows = [("a", "f", 1.0), ("b", "m", 1.0), ("b", "f", weight), ("c", "m", 0.5)]
    frame = pd.DataFrame(rows, columns=["docno", "group", "weight"])
    return Groups.from_frame(frame, name="two", unknown=None, normalize=False)


def only(measure, rankings, labels):
    [(missing, results)] = values([measure], rankings, labels).values()
    return missing, results[0]
