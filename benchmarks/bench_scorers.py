"""Neural scorers: texts per second against one text at a time, in one run.

    python benchmarks/bench_scorers.py [--model FOLDER] [--splade] [--queries 8]

Queries with 30 candidates of 5 to 120 words each; a third of the texts repeat. The plain loop
encodes one text after the other with the same loaded model, each as often as it occurs. Without
--model a random BERT of the given --layers and --width is used. Scores are compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "transformers"))
CANDIDATES, REPEATED = 30, 10


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


def random_model(folder: str, layers: int, width: int) -> str:
    """Save a random BERT with a window of 128 tokens; return its folder."""
    import tiny_encoders
    import torch
    from transformers import BertConfig, BertForMaskedLM

    tokenizer = tiny_encoders.make_tokenizer()
    tokenizer.model_max_length = 128
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=width // 64, intermediate_size=4 * width, max_position_embeddings=128,
    )  # fmt: skip
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def main() -> None:
    """Print the ratio and the largest difference of scores."""
    import tiny_encoders
    import torch

    from fairtk import ContrieverScorer, SpladeScorer

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a folder")
    parser.add_argument("--splade", action="store_true", help="SpladeScorer")
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.model or random_model(temporary, asked.layers, asked.width)
        inp = candidates(tiny_encoders.WORDS, asked.queries)
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
