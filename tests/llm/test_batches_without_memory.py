"""If memory runs out, batches stay those of all prompts; each is computed in the same parts."""

from __future__ import annotations

import random

import pytest
import torch

from fairtk.llm import HuggingFaceCausal, HuggingFaceSeq2Seq
from fairtk.llm.chat import questions

WORDS = ["movie", "tag", "harbour", "lantern", "silver", "market", "title", "question"]
KINDS = {"t5_folder": HuggingFaceSeq2Seq, "llama_folder": HuggingFaceCausal}


def limited(model, most):
    """Limit the memory of a model to a cost, and return the list of the batches that fit."""
    parts = []

    def generate(rows, noise):
        if len(rows) * (max(map(len, rows)) + model.max_new_tokens) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        parts.append([tuple(row) for row in rows])
        return [("x", "stop")] * len(rows)

    vars(model)["_generate"] = generate
    return parts


@pytest.mark.parametrize("fixture", KINDS)
@pytest.mark.parametrize("most", [25, 60, 90])
def test_batches_and_their_parts(request, fixture, most):
    folder, rng = str(request.getfixturevalue(fixture)), random.Random(1)
    chats = questions(
        f"{' '.join(rng.choices(WORDS, k=rng.randrange(1, 9)))} {i}" for i in range(40)
    )

    def made():
        model = KINDS[fixture](folder, max_new_tokens=3, batch_tokens=100)
        return model, limited(model, most)

    model, parts = made()
    batches = model.batches(chats)
    by_batch = []
    for batch in batches:
        parts.clear()
        list(model.outcomes([chats[i] for i in batch]))
        by_batch.append(list(parts))
        assert model.batches(chats) == batches  # also after memory ran out
    assert any(len(of_batch) > 1 for of_batch in by_batch)
    for batch, expected in zip(batches, by_batch, strict=True):
        again, parts = made()  # a run that begins with this batch
        list(again.outcomes([chats[i] for i in batch]))
        assert parts == expected
