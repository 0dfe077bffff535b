"""The experiment of test_killed_generation.py: a local model in two parallel workers."""

import random
import sys

import pandas as pd

import fairtk
from fairtk import Generator
from fairtk.llm import HuggingFaceSeq2Seq

WORDS = ["movie", "tag", "harbour", "lantern", "silver", "market", "title", "question"]


def run(folder, model):
    """Generate 60 answers in batches of about 8, with two workers; half precision shows batches."""
    rng = random.Random(1)
    texts = [" ".join([*rng.choices(WORDS, k=rng.randrange(1, 9)), str(i)]) for i in range(60)]
    topics = pd.DataFrame({"qid": [f"q{i}" for i in range(60)], "query": texts})
    llm = HuggingFaceSeq2Seq(
        model, device="cpu", dtype="bfloat16", max_new_tokens=8, batch_tokens=120
    )
    prompt = fairtk.prompts.get("template", template="{question}")
    return fairtk.Experiment(
        {"a": Generator(llm, prompt)},
        topics,
        save_dir=folder,
        executor="processes",
        workers=2,
        threads=1,
        batch_size=7,
    )


if __name__ == "__main__":
    run(*sys.argv[1:])
