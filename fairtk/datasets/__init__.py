"""Datasets in ir_datasets' terms, with queries, documents, candidates and gold answers.

They are registered with ir_datasets when fairtk is imported: ``ir_datasets.load("lamp/4/dev")``,
``pt.get_dataset("irds:lamp/4/dev")`` and ``pt.get_dataset("fair:lamp/4/dev")`` are the same data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtk.starting.doors import lazily

if TYPE_CHECKING:
    from fairtk.datasets import lamp, trec_fair
    from fairtk.datasets.answers import get_answers, get_topics, join_answers
    from fairtk.datasets.provider import FairDataset

__all__ = ["FairDataset", "get_answers", "get_topics", "join_answers", "lamp", "trec_fair"]

# on first use: registering the datasets, which every import of fairtk does, needs none of this
__getattr__ = lazily(
    __name__,
    {
        "answers": ("get_answers", "get_topics", "join_answers"),
        "lamp": (),
        "provider": ("FairDataset",),
        "trec_fair": (),
    },
)
