"""What an engine hands to workers, and what comes back: data, so that it can travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairtk.experiment.packing import Span, Table


@dataclass(frozen=True)
class StageStep:
    """One stage over some queries."""

    node: int  # the chain that ends with the stage
    parent: int  # the chain whose rows it reads; -1: the topics
    stage: str  # its key
    name: str  # for messages
    qids: tuple[str, ...]
    keep: bool  # whether the rows are wanted
    ask: bool  # whether the stage's prompts are wanted instead of its rows


@dataclass(frozen=True)
class StageTask:
    """Stages over one batch of queries."""

    inputs: Mapping[int, Table]  # rows that are there already, by node; -1: the topics
    steps: Sequence[StageStep]  # parents before children
    errors: Mapping[int, Mapping[str, str]]  # why queries failed before, by node
    durable: bool  # whether the rows go into a file
    fail_fast: bool
    threads: int

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the stages."""
        return tuple(dict.fromkeys(step.stage for step in self.steps))


@dataclass(frozen=True)
class Prompts:
    """The prompts of some queries."""

    qids: list[str]
    texts: list[str]
    lengths: list[int]  # tokens of each (characters where the backend has no tokenizer)
    rows: np.ndarray[Any, Any]  # place among `texts` for each row of the rankings


@dataclass
class TaskResult:
    """What a task made, by node: rows, query after query, and where each stands; prompts;
    failures.
    """

    tables: dict[int, tuple[Table, list[Span]]] = field(default_factory=dict)
    prompts: dict[int, Prompts] = field(default_factory=dict)
    errors: dict[int, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PromptBatch:
    """Prompts that are generated together."""

    backend: str  # its key
    prompts: tuple[str, ...]
    threads: int
    fail_fast: bool

    @property
    def needs(self) -> tuple[str, ...]:
        """The key of the backend."""
        return (self.backend,)
