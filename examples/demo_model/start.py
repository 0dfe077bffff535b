"""Where the training of the tiny model starts from: word meanings and the reach of its heads.

A model this small learns slowly which words go together and how far to look. Both are easy to say
beforehand: the embeddings start from the words' co-occurrence in the training descriptions (latent
semantic analysis), and the relative position biases of some heads start out local, so that a tag
reads its own description. Everything is trained further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from demo_model.grammar import Grammar

if TYPE_CHECKING:
    import torch

N_DESCRIPTIONS = 20_000
NOISE = 0.5
"""Standard deviation of the random part of an embedding; the part from co-occurrence has 1."""
REACH = (10.0, 20.0, 6.0)
"""Tokens over which the attention of the local heads falls by the factor e, without training."""
FLOOR = -8.0
"""The lowest starting bias: far tokens can still be learned."""


def word_vectors(
    tokenizer: Any, grammar: Grammar, width: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Vectors of the tokens from their co-occurrence in training descriptions.

    Positive pointwise mutual information of two tokens of one description, projected on its
    leading eigenvectors. Tokens of more than a tenth of the descriptions get zero.

    Args:
        tokenizer: the model's.
        grammar: composes the descriptions (training side).
        width: the embedding's width.
        rng: source of randomness.

    Returns:
        Array (vocabulary, width); the tokens with a vector have unit mean square.
    """
    texts = []
    for _ in range(N_DESCRIPTIONS):
        theme = int(rng.integers(len(grammar.themes)))
        cells = grammar.themes[theme].cells("training")
        texts.append(grammar.describe(rng, theme, "training", cells[rng.integers(len(cells))]))
    rows = [np.unique(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
    frequency = np.bincount(np.concatenate(rows), minlength=len(tokenizer))
    used = np.flatnonzero((frequency >= 3) & (frequency <= len(texts) / 10))
    place = np.full(len(tokenizer), -1)
    place[used] = np.arange(len(used))
    presence = np.zeros((len(texts), len(used)), dtype=np.float32)
    for number, row in enumerate(rows):
        presence[number, place[row][place[row] >= 0]] = 1
    together = presence.T.astype(np.float64) @ presence
    alone = frequency[used].astype(np.float64)
    ratio = together * len(texts) / np.outer(alone, alone)
    information = np.where(together >= 3, np.log(np.maximum(ratio, 1.0)), 0.0)
    np.fill_diagonal(information, 0.0)
    values, vectors = np.linalg.eigh(information)
    leading = np.argsort(-values)[:width]
    projected = vectors[:, leading] * np.sqrt(np.maximum(values[leading], 0.0))
    out = np.zeros((len(tokenizer), width))
    out[used] = projected / np.sqrt(np.mean(projected**2))
    return out


def reach_biases(n_buckets: int, max_distance: int, n_heads: int) -> npt.NDArray[np.float64]:
    """Starting values of the encoder's relative position biases.

    The first head sees everything alike: it finds the entries that match the question. The others
    look at the tokens before (and one of three also after) within a few tokens.

    Args:
        n_buckets: T5's number of buckets, both directions together.
        max_distance: the distance at which T5's last bucket starts.
        n_heads: heads per layer.

    Returns:
        Array (n_buckets, n_heads); the first half of the buckets is for tokens before.
    """
    half = n_buckets // 2
    exact = half // 2
    steps = np.arange(half, dtype=np.float64)
    growth = (max_distance / exact) ** ((steps - exact + 0.5) / (half - exact))
    distance = np.where(steps < exact, steps, exact * growth)
    biases = np.zeros((n_buckets, n_heads))
    for head in range(1, n_heads):
        kind = (head - 1) % len(REACH)
        biases[:half, head] = -distance / REACH[kind]
        biases[half:, head] = biases[:half, head] if kind == len(REACH) - 1 else -5.0
    return np.maximum(biases, FLOOR)


def prepare_model(model: Any, tokenizer: Any, grammar: Grammar, rng: np.random.Generator) -> None:
    """Set a fresh T5's embeddings and encoder biases to the starting values.

    Args:
        model: a ``T5ForConditionalGeneration``; changed in place.
        tokenizer: its tokenizer.
        grammar: themes and words.
        rng: source of randomness.
    """
    import torch

    config = model.config
    vectors = word_vectors(tokenizer, grammar, config.d_model, rng)
    vectors = vectors + NOISE * rng.standard_normal(vectors.shape)
    biases = reach_biases(
        config.relative_attention_num_buckets,
        config.relative_attention_max_distance,
        config.num_heads,
    )
    with torch.no_grad():
        _set(model.shared.weight, vectors)
        _set(model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight, biases)


def _set(weight: torch.Tensor, values: npt.NDArray[np.float64]) -> None:
    import torch

    weight.copy_(torch.from_numpy(values).to(weight.dtype))
