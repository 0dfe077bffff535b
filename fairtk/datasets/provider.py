"""PyTerrier's door to the datasets: ``pt.get_dataset("fair:lamp/4/dev")``.

Named by an entry point of the group ``pyterrier.dataset_provider``, so it works without importing
fairtk first. Everything that ``irds:`` datasets can do works here too; what comes on top is
`FairDataset.get_answers` and topics without the gold answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
import pyterrier as pt
from pyterrier.datasets._irds import IRDSDataset

from fairtk.datasets.answers import get_answers, get_topics
from fairtk.errors import NotFoundError
from fairtk.io.dataset_ids import resolve_dataset
from fairtk.plugins import registry


class FairDataset(IRDSDataset):  # type: ignore[misc]
    """A PyTerrier dataset with gold answers.

    Args:
        dataset: a dataset id, or an ``ir_datasets.Dataset`` such as `lamp.from_folder` returns.
    """

    def __init__(self, dataset: Any) -> None:
        found = resolve_dataset(dataset, "FairDataset")
        self._irds_id = found.dataset_id() if hasattr(found, "dataset_id") else repr(found)
        self._irds_ref = found

    def get_topics(self, variant: str | None = None) -> pd.DataFrame:
        """Return the queries: ``qid``, ``query``, ``question``.

        Args:
            variant: a field of the queries to use as ``query``; then only that one is returned.
        """
        if variant is not None:
            return super().get_topics(variant)
        return get_topics(self.irds_ref())

    def get_answers(self) -> pd.DataFrame:
        """Return the gold answers: ``qid``, ``gold_answer``."""
        return get_answers(self.irds_ref())

    def __repr__(self) -> str:
        return f"FairDataset({self._irds_id!r})"


class FairDatasetProvider(pt.datasets.DatasetProvider):  # type: ignore[misc]
    """Provides the datasets that fairtk and its plugins registered."""

    def get_dataset(self, name: str) -> FairDataset:
        """Return a dataset; an unknown name is a `KeyError`, as PyTerrier wants it."""
        try:
            registry.datasets.get(name)
        except NotFoundError as error:
            raise KeyError(str(error)) from error
        return FairDataset(name)

    def list_dataset_names(self) -> Iterable[str]:
        """Return the ids."""
        return registry.datasets.names()
