"""Topics and labels out of a dataset."""

from __future__ import annotations

from typing import Any

import pandas as pd

from fairtk.datasets.answers import get_answers, get_topics, join_answers
from fairtk.errors import InputError
from fairtk.frames.columns import DOCNO, GOLD_ANSWER, LABEL, QID
from fairtk.io.dataset_ids import resolve_dataset


def from_dataset(
    dataset: Any, topics: pd.DataFrame | None, qrels: pd.DataFrame | None
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return topics and labels, those of the dataset where none are given.

    Labels get the gold answers where the dataset has them.

    Args:
        dataset: an id, an ``ir_datasets.Dataset`` or a PyTerrier dataset made of one.
        topics: topics that were given.
        qrels: labels that were given.

    Raises:
        NotFoundError: no dataset has the id.
        InputError: the dataset has no queries.
    """
    source = resolve_dataset(dataset, "Experiment")
    if topics is None:
        topics = _plain_query(get_topics(source))
    if qrels is None and source.has("qrels"):
        rows = [(q.query_id, q.doc_id, q.relevance) for q in source.qrels_iter()]
        qrels = pd.DataFrame(rows, columns=[QID, DOCNO, LABEL])
        if GOLD_ANSWER in source.queries_cls()._fields:
            qrels = join_answers(qrels, get_answers(source))
    return topics, qrels


def _plain_query(topics: pd.DataFrame) -> pd.DataFrame:
    """Return topics with the column ``query``, which ir_datasets often calls ``text``."""
    if "query" in topics.columns:
        return topics
    for name in ("text", "title"):
        if name in topics.columns:
            return topics.rename(columns={name: "query"})
    raise InputError(
        f"Experiment: the dataset's queries have no field 'query', 'text' or 'title' (found "
        f"{list(topics.columns)}); give topics"
    )
