"""Datasets in ir_datasets' terms, with queries, documents, candidates and gold answers.

They are registered with ir_datasets when fairtk is imported: ``ir_datasets.load("lamp/4/dev")``,
``pt.get_dataset("irds:lamp/4/dev")`` and ``pt.get_dataset("fair:lamp/4/dev")`` are the same data.
Registering them, which every import of fairtk does, imports none of what is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairtk.starting.doors import lazily

if TYPE_CHECKING:
    from fairtk.datasets import lamp as lamp
    from fairtk.datasets import trec_fair as trec_fair
    from fairtk.datasets.answers import get_answers as get_answers
    from fairtk.datasets.answers import get_topics as get_topics
    from fairtk.datasets.answers import join_answers as join_answers
    from fairtk.datasets.provider import FairDataset as FairDataset

__getattr__, __dir__, __all__ = lazily(__name__)
