"""The stages of a toy study, apart: PyTerrier is loaded when they are used."""

from __future__ import annotations

import pandas as pd

from fairtk.frames import DOCNO, QID, QUERY, TEXT
from fairtk.testing.toys import toy_documents, toy_run
from fairtk.transformers import FairTransformer


class ToyRetriever(FairTransformer):
    """Q -> R: the toy run, without texts."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the toy rankings of the topics."""
        self.check_inputs(inp, [QID, QUERY])
        return inp.merge(toy_run().drop(columns=[TEXT, QUERY]), on=QID)


class ToyTexts(FairTransformer):
    """R -> R with the toy documents' texts."""

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the input with ``text``."""
        self.check_inputs(inp, [DOCNO])
        return inp.merge(toy_documents(), on=DOCNO, how="left")
