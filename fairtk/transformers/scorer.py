"""What scorers of candidates share: checked texts and queries in, ranks by score out."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pandas as pd

from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import DOCNO, QID, QUERY, RANK, SCORE, TEXT
from fairtk.frames.ids import encode_ids
from fairtk.frames.rankings import encode_run
from fairtk.frames.texts import queries_of, texts_of
from fairtk.transformers.base import FairTransformer


class Scorer(FairTransformer, ABC):
    """R -> R: scores each query's candidates by their texts, inside their own set.

    A subclass defines `scores`. Input columns: ``qid``, ``query``, ``docno``, ``text``; scores and
    ranks are replaced, other columns kept. Output rows are ordered by query (first appearance) and
    rank; ties are broken by docno, descending, as in all of fairtk. A sampled run (column
    ``sample``) is refused: score first, then sample.
    """

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the candidates with new scores and ranks.

        Args:
            inp: a run (R) with text.

        Raises:
            ColumnError: a column is missing, or the run is sampled.
            InputError: a text or query is missing (names qid and docno), or a qid has two
                different queries.
            DuplicateError: a document occurs twice for a query.
        """
        self.check_inputs(inp, [QID, QUERY, DOCNO, TEXT])
        self.refuse_samples(inp)
        where = type(self).__name__
        query, qids = encode_ids(inp[QID], QID, where)
        texts, queries = texts_of(inp, where), queries_of(inp, query, len(qids), where)
        score = self.scores(query, texts, queries) if len(inp) else np.zeros(0)
        scored = inp.assign(**{SCORE: score})
        run = encode_run(scored, where, use_rank=False)
        out = scored.iloc[run.order].reset_index(drop=True)
        out[RANK] = run.position
        return out

    @abstractmethod
    def scores(self, query: IntArray, texts: list[str], queries: list[str]) -> FloatArray:
        """Return the score of each candidate.

        Args:
            query: place of each candidate's query among `queries`; shape (n,), n at least 1.
            texts: the candidates' texts.
            queries: the queries.
        """
