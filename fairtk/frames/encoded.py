"""The base of runs and qrels: a frame whose ids are checked and encoded as integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from fairtk.frames.accepted import as_frame
from fairtk.frames.columns import (
    DOCNO,
    QID,
    BoolArray,
    IntArray,
    as_numbers,
    from_ir_measures,
    require_columns,
    rows_by_code,
)
from fairtk.frames.ids import Coded, Ids, with_text
from fairtk.frames.schema import NUMBERS, RowProblem, check_ids, check_numbers, refuse_in


class EncodedFrame:
    """A frame with a qid, and usually a docno, in each row.

    Args:
        data: a frame, or another form of `fairtk.frames.accepted.as_frame`; not changed.
        value: the value column of a dict, ``label`` or ``score``.
        where: the caller, for messages.
        needs: columns required now; others are required on first use.
        either: whether ir_measures' column names are accepted.
        ids: the codes of id columns that are checked already, by column.
        is_checked: whether all rules hold already, as for the rows of a file that was read.

    Attributes:
        frame: the frame, in PyTerrier's column names.
        qids: the distinct queries in order of first appearance.
        frame_query: index into `qids` of each frame row; shape (n_rows,).
    """

    def __init__(
        self,
        data: Any,
        value: str,
        where: str,
        needs: Iterable[str],
        *,
        either: bool = False,
        ids: Mapping[str, Coded] | None = None,
        is_checked: bool = False,
    ) -> None:
        self.where = where
        self.is_checked = is_checked
        frame = as_frame(data, value, where)
        self.frame = from_ir_measures(frame, where) if either else frame
        require_columns(self.frame, needs, where)
        coded = ids or {}
        self.qids: Ids
        self.frame_query, self.qids = coded.get(QID) or check_ids(self.frame[QID], QID, self.refuse)
        if DOCNO in coded:
            self._docs = coded[DOCNO]

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

    def _numbers(self, column: str) -> Any:
        """Return a column of numbers; its rule is checked once."""
        if not self.is_checked:
            return check_numbers(self.frame[column], column, self.refuse)
        values = self.frame[column]
        return values.to_numpy(np.int64) if NUMBERS[column].is_whole else as_numbers(values)

    @cached_property
    def _docs(self) -> Coded:
        self._need(DOCNO)
        return check_ids(self.frame[DOCNO], DOCNO, self.refuse)

    @property
    def docnos(self) -> Ids:
        """The distinct documents."""
        return self._docs[1]

    @property
    def frame_doc(self) -> IntArray:
        """Index into `docnos` of each frame row; shape (n_rows,)."""
        return self._docs[0]

    @property
    def coded_ids(self) -> dict[str, Coded]:
        """The codes of the id columns that are encoded, by column."""
        docs = {DOCNO: self._docs} if "_docs" in vars(self) else {}
        return {QID: (self.frame_query, self.qids), **docs}

    def identical_ids(self) -> BoolArray:
        """Return whether the docno of each frame row is its qid; shape (n_rows,)."""
        if DOCNO not in self.frame.columns:
            return np.zeros(len(self), dtype=bool)
        # lengths are compared first, because looking up millions of texts is slow
        length = np.asarray(pc.binary_length(self.docnos.arrow))
        of_qids = np.asarray(pc.binary_length(self.qids.arrow))
        docs = np.flatnonzero(np.isin(length, np.unique(of_qids)))
        own = np.full(len(self.docnos), -1, dtype=np.int64)
        own[docs] = self.qids.find(self.docnos.take(docs))
        if (own < 0).all():
            return np.zeros(len(self), dtype=bool)
        mask: BoolArray = own[self.frame_doc] == self.frame_query
        return mask

    def rows_of(self, query: int) -> IntArray:
        """Return the frame rows of a query."""
        order, start = self._rows_by_query
        return order[start[query] : start[query + 1]]

    @cached_property
    def _rows_by_query(self) -> tuple[IntArray, list[int]]:
        return rows_by_code(self.frame_query, len(self.qids))

    def with_text_ids(self) -> pd.DataFrame:
        """Return the frame with its ids as text."""
        if DOCNO in self.frame.columns:
            self._docs  # noqa: B018 - encodes them
        return with_text(self.frame, self.coded_ids)
