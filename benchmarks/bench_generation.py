"""Generation: rankings per second against one prompt at a time, in one run.

    python benchmarks/bench_generation.py [--model FOLDER] [--new-tokens 16]

Two ratios, with the same model, and the answers compared:

1. 400 rankings of 20 queries whose prompts repeat (80 distinct prompts): `FlanT5` on the frame S
   against transformers' own ``generate`` on one ranking's prompt at a time.
2. 200 distinct prompts: the model's batches against one prompt at a time.

Without --model the packaged T5 is used.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import pandas as pd
import random_models
from sizes import scale

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

QUERIES, SAMPLES, DISTINCT = scale((20, 20, 4), (2, 4, 2))
BATCHED = scale(200, 4)
CUTOFF = 5


def sampled_run(words: list[str]) -> pd.DataFrame:
    """Return 400 rankings, 4 different ones per query."""
    rng = np.random.default_rng(0)
    rows = []
    for query in range(QUERIES):
        texts = [" ".join(rng.choice(words, 6)) for _ in range(10)]
        orders = [rng.permutation(10) for _ in range(DISTINCT)]
        question = " ".join(rng.choice(words, 5))
        for sample in range(SAMPLES):
            for rank, d in enumerate(orders[sample % DISTINCT]):
                rows.append((f"q{query}", question, sample, f"d{d}", -float(rank), rank, texts[d]))
    columns = ["qid", "query", "sample", "docno", "score", "rank", "text"]
    return pd.DataFrame(rows, columns=columns)


class OneAtATime:
    """Transformers' own generate, a prompt at a time, as a plain loop does it."""

    def __init__(self, folder: str, beams: int, new_tokens: int) -> None:
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self.settings = {"num_beams": beams, "do_sample": False, "max_new_tokens": new_tokens}

    def generate(self, prompts: list[str]) -> list[str]:
        """Return the answers."""
        import torch

        answers = []
        with torch.inference_mode():
            for prompt in prompts:
                inputs = self.tokenizer(prompt, return_tensors="pt")
                output = self.model.generate(
                    input_ids=inputs["input_ids"],
                    attention_mask=inputs["attention_mask"],
                    **self.settings,
                )
                answers.append(self.tokenizer.decode(output[0], skip_special_tokens=True).strip())
        return answers


def main() -> None:
    """Print both ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a folder; default: the packaged T5")
    parser.add_argument("--new-tokens", type=int, default=16)
    parser.add_argument("--beams", type=int, default=4)
    options = parser.parse_args()

    import torch
    from transformers.utils import logging

    from fairtk import demo, prompts
    from fairtk.llm import HuggingFaceSeq2Seq
    from fairtk.llm.chat import questions
    from fairtk.transformers.generator import FlanT5

    logging.disable_progress_bar()
    folder = options.model or str(demo.model_folder())
    print(f"model {folder}, {options.beams} beams, {options.new_tokens} new tokens, "
          f"{torch.get_num_threads()} threads")  # fmt: skip
    words = random_models.WORDS
    settings = {"num_beams": options.beams, "max_new_tokens": options.new_tokens}

    run = sampled_run(words)
    flan = FlanT5(folder, cutoff=CUTOFF, **settings)
    flan(run.head(10))  # load and warm up
    started = time.perf_counter()
    answers = flan(run).groupby(["qid", "sample"], sort=False)["qanswer"].first().tolist()
    ours = time.perf_counter() - started

    rag, tokenizer = prompts.get("rag"), flan.llm.tokenizer
    top = run[run["rank"] < CUTOFF].groupby(["qid", "sample"], sort=False)
    prompt_texts = [
        rag(rows["query"].iloc[0], rows[["text"]].to_dict("records"), tokenizer) for _, rows in top
    ]
    loop = OneAtATime(folder, options.beams, options.new_tokens)
    loop.generate(prompt_texts[:2])
    started = time.perf_counter()
    expected = loop.generate(prompt_texts)
    theirs = time.perf_counter() - started
    report(f"{len(prompt_texts)} rankings, {len(set(prompt_texts))} distinct prompts", ours, theirs,
           answers, expected)  # fmt: skip

    rng = np.random.default_rng(1)
    distinct = [" ".join([str(i), *rng.choice(words, rng.integers(5, 40))]) for i in range(BATCHED)]
    model = HuggingFaceSeq2Seq(folder, **settings)
    model.complete(questions(distinct[:4]))
    started = time.perf_counter()
    answers = [outcome.text for outcome in model.complete(questions(distinct))]
    ours = time.perf_counter() - started
    started = time.perf_counter()
    expected = loop.generate(distinct)
    theirs = time.perf_counter() - started
    report(f"{len(distinct)} distinct prompts (batching alone)", ours, theirs, answers, expected)


def report(what: str, ours: float, theirs: float, answers: list[str], expected: list[str]) -> None:
    """Print one comparison."""
    same = sum(a == b for a, b in zip(answers, expected, strict=True))
    print(f"{what}: {len(answers) / ours:.0f}/s against {len(expected) / theirs:.0f}/s one at a "
          f"time, ratio {theirs / ours:.1f}; equal answers {same} of {len(expected)}, "
          f"{len(set(expected))} different ones")  # fmt: skip


if __name__ == "__main__":
    main()
