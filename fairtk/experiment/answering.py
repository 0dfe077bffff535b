"""What a worker does with prompts: a model is asked for the answers to a batch of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairtk.backends import NoAnswerError, PromptLengthError
from fairtk.backends.adapter import texts
from fairtk.errors import StageError
from fairtk.experiment.threads import limited_threads
from fairtk.experiment.work import FATAL, said


@dataclass(frozen=True)
class PromptBatch:
    """Prompts that are generated together.

    Attributes:
        backend: the key of the backend.
        prompts: the prompts.
        threads: the threads to use.
        fail_fast: whether the first failure ends the work.
    """

    backend: str
    prompts: tuple[str, ...]
    threads: int
    fail_fast: bool

    @property
    def needs(self) -> tuple[str, ...]:
        """The key of the backend."""
        return (self.backend,)


@dataclass(frozen=True)
class Answered:
    """Answers to a batch of prompts.

    Attributes:
        texts: by prompt.
        errors: why there is none, by prompt.
    """

    texts: dict[str, str]
    errors: dict[str, str]


def run_batch(backends: Mapping[str, Any], batch: PromptBatch) -> Answered:
    """Generate the answers to a batch of prompts.

    Args:
        backends: the backends, by key.
        batch: what to do.

    Raises:
        StageError: a prompt failed, and the first failure is to end the work.
        FairtkError: what would fail for every prompt.
    """
    backend = backends[batch.backend]
    answers: dict[str, str] = {}
    errors: dict[str, str] = {}
    waiting = [list(batch.prompts)]
    with limited_threads(batch.threads, backend):
        while waiting:
            prompts = waiting.pop()
            try:
                outputs = backend.generate(prompts)
                found = texts(outputs, len(prompts), backend.name)
            except (PromptLengthError, NoAnswerError) as error:
                if batch.fail_fast:
                    raise
                errors[prompts.pop(error.index)] = said(error)
                waiting += [prompts] if prompts else []
            except FATAL:
                raise
            except Exception as error:
                if batch.fail_fast:
                    raise StageError(f"{backend.name}: {said(error)}") from error
                if len(prompts) == 1:
                    errors[prompts[0]] = said(error)
                else:
                    middle = len(prompts) // 2
                    waiting += [prompts[middle:], prompts[:middle]]
            else:
                answers.update(zip(prompts, found, strict=True))
    return Answered(answers, errors)
