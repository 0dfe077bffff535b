"""Train a small T5 that writes headlines, on half of a LaMP-4 folder: minutes on one core.

    python examples/headline_model.py FOLDER --out DIR [--minutes 4]

FOLDER holds ``dev_questions.json`` and ``dev_outputs.json`` of LaMP-4. The first half of the
queries goes to training, with their profiles; the others are written to ``DIR/lamp4`` as a LaMP
folder, for a study (by fairtk-papers) with the model, which is written to ``DIR/model``:

    fairtk rag DIR/lamp4 -t 4 -g t5:DIR/model -r bm25 -r contriever:DIR/encoder

The encoder is not trained: its random word vectors distinguish texts by their words.

The model is trained from scratch on a few thousand headlines, so it knows almost no English. It can
learn common words of headlines, and to copy words from an entry of the profile that resembles the
article. In half of the examples an entry is therefore the article itself with some words removed,
under its headline. The answers give labels and utilities that are not all zero; they do not
represent those of a real model.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from demo_model.tokenizer import train_tokenizer

from fairtk import prompts
from fairtk.llm.chat import questions
from fairtk.transformers import FlanT5

TASK = "Generate a headline for the following article: "
VOCABULARY = 3000
BATCH_TOKENS = 1200
TOKENS_PER_ENTRY = 60
"""About how many tokens an entry takes; only sizes batches."""
LONGEST_HEADLINE = 24
RESEMBLING = 0.5
"""In this share of the examples an entry resembles the article."""
SHARPNESS = 0.8
"""Of the decoder's look at the token that is to be copied, before training."""
COPYING = 0.2
"""For this share of the time most examples ask for copying alone, from one entry, then more."""
WARMUP = 0.02


@dataclass(frozen=True)
class Article:
    """An entry of a profile: what the headline stands over, and the headline."""

    text: str
    title: str


# ------------------------------------------------------------------------------------------ data


def split(folder: Path, out: Path) -> list[list[Article]]:
    """Write the second half to ``out/lamp4`` and return the profiles of the first.

    Neighbors often share a profile, hence halves. What both have is left out of training, and an
    article counts once.
    """
    questions = json.loads((folder / "dev_questions.json").read_text(encoding="utf-8"))
    outputs = json.loads((folder / "dev_outputs.json").read_text(encoding="utf-8"))
    golds = {gold["id"]: gold["output"] for gold in outputs["golds"]}
    half = len(questions) // 2
    studied = questions[half:]
    place = out / "lamp4"
    place.mkdir(parents=True, exist_ok=True)
    kept = [{"id": q["id"], "output": golds[q["id"]]} for q in studied]
    write(place / "dev_questions.json", studied)
    write(place / "dev_outputs.json", {**outputs, "golds": kept})
    unseen = {plain(entry["text"]) for q in studied for entry in q["profile"]}
    unseen |= {plain(q["input"].removeprefix(TASK)) for q in studied}
    profiles = []
    for question in questions[:half]:
        own = [Article(e["text"], e["title"]) for e in question["profile"]]
        own.append(Article(question["input"].removeprefix(TASK), golds[question["id"]]))
        own = [article for article in own if plain(article.text) not in unseen]
        unseen |= {plain(article.text) for article in own}
        if len(own) > 1:
            profiles.append(own)
    return profiles


def plain(text: str) -> str:
    return " ".join(text.lower().split())


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def draw(
    rng: np.random.Generator, profiles: list[list[Article]], n_entries: int, copying: bool = False
) -> tuple[str, str]:
    """Draw a prompt with entries of one profile, and its headline.

    Args:
        rng: source of randomness.
        profiles: to draw from.
        n_entries: in the prompt.
        copying: whether all that is asked for is to copy: the headline is of arbitrary words, and
            one entry resembles the article.
    """
    sizes = np.array([len(own) for own in profiles], dtype=float)
    own = profiles[rng.choice(len(profiles), p=sizes / sizes.sum())]
    places = rng.permutation(len(own))
    article, others = own[places[0]], [own[i] for i in places[1 : n_entries + 1]]
    if copying:
        words = " ".join(own[i].title for i in rng.integers(len(own), size=5)).split()
        words = [str(word) for word in rng.permutation(words)[: rng.integers(2, 7)]]
        article = Article(start(article.text), " ".join(words))
        others = [Article(start(other.text), other.title) for other in others]
    if others and (copying or rng.random() < RESEMBLING):
        others[rng.integers(len(others))] = Article(thinned(rng, article.text), article.title)
    documents = [{"title": other.title, "article": other.text} for other in others]
    return prompts.get("lamp-4")(TASK + article.text, documents, None), article.title


def start(text: str) -> str:
    return " ".join(text.split()[:8])


def thinned(rng: np.random.Generator, text: str) -> str:
    """Return a text without some of its words, up to half of them."""
    words = np.array(text.split(), dtype=object)
    return " ".join(words[rng.random(len(words)) > rng.uniform(0, 0.5)]) or text


# ----------------------------------------------------------------------------------------- model


