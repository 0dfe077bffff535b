"""How many tokens a batch may have, from a model's shape and the memory there is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

CPU_SHARE, GPU_SHARE = 0.25, 0.6
"""Shares of the free memory that a batch may use; the rest is for what the estimate leaves out."""

CPU_MOST, GPU_MOST = 2**12, 2**18
"""Larger batches are no faster: on a CPU the scores over the vocabulary fall out of the cache."""

LEAST = 2**10
_UNKNOWN = 2**31


def batch_tokens(model: Any, device: Any, num_beams: int, new_tokens: int) -> int:
    """Return the largest cost (`fairtk.backends.batching.cost`) of a batch.

    The number is rounded down to a power of two, so that a machine's answers do not depend on
    what else runs on it, as far as possible; an out-of-memory error halves it.

    Args:
        model: a loaded Hugging Face model.
        device: its torch device.
        num_beams: beams per prompt.
        new_tokens: tokens that each answer may have.
    """
    return _fitting(bytes_per_token(model, num_beams, new_tokens), device)


def encoder_tokens(model: Any, device: Any, scores: int) -> int:
    """Return the largest cost of a batch of texts that are encoded, not answered.

    Args:
        model: a loaded Hugging Face model.
        device: its torch device.
        scores: numbers per token that come on top of the model's own, e.g. over the vocabulary.
    """
    hidden, wide, heads, element = _shape(model)
    return _fitting(_activations(hidden, wide, heads, element) + 2 * 4 * scores, device)


def _fitting(token_bytes: float, device: Any) -> int:
    import torch

    if device.type == "cuda":
        free, most = torch.cuda.mem_get_info(device)[0] * GPU_SHARE, GPU_MOST
    else:
        free, most = available_memory() * CPU_SHARE, CPU_MOST
    fitting = int(free / token_bytes)
    return max(LEAST, min(most, 1 << max(0, fitting.bit_length() - 1)))


def bytes_per_token(model: Any, num_beams: int, new_tokens: int) -> float:
    """Return a generous estimate of what one token of a batch costs during beam search.

    Counted are keys and values of every layer per beam (twice: beams are reordered by copying),
    the activations of one layer, and the scores over the vocabulary per beam, spread over the
    tokens of an answer.
    """
    config = model.config
    layers = _size(config, "num_decoder_layers", "num_hidden_layers", "num_layers", default=12)
    hidden, wide, heads, element = _shape(model)
    inner = heads * _size(config, "d_kv", "head_dim", default=max(1, hidden // heads))
    vocabulary = _size(config, "vocab_size", default=32_000)
    cache = 2 * 2 * num_beams * layers * inner * element
    scores = 4 * 4 * num_beams * vocabulary / max(1, new_tokens)
    return float(cache + _activations(hidden, wide, heads, element) + scores)


def _shape(model: Any) -> tuple[int, int, int, int]:
    """Return the width of a layer and its feed-forward part, the heads, and a number's bytes."""
    config = model.config
    hidden = _size(config, "d_model", "hidden_size", "n_embd", "dim", default=1024)
    heads = _size(config, "num_heads", "num_attention_heads", "n_head", "n_heads", default=16)
    wide = _size(config, "d_ff", "intermediate_size", "n_inner", "hidden_dim", default=4 * hidden)
    return hidden, wide, heads, next(model.parameters()).element_size()


def _activations(hidden: int, wide: int, heads: int, element: int) -> int:
    return (8 * hidden + 2 * wide) * element + heads * 512 * 4


def available_memory() -> int:
    """Return the bytes of memory that this process can still get, a container's limit included."""
    found = [_UNKNOWN]
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found = [int(line.split()[1]) * 1024]
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            used = int((group / "memory.current").read_text())
            found.append(max(0, int(limit) - used))
    except (OSError, ValueError):
        if found == [_UNKNOWN] and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2]
    return min(found)


def _size(config: Any, *names: str, default: int) -> int:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return default


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a batch was too large for the memory."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (
        "out of memory" in text or "not enough memory" in text or "can't allocate memory" in text
    )
