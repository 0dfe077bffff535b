"""Finds the ``ir_datasets.Dataset`` behind whatever a user calls a dataset."""

from __future__ import annotations

from typing import Any

import ir_datasets
import pandas as pd

from fairtk.errors import InputError, NotFoundError
from fairtk.frames.columns import DOCNO, LABEL, QID


def resolve_dataset(dataset: Any, where: str) -> Any:
    """Return the ``ir_datasets.Dataset`` that an id or a dataset, also PyTerrier's, stands for.

    An id may have PyTerrier's prefix ``irds:`` or ``fair:``.
    """
    if isinstance(dataset, str):
        name = dataset.removeprefix("irds:").removeprefix("fair:")
        try:
            return ir_datasets.load(name)
        except KeyError:
            raise NotFoundError("dataset", name, ir_datasets.registry) from None
    if hasattr(dataset, "irds_ref"):
        return dataset.irds_ref()
    if isinstance(dataset, ir_datasets.Dataset):
        return dataset
    raise InputError(
        f"{where} needs a dataset id, an ir_datasets Dataset or a PyTerrier dataset made of one; "
        f"found {dataset!r}"
    )


def labels_of(dataset: Any) -> pd.DataFrame:
    """Return the labels of an ``ir_datasets.Dataset``: ``qid``, ``docno``, ``label``."""
    rows = [(q.query_id, q.doc_id, q.relevance) for q in dataset.qrels_iter()]
    return pd.DataFrame(rows, columns=[QID, DOCNO, LABEL])
