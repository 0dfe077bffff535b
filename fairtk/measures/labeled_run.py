"""`LabeledRun`: a run and its labels as integer codes, shared by all measures of a call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from fairtk.errors import ColumnError, InputError
from fairtk.exposure import BrowsingModel, attention
from fairtk.frames import (
    EXPOSURE,
    RANK,
    SAMPLE,
    BoolArray,
    FloatArray,
    IntArray,
    ObjectArray,
    Qrels,
    Run,
)
from fairtk.frames.answers import PROMPT_CUT, STATUSES, statuses_of
from fairtk.frames.columns import ALPHA, BROWSING, CUTOFF, refuse_subsets, rows_by_code
from fairtk.frames.derived import Deriving
from fairtk.frames.ids import decode_ids
from fairtk.groups.exposure import attention_matrix, group_exposure
from fairtk.groups.rows import SparseRows
from fairtk.io.qrels import as_qrels
from fairtk.io.runs import as_run
from fairtk.wording import format_list, missing_columns

UNLABELED = 1000
"""The number of queries without labels that are kept to compare their spelling."""


@dataclass(frozen=True)
class ExactExposure:
    """The browsing model and the cutoff of a frame X."""

    browsing: str  # the string form of the browsing model; "" for an empty frame
    cutoff: int | None  # `None` for all ranks

    def __str__(self) -> str:
        return f"browsing={self.browsing!r} and cutoff={self.cutoff}"

    @classmethod
    def of(cls, run: Run) -> ExactExposure:
        """Return the checked browsing model and cutoff of a frame X."""
        frame, where = run.frame, run.where
        missing = [name for name in (BROWSING, CUTOFF) if name not in frame.columns]
        if missing:
            expected = f"{format_list([EXPOSURE, BROWSING, CUTOFF])} of exact exposure"
            raise ColumnError(
                f"{where}: {missing_columns(missing, expected, frame.columns)}; rename "
                f"{EXPOSURE!r} if it means something else"
            )
        if SAMPLE in frame.columns:
            raise InputError(
                f"{where}: the columns {EXPOSURE!r} and {SAMPLE!r} are mutually exclusive, because "
                "exact exposure has no samples; drop one"
            )
        for name in (BROWSING, CUTOFF, ALPHA):
            if name in frame.columns and frame[name].nunique(dropna=False) > 1:
                values = frame[name].unique().tolist()
                raise InputError(
                    f"{where}: exact exposure must have one {name!r}, got {format_list(values)}; "
                    f"measure each separately, e.g. with run.groupby({name!r})"
                )
        column = pd.to_numeric(frame[EXPOSURE], errors="coerce")
        if (column < 0).any():
            raise InputError(f"{where}: exposure must be at least 0, got {column.min()}")
        if frame.empty:
            return cls("", None)
        cutoff = frame[CUTOFF].iloc[0]
        return cls(str(frame[BROWSING].iloc[0]), None if pd.isna(cutoff) else int(cutoff))

    def check(self, where: str, model: BrowsingModel, cutoff: int | None) -> None:
        """Raise an `InputError` unless the exposure is for this browsing model and cutoff."""
        if model.stop > 0:
            raise InputError(
                f"{where}: exact exposure (column {EXPOSURE!r}) is not supported with "
                f"browsing={str(model)!r}, which depends on labels; measure sampled rankings "
                "instead (FairSampler)"
            )
        if self.browsing and (str(model), cutoff) != (self.browsing, self.cutoff):
            raise InputError(
                f"{where} requires exposure with browsing={str(model)!r} and cutoff={cutoff}, got "
                f"{self} (column {EXPOSURE!r}); recompute it with "
                f"browsing={str(model)!r}, cutoff={cutoff} (in PlackettLuceExposure or "
                "Seen.exposure), or change the measure"
            )

    def refuse(self, measure: Any) -> NoReturn:
        """Raise an `InputError`: the measure requires rankings."""
        raise InputError(
            f"{measure} requires rankings, got exact exposure with {self} (column {EXPOSURE!r}); "
            "measure sampled rankings instead (FairSampler), or use EE_D, EE_R, EE_L, AWRF, or "
            "E(nDCG@k) of exposure with browsing='DCG' and cutoff=k"
        )


class LabeledRun(Deriving):
    """A run and its labels.

    A pair is a (query, document) that is labeled or retrieved; labeled pairs come first.

    Attributes:
        qrels: the labels.
        qids: the queries of the labels; shape (n_queries,).
        run: the rows of queries with labels; others are ignored, as in ir_measures. With a column
            ``parent``, its docnos are the documents of passages (`fairtk.frames.Run.by_parent`).
        present: whether each query is in the run; shape (n_queries,).
        exact: the browsing model and cutoff of a frame X, whose rows are sorted by exposure; `None`
            for rankings.
        unlabeled_qids: the first queries of the run without labels, at most 1,000.
        query_of_run: the index in `qids` of each query of the run.
        where: the measures, for messages.
    """

    def __init__(self, qrels: Qrels, run: Run, where: str) -> None:
        refuse_subsets(run.frame, run.where)
        self.exact: ExactExposure | None = None
        if EXPOSURE in run.frame.columns:
            self.exact, run = ExactExposure.of(run), run.ordered_by(EXPOSURE)
        run = run.by_parent()
        self.qrels, self.where, self.qids = qrels, where, qrels.qids.text
        index = qrels.qids.find(run.qids)
        self.unlabeled_qids = tuple(run.qids.texts_at(np.flatnonzero(index < 0)[:UNLABELED]))
        self.run = run if (index >= 0).all() else run.take(index[run.frame_query] >= 0)
        self.query_of_run: IntArray = index[index >= 0]
        self.present: BoolArray = np.zeros(len(self.qids), dtype=bool)
        self.present[self.query_of_run] = True

    @classmethod
    def of(cls, qrels: Any, run: Any, where: str) -> LabeledRun:
        """Check and encode a run and its labels, in any form of `as_run` and `as_qrels`."""
        return cls(as_qrels(qrels, where), as_run(run, f"{where} (run)"), where)

    def attention(
        self, where: str, model: BrowsingModel, cutoff: int | None, useful: BoolArray | None = None
    ) -> FloatArray:
        """Return the attention on each sorted row, shape (n_rows,); for a frame X, its exposure.

        Args:
            where: the measure, for messages.
            model: the browsing model.
            cutoff: the number of ranks with attention; `None` for all ranks.
            useful: whether each pair is useful, for a cascade; shape (n_pairs,).

        Raises:
            InputError: the frame X has another browsing model or cutoff.
        """
        if self.exact is not None:
            self.exact.check(where, model, cutoff)
            exposure: FloatArray = self.run.scores[self.run.order]
            return exposure
        of_row = useful[self.pair_of_row] if useful is not None and model.stop > 0 else None
        return attention(self.run, model, cutoff, of_row)

    def restricted(self, labels: BoolArray, rows: BoolArray | None = None) -> LabeledRun:
        """Return a subset of the documents, which keep their ranks.

        Args:
            labels: a mask of the rows of the qrels.
            rows: a mask of the sorted rows of the run; `None` for all.
        """
        run = self.run if rows is None else self.run.restricted(rows)
        part = LabeledRun(self.qrels.take(labels), run, self.where)
        part.exact, part._documents = self.exact, self._documents
        return part

    @cached_property
    def first_passages(self) -> LabeledRun:
        """The run with each document once per ranking, at its first rank, for relevance measures.

        Raises:
            InputError: a document has several passages in a frame X, which has no ranks.
        """
        run = self.run.first_passages()
        if run is self.run:
            return self
        if self.exact is not None:
            raise InputError(
                f"{self.where}: relevance measures count a document with several passages once, "
                f"which requires rankings, got exact exposure (column {EXPOSURE!r}); measure "
                "sampled rankings instead (FairSampler)"
            )
        return LabeledRun(self.qrels, run, self.where)

    # Pairs ---------------------------------------------------------------------------------------

    @cached_property
    def _documents(self) -> tuple[IntArray, IntArray]:
        """The index in `docnos` of each document of the run, and the unlabeled documents."""
        index = self.run.indices_in(self.qrels.docnos)
        unlabeled = np.flatnonzero(index < 0)
        index[unlabeled] = self.qrels.docnos.size + np.arange(len(unlabeled))
        return index, unlabeled

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
        """The query, document and label of each pair, and the pair of each row."""
        qrels, (index, unlabeled) = self.qrels, self._documents
        n_labeled, width = qrels.docnos.size, max(1, qrels.docnos.size + len(unlabeled))
        query, doc = self.query_of_run[self.run.query], self.run.doc
        of_row = qrels.label_rows(query, np.where(index < n_labeled, index, -1)[doc])
        new = of_row < 0
        codes, distinct = pd.factorize(query[new] * width + index[doc[new]])
        of_row[new] = len(qrels.query) + codes
        return (
            np.concatenate([qrels.query, distinct // width]),
            np.concatenate([qrels.doc, distinct % width]),
            np.concatenate([qrels.labels, np.full(len(distinct), np.nan)]),
            of_row,
        )

    @property
    def n_pairs(self) -> int:
        """The number of pairs."""
        return len(self.pair_query)

    @property
    def pair_query(self) -> IntArray:
        """Index into `qids` of each pair; shape (n_pairs,)."""
        return self._pairs[0]

    @property
    def pair_doc(self) -> IntArray:
        """Index into `docnos` of each pair; shape (n_pairs,)."""
        return self._pairs[1]

    @property
    def pair_label(self) -> FloatArray:
        """The label of each pair, NaN without a label; shape (n_pairs,)."""
        return self._pairs[2]

    @property
    def pair_of_row(self) -> IntArray:
        """The pair of each sorted row of the run; shape (n_rows,)."""
        return self._pairs[3]

    @cached_property
    def docnos(self) -> ObjectArray:
        """The labeled or retrieved documents; shape (n_documents,)."""
        return np.concatenate([self.qrels.docnos.text, self.run.docnos[self._documents[1]]])

    @cached_property
    def row_label(self) -> FloatArray:
        """The label of each sorted row of the run, 0 without a label; shape (n_rows,)."""
        return np.nan_to_num(self.pair_label)[self.pair_of_row]

    @property
    def ranking_query(self) -> IntArray:
        """Index into `qids` of each ranking; shape (n_rankings,)."""
        return self.query_of_run[self.run.ranking_query]

    def summed(self, memberships: SparseRows, weight: FloatArray, pair: IntArray) -> SparseRows:
        """Return the sums of pairs' weights by query and group."""
        shape = (len(self.qids), memberships.n_rows)
        weights = attention_matrix(self.pair_query[pair], self.pair_doc[pair], weight, shape)
        return group_exposure(weights, memberships)

    def by_query(
        self, cutoff: int | None
    ) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame | None]]:
        """Yield each query with its labels and its rankings, `None` for a missing query.

        Each ranking is cut at the cutoff.
        """
        ranked = self.run
        ranks = {SAMPLE: ranked.ranking_sample[ranked.ranking], RANK: ranked.position}
        frame = decode_ids(ranked.frame).iloc[ranked.order].assign(**ranks)
        labels = decode_ids(self.qrels.frame)
        query = self.query_of_run[ranked.query]
        if cutoff is not None:
            frame, query = frame[ranked.position < cutoff], query[ranked.position < cutoff]
        frame = frame.reset_index(drop=True)
        order, start = rows_by_code(query, len(self.qids))
        for index, qid in enumerate(self.qids):
            rows = order[start[index] : start[index + 1]]
            run = frame.iloc[rows] if len(rows) else None
            yield qid, labels.iloc[self.qrels.rows_of(index)], run


def answer_statuses(judged: LabeledRun) -> tuple[IntArray, IntArray]:
    """Return the query of each answer, and the index of its status in `STATUSES`.

    Both have shape (n_answers,), and are empty if the run has no column ``answer_status``.
    """
    query, status = statuses_of(judged.run)
    return judged.query_of_run[query], status


UNREAD_PROMPT = "the server has read less than half of a prompt"


def has_unread_prompt(judged: LabeledRun) -> BoolArray:
    """Return whether the server has cut a prompt of each query; shape (n_queries,)."""
    query, status = judged.derived(answer_statuses)
    is_cut = status == STATUSES.index(PROMPT_CUT)
    return np.bincount(query[is_cut], minlength=len(judged.qids)) > 0
