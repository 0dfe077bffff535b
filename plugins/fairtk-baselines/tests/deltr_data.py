"""Invented rankings with features, for the tests of DELTR."""

import numpy as np
import pandas as pd

from fairtk import Groups


def frame(queries, features):
    """Return a run: documents per query in order, and one vector per row."""
    rows = [(q, d, 9.0 - r, r) for q, docs in queries.items() for r, d in enumerate(docs)]
    run = pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])
    run["features"] = pd.Series([np.array(f, dtype=float) for f in features], dtype=object)
    return run


def labels(rows):
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


def groups(of, **kwargs):
    """Return groups from docno to level, or to weights by level."""
    rows = [
        (doc, level, weight)
        for doc, value in of.items()
        for level, weight in (value if isinstance(value, dict) else {value: 1.0}).items()
    ]
    return Groups.from_frame(pd.DataFrame(rows, columns=["docno", "group", "weight"]), **kwargs)


def made_up(n_queries=8, n=12, seed=1, levels=("a", "b")):
    """Return run, qrels and groups: the first feature is lower for relevant b than relevant a."""
    rng = np.random.default_rng(seed)
    queries, features, rows, of = {}, [], [], {}
    for q in range(n_queries):
        docs = [f"d{q}-{i}" for i in range(n)]
        queries[f"q{q}"] = docs
        for i, doc in enumerate(docs):
            level = levels[i % len(levels)]
            relevant = rng.random() < (0.6 if level == levels[0] else 0.35)
            first = 2.0 * relevant + 1.0 * (level == levels[0]) + 0.5 * rng.normal()
            features.append([first, rng.normal(), 3.0])
            rows.append((f"q{q}", doc, int(relevant) + int(relevant and rng.random() < 0.3)))
            of[doc] = level
    return frame(queries, features), labels(rows), groups(of)
