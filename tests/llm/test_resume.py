"""A run of a local model that was killed continues with the same batches, so with equal answers."""

from __future__ import annotations

import random

import pandas as pd
import pytest
from model_answers import answers_of

pytest.importorskip("transformers")
import tiny_models

import fairtk
from fairtk import Generator
from fairtk.llm import HuggingFaceCausal, HuggingFaceSeq2Seq, Ledger
from fairtk.llm.chat import questions

WORDS = ["movie", "tag", "harbour", "lantern", "silver", "market", "title", "question"]
KINDS = {"t5": HuggingFaceSeq2Seq, "causal": HuggingFaceCausal}


class KilledError(KeyboardInterrupt):
    """The process ends."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        "t5": tiny_models.save_t5(folder / "t5"),
        "causal": tiny_models.save_llama(folder / "c"),
    }


def prompts(n=40):
    rng = random.Random(1)
    return [" ".join([*rng.choices(WORDS, k=rng.randrange(1, 9)), str(i)]) for i in range(n)]


class Watched:
    """A model that notes its batches, and is killed after some of them."""

    def __init__(self, folders, kind):
        self.llm = KINDS[kind](str(folders[kind]), max_new_tokens=3, batch_tokens=60)
        self.batches, self.left = [], None
        inner = self.llm._generate

        def generate(rows, noise):
            if self.left == 0:
                raise KilledError
            self.left = None if self.left is None else self.left - 1
            self.batches.append(rows)
            return inner(rows, noise)

        vars(self.llm)["_generate"] = generate


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger(folders, kind, tmp_path):
    uninterrupted = Watched(folders, kind)
    expected = answers_of(uninterrupted.llm, prompts())
    assert len(uninterrupted.batches) > 5
    for seed in range(2):
        rng, parts = random.Random(seed), Watched(folders, kind)
        path, is_complete = tmp_path / f"{seed}.sqlite", False
        while not is_complete:
            parts.left = rng.randrange(1, 4)
            texts = rng.sample(prompts(), 40)  # in any order
            with Ledger(path) as ledger:
                try:
                    answers = dict(
                        zip(texts, answers_of(ledger.wrap(parts.llm), texts), strict=True)
                    )
                    is_complete = True
                except KilledError:
                    continue
        assert [answers[prompt] for prompt in prompts()] == expected
        assert parts.batches == uninterrupted.batches  # none is repeated, or made of other prompts


@pytest.mark.parametrize("kind", KINDS)
def test_an_experiment(folders, kind, tmp_path):
    texts = prompts()
    topics = pd.DataFrame({"qid": [f"q{i}" for i in range(len(texts))], "query": texts})

    def run(watched, folder):
        template = fairtk.prompts.get("template", template="{question}{documents}", joiner=" ")
        return fairtk.Experiment(
            {"a": Generator(watched.llm, template)},
            topics,
            save_dir=folder,
            batch_size=7,
            threads=1,
        )

    uninterrupted = Watched(folders, kind)
    expected = run(uninterrupted, tmp_path / "whole").answers("a")
    assert len(uninterrupted.batches) > 5
    for seed in range(2):
        rng, parts, results = random.Random(seed), Watched(folders, kind), None
        while results is None:
            parts.left = rng.randrange(1, 4)
            try:
                results = run(parts, tmp_path / str(seed))
            except KilledError:
                continue
        assert results.answers("a").equals(expected)
        assert parts.batches == uninterrupted.batches


@pytest.mark.parametrize("kind", KINDS)
def test_batches_depend_on_the_set_of_all_prompts_alone(folders, kind):
    llm = Watched(folders, kind).llm
    texts = prompts()
    batches = [[texts[i] for i in batch] for batch in llm.batches(questions(texts))]
    mixed = random.Random(3).sample(texts, len(texts))
    assert [[mixed[i] for i in batch] for batch in llm.batches(questions(mixed))] == batches
    lengths = [len(llm.tokenizer.tokenize(prompt)) for batch in batches for prompt in batch]
    assert lengths == sorted(lengths, reverse=True)
    for batch in batches:  # each is one batch on its own
        assert len(llm.batches(questions(batch))) == 1
