"""Frames of values with a trade-off, made by a simple rule."""

from __future__ import annotations

import numpy as np
import pandas as pd

ALPHAS = (1, 2, 4, 8)
MODELS = (("LaMP-4", "BM25", "flan-t5-small"), ("LaMP-4", "Contriever", "flan-t5-base"))


def study(n_queries=40, models=MODELS, seed=0):
    """Return values of EE_D, EE_R and EU that rise with alpha, and the deterministic run's."""
    rng = np.random.default_rng(seed)
    rows = []
    for number, model in enumerate(models):
        taste = rng.normal(0, 0.08, n_queries)
        for alpha in (*ALPHAS, "deterministic"):
            even = {1: 0.12, 2: 0.3, 4: 0.65, 8: 0.95, "deterministic": 1.0}[alpha]
            spread = rng.normal(0, 0.05, n_queries) * (alpha != "deterministic")
            disparity = np.clip(even + spread, 0.02, 1.0)
            relevance = np.clip(0.3 + (0.12 + 0.05 * number) * disparity + taste, 0, 1)
            utility = np.clip(0.2 + 0.1 * disparity + taste + rng.normal(0, 0.03, n_queries), 0, 1)
            for qid, *found in zip(range(n_queries), disparity, relevance, utility, strict=True):
                for measure, value in zip(("EE_D", "EE_R", "normalized EU"), found, strict=True):
                    rows.append((*model, alpha, f"q{qid:02}", measure, value))
    columns = ["task", "retriever", "generator", "alpha", "qid", "measure", "value"]
    return pd.DataFrame(rows, columns=columns)


def sizes_of(values, documents=50, useful=15):
    """Return sizes: all queries alike."""
    keys = values[["task", "generator", "qid"]].drop_duplicates()
    return keys.assign(documents=documents, useful=useful)
