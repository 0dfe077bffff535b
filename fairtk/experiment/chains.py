"""Pipelines as chains of stages, and the tree of all chains, in which systems share prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyterrier as pt
from pyterrier._ops import Compose
from pyterrier.transformer import SourceTransformer

from fairtk.experiment.adapters import CHEAP
from fairtk.experiment.identity import Description, Identified, describe_stage, key_of
from fairtk.frames import IntArray, digest, identity_name
from fairtk.frames.columns import QID
from fairtk.transformers.generator import Generator


@dataclass(frozen=True)
class Stage:
    """One transformer of a pipeline."""

    key: str  # the digest of its identity, or a number within this run
    transformer: Any
    description: Description | None = None  # None where nothing is kept

    @property
    def generator(self) -> Generator | None:
        """The stage as a generator of answers, if it is one."""
        inner = self.transformer
        inner = inner.transformer if isinstance(inner, Identified) else inner
        return inner if isinstance(inner, Generator) else None

    @property
    def working(self) -> Any:
        """What does the work: of a generator itself, of a frame what looks queries up."""
        if type(self.transformer) is SourceTransformer:
            return LookedUp(self.transformer.df)
        return self.generator or self.transformer

    @property
    def cheap(self) -> bool:
        """Whether doing it again is faster than reading what it made."""
        return identity_name(type(self.transformer)) in CHEAP

    @property
    def name(self) -> str:
        """The stage's class, for messages."""
        if isinstance(self.transformer, Identified):
            return self.transformer.name
        return type(self.transformer).__name__


class LookedUp(pt.Transformer):  # type: ignore[misc]
    """`pt.Transformer.from_df`, which joins its whole frame with every batch, as a look-up."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    @cached_property
    def _rows(self) -> dict[str, IntArray]:
        rows: dict[str, IntArray] = self.frame.groupby(QID, sort=False).indices
        return rows

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the frame's rows of the queries."""
        found = [self._rows[qid] for qid in inp[QID].unique() if qid in self._rows]
        rows = np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *found]))
        return SourceTransformer(self.frame.iloc[rows]).transform(inp)


@dataclass
class Node:
    """A chain of stages: its last stage, and the chain before."""

    number: int  # its place among the nodes of the tree; parents come before children
    parent: Node | None  # None: the topics
    stage: Stage
    key: str
    level: int  # how many of its stages generate answers
    children: list[Node] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)  # those that end here
    keep: bool = True  # whether its results are kept

    @property
    def chain(self) -> list[Node]:
        """The nodes from the first stage to this one."""
        return [*(self.parent.chain if self.parent else []), self]

    @property
    def label(self) -> str:
        """The stages' names, for messages."""
        return " >> ".join(node.stage.name for node in self.chain)


class Tree:
    """The chains of all systems; stages need an identity where results are kept beyond this run.

    Raises:
        IdentityError: a stage has none, and needs one.
    """

    def __init__(self, systems: Mapping[str, Any], durable: bool) -> None:
        self.nodes: list[Node] = []
        self.ends: dict[str, Node] = {}
        self._durable = durable
        self._stages: list[Stage] = []
        for name, pipeline in systems.items():
            node: Node | None = None
            for transformer in stages_of(pipeline):
                node = self._child(node, self._stage(transformer))
            assert node is not None  # a pipeline has a stage
            node.systems.append(name)
            self.ends[name] = node
        for node in self.nodes:
            node.keep = self._kept(node)

    def _stage(self, transformer: Any) -> Stage:
        for known in self._stages:
            if known.transformer is transformer:
                return known
        if self._durable:
            description = describe_stage(transformer)
            stage = Stage(key_of(description), transformer, description)
            stage = next((known for known in self._stages if known.key == stage.key), stage)
        else:
            alike = (s for s in self._stages if type(s.transformer) is type(transformer))
            equal = (s for s in alike if s.transformer == transformer)
            stage = next(equal, Stage(f"stage {len(self._stages)}", transformer))
        self._stages.append(stage)
        return stage

    def _child(self, parent: Node | None, stage: Stage) -> Node:
        siblings = parent.children if parent else [n for n in self.nodes if n.parent is None]
        for node in siblings:
            if node.stage.key == stage.key:
                return node
        key = digest([parent.key if parent else "", stage.key], 16)
        level = (parent.level if parent else 0) + (stage.generator is not None)
        node = Node(len(self.nodes), parent, stage, key, level)
        self.nodes.append(node)
        if parent:
            parent.children.append(node)
        return node

    def _kept(self, node: Node) -> bool:
        generates = node.stage.generator is not None
        asked = any(child.stage.generator is not None for child in node.children)
        if node.systems or generates or asked:
            return True
        return self._durable and (len(node.children) > 1 or not node.stage.cheap)


def stages_of(pipeline: Any) -> Iterator[Any]:
    """Yield the transformers of a pipeline, in their order."""
    if isinstance(pipeline, Compose):
        for part in pipeline:
            yield from stages_of(part)
    else:
        yield pipeline
