"""What scorers of candidates share: checked texts and queries in, ranks by score out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import InputError
from fairtk.frames.arrays import FloatArray, IntArray
from fairtk.frames.columns import DOCNO, QID, QUERY, RANK, SCORE, TEXT
from fairtk.frames.ids import encode_ids
from fairtk.frames.rankings import encode_run
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
        texts = self._texts(inp)
        queries = self._queries(inp, query, len(qids))
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

    def _texts(self, inp: pd.DataFrame) -> list[str]:
        values: list[Any] = inp[TEXT].tolist()
        for row, value in enumerate(values):
            if not isinstance(value, str):
                where = inp.iloc[row]
                raise InputError(
                    f"{type(self).__name__}: the text of qid {where[QID]!r}, docno "
                    f"{where[DOCNO]!r} must be a string; found {value!r}: load the texts first (a "
                    "text_loader), or drop documents without one"
                )
        return values

    def _queries(self, inp: pd.DataFrame, query: IntArray, count: int) -> list[str]:
        code, distinct = pd.factorize(inp[QUERY])
        first = np.full(count, -1, dtype=np.int64)
        first[query[::-1]] = code[::-1]
        bad = np.flatnonzero((code != first[query]) | (code < 0))
        if len(bad):
            where = inp.iloc[int(bad[0])]
            raise InputError(
                f"{type(self).__name__}: qid {where[QID]!r} must have one query on all its rows; "
                f"found {where[QUERY]!r} at docno {where[DOCNO]!r}"
            )
        return [str(distinct[c]) for c in first]
