"""The base of runs and qrels: a frame whose ids are checked and encoded as integers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NoReturn

import pandas as pd

from fairtk.frames.accepted import checked_frame
from fairtk.frames.columns import DOCNO, QID, IntArray, ObjectArray, require_columns, rows_by_code
from fairtk.frames.ids import Coded, Ids, with_text
from fairtk.frames.schema import RowProblem, check_ids, refuse_in


class EncodedFrame:
    """A frame with a qid, and usually a docno, in each row.

    Args:
        data: a frame, or another form of `fairtk.frames.accepted.labels_or_scores`; not changed.
        value: the value column of a dict, ``label`` or ``score``.
        where: the caller, for messages.
        needs: columns required now; others are required on first use.
        either: whether ir_measures' column names are accepted.
    """

    def __init__(
        self, data: Any, value: str, where: str, needs: Iterable[str], either: bool
    ) -> None:
        self.where = where
        self.frame = checked_frame(data, value, where, needs, either)
        self.frame_query: IntArray
        self.frame_query, self.queries = check_ids(self.frame[QID], QID, self.refuse)

    def __len__(self) -> int:
        return len(self.frame)

    def __bool__(self) -> bool:
        return True  # also without rows

    def refuse(self, problem: RowProblem) -> NoReturn:
        """Raise the error of a problem, naming qid, sample and docno of the first row."""
        refuse_in(self.where, problem, self.frame)

    def _need(self, *columns: str) -> None:
        if not {*columns} <= {*self.frame.columns}:
            require_columns(self.frame, dict.fromkeys([QID, DOCNO, *columns]), self.where)

    @cached_property
    def qids(self) -> ObjectArray:
        """The qids as text, in order of first appearance; shape (n_queries,)."""
        return self.queries.text

    @cached_property
    def _docs(self) -> Coded:
        self._need(DOCNO)
        return check_ids(self.frame[DOCNO], DOCNO, self.refuse)

    @property
    def documents(self) -> Ids:
        """The distinct documents."""
        return self._docs[1]

    @property
    def frame_doc(self) -> IntArray:
        """Index into `documents` of each frame row; shape (n_rows,)."""
        return self._docs[0]

    @property
    def docnos(self) -> ObjectArray:
        """The distinct docnos as text; shape (n_documents,)."""
        return self.documents.text

    def rows_of(self, query: int) -> IntArray:
        """Return the frame rows of a query."""
        order, start = self._rows_by_query
        return order[start[query] : start[query + 1]]

    @cached_property
    def _rows_by_query(self) -> tuple[IntArray, list[int]]:
        return rows_by_code(self.frame_query, self.queries.size)

    def with_text_ids(self) -> pd.DataFrame:
        """Return the frame with its ids as text."""
        ids = {QID: (self.frame_query, self.queries)}
        if DOCNO in self.frame.columns:
            ids[DOCNO] = self._docs
        return with_text(self.frame, ids)