def new_model(tokenizer: Any) -> Any:
    """A T5 of a million weights, random but for those that copy."""
    from transformers import T5Config, T5ForConditionalGeneration

    model = T5ForConditionalGeneration(
        T5Config(
            vocab_size=len(tokenizer),
            d_model=128,
            d_kv=32,
            d_ff=256,
            num_heads=4,
            num_layers=2,
            num_decoder_layers=2,
            dropout_rate=0.0,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
    )
    begin_with_copying(model)
    return model


def begin_with_copying(model: Any) -> None:
    """Set weights so that the decoder takes the token that stands behind its last one.

    Two heads of the encoder look at the token before each; the decoder looks where that is its own
    last token, and takes what stands there. To learn so much would take most of the time.
    """
    import torch

    width, part = model.config.d_model, model.config.d_kv
    before = model.encoder.block[0].layer[0].SelfAttention
    taken = model.decoder.block[0].layer[1].EncDecAttention
    one, other = (torch.linalg.qr(torch.randn(width, width))[0] for _ in range(2))
    with torch.no_grad():
        near = before.relative_attention_bias.weight
        near[:, :2] = -4.0
        near[1, :2] = 4.0
        before.v.weight[: 2 * part] = one[: 2 * part]
        before.o.weight[:, : 2 * part] = other[:, : 2 * part]
        for head in range(model.config.num_heads):
            own = slice(head * part, (head + 1) * part)
            read = slice(head % 2 * part, (head % 2 + 1) * part)
            taken.q.weight[own] = SHARPNESS * one[read]
            taken.k.weight[own] = SHARPNESS * other[:, read].T
        taken.v.weight[:] = one
        taken.o.weight[:] = 2 * one.T


def train(profiles: list[list[Article]], minutes: float, seed: int, out: Path) -> None:
    """Train for so many minutes of a core, and write the model."""
    import torch

    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    texts = [t for own in profiles for article in own for t in (article.text, article.title)]
    tokenizer = train_tokenizer(texts, [TASK.strip(), "is the title for"], VOCABULARY, 512)
    model = new_model(tokenizer).train()
    print(f"{sum(map(len, profiles))} headlines, {model.num_parameters()} parameters", flush=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    began, step, recent, said = time.process_time(), 0, [], 0.0
    while (done := (time.process_time() - began) / 60 / minutes) < 1:
        copying = done < COPYING and rng.random() < 0.8
        least, most = (1, 1 + int(4 * done / COPYING)) if copying else (0, 5)
        n_entries = int(rng.integers(least, most + 1))
        size = BATCH_TOKENS // ((TOKENS_PER_ENTRY // (1 + copying)) * (n_entries + 1))
        drawn = [draw(rng, profiles, n_entries, copying) for _ in range(size)]
        read = tokenizer([p for p, _ in drawn], return_tensors="pt", padding=True, truncation=True)
        told = tokenizer([h for _, h in drawn], return_tensors="pt", padding=True, truncation=True,
                         max_length=LONGEST_HEADLINE)  # fmt: skip
        labels = told["input_ids"].masked_fill(told["attention_mask"] == 0, -100)
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, done / WARMUP + 0.01, 1.02 - done)
        loss = model(**{k: read[k] for k in ("input_ids", "attention_mask")}, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        recent.append(loss.item())
        if done >= said:
            print(f"{done:.0%}, step {step}: loss {np.mean(recent):.3f}", flush=True)
            said, recent = said + 0.05, []
    model.generation_config.num_beams = 4
    model.generation_config.early_stopping = True
    model.eval().save_pretrained(out / "model")
    tokenizer.save_pretrained(out / "model")
    write_encoder(tokenizer, seed, out)


def write_encoder(tokenizer: Any, seed: int, out: Path) -> None:
    """Write an untrained encoder: the mean of its words' random vectors, which share words."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    sizes = {"hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 1}
    config = BertConfig(vocab_size=len(tokenizer), num_attention_heads=4, **sizes,
                        pad_token_id=tokenizer.pad_token_id)  # fmt: skip
    BertModel(config).save_pretrained(out / "encoder")
    tokenizer.save_pretrained(out / "encoder")


def show(profiles: list[list[Article]], out: Path, seed: int) -> None:
    """Print some answers: without an entry, with others, with one that resembles the article."""
    llm = FlanT5(out / "model", prompt="lamp-4", max_new_tokens=LONGEST_HEADLINE).llm
    rng = np.random.default_rng([seed, 1])
    for n_entries in (0, 2, 2, 5, 5):
        prompt, title = draw(rng, profiles, n_entries)
        [answer] = llm.complete(questions([prompt]))
        print(f"{n_entries} entries: {answer.text!r}; wanted: {title!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="with LaMP-4's files")
    parser.add_argument("--out", type=Path, required=True, help="for the model and the other half")
    parser.add_argument("--minutes", type=float, default=4.0, help="of a core")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    profiles = split(args.folder, args.out)
    train(profiles, args.minutes, args.seed, args.out)
    show(profiles, args.out, args.seed)


if __name__ == "__main__":
    main()
