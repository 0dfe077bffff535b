"""How often an answer differs between batch sizes, numbers of threads, dtypes and CTranslate2.

    python benchmarks/measure_answers.py [--prompts 200] [--random 24]

Prompts of the packaged collection with five entries each, four beams. The reference is float32,
one thread, batches of 8,192 tokens. Two models: the packaged T5, and a random one of the shape of
flan-t5-small, whose next tokens are nearly equally likely: there rounding decides more often than
in any trained model.
"""

from __future__ import annotations

import argparse
import os
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from sizes import scale  # noqa: E402

from fairtk import demo, prompts  # noqa: E402
from fairtk.llm.chat import questions  # noqa: E402

VARIED = {
    "one prompt at a time": {"batch_tokens": 1},
    "batches of 1,024 tokens": {"batch_tokens": 1024},
    "two threads": {"threads": 2},
    "CTranslate2": {"kind": "ct2"},
    "bfloat16": {"dtype": "bfloat16"},
}


def asked(number: int) -> list[str]:
    """Return prompts of the packaged collection."""
    found = []
    by_query = [rows for _, rows in demo.load().candidates.groupby("qid", sort=False)]
    for i in range(number):
        rows = by_query[i % len(by_query)].sample(5, random_state=i)
        fields = rows[["text", "tag"]].to_dict("records")
        found.append(prompts.get("lamp-2")(rows["question"].iloc[0], fields, None))
    return found


def answers(
    folder: str,
    texts: list[str],
    kind: str = "t5",
    threads: int = 1,
    dtype: str = "float32",
    batch_tokens: int = 8192,
) -> list[str]:
    """Return a model's answers."""
    import torch

    from fairtk.llm import CTranslate2Seq2Seq, HuggingFaceSeq2Seq

    torch.set_num_threads(threads)
    kind_of = {"t5": HuggingFaceSeq2Seq, "ct2": CTranslate2Seq2Seq}[kind]
    settings = {"num_beams": 4, "max_new_tokens": 16, "batch_tokens": batch_tokens}
    model = kind_of(folder, dtype=dtype, device="cpu", **settings)
    return [outcome.text for outcome in model.complete(questions(texts))]


def main() -> None:
    """Print how many answers differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=scale(200, 2), help="for the packaged T5")
    parser.add_argument("--random", type=int, default=scale(24, 2), help="for the random T5")
    options = parser.parse_args()
    import random_models

    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch  # where converted models go
        packaged, shaped = str(demo.model_folder()), f"{scratch}/flan-t5-small"
        random_models.save_flan_t5_small(shaped)
        for name, folder, number in (
            ("packaged T5", packaged, options.prompts),
            ("random flan-t5-small", shaped, options.random),
        ):
            texts = asked(number)
            expected = answers(folder, texts)
            print(f"{name}, {number} prompts, {len(set(expected))} distinct answers", flush=True)
            for what, settings in VARIED.items():
                found = answers(folder, texts, **settings)
                apart = sum(a != b for a, b in zip(found, expected, strict=True))
                print(f"  {what}: {apart} differ ({apart / number:.1%})", flush=True)


if __name__ == "__main__":
    main()
