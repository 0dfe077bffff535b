"""Answers to all prompts of an experiment: each distinct one once, in batches that never change.

A model's logits depend a little on what else is in a batch and on the number of threads. So the
prompts of all systems are collected first, sorted by (length, digest) and cut into batches before
any is generated; a batch is generated and committed whole. A run that was killed goes on with the
same batches. An answer that is there always wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairtk.backends.batching import cost
from fairtk.backends.hugging_face import HuggingFaceBackend
from fairtk.experiment.answers import Answers, Asker
from fairtk.experiment.executors import Session
from fairtk.experiment.tasks import PromptBatch
from fairtk.experiment.work import run_batch
from fairtk.frames import digest

_TOKENS_CPU = 8192  # of a batch where the backend says nothing: about what a cache holds
_TOKENS_CUDA = 65536
_NEW_TOKENS = 128  # that an answer may have, where the backend does not say
_PROMPTS = 32  # of a batch for backends without tokens: functions, servers


@dataclass
class Wanted:
    """The distinct prompts for one model."""

    asker: Asker
    backend: Any
    lengths: dict[str, int] = field(default_factory=dict)  # tokens by prompt
    errors: dict[str, str] = field(default_factory=dict)  # why there is no answer, by prompt

    @property
    def batches(self) -> list[list[str]]:
        """The prompts in batches, the longest first: what does not fit is seen at once."""
        order = sorted(self.lengths, key=lambda text: (self.lengths[text], digest(text, 16)))
        return list(_cut(order, self.lengths, self.backend))[::-1]


def _cut(order: list[str], lengths: Mapping[str, int], backend: Any) -> Iterator[list[str]]:
    if not isinstance(backend, HuggingFaceBackend):
        for start in range(0, len(order), _PROMPTS):
            yield order[start : start + _PROMPTS]
        return
    most = backend.batch_tokens or (_TOKENS_CUDA if _on_cuda(backend.device) else _TOKENS_CPU)
    room = getattr(backend, "max_new_tokens", _NEW_TOKENS)
    batch: list[str] = []
    for prompt in order:  # ascending, so the last one is the longest
        if batch and cost(len(batch) + 1, lengths[prompt], room) > most:
            yield batch
            batch = []
        batch.append(prompt)
    if batch:
        yield batch


def _on_cuda(device: str) -> bool:
    if device != "auto":
        return device.startswith("cuda")
    import torch

    return bool(torch.cuda.is_available())


def generate(
    wanted: Iterable[Wanted],
    answers: Answers,
    session: Session,
    threads: int,
    fail_fast: bool,
    tell: Callable[[int], None],
) -> None:
    """Generate what is missing; afterwards all answers are in `answers`, or an error is noted.

    `tell` is told how many more prompts are done.
    """
    by_key = {one.asker.key: one for one in wanted}

    def missing() -> Iterator[PromptBatch]:
        for key, one in by_key.items():
            for prompts in one.batches:
                # looked up when a worker is free: another process may have been faster
                known = answers.get(one.asker, prompts)
                left = tuple(prompt for prompt in prompts if prompt not in known)
                tell(len(prompts) - len(left))
                if left:
                    yield PromptBatch(key, left, threads, fail_fast)

    for batch, (texts, errors) in session.map(run_batch, missing()):
        one = by_key[batch.backend]
        answers.put(one.asker, texts)
        one.errors.update(errors)
        tell(len(batch.prompts))
