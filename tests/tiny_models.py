"""Tiny models with random weights, saved as real ones are: safetensors and a fast tokenizer."""

from __future__ import annotations

import itertools
from pathlib import Path

LINES = (
    "harbour lantern willow ladder vector kernel marble gentle copper ranking silver market",
    "tensor puzzle orchard meadow sparse movie tag is the for title question answer passage",
)
WORDS = " ".join(LINES).split()
WINDOW = 64


def make_tokenizer(window: int = WINDOW, size: int = 0):
    """Return a word-piece-like fast tokenizer over WORDS with T5's special tokens.

    Args:
        window: the longest prompt in tokens.
        size: of the vocabulary, filled up with numbered words.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = sorted({letter for word in WORDS for letter in word} | set(" .,:?'-0123456789"))
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0)]
    pieces += [("▁" + word, -4.0) for word in WORDS]
    pieces += [(a + b, -6.0) for a, b in itertools.product("aeiou", "nrstl")]
    pieces += [(letter, -8.0) for letter in letters + list("jqwxyz") if letter != " "]
    pieces = list({piece: score for piece, score in pieces}.items())
    pieces += [(f"▁w{i}", -9.0) for i in range(size - len(pieces))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=window,
    )


def save_t5(folder: Path, window: int = WINDOW) -> Path:
    """Save a random T5 of some 30 thousand weights whose answers differ from prompt to prompt."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = make_tokenizer(window)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = T5ForConditionalGeneration(
            T5Config(
                vocab_size=len(tokenizer),
                d_model=32,
                d_kv=8,
                d_ff=64,
                num_layers=2,
                num_heads=4,
                pad_token_id=0,
                eos_token_id=1,
                decoder_start_token_id=0,
                initializer_factor=3.0,  # with 1.0 a random model answers all prompts alike
            )
        )
    return _save(model, tokenizer, folder)


def save_flan_t5_small(folder: Path, tokenizer=None) -> Path:
    """Save a random T5 of the shape of google/flan-t5-small: 77 million weights, 300 MB.

    Args:
        folder: where to.
        tokenizer: instead of one with as many tokens as the real one: fewer weights.
    """
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = make_tokenizer(512, 32128) if tokenizer is None else tokenizer
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = T5ForConditionalGeneration(
            T5Config(
                vocab_size=len(tokenizer),
                d_model=512,
                d_kv=64,
                d_ff=1024,
                num_layers=8,
                num_heads=6,
                feed_forward_proj="gated-gelu",
                tie_word_embeddings=False,
                pad_token_id=0,
                eos_token_id=1,
                decoder_start_token_id=0,
                initializer_factor=1.4,  # 1.0: empty answers; 2.0: rounding grows large
            )
        )
    return _save(model, tokenizer, folder)


def save_llama(folder: Path, chat_template: str | None = None) -> Path:
    """Save a random decoder-only model."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer(window=10**30)
    if chat_template:
        tokenizer.chat_template = chat_template
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                max_position_embeddings=WINDOW,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=1,
                initializer_range=0.5,
            )
        )
    return _save(model, tokenizer, folder)


def _save(model, tokenizer, folder: Path) -> Path:
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    logging.enable_progress_bar()
    return Path(folder)
