"""Qrels files: labels of documents, and gold answers of queries."""

from __future__ import annotations

from os import PathLike

import numpy as np
import pandas as pd

from fairtk.errors import InputError, listed
from fairtk.files.atomic import atomic_text
from fairtk.files.content import is_parquet_name, kind_of
from fairtk.files.rows import Rows
from fairtk.files.tables import has_header, read_table, strings_or_lists, write_table
from fairtk.files.whitespace import Type, read_whitespace, refuse_spaces
from fairtk.frames.columns import DOCNO, GOLD_ANSWER, LABEL, QID, require
from fairtk.frames.qrels import LIMIT, Qrels

_TYPES: dict[str, Type] = {LABEL: "float64"}
LAYOUTS = [(QID, "iteration", DOCNO, LABEL), (QID, DOCNO, LABEL)]
"""The columns of TREC's files of qrels."""
_NAMED = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")


def read_qrels(path: str | PathLike[str]) -> pd.DataFrame:
    """Read qrels.

    TREC's four columns ``qid iteration docno label`` (or three, without the iteration; it is not
    kept, whatever it holds), or a TSV file with a header, JSON lines or Parquet with the columns
    ``qid``, ``docno``, ``label`` and, for answers, ``gold_answer`` (a string or a list of them,
    in TSV a JSON array). Each may be gzipped.

    Returns:
        Columns ``qid``, ``docno``, ``label`` (int64 if all labels are whole numbers, else
        float64), and what else a file with named columns has.

    Raises:
        FormatError: a line is broken, a label is not a finite number, or a document is labeled
            twice for one query; names the line.
    """
    if kind_of(path) == "text" and not has_header(path):
        rows = read_whitespace(path, LAYOUTS, _TYPES)
        rows.frame = rows.frame[[QID, DOCNO, LABEL]]
    else:
        rows = read_table(path)
    check_labels(rows)
    return rows.frame


def check_labels(rows: Rows) -> None:
    """Check the rows of qrels, and give their columns their types; errors as `read_qrels`."""
    rows.require([QID, DOCNO, LABEL], "qrels")
    for column in (QID, DOCNO):
        rows.as_ids(column)
    rows.as_numbers(LABEL)
    far = (rows.frame[LABEL].abs() >= LIMIT).to_numpy()
    rows.fail_at(far, "label must be below 2^53; found {}", LABEL)
    rows.unique([QID, DOCNO], "a document is labeled twice")
    if GOLD_ANSWER in rows.frame.columns:
        strings_or_lists(rows, GOLD_ANSWER)
    labels = rows.frame[LABEL]
    if (labels == np.trunc(labels)).all():
        rows.frame[LABEL] = labels.astype(np.int64)
    first = [QID, DOCNO, LABEL]
    rows.frame = rows.frame[[*first, *rows.frame.columns.drop(first)]]


def write_qrels(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write qrels in one step.

    ``.tsv``, ``.jsonl`` (each also ``.gz``) and ``.parquet`` keep all columns; any other suffix
    means TREC's four columns.

    Raises:
        InputError: the frame has columns that TREC's format would lose, an id has spaces, or an id
            or label is none (`fairtk.frames.Qrels`).
        ColumnError: ``qid``, ``docno`` or ``label`` is missing.
        DuplicateError: a document is labeled twice for a query.
    """
    require(frame, [QID, DOCNO, LABEL], "write_qrels")
    qrels = Qrels(frame, "write_qrels")
    if is_parquet_name(path) or str(path).endswith(_NAMED):
        write_table(frame, path)
        return
    lost = frame.columns.drop([QID, DOCNO, LABEL])
    if len(lost):
        raise InputError(
            f"write_qrels: TREC's format has no place for the columns {listed(lost)}; write "
            ".tsv, .jsonl or .parquet, or drop them"
        )
    for what, ids in ((QID, qrels.qids), (DOCNO, qrels.docnos)):
        refuse_spaces(ids, what, "write_qrels", ": write .tsv or .parquet instead")
    qids, docnos = qrels.qids[qrels.query].tolist(), qrels.docnos[qrels.doc].tolist()
    with atomic_text(path) as stream:
        for qid, docno, label in zip(qids, docnos, qrels.labels.tolist(), strict=True):
            shown = int(label) if label.is_integer() else label
            stream.write(f"{qid} 0 {docno} {shown!r}\n")
