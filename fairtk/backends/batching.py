"""Batches of prompts: sorted by length, each of a bounded cost."""

from __future__ import annotations

import numpy as np

from fairtk.frames.arrays import IntArray


def cost(size: int, longest: int, new_tokens: int) -> int:
    """Return the cost of a batch in tokens: padded prompts plus the answers' room."""
    return size * (longest + new_tokens)


def plan_batches(lengths: IntArray, batch_tokens: int, new_tokens: int) -> list[IntArray]:
    """Return batches of prompt numbers, the longest prompts first.

    Sorting by length keeps padding small; starting with the longest shows at once whether a batch
    fits into memory. The plan depends on the lengths alone (equal lengths keep their order).

    Args:
        lengths: tokens of each prompt; shape (n,).
        batch_tokens: the largest `cost` of a batch; a prompt above it gets a batch of its own.
        new_tokens: tokens that each answer may have.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches = []
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        size = max(1, batch_tokens // max(1, longest + new_tokens))
        batches.append(order[start : start + size].astype(np.int64))
        start += size
    return batches


def padded(rows: list[list[int]], filler: int | None, left: bool) -> tuple[IntArray, IntArray]:
    """Return token ids and attention mask; both of shape (n_prompts, longest).

    Args:
        rows: the token ids of prompts.
        filler: the id of padding; None: 0.
        left: whether the padding stands before the prompts.
    """
    longest = max(len(row) for row in rows)
    ids = np.full((len(rows), longest), filler or 0, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), None) if left else slice(None, len(row))
        ids[number, place] = row
        mask[number, place] = 1
    return ids, mask
