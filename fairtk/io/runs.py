"""Run files: rankings of documents, with one or several samples per query.

Text files have TREC's columns ``qid sample docno rank score tag``; the tag is optional. As in Diaz
et al.'s ``expeval``, the second column is the sample: an integer, or ``Q0``, ``Q1``, ... If it is
one constant word (``Q0`` in TREC), the run is not sampled.

Lists of TREC Fair Ranking 2022 are ranked by line and have no scores. Columns are separated by
tabs, and a header is optional: ``id, page_id`` in Task 1 (coordinators), ``id, seq_no, page_id`` in
Task 2 (editors), with several rankings per topic, numbered from 1.
"""

from __future__ import annotations

import re
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import FormatError, InputError, ParameterError, warn
from fairtk.frames import ANSWER_STATUS, CREDIT, DOCNO, QID, RANK, SAMPLE, SCORE, Run
from fairtk.frames.accepted import accepts_dataframes
from fairtk.frames.answers import check_statuses
from fairtk.frames.columns import as_numbers
from fairtk.frames.ids import decode_ids
from fairtk.frames.runs import DUPLICATE_CREDIT, DUPLICATE_DOCUMENT, order_by
from fairtk.frames.schema import check_order, check_samples, short_repr
from fairtk.io.atomic import atomic_text
from fairtk.io.lines import Source, is_parquet_name, source
from fairtk.io.rows import (
    RUN_LAYOUTS,
    Rows,
    check_first_line,
    fields_of,
    has_header,
    read_named,
    read_whitespace,
    refuse_aliases,
    refuse_spaces,
    with_numbers,
)
from fairtk.io.tables import write_table

_TASKS = {2: ("id", "page_id"), 3: ("id", "seq_no", "page_id")}
"""The columns of lists of TREC Fair Ranking 2022, Task 1 and Task 2."""

_NAMES = {"id": QID, "seq_no": SAMPLE, "page_id": DOCNO}


def _task_columns(file: Source) -> tuple[str, ...]:
    """Return the columns of a list of TREC Fair Ranking 2022; empty for other files.

    Its first line is the header, or two or three integers.
    """
    fields = fields_of(file.first_line) if file.kind == "text" else []
    columns = _TASKS.get(len(fields), ())
    # the track's guidelines and its evaluation code use two names for the sequence number
    names = ["seq_no" if f.lower() == "rep_number" else f.lower() for f in fields]
    is_list = [*columns] == names or all(f.isascii() and f.isdecimal() for f in fields)
    return columns if is_list else ()


def _task_run(rows: Rows) -> pd.DataFrame:
    """Return a list of TREC Fair Ranking 2022 as a checked run."""
    rows.require(["id", "page_id"], "a list of TREC Fair Ranking")
    rows = replace(rows, frame=rows.frame.rename(columns=_NAMES))
    if SAMPLE in rows.frame.columns:
        rows.as_numbers(SAMPLE)
    rows.as_ids(QID, DOCNO)
    keys = [c for c in (QID, SAMPLE) if c in rows.frame.columns]
    rows.unique([*keys, DOCNO], "duplicate page in a ranking")
    frame = rows.frame
    if SAMPLE in keys and len(frame) and int(frame[SAMPLE].min()) > 0:
        frame = frame.assign(**{SAMPLE: frame[SAMPLE] - 1})
    rank = frame.groupby(keys, sort=False, observed=True).cumcount().astype(np.int64)
    frame = frame.assign(**{SCORE: -rank.astype(np.float64), RANK: rank})
    return frame[[QID, DOCNO, SCORE, RANK, *keys[1:]]].reset_index(drop=True)


def _refuse_ranks(rows: Rows) -> None:
    """Refuse runs of MS MARCO, which also have three integers: qid, docno and rank."""
    frame = rows.frame
    rank = (frame.groupby("id", sort=False).cumcount() + 1).astype(str)
    alone = not frame.duplicated(["id", "seq_no"]).any()
    if alone and len(frame) > frame["id"].nunique() and bool((frame["page_id"] == rank).all()):
        raise FormatError(
            "expected the columns id, seq_no, page_id of TREC Fair Ranking, got qid, docno, rank "
            "as in MS MARCO; add a header (qid docno rank score) and a column of scores",
            path=rows.path,
            line=1,
        )


