"""EachDocument: every document of a run alone in a ranking of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fairtk.frames.columns import RANK, SAMPLE
from fairtk.transformers.base import FairTransformer


class EachDocument(FairTransformer):
    """R -> S: as many rankings per query as it has documents, each of one document.

    A generator behind it answers from every document alone, which is how *Towards Fair RAG* finds
    out which documents are useful (appendix B, algorithm 1).

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same rows, by query and rank, with ``sample`` = the document's rank in the run, from 0, and
    ``rank`` = 0.

    Raises:
        ColumnError: a column is missing, or the run is sampled already.
        DuplicateError: a document occurs twice for a query.
    """

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the rankings."""
        run = self.plain_run(inp)
        out = inp.take(run.order).reset_index(drop=True)
        return out.assign(**{RANK: np.int64(0), SAMPLE: run.position.astype(np.int64)})
