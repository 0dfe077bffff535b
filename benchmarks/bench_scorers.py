"""Neural scorers: texts per second against one text at a time, in one run.

    python benchmarks/bench_scorers.py [--model FOLDER] [--splade] [--queries 8]

Queries with 30 candidates of 5 to 120 words each; a third of the texts repeat. The plain loop
encodes one text after the other with the same loaded model, each as often as it occurs. Without
--model a random BERT of the given --layers and --width is used. Scores are compared.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
import pandas as pd
import random_models
from sizes import scale

CANDIDATES, REPEATED = scale((30, 10), (6, 2))


def candidates(words: list[str], queries: int) -> pd.DataFrame:
    """Return R with texts of very different lengths."""
    rng = np.random.default_rng(0)

    def text(most: int) -> str:
        return " ".join(rng.choice(words, rng.integers(5, most)))

    shared = [text(120) for _ in range(REPEATED)]
    rows = []
    for query in range(queries):
        asked = text(12)
        texts = shared + [text(120) for _ in range(CANDIDATES - REPEATED)]
        rows += [(f"q{query}", asked, f"d{d}", found) for d, found in enumerate(texts)]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "text"])


def main() -> None:
    """Print the ratio and the largest difference of scores."""
    import torch

    from fairtk import ContrieverScorer, SpladeScorer

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a folder")
    parser.add_argument("--splade", action="store_true", help="SpladeScorer")
    parser.add_argument("--queries", type=int, default=scale(8, 2))
    parser.add_argument("--layers", type=int, default=scale(4, 1))
    parser.add_argument("--width", type=int, default=scale(256, 64))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.model or random_models.save_bert(temporary, asked.layers, asked.width)
        inp = candidates(random_models.WORDS, asked.queries)
        scorer = (SpladeScorer if asked.splade else ContrieverScorer)(folder)
        scorer(inp.head(1))  # loads the model

        def one_at_a_time() -> pd.Series:
            vectors = [
                [scorer.encoder.encode([text]) for text in inp[column]]
                for column in ("query", "text")
            ]
            place = np.array([0]), np.array([0])
            pairs = zip(*vectors, strict=True)
            found = [_product(scorer.encoder, *pair, *place) for pair in pairs]
            return pd.Series(found, index=pd.MultiIndex.from_frame(inp[["qid", "docno"]]))

        started = time.perf_counter()
        plain = one_at_a_time()
        middle = time.perf_counter()
        together = scorer(inp).set_index(["qid", "docno"])["score"]
        ended = time.perf_counter()
    away = (together[plain.index] - plain).abs().max() / plain.abs().max()
    ratio = (middle - started) / (ended - middle)
    print(
        f"{len(inp)} candidates: {middle - started:.2f} s one at a time, {ended - middle:.2f} s "
        f"together: {ratio:.1f} times; scores differ by {away:.1e}"
    )


def _product(encoder, query, text, left, right) -> float:  # noqa: ANN001
    """Return the inner product of two encoded texts."""
    both = encoder._stacked([query, text])
    return float(encoder.inner_products(both, left, right + 1)[0])


if __name__ == "__main__":
    main()
