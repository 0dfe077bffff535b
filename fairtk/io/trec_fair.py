"""Run files of TREC Fair Ranking 2022: lists of pages without scores or ranks.

Task 1 (coordinators) is ``id, page_id``, one ranking per topic; Task 2 (editors) is
``id, seq_no, page_id``, many rankings per topic, numbered from 1. Columns are separated by tabs,
the order of the lines is the order of the ranking, and a header line may name the columns.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Literal

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, ParameterError
from fairtk.files.atomic import atomic_text
from fairtk.files.content import first_line, kind_of
from fairtk.files.rows import Rows
from fairtk.files.whitespace import fields_of, read_whitespace, refuse_spaces
from fairtk.frames.columns import DOCNO, QID, RANK, SAMPLE, SCORE
from fairtk.frames.rankings import encode_run

Task = Literal["task1", "task2"]

COLUMNS: dict[Task, tuple[str, ...]] = {
    "task1": ("id", "page_id"),
    "task2": ("id", "seq_no", "page_id"),
}
"""The official columns of each task's files."""

# the track's guidelines and its evaluation code call the number of a sequence by two names
_HEADERS = {**{names: task for task, names in COLUMNS.items()},
            ("id", "rep_number", "page_id"): "task2"}  # fmt: skip
_NAMES = {"id": QID, "seq_no": SAMPLE, "page_id": DOCNO}


def task_of(path: str | PathLike[str]) -> Task | None:
    """Return which task a file is of, judged by its first line; None: of neither.

    That is its header, or two or three whole numbers (topics, sequences and pages are numbered).
    """
    if kind_of(path) != "text":
        return None
    fields = fields_of(first_line(path))
    named = _header(fields)
    if named is not None:
        return named
    if len(fields) in (2, 3) and all(f.isascii() and f.isdecimal() for f in fields):
        return "task1" if len(fields) == 2 else "task2"
    return None


def read_task_run(path: str | PathLike[str], task: Task | None = None) -> pd.DataFrame:
    """Read a run of TREC Fair Ranking 2022.

    Args:
        path: a plain or gzipped file; spaces may separate the columns, too.
        task: ``"task1"`` or ``"task2"``; None: as `task_of` finds.

    Returns:
        Columns ``qid``, ``docno``, ``score`` (-rank), ``rank`` (from 0, in the order of the lines
        of a ranking, which need not be together) and, for Task 2, ``sample``: ``seq_no`` less 1,
        or ``seq_no`` itself where the file counts from 0.

    Raises:
        FormatError: a line has another number of columns, a sequence is no whole number, or a page
            occurs twice in a ranking; names the line.
    """
    if task is not None and task not in COLUMNS:
        raise ParameterError(f"task must be one of {list(COLUMNS)}; found {task!r}")
    found = task or task_of(path)
    if found is None:
        shown = first_line(path)[:60]
        raise FormatError(
            f"expected {' or '.join(' '.join(names) for names in COLUMNS.values())} (columns of "
            f"TREC Fair Ranking 2022), found {shown!r}",
            path=path,
        )
    rows = _read(path, found)
    if found == "task2":
        rows.as_integers("seq_no")
        number = rows.frame["seq_no"].to_numpy()
        rows.fail_at(number < 0, "seq_no must be 0 or above; found {}", "seq_no")
    for column in ("id", "page_id"):
        rows.refuse_odd(column)
    rows.unique(list(COLUMNS[found]), "a page occurs twice in one ranking")
    frame = rows.frame.rename(columns=_NAMES)
    if found == "task2" and len(frame) and int(frame[SAMPLE].min()) > 0:
        frame = frame.assign(**{SAMPLE: frame[SAMPLE] - 1})
    keys = [QID, SAMPLE] if found == "task2" else [QID]
    rank = frame.groupby(keys, sort=False).cumcount().astype(np.int64)
    frame = frame.assign(**{SCORE: -rank.astype(np.float64), RANK: rank})
    return frame[[QID, DOCNO, SCORE, RANK, *keys[1:]]]


def write_task_run(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write a run in the form of TREC Fair Ranking 2022, in one step.

    A frame with ``sample`` becomes a Task 2 file (``seq_no`` is ``sample`` plus 1), one without a
    Task 1 file. Scores are not kept, only the order.

    Args:
        frame: R or S; validated as `fairtk.frames.rankings.encode_run` does.
        path: the file; ``.gz`` packs it.

    Raises:
        InputError: the frame is not a run, or a qid or docno is empty or has white space in it.
    """
    coded = encode_run(frame, "write_task_run")
    for what, ids in ((QID, coded.qids), (DOCNO, coded.docnos)):
        refuse_spaces(ids, what, "write_task_run")
    columns = [coded.qids[coded.query].tolist(), coded.docnos[coded.doc].tolist()]
    names = COLUMNS["task1"]
    if coded.sampled:
        names = COLUMNS["task2"]
        columns.insert(1, (coded.ranking_sample[coded.ranking] + 1).tolist())
    with atomic_text(path) as stream:
        stream.write("\t".join(names) + "\n")
        stream.writelines("\t".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


def _read(path: str | PathLike[str], task: Task) -> Rows:
    header = _header(fields_of(first_line(path)))
    if header is not None and header != task:
        raise FormatError(
            f"expected the columns {' '.join(COLUMNS[task])}; this file is of {header}",
            path=path,
            line=1,
        )
    rows = read_whitespace(path, [COLUMNS[task]], {})
    if header is None:
        return rows
    frame = rows.frame.iloc[1:].reset_index(drop=True)
    body = replace(rows, frame=frame, line_of=lambda row: rows.line_of(row + 1))
    again = frame["id"].str.lower() == COLUMNS[task][0]
    body.fail_at(again.to_numpy(dtype=bool), "the header occurs again; were files joined?", "id")
    return body


def _header(fields: list[str]) -> Task | None:
    return _HEADERS.get(tuple(field.lower() for field in fields))
