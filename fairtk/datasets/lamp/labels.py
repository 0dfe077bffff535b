"""Published utility labels of *Towards Fair RAG*: which profile entries help a generator.

`N_relevance_mapping.tsv` has the columns ``qid``, ``pid`` and ``relevance_label``; ids are strings
(with leading zeros), and profile ids stand without their query, so that the docno is made here.
Kim & Diaz 2024, arXiv 2409.11598, appendix B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ir_datasets.formats import TrecQrel

from fairtk.datasets.lamp.questions import QuestionsFile
from fairtk.datasets.parts import FileQrels, ReadOnce
from fairtk.files import Rows, read_table
from fairtk.frames.columns import DOCNO, LABEL, QID

LABELS = {
    1: "the generator's answer is better with this document than without any",
    0: "the generator's answer is not better with this document than without any",
}
"""What the labels mean."""


class LampQrels(FileQrels):
    """Utility labels of the profile entries, read on first use."""

    def __init__(self, path: Callable[[], Path], questions: QuestionsFile) -> None:
        super().__init__(path, LABELS)
        self._questions = questions
        self._labels = ReadOnce(path, self._read)

    def qrels_iter(self) -> Iterator[TrecQrel]:
        """Yield the labels in file order; one of a document that the questions lack is an error."""
        return iter(self._labels())

    def qrels_count(self) -> int:
        """Return the number of labels."""
        return len(self._labels())

    def _read(self, path: Path) -> list[TrecQrel]:
        rows = read_table(path)
        rows.require([QID, DOCNO, LABEL], "a relevance mapping")
        rows.as_ids(QID)
        rows.as_ids(DOCNO)
        rows.as_integers(LABEL)
        rows.unique([QID, DOCNO], "a profile entry is labeled twice")
        qids, pids = rows.frame[QID].tolist(), rows.frame[DOCNO].tolist()
        docnos = [f"{qid}/{pid}" for qid, pid in zip(qids, pids, strict=True)]
        kept = self._known(rows, qids, docnos)
        labels = rows.frame[LABEL].tolist()
        return [TrecQrel(qids[i], docnos[i], labels[i], "0") for i in np.flatnonzero(kept)]

    def _known(self, rows: Rows, qids: list[str], docnos: list[str]) -> Any:
        """Return which labels are of entries that are there; others were left out, or an error."""
        questions = self._questions.questions()
        known = {docno for question in questions.values() for docno in question.docnos}
        found = np.array([docno in known for docno in docnos], dtype=bool)
        left_out = self._questions.left_out_ids()
        foreign = [
            not there and docno not in left_out and qid not in left_out
            for there, docno, qid in zip(found, docnos, qids, strict=True)
        ]
        if any(foreign):
            row = foreign.index(True)
            rows.fail(
                row,
                f"qid {qids[row]!r}, docno {docnos[row]!r} is labeled, and not among the questions "
                f"in {self._questions.path()} ({sum(foreign)} such labels): the two files are of "
                "different splits or tasks",
            )
        return found
