"""What an engine hands to workers, and what comes back: data, so that it can travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairtk.experiment.packing import Span, Table


@dataclass(frozen=True)
class StageStep:
    """One stage over some queries.

    Attributes:
        node: the chain that ends with the stage.
        parent: the chain whose rows it reads; -1: the topics.
        stage: the stage's key.
        name: the stage's name, for messages.
        qids: the queries.
        keep: whether the rows are wanted.
        ask: whether the stage's prompts are wanted instead of its rows.
    """

    node: int
    parent: int
    stage: str
    name: str
    qids: tuple[str, ...]
    keep: bool
    ask: bool


@dataclass(frozen=True)
class StageTask:
    """Stages over one batch of queries.

    Attributes:
        inputs: rows that are there already, by node; -1: the topics.
        steps: what to do, parents before children.
        errors: why queries failed before, by node.
        durable: whether the rows go into a file.
        fail_fast: whether the first failure ends the work.
        threads: the threads to use.
    """

    inputs: Mapping[int, Table]
    steps: Sequence[StageStep]
    errors: Mapping[int, Mapping[str, str]]
    durable: bool
    fail_fast: bool
    threads: int

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the stages."""
        return tuple(dict.fromkeys(step.stage for step in self.steps))


@dataclass(frozen=True)
class Prompts:
    """The prompts of some queries.

    Attributes:
        qids: the queries.
        texts: the prompts.
        lengths: tokens of each (characters where the backend has no tokenizer).
        rows: place among `texts` for each row of the rankings.
    """

    qids: list[str]
    texts: list[str]
    lengths: list[int]
    rows: np.ndarray[Any, Any]


@dataclass
class TaskResult:
    """What a task made.

    Attributes:
        tables: rows of each node that was to be kept, query after query, and where each stands.
        prompts: of the nodes that were asked for prompts.
        errors: why queries failed, by node.
    """

    tables: dict[int, tuple[Table, list[Span]]] = field(default_factory=dict)
    prompts: dict[int, Prompts] = field(default_factory=dict)
    errors: dict[int, dict[str, str]] = field(default_factory=dict)


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
