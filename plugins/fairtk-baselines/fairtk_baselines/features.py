"""Features of queries and documents for learning to rank."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyterrier_dr import BiEncoder

from fairtk.errors import ColumnError, InputError, ParameterError
from fairtk.frames import (
    DOCNO,
    QID,
    QUERY,
    SCORE,
    TEXT,
    FloatArray,
    Run,
    require_queries,
    require_texts,
)
from fairtk.transformers import FairTransformer
from fairtk_baselines import encoders
from fairtk_baselines.vectors import FEATURES, min_max, row_cosines, unit_rows, weigh


class Features(FairTransformer):
    """R -> R with ``features``: an array of floats per row, as in PyTerrier's learning to rank.

    The features, in the order of `names` and not standardized, are:

    * ``score``: the first-stage score, min-max scaled within the query; 0.5 if all are equal.
    * ``tfidf_cosine``: cosine of query and text, 0 to 1; document frequencies are those among the
      query's documents in the frame. Words are defined in `fairtk_baselines.vectors`.
    * ``query_words``: share of the query's distinct words that are in the text, 0 to 1.
    * ``log_length``: ln(1 + number of words of the text).
    * ``dense_cosine``, with an encoder: cosine of the vectors, -1 to 1; 0 for a zero vector.
    * the given columns of the frame, unchanged.

    The features of a query depend only on its own rows, up to the last bits of neural encoders.
    Input: ``qid``, ``query``, ``docno``, ``score``, ``text`` and `columns`. Output rows are sorted
    by query and rank.

    Args:
        encoder: a bi-encoder, or the folder or hub name of one (see `encoders.get`); `None` for no
            dense feature. For LSA, pass ``encoders.get("lsa", documents)``.
        columns: numeric columns to add as features.

    Raises:
        InputError: a setting is invalid; in `transform`, a column, text, query or number is missing
            or invalid, a qid has two queries, or the run is invalid.
    """

    identity_name = "fairtk_baselines.Features"
    output_version = 1
    SETTINGS = ("encoder", "columns")
    LOADED: ClassVar[Mapping[str, Collection[str]]] = {"encoder": ("encoder",)}

    def __init__(
        self,
        encoder: str | PathLike[str] | BiEncoder | None = None,
        columns: Iterable[str] = (),
    ) -> None:
        super().__init__()
        self.encoder = None if encoder is None else encoders.get(encoder)
        if isinstance(columns, str):
            raise ParameterError(f"Features: columns must be a list of names, got {columns!r}")
        self.columns = tuple(columns)
        if len(set(self.names)) < len(self.names):
            raise ParameterError(f"Features: duplicate name in {self.names}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in their order."""
        dense = () if self.encoder is None else ("dense_cosine",)
        return ("score", "tfidf_cosine", "query_words", "log_length", *dense, *self.columns)

    def settings(self) -> dict[str, Any]:
        """Return the settings by name, with the encoder's identity."""
        return {"encoder": encoders.identity(self.encoder), "columns": self.columns}

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the run (R with ``query`` and ``text``) with features."""
        self.check_inputs(inp, [QID, QUERY, DOCNO, SCORE, TEXT, *self.columns])
        self.refuse_samples(inp)
        run = Run(inp, "Features")
        out = inp.iloc[run.order].reset_index(drop=True)
        values = self._values(out, run) if len(out) else np.zeros((0, len(self.names)))
        # a separate array per row, so that rows can be changed
        out[FEATURES] = pd.Series([row.copy() for row in values], dtype=object, index=out.index)
        return out

    def _values(self, rows: pd.DataFrame, run: Run) -> FloatArray:
        texts = require_texts(rows, "Features")
        queries = require_queries(rows, run.query, len(run.qids), "Features")
        score = rows[SCORE].to_numpy(dtype=np.float64)
        terms = weigh(texts, run.query, queries)
        columns: list[npt.NDArray[Any]] = [
            min_max(score, run.ranking_start, when_equal=0.5),
            # the cosine of equal texts may be 1 + 1e-16 because of rounding
            np.minimum(terms.documents.multiply(terms.queries[run.query]).sum(axis=1), 1.0),
            terms.known,
            np.log1p(terms.lengths),
        ]
        if self.encoder is not None:
            documents = unit_rows(self._encode(texts, self.encoder.encode_docs))
            query_vectors = unit_rows(self._encode(queries, self.encoder.encode_queries))
            columns.append(row_cosines(query_vectors[run.query], documents))
        columns += [self._column(rows, column) for column in self.columns]
        return np.column_stack(columns)

    @staticmethod
    def _encode(texts: list[str], encode: Any) -> npt.NDArray[np.float32]:
        code, distinct = pd.factorize(np.array(texts, dtype=object))
        vectors = np.asarray(encode(distinct.tolist()))
        if not np.isfinite(vectors).all():
            raise InputError("Features: the encoder must return finite vectors")
        return np.asarray(vectors[code])

    @staticmethod
    def _column(rows: pd.DataFrame, column: str) -> FloatArray:
        try:
            values: FloatArray = rows[column].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise ColumnError(
                f"Features: the column {column!r} must hold numbers, got {rows[column].dtype}"
            ) from None
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            row = rows.iloc[int(bad[0])]
            raise InputError(
                f"Features: {column!r} of qid {row[QID]!r}, docno {row[DOCNO]!r} must be a finite "
                f"number, got {row[column]!r}"
            )
        return values