@accepts_dataframes
def write_task_run(run: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write a run atomically as a list of TREC Fair Ranking 2022.

    A run with ``sample`` becomes a Task 2 list, in which ``seq_no`` is ``sample`` plus 1; a run
    without becomes a Task 1 list. Scores are not written.

    Args:
        run: R or S; checked as by `fairtk.frames.Run`.
        path: the file; gzipped with the suffix ``.gz``.

    Raises:
        InputError: the run is invalid, a qid or docno is empty or has white space, or the suffix is
            that of Parquet.
    """
    coded = Run(run, "write_task_run")
    if is_parquet_name(path):
        raise InputError(
            f"write_task_run: {path}: a list of TREC Fair Ranking is text; write .tsv, or use "
            "write_run for Parquet"
        )
    refuse_spaces("write_task_run", qid=coded.qids, docno=coded.docnos)
    columns = [coded.qids[coded.query].tolist(), coded.docnos[coded.doc].tolist()]
    if coded.sampled:
        columns.insert(1, (coded.ranking_sample[coded.ranking] + 1).tolist())
    with atomic_text(path) as stream:
        stream.write("\t".join(_TASKS[len(columns)]) + "\n")
        stream.writelines("\t".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


def _task_rows(file: Source, columns: tuple[str, ...]) -> Rows:
    rows = read_whitespace(file, [columns], {})
    if not fields_of(file.first_line)[0].isdecimal():
        return replace(rows.without([0]), head=1)
    if SAMPLE in map(_NAMES.get, columns):
        _refuse_ranks(rows)
    return rows


Order = Literal["auto", "rank", "score"]

_TYPES = {RANK: "int64", SCORE: "float64"}
_INTEGER = re.compile(r"[0-9]{1,18}")
_Q_INTEGER = re.compile(r"[Qq][0-9]{1,18}")
_SAMPLE_COLUMN = (
    "the second column must be the sample (0, 1, ... or Q0, Q1, ...), or the same word in all lines"
)


def read_run(path: str | PathLike[str], order: Order = "auto") -> pd.DataFrame:
    """Read a run.

    Args:
        path: text in TREC's format (six columns, or five without the tag); TSV or CSV with a
            header, JSON lines or Parquet with ``qid``, ``docno``, ``score`` and optionally ``rank``
            and ``sample``; or a list of TREC Fair Ranking 2022, recognized by its header, or by two
            or three integers in the first line. Text may be gzipped.
        order: ``"auto"`` orders rows by rank, then by descending score, then by descending docno;
            a score above that of the previous rank is an error. ``"score"`` ignores ranks, as
            trec_eval does. ``"rank"`` follows the ranks, as expeval does: if scores are tied or
            contradict the ranks (a warning), all scores of the run are replaced by n, n - 1, ...,
            with n the length of the longest ranking. Ignored for lists of TREC Fair Ranking.

    Returns:
        Columns ``qid``, ``docno``, ``score``, ``rank`` (from 0, without gaps), ``sample`` if the
        run is sampled, and all other named columns of the file; rows as in the file. In lists of
        TREC Fair Ranking 2022, ``sample`` is ``seq_no`` minus 1, or ``seq_no`` if it starts at 0.
        A file with ``credit`` and no ``score`` is a frame C: ``qid``, ``sample`` (0 if absent),
        ``docno``, ``rank`` if present, ``credit`` (NaN for an empty cell or null).

    Raises:
        FormatError: a line is invalid, a score is not finite, a document occurs twice in a ranking,
            sampled and unsampled rows are mixed, or ranks disagree with scores; names the line.
    """
    return decode_ids(coded_run(path, order))


def coded_run(path: str | PathLike[str], order: Order = "auto") -> pd.DataFrame:
    """Return the same as `read_run`, with categorical ids."""
    checks.known("order", order, get_args(Order))
    frame = run_of(run_rows(path), order)
    if frame.empty:
        warn(f"{path}: no rows", stacklevel=2)
    return frame


def run_rows(path: str | PathLike[str], errors: list[FormatError] | None = None) -> Rows:
    """Return the unchecked rows of a run file; `errors` collects those of lines."""
    with source(path, errors) as file:
        if columns := _task_columns(file):
            return _task_rows(file, columns)
        if file.kind != "text" or has_header(file):
            return read_named(file)
        rows = read_whitespace(file, RUN_LAYOUTS, _TYPES)
        rows.frame = rows.frame[list(RUN_LAYOUTS[1])]
        if rows.frame.empty:  # no row shows whether the run is sampled
            rows.frame = rows.frame.drop(columns=SAMPLE)
        return rows


def frame_of_run(run: Any, order: Any = "auto") -> Any:
    """Return the run of a file, see `read_run`; anything else unchanged."""
    if isinstance(run, str | PathLike):
        return coded_run(run, order)
    checks.known("order", order, get_args(Order))
    return run


def run_of(rows: Rows, order: Order) -> pd.DataFrame:
    """Return the checked run of a file's rows; see `coded_run`."""
    columns = rows.frame.columns
    if "page_id" in columns and DOCNO not in columns:
        return _task_run(rows)
    if ANSWER_STATUS in columns:
        check_statuses(rows.frame[ANSWER_STATUS], rows.refuse)
    if CREDIT in columns and SCORE not in columns:
        return _credit_of(rows)
    rows.require([QID, DOCNO, SCORE], "a run")
    rows.as_ids(QID, DOCNO)
    rows.as_numbers(SCORE, RANK)
    if SAMPLE in columns:
        _read_samples(rows)
    sampled = [SAMPLE] if SAMPLE in rows.frame.columns else []
    rows.unique([QID, *sampled, DOCNO], DUPLICATE_DOCUMENT)
    return replace(rows, frame=_ranked(rows, order)).ordered(QID, DOCNO, SCORE, RANK, SAMPLE)


def _credit_of(rows: Rows) -> pd.DataFrame:
    """Return the checked frame C of a file's rows."""
    rows.require([QID, DOCNO, CREDIT], "credit")
    rows.frame[CREDIT] = rows.frame[CREDIT].mask(rows.frame[CREDIT].astype(object).isin([""]))
    rows.as_ids(QID, DOCNO)
    if SAMPLE not in rows.frame.columns:
        rows.frame[SAMPLE] = np.int64(0)
    rows.as_numbers(RANK, CREDIT, SAMPLE)
    rows.unique([QID, SAMPLE, DOCNO], DUPLICATE_CREDIT)
    return rows.ordered(QID, SAMPLE, DOCNO, RANK, CREDIT)


def _ranked(rows: Rows, order: Order) -> pd.DataFrame:
    """Return the rows with ranks 0, 1, ... in each ranking, and scores that agree; see `read_run`.

    With ``order="rank"``, scores are replaced so that measures that read only scores see the same
    order.
    """
    if order == "rank":
        rows.require([QID, DOCNO, SCORE, RANK], "a run with order='rank'")
    frame = rows.frame
    rank = np.zeros(len(frame), dtype=np.int64)
    if RANK in frame.columns and order != "score":
        rank = frame[RANK].to_numpy(np.int64)
    score = frame[SCORE].to_numpy(np.float64)
    ranking = rows.codes([QID, *([SAMPLE] if SAMPLE in frame.columns else [])])

    docs = frame[DOCNO].cat
    sorted_rows = order_by(
        (-score, rank, ranking), lambda tied: (docs.codes.to_numpy()[tied], docs.categories)
    )
    ranking, score = ranking[sorted_rows], score[sorted_rows]
    fresh = np.diff(ranking, prepend=-1) != 0
    first = np.flatnonzero(fresh)[np.cumsum(fresh) - 1]
    ranks = np.empty(len(frame), dtype=np.int64)
    ranks[sorted_rows] = np.arange(len(frame)) - first

    remedy = (
        "use `order='score'` (as trec_eval) or `order='rank'` (as expeval)"
        if order == "auto"
        else "the scores of this run are replaced by its ranks"
    )
    try:
        check_order(ranking, rank[sorted_rows], score, sorted_rows, rows.refuse, remedy)
    except FormatError as error:
        if order == "auto":
            raise
        warn(str(error), stacklevel=5)
    if order == "rank" and (~fresh[1:] & (score[1:] >= score[:-1])).any():
        # ties, too: evaluators of other libraries would break them by docno
        frame = frame.assign(**{SCORE: ranks.max() + 1.0 - ranks})
    return frame.assign(**{RANK: ranks})


@accepts_dataframes
def write_run(run: pd.DataFrame, path: str | PathLike[str], tag: str = "fairtk") -> None:
    """Write a run atomically in TREC's format, or as Parquet.

    In TREC's format, the second column is the sample (``Q0`` if the run is not sampled), ranks
    start at 1, and scores have all their digits. Other columns are lost: write answers separately
    (`write_answers`), or write Parquet.

    Args:
        run: R or S; checked as by `fairtk.frames.Run`.
        path: ``.parquet`` keeps all columns, any other suffix means TREC's format; ``.gz``
            compresses it.
        tag: the last column.

    Raises:
        InputError: the run is invalid; or, in TREC's format, a qid, docno or the tag is empty or
            has white space.
    """
    coded = Run(run, "write_run").checked()
    if not isinstance(tag, str):
        raise ParameterError(f"write_run: tag must be a string, got {tag!r}")
    if is_parquet_name(path):
        check_samples(run, "write_run")
        refuse_aliases("write_run", run.columns)
        write_table(with_numbers(run, SCORE, RANK, SAMPLE), path)
        return
    remedy = "; write Parquet instead"
    refuse_spaces("write_run", remedy, qid=coded.qids, docno=coded.docnos, tag=[tag])
    scores = as_numbers(run[SCORE])[coded.order].tolist()
    samples = coded.ranking_sample[coded.ranking].tolist() if coded.sampled else None
    qids, docnos = coded.qids[coded.query].tolist(), coded.docnos[coded.doc].tolist()
    ranks = (coded.position + 1).tolist()
    with atomic_text(path) as stream:
        for row, (qid, docno, rank, score) in enumerate(
            zip(qids, docnos, ranks, scores, strict=True)
        ):
            sample = "Q0" if samples is None else samples[row]
            line = f"{qid} {sample} {docno} {rank} {score!r} {tag}\n"
            if row == 0:
                check_first_line("write_run", line)
            stream.write(line)


def _read_samples(rows: Rows) -> None:
    """Convert ``sample`` to integers, or drop it if the run is not sampled."""
    values = rows.frame[SAMPLE]
    if pd.api.types.is_numeric_dtype(values.dtype) or values.hasnans:
        rows.as_numbers(SAMPLE)
        return
    rows.as_strings(SAMPLE)
    codes, distinct = pd.factorize(rows.frame[SAMPLE])
    words = distinct.tolist()
    for pattern, start in ((_INTEGER, 0), (_Q_INTEGER, 1)):
        fits = np.array([bool(pattern.fullmatch(word)) for word in words], dtype=bool)
        if fits.any() and not fits.all():
            odd = fits if not fits[0] else ~fits
            rows.refuse_if(
                odd[codes],
                SAMPLE,
                f"sampled and unsampled rows are mixed: got {{}} after {short_repr(words[0])}; "
                f"{_SAMPLE_COLUMN}",
                "samples",
            )
        if fits.all() and (start == 0 or len(words) > 1):
            numbers = np.array([int(word[start:]) for word in words], dtype=np.int64)
            rows.frame = rows.frame.assign(**{SAMPLE: numbers[codes]})
            return
    rows.refuse_if(
        codes != 0,
        SAMPLE,
        f"got {{}} after {short_repr(words[0]) if words else ''}; {_SAMPLE_COLUMN}",
        "samples",
    )
    rows.frame = rows.frame.drop(columns=SAMPLE)
