"""The texts of a data set's documents, added to rankings."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas as pd

from fairtk.errors import InputError, listed
from fairtk.frames.columns import DOCNO, TEXT
from fairtk.transformers.base import FairTransformer


class Texts(FairTransformer):
    """R -> R with ``text``: what ir_datasets takes for a document's whole text, title included.

    Args:
        dataset: an ``ir_datasets.Dataset`` with documents.

    Raises:
        InputError: later, on use: a document is not in the data set.
    """

    SETTINGS: ClassVar[tuple[str, ...]] = ("dataset_id",)

    def __init__(self, dataset: Any) -> None:
        super().__init__()
        self.dataset_id = str(dataset.dataset_id())
        self._dataset = dataset

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the input with the column ``text``.

        Raises:
            ColumnError: the column ``docno`` is missing.
        """
        self.check_inputs(inp, [DOCNO])
        docnos = inp[DOCNO].astype(str)
        distinct = list(dict.fromkeys(docnos))
        store = self._dataset.docs_store() if distinct else None
        found = store.get_many(distinct) if store is not None else {}
        lost = [docno for docno in distinct if docno not in found]
        if lost:
            raise InputError(
                f"Texts: {len(lost)} documents are not in {self.dataset_id}: {listed(lost)}"
            )
        texts = {docno: document.default_text() for docno, document in found.items()}
        return inp.assign(**{TEXT: docnos.map(texts).astype(object)})
