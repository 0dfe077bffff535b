"""Finds the ``ir_datasets.Dataset`` behind whatever a user calls a dataset."""

from __future__ import annotations

from typing import Any

import ir_datasets

from fairtk.errors import InputError, NotFoundError


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
