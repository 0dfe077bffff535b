"""Plans of batches, and what fits into memory."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk.llm import loading as memory
from fairtk.llm.hugging_face import cost, plan_batches


def test_batches_by_hand():
    # costs with 2 new tokens: 12, 5, 5, 3; 12 + padding of a second would be 24 > 14
    batches = plan_batches(np.array([3, 10, 1, 3]), batch_tokens=14, new_tokens=2)
    assert [batch.tolist() for batch in batches] == [[1], [0, 3], [2]]
    assert plan_batches(np.array([], dtype=np.int64), 10, 2) == []


@given(
    lengths=st.lists(st.integers(1, 60), max_size=50),
    batch_tokens=st.integers(1, 500),
    new_tokens=st.integers(1, 20),
)
def test_every_prompt_once_and_no_batch_too_dear(lengths, batch_tokens, new_tokens):
    sizes = np.array(lengths, dtype=np.int64)
    batches = plan_batches(sizes, batch_tokens, new_tokens)
    together = [i for batch in batches for i in batch.tolist()]
    assert sorted(together) == list(range(len(lengths)))
    assert (np.diff(sizes[together]) <= 0).all()
    for batch in batches:
        price = cost(len(batch), int(sizes[batch].max()), new_tokens)
        assert len(batch) == 1 or price <= batch_tokens


def test_memory_decides_the_batch(t5_folder, monkeypatch):
    from transformers import AutoModelForSeq2SeqLM

    model = AutoModelForSeq2SeqLM.from_pretrained(t5_folder)
    cpu = SimpleNamespace(type="cpu")
    # keys and values: 2 * 2 * 4 beams * 2 layers * (4 * 8) inner * 4 bytes = 4096
    # activations: (8 * 32 + 2 * 64) * 4 + 4 heads * 512 * 4 = 9728
    # scores: 16 * 4 beams * vocabulary / 128
    vocabulary = model.config.vocab_size
    assert memory.bytes_per_token(model, 4, 128) == 4096 + 9728 + 16 * 4 * vocabulary / 128
    sizes = []
    for available in (0, 2**27, 2**28, 2**50):
        monkeypatch.setattr(memory, "available_memory", lambda available=available: available)
        sizes.append(memory.batch_tokens(model, cpu, 4, 128))
    assert sizes[0] == memory.LEAST and sizes[-1] == memory.CPU_MOST
    assert sizes[2] == 2 * sizes[1]
    assert all(size & (size - 1) == 0 for size in sizes)


def test_available_memory_is_plausible():
    assert 2**20 < memory.available_memory() < 2**50


@pytest.mark.parametrize("module", ["fairtk.llm", "fairtk.prompts"])
def test_importing_loads_nothing_heavy(module):
    code = (
        f"import {module}, sys; "
        "print([m for m in ('torch', 'transformers', 'pyterrier') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
