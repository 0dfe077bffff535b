"""Train the tiny T5 of the demo: ``python -m demo_model.train --out DIR``.

The model is a T5 of 0.3 million parameters with its own tokenizer. It is trained from scratch, on
the CPU, in minutes, on invented data that share no viewer, no description, and no name of a person
or town with the packaged collection (`demo_model.grammar` says how that is guaranteed). The same
seed, machine and library versions give the same weights.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from demo_model.examples import MAX_ENTRIES, Example, draw_example
from demo_model.grammar import QUESTION_START, Grammar, load_grammar
from demo_model.tokenizer import train_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, T5ForConditionalGeneration

VOCABULARY = 2300
TOKENIZER_PROMPTS = 6000
BATCH_TOKENS = 2500
TOKENS_PER_TEXT = {True: 13, False: 30}
"""About how many tokens an entry takes, as phrases and as a description; only sizes batches."""


@dataclass(frozen=True)
class TrainingPlan:
    """How the model is trained.

    Attributes:
        phrase_steps: steps with phrases instead of descriptions, which are short and come first.
        steps: all steps.
        learning_rate: of AdamW, after `warmup` steps; falls linearly to 2 % of it.
        bias_learning_rate: of the relative position biases, single numbers that have far to go.
        warmup: steps over which the learning rates rise.
        seed: seeds everything.
        threads: torch's; more than one makes sums, and so weights, depend on the number.
        log_every: steps between two lines of progress.
    """

    phrase_steps: int = 400
    steps: int = 1500
    learning_rate: float = 2e-3
    bias_learning_rate: float = 2e-2
    warmup: int = 100
    seed: int = 7
    threads: int = 1
    log_every: int = 100


def learn_tokenizer(grammar: Grammar, rng: np.random.Generator) -> PreTrainedTokenizerFast:
    """Train the tokenizer on prompts and tags of the training side."""
    question_words = grammar.question("").strip()
    texts = []
    for _ in range(TOKENIZER_PROMPTS):
        example = draw_example(rng, grammar, int(rng.integers(0, MAX_ENTRIES + 1)))
        texts += [example.prompt, example.answer]
    phrases = ["the tag for the movie:", QUESTION_START, question_words, *grammar.tags]
    return train_tokenizer(texts, phrases, VOCABULARY)


def new_model(tokenizer: PreTrainedTokenizerFast) -> T5ForConditionalGeneration:
    """A T5 with random weights (torch's global generator): width 64, 3 + 1 layers, 4 heads."""
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_heads=4,
        num_layers=3,
        num_decoder_layers=1,
        relative_attention_num_buckets=64,
        relative_attention_max_distance=128,
        dropout_rate=0.0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        decoder_start_token_id=tokenizer.pad_token_id,
        attn_implementation="eager",  # the other kinds do not return attention, which is trained
    )
    return T5ForConditionalGeneration(config)


def train(plan: TrainingPlan) -> tuple[T5ForConditionalGeneration, PreTrainedTokenizerFast]:
    """Train tokenizer and model; prints progress.

    Args:
        plan: how.

    Returns:
        The model, in evaluation mode, and its tokenizer.
    """
    import torch

    from demo_model.start import prepare_model
    from demo_model.supervision import Supervision

    grammar = load_grammar()
    # One stream for each purpose, so that none depends on how much another draws.
    streams = [np.random.default_rng([plan.seed, purpose]) for purpose in range(3)]
    tokenizer = learn_tokenizer(grammar, streams[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        model = new_model(tokenizer)
        classifier = torch.nn.Linear(model.config.d_model, len(grammar.themes))
    prepare_model(model, tokenizer, grammar, streams[1])
    supervision = Supervision(tokenizer, grammar)
    optimizer, schedule = _optimizer(plan, model, classifier)
    weights = [*model.parameters(), *classifier.parameters()]

    threads = torch.get_num_threads()
    torch.set_num_threads(plan.threads)
    model.train()
    start = time.perf_counter()
    recent: list[list[float]] = []
    for step in range(1, plan.steps + 1):
        examples = _batch(streams[2], grammar, phrases=step <= plan.phrase_steps)
        losses = supervision.losses(model, classifier, examples)
        optimizer.zero_grad()
        losses.total.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        schedule.step()
        recent.append([x.item() for x in (losses.answer, losses.theme, losses.look, losses.read)])
        if step % plan.log_every == 0 or step == plan.steps:
            values = " ".join(
                f"{name} {value:.3f}"
                for name, value in zip(
                    ("answer", "theme", "look", "read"), np.mean(recent, axis=0), strict=True
                )
            )
            seconds = time.perf_counter() - start
            print(f"step {step}/{plan.steps}, {seconds:.0f} s: loss {values}", flush=True)
            recent = []
    torch.set_num_threads(threads)
    return model.eval(), tokenizer


def _optimizer(plan: TrainingPlan, model: Any, classifier: Any) -> tuple[Any, Any]:
    import torch

    named = list(model.named_parameters())
    biases = [p for name, p in named if "relative_attention_bias" in name]
    rest = [p for name, p in named if "relative_attention_bias" not in name]
    optimizer = torch.optim.AdamW(
        [
            {"params": [*rest, *classifier.parameters()], "lr": plan.learning_rate},
            {"params": biases, "lr": plan.bias_learning_rate, "weight_decay": 0.0},
        ],
        betas=(0.9, 0.98),
        weight_decay=0.01,
    )

    def rate(step: int) -> float:
        return min(1.0, (step + 1) / plan.warmup) * max(0.02, 1 - step / plan.steps)

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def _batch(rng: np.random.Generator, grammar: Grammar, phrases: bool) -> list[Example]:
    """Draw examples with the same number of entries, so that little is padding."""
    n_entries = int(rng.integers(0, MAX_ENTRIES + 1))
    size = BATCH_TOKENS // ((n_entries + 1) * TOKENS_PER_TEXT[phrases])
    return [
        draw_example(rng, grammar, n_entries, phrases) for _ in range(int(np.clip(size, 8, 96)))
    ]


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write config.json, generation_config.json, model.safetensors and the tokenizer's files.

    Args:
        model: the trained model.
        tokenizer: its tokenizer.
        folder: made if absent; existing files are replaced.
    """
    # Four tags that all end are the answer: do not look for longer ones.
    model.generation_config.num_beams = 4
    model.generation_config.early_stopping = True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    defaults = TrainingPlan()
    parser = argparse.ArgumentParser(prog="python -m demo_model.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument("--steps", type=int, default=defaults.steps)
    parser.add_argument("--phrase-steps", type=int, default=defaults.phrase_steps)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    parser.add_argument("--threads", type=int, default=defaults.threads)
    args = parser.parse_args(argv)
    plan = TrainingPlan(
        steps=args.steps, phrase_steps=args.phrase_steps, seed=args.seed, threads=args.threads
    )
    model, tokenizer = train(plan)
    save(model, tokenizer, args.out)
    size = (args.out / "model.safetensors").stat().st_size / 1e6
    print(f"{model.num_parameters()} parameters, {size:.1f} MB, in {args.out}")


if __name__ == "__main__":
    main()
