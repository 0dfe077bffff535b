"""Qrels and runs whose names are hard to show."""

import numpy as np
import pandas as pd

HOSTILE = '<b>&"x" $y_1$'
DOCS = [f"d{i}" for i in range(8)]
NAMES = ("plain", HOSTILE, "\u0645\u0631\u062d\u0628\u0627", "\N{GRINNING FACE}" + "n" * 300)


def _run(seed):
    generator = np.random.default_rng(seed)
    rows = [(f"q{q}", docno, generator.normal()) for q in range(9) for docno in DOCS]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


QRELS = pd.DataFrame(
    [(f"q{q}", docno, int((q + i) % 3 == 0)) for q in range(9) for i, docno in enumerate(DOCS)],
    columns=["qid", "docno", "label"],
)
RUNS = {name: _run(seed) for seed, name in enumerate(NAMES)}
