"""Models on a GPU: prompts per second of `t5`, `ct2` and `causal`, and dtypes.

    python benchmarks/gpu.py [--seq2seq google/flan-t5-base] [--causal Qwen/Qwen2.5-0.5B-Instruct]

The prompts are those of utility labels: each query of the packaged collection without a document
and with each of its candidates. Each model runs in a separate process; timing starts
after loading and a few prompts. Answers and labels are compared with those of the
first line of its kind, float32 by transformers. Without --seq2seq the packaged T5 is used; without
--causal a random model of the shape of SmolLM-135M, whose labels mean nothing. A model that
cannot run has a line that says why.

Without a GPU the script stops with a message. `--device cpu` tests the script only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sizes import scale

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

MODELS = {
    "seq2seq": ("t5-float32", "t5-bfloat16", "t5-float16", "ct2-float32"),
    "causal": ("causal-float32", "causal-bfloat16", "causal-float16"),
}
"""Of each kind of model, the one that others are compared with first."""

NEW_TOKENS, WARM_UP = 16, 8


def device() -> str | None:
    """Return the name of the GPU, if there is one."""
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def labels(limit: int, generate: Any) -> Any:
    """Return the labels of the packaged collection's first queries."""
    from fairtk_papers.fair_rag import utility_labels

    from fairtk import Candidates, Generator, demo

    data = demo.load()
    topics = data.topics.head(limit)
    return utility_labels(
        topics.drop(columns="gold_answer"),
        Candidates(data.dataset),
        topics[["qid", "gold_answer"]],
        Generator(generate, prompt="lamp-2", cutoff=1),
        "em",
    ).documents[["qid", "docno", "label"]]


def prompts(limit: int) -> list[str]:
    """Return the distinct prompts of the labels."""
    asked: dict[str, None] = {}

    def note(texts: list[str]) -> list[str]:
        asked.update(dict.fromkeys(texts))
        return ["none"] * len(texts)

    labels(limit, note)
    return list(asked)


def answers(kind: str, model: str, on: str, texts: list[str]) -> dict[str, Any]:
    """Load a model, ask it, and return seconds and answers; in a process of its own."""
    from fairtk.llm import build_model, parse_model
    from fairtk.llm.chat import questions
    from fairtk.llm.models import ANSWERS

    spec, settings = parse_model(f"{kind}:{model}", ANSWERS, "model")
    model = build_model(spec, {**settings, "device": on, "max_new_tokens": NEW_TOKENS})
    model.complete(questions(texts[:WARM_UP]))
    started = time.perf_counter()
    texts_answered = [outcome.text for outcome in model.complete(questions(texts))]
    return {"seconds": time.perf_counter() - started, "answers": texts_answered}


def measured(kind: str, model: str, on: str, limit: int) -> dict[str, Any] | str:
    """Return what `answers` gives in a process of its own, or why there is nothing."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "answers.json"
        call = [sys.executable, __file__, "--one", kind, model, str(out), "--device", on]
        done = subprocess.run([*call, "--limit", str(limit)], capture_output=True, text=True)
        if done.returncode == 0:
            return dict(json.loads(out.read_text(encoding="utf-8")))
    lines = done.stderr.strip().splitlines() or ["it said nothing"]
    return lines[-1]


def random_causal(folder: Path) -> str:
    """Save a random decoder-only model of the shape of SmolLM-135M, and return its folder."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from fairtk import demo

    tokenizer = AutoTokenizer.from_pretrained(demo.model_folder())
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=scale(576, 36),
        intermediate_size=scale(1536, 48),
        num_hidden_layers=scale(30, 1),
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=2048,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seq2seq", help="an encoder-decoder model: a folder or a hub name")
    parser.add_argument("--causal", help="a decoder-only model: a folder or a hub name")
    parser.add_argument("--limit", type=int, default=scale(10**6, 2), help="queries")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--one", nargs=3, metavar=("KIND", "MODEL", "FILE"), help="for itself")
    options = parser.parse_args()
    gpu = device()
    if options.device == "cuda" and gpu is None:
        print("benchmarks/gpu.py: no GPU here (or no torch that sees one), so nothing was run")
        return
    if options.one:
        kind, model, out = options.one
        found = answers(kind, model, options.device, prompts(options.limit))
        Path(out).write_text(json.dumps(found), encoding="utf-8")
        return
    texts = prompts(options.limit)
    with tempfile.TemporaryDirectory() as scratch:
        from fairtk import demo

        folders = {
            "seq2seq": options.seq2seq or str(demo.model_folder()),
            "causal": options.causal or random_causal(Path(scratch) / "causal"),
        }
        print(f"{gpu or 'a CPU'}, {len(texts)} prompts, answers of up to {NEW_TOKENS} tokens\n")
        print("| model | prompts a second | equal answers | equal labels | kappa |")
        print("| --- | --- | --- | --- | --- |")
        for what, kinds in MODELS.items():
            table(kinds, folders[what], options, texts)


def table(
    kinds: tuple[str, ...], model: str, options: argparse.Namespace, texts: list[str]
) -> None:
    """Print the lines of one model."""
    from fairtk_papers.fair_rag.labels import agreement

    first: dict[str, str] = {}
    for kind in kinds:
        found = measured(kind, model, options.device, options.limit)
        if isinstance(found, str):
            print(f"| {kind} | not run: {found[:160]} | | | |", flush=True)
            continue
        own = dict(zip(texts, found["answers"], strict=True))
        first = first or own
        equal = sum(own[text] == first[text] for text in texts) / len(texts)
        pair = [labels(options.limit, lambda t, a=a: [a[p] for p in t]) for a in (own, first)]
        agreed = agreement(*pair)
        speed = len(texts) / found["seconds"]
        shares = f"{equal:.1%} | {agreed['share']:.1%} | {agreed['kappa']:.2f}"
        print(f"| {kind} | {speed:,.0f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
