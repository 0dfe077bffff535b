"""Datasets in ir_datasets' terms, with queries, documents, candidates and gold answers.

They are registered with ir_datasets when fairtk is imported: ``ir_datasets.load("lamp/4/dev")``,
``pt.get_dataset("irds:lamp/4/dev")`` and ``pt.get_dataset("fair:lamp/4/dev")`` are the same data.
"""

from fairtk.datasets import lamp
from fairtk.datasets.answers import get_answers, get_topics, join_answers

__all__ = ["get_answers", "get_topics", "join_answers", "lamp"]
