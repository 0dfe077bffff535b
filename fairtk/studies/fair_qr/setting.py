"""What the systems of a study are built from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairtk.groups import Groups, Target


@dataclass(frozen=True)
class Setting:
    """What a system of the study is built from, for one attribute of the documents.

    Attributes:
        attribute: the attribute, e.g. ``"gender"``.
        groups: the groups of the documents.
        target: the exposure that the groups should have, for every topic. It comes from relevance
            judgments: a system that reads it at retrieval time uses an oracle.
        retriever: Q -> R: BM25, much deeper than `candidates`; no texts.
        texts: R -> R: adds the column ``text``.
        documents: gives all documents of the collection: mappings with ``docno`` and ``text``.
        collection: a digest of the collection, for files that are made from it.
        cutoff: the ranks that are measured.
        candidates: how many of the retriever's documents a reranker reorders.
        seed: of everything random.
        folder: where a system may keep files for later runs, such as an index.
        options: the settings of the system, as the study's configuration gives them.
    """

    attribute: str
    groups: Groups
    target: Target
    retriever: Any
    texts: Any
    documents: Callable[[], Iterator[Mapping[str, str]]]
    collection: str
    cutoff: int
    candidates: int
    seed: int
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
