"""OracleSampler: rankings of a policy that knows which documents are useful."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairtk.errors import DuplicateError, InputError, such_rows
from fairtk.frames.arrays import FloatArray, IntArray, ObjectArray
from fairtk.frames.columns import DOCNO, LABEL, QID, SCORE, require
from fairtk.frames.rankings import encode_run
from fairtk.plackett_luce import SURE, draw_rankings
from fairtk.transformers.base import FairTransformer
from fairtk.transformers.sampled import refuse_sampled, sampled_frame
from fairtk.transformers.settings import depth, whole


class OracleSampler(FairTransformer):
    """Ranks useful documents first, each block uniformly shuffled: R -> S.

    The optimal policy of expected exposure (*Towards Fair RAG*, section 3.3; Diaz et al. 2020):
    grades in descending order, and within a grade every order equally likely. A document without a
    label, or with a label of at most 0, is not useful. Scores of the run are not looked at.

    Random numbers come from (seed, qid) alone, as in `FairSampler`, and ``n_samples`` and
    ``cutoff`` only truncate.

    Input: ``qid``, ``docno``, ``score`` and any other columns; one ranking per query. Output: the
    same columns and ``rank`` and ``sample``; ``score`` becomes 0, -1, -2, ... by rank.

    Args:
        qrels: labels: ``qid``, ``docno``, ``label`` (utility or relevance; larger is better).
            Other columns are ignored, also for equality of two samplers.
        n_samples: rankings per query, >= 1.
        cutoff: documents per ranking, >= 1; None for all.
        seed: the seed, any integer.

    Raises:
        ParameterError: a setting is out of its range.
        InputError: the qrels lack a column, repeat a (qid, docno) or have a label that is not a
            finite number; in `transform`, the run is broken.
    """

    SETTINGS = ("qrels", "n_samples", "cutoff", "seed")

    def __init__(
        self,
        qrels: pd.DataFrame,
        n_samples: int = 100,
        cutoff: int | None = None,
        seed: int = 42,
    ) -> None:
        name = type(self).__name__
        self.qrels = _labels(qrels, name)
        self.n_samples = whole("n_samples", n_samples, name)
        self.cutoff = depth(cutoff, name)
        self.seed = whole("seed", seed, name, least=None)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return `n_samples` rankings per query of the run."""
        self.check_inputs(inp, [QID, DOCNO, SCORE])
        refuse_sampled(inp, type(self).__name__)
        run = encode_run(inp, type(self).__name__)
        by_name = np.empty(len(run.docnos), dtype=np.int64)
        by_name[np.argsort(run.docnos.astype(str), kind="stable")] = np.arange(len(run.docnos))
        grade = self._grades(run.qids, run.docnos, run.query, run.doc)
        within = np.lexsort((by_name[run.doc], -grade, run.query))
        gaps = np.zeros(len(grade))
        gaps[1:] = np.where(grade[within][1:] < grade[within][:-1], SURE, 0.0)
        gaps[run.ranking_start[:-1]] = 0.0
        draws = draw_rankings(
            gaps,
            run.ranking_start,
            run.qids[run.ranking_query].tolist(),
            self.n_samples,
            self.cutoff,
            self.seed,
        )
        return sampled_frame(inp, run.order[within], draws)

    def _grades(
        self,
        qids: ObjectArray,
        docnos: ObjectArray,
        query: IntArray,
        doc: IntArray,
    ) -> FloatArray:
        """Return the grade of each sorted row; 0 without label."""
        labeled_query = pd.Index(qids).get_indexer(pd.Index(self.qrels[QID]))
        labeled_doc = pd.Index(docnos).get_indexer(pd.Index(self.qrels[DOCNO]))
        known = (labeled_query >= 0) & (labeled_doc >= 0)
        width = max(1, len(docnos))
        labeled = pd.Series(
            self.qrels[LABEL].to_numpy()[known],
            index=labeled_query[known].astype(np.int64) * width + labeled_doc[known],
        )
        found = labeled.reindex(query * width + doc, fill_value=0.0).to_numpy(dtype=np.float64)
        return np.asarray(np.maximum(found, 0.0))


def _labels(qrels: Any, where: str) -> pd.DataFrame:
    """Return the labels in one form, so that equal labels make equal samplers."""
    if not isinstance(qrels, pd.DataFrame):
        raise InputError(
            f"{where}: qrels must be a frame with the columns {[QID, DOCNO, LABEL]}; "
            f"found {type(qrels).__name__}"
        )
    require(qrels, [QID, DOCNO, LABEL], f"{where} (qrels)")
    try:
        label = qrels[LABEL].to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise InputError(f"{where}: labels must be numbers; found {qrels[LABEL].dtype}") from None
    strange = np.flatnonzero(~np.isfinite(label))
    if len(strange):
        row = qrels.iloc[int(strange[0])]
        raise InputError(
            f"{where}: the label of qid {str(row[QID])!r}, docno {str(row[DOCNO])!r} is "
            f"{label[strange[0]]} ({such_rows(len(strange))}); leave documents without a label out"
        )
    labels = pd.DataFrame(
        {QID: _strings(qrels[QID]), DOCNO: _strings(qrels[DOCNO]), LABEL: label + 0.0}
    )
    twice = labels.duplicated([QID, DOCNO]).to_numpy()
    if twice.any():
        row = labels.iloc[int(np.flatnonzero(twice)[0])]
        raise DuplicateError(
            f"{where}: the qrels label qid {row[QID]!r}, docno {row[DOCNO]!r} twice "
            f"({such_rows(int(twice.sum()))}); keep one label per document"
        )
    return labels.sort_values([QID, DOCNO], ignore_index=True)


def _strings(column: pd.Series) -> list[str]:
    return [value if isinstance(value, str) else str(value) for value in column.tolist()]
