"""The tiny model's own tokenizer: byte-level BPE over words and LaMP-2's fixed phrases.

The fixed phrases of the LaMP-2 prompt are pieces of their own for the merges, so that the long
question costs a handful of tokens; any other text falls apart into words and at worst into bytes,
so that nothing is ever unknown. Decoding gives the text back exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.pre_tokenizers import PreTokenizer
    from transformers import PreTrainedTokenizerFast

PAD, EOS, UNK = "<pad>", "</s>", "<unk>"


def train_tokenizer(
    texts: Iterable[str], phrases: Iterable[str], vocab_size: int, max_length: int = 512
) -> PreTrainedTokenizerFast:
    """Learn the merges.

    Args:
        texts: prompts and answers to learn from.
        phrases: word sequences that may become one token.
        vocab_size: size of the vocabulary, at least 256 bytes + 3 special tokens + merges.
        max_length: the longest prompt, in tokens.

    Returns:
        A tokenizer that ends every text with ``</s>``.
    """
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    # A word with its space, else a digit, else punctuation, else space.
    words = r" ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]|\s+"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = _pieces(words)
    # As in T5's own tokenizer, a text starts with a space that decoding removes: a tag is then the
    # same token as an answer and inside a prompt.
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, EOS, UNK],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fixed = sorted(phrases, key=lambda phrase: (-len(phrase), phrase))
    pattern = "|".join(" ?" + re.escape(phrase) for phrase in fixed)
    tokenizer.pre_tokenizer = _pieces(rf"(?:{pattern})(?![\w-])|{words}")
    _add_phrases(tokenizer, fixed)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}",
        pair=f"$A {EOS} $B {EOS}",
        special_tokens=[(EOS, tokenizer.token_to_id(EOS))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNK,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )


def _pieces(pattern: str) -> PreTokenizer:
    """Split by a pattern that matches every text, then write the pieces as byte symbols."""
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _add_phrases(tokenizer: Tokenizer, phrases: Iterable[str]) -> None:
    """Append merges until each phrase is a single token (cheaper in vocabulary than learning)."""
    from tokenizers import models

    state = json.loads(tokenizer.to_str())["model"]
    vocab: dict[str, int] = state["vocab"]
    merges = [(left, right) for left, right in state["merges"]]
    for phrase in phrases:
        while len(tokens := tokenizer.encode(phrase, add_special_tokens=False).tokens) > 1:
            merges.append((tokens[0], tokens[1]))
            vocab.setdefault(tokens[0] + tokens[1], len(vocab))
            tokenizer.model = models.BPE(vocab, merges)
