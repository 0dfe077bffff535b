"""Plans of batches, and what fits into memory."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairtk.llm import HuggingFaceSeq2Seq
from fairtk.llm.hugging_face import cost, plan_batches


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


def test_a_batch_has_as_many_tokens_on_every_machine(t5_folder):
    backend = HuggingFaceSeq2Seq(t5_folder)
    assert backend._most == backend.CPU_MOST
    assert HuggingFaceSeq2Seq(t5_folder, batch_tokens=77)._most == 77
    backend = HuggingFaceSeq2Seq(t5_folder)
    backend._device = SimpleNamespace(type="cuda")
    assert backend._most == backend.GPU_MOST > backend.CPU_MOST
