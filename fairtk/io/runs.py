"""Run files: rankings of documents, with one or several samples per query.

Text files have TREC's columns ``qid sample docno rank score tag``; the tag is optional. As in Diaz
et al.'s ``expeval``, the second column is the sample: an integer, or ``Q0``, ``Q1``, ... If it is
one constant word (``Q0`` in TREC), the run is not sampled.

Runs of MS MARCO have the columns ``qid docno rank``, those of ColBERT also ``score``. Lists of TREC
Fair Ranking 2022 are ranked by line: ``id page_id`` in Task 1 (coordinators), ``id seq_no page_id``
in Task 2 (editors), with several rankings per topic, numbered from 1. Both have no scores, so that
a run gets the scores 0, -1, -2, ... or minus the rank.

A file becomes a `Run` in three steps: `run_rows` reads the columns of its format, `run_of` checks
them and names the line of an error, and `Run` holds the result.
"""

from __future__ import annotations

import re
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.errors import FormatError, InputError, ParameterError
from fairtk.frames import ANSWER_STATUS, CREDIT, DOCNO, QID, RANK, SAMPLE, SCORE, Run
from fairtk.frames.answers import check_statuses
from fairtk.frames.ids import decode_ids
from fairtk.frames.runs import (
    DUPLICATE_CREDIT,
    DUPLICATE_DOCUMENT,
    order_by,
    single_precision,
)
from fairtk.frames.schema import check_order, short_repr
from fairtk.io.atomic import atomic_text
from fairtk.io.formats import (
    BEIR,
    MSMARCO_LAYOUTS,
    RUN_FORMATS,
    RUN_LAYOUTS,
    TASK_LAYOUTS,
    RunFormat,
    path_and_format,
    qrels_option,
    run_option,
)
from fairtk.io.lines import Source, is_parquet_name, source
from fairtk.io.rows import (
    Rows,
    check_first_line,
    fields_of,
    has_header,
    read_json_rows,
    read_named,
    read_whitespace,
    refuse_aliases,
    refuse_nested_json,
    refuse_spaces,
    rows_of_frame,
    with_numbers,
)
from fairtk.io.tables import write_table
from fairtk.remarks import NO_ROWS, RANKS_DISAGREE, Remark
from fairtk.stage_context import remark_on_input
from fairtk.wording import short

Order = Literal["auto", "rank", "score"]

_TYPES = {RANK: "int64", SCORE: "float64"}
_INTEGER = re.compile(r"[0-9]{1,18}")
_Q_INTEGER = re.compile(r"[Qq][0-9]{1,18}")
_SAMPLE_COLUMN = (
    "the second column must be the sample (0, 1, ... or Q0, Q1, ...), or the same word in all lines"
)


def as_run(data: Any, where: str, order: Order = "auto", format: RunFormat | None = None) -> Run:
    """Return a run from any form of it.

    Args:
        data: a file (see `read_run`); a frame, also of another library, in PyTerrier's or
            ir_measures' column names; a dict ``{qid: {docno: score}}``; named tuples; or a `Run`,
            which is not checked again.
        where: the caller, for messages about other forms than files.
        order: as for `read_run`. A frame without scores, e.g. of exact exposure, has one order.
        format: as for `read_run`; only for files.

    Raises:
        InputError: the run is invalid.
    """
    checks.known("order", order, get_args(Order))
    if not isinstance(data, str | PathLike):
        run = data if isinstance(data, Run) else Run(data, where, either=True)
        if order == "auto" or SCORE not in run.frame.columns:
            return run
        return run_of(rows_of_frame(run.with_text_ids(), where), order)
    run = run_of(run_rows(data, format=format), order)
    if not len(run):
        remark_on_input([Remark(NO_ROWS, "", "", 0, 0, (), 0, str(data))], stacklevel=3)
    return run


def read_run(
    path: str | PathLike[str], order: Order = "auto", format: RunFormat | None = None
) -> pd.DataFrame:
    """Read a run.

    Args:
        path: text in TREC's format (six columns, or five without the tag); TSV or CSV with a
            header, JSON lines or Parquet with ``qid``, ``docno``, ``score`` and optionally ``rank``
            and ``sample``; or a list of TREC Fair Ranking 2022 with a header (``id``, ``page_id``
            and optionally ``seq_no``). Text may be gzipped.
        order: ``"auto"`` orders rows by rank, then by descending score, then by descending docno;
            a score above that of the previous rank is an error. ``"score"`` ignores ranks, as
            trec_eval does. ``"rank"`` follows the ranks, as expeval does: if scores contradict the
            ranks (a warning) or are tied, also in single precision, in which trec_eval reads them,
            all scores of the run are replaced by n, n - 1, ..., with n the length of the longest
            ranking. Ignored for lists of TREC Fair Ranking.
        format: the format of a file that does not name it: ``"trec"``; ``"msmarco"`` (``qid``,
            ``docno``, ``rank`` from 1, and with ColBERT ``score``); ``"trec-fair"``; ``"json"``
            (JSON lines, or one object ``{qid: {docno: score}}``); ``"parquet"``. `None` for files
            in TREC's format, with a header or with named columns.

    Returns:
        Columns ``qid``, ``docno``, ``score``, ``rank`` (from 0, without gaps), ``sample`` if the
        run is sampled, and all other named columns of the file; rows as in the file. In lists of
        TREC Fair Ranking 2022, ``sample`` is ``seq_no`` minus 1, or ``seq_no`` if it starts at 0.
        Without scores in the file, ``score`` is minus the rank. A file with ``credit`` and no
        ``score`` is a frame C: ``qid``, ``sample`` (0 if absent), ``docno``, ``rank`` if present,
        ``credit`` (NaN for an empty cell or null).

    Raises:
        FormatError: the file has another format, a line is invalid, a score is not finite, a
            document occurs twice in a ranking, sampled and unsampled rows are mixed, or ranks
            disagree with scores; names the line.
    """
    return decode_ids(as_run(path, "read_run", order, format).frame)


# Formats ---------------------------------------------------------------------------------------


def run_rows(
    path: str | PathLike[str],
    errors: list[FormatError] | None = None,
    format: RunFormat | None = None,
) -> Rows:
    """Return the unchecked rows of a run file; `errors` collects those of lines."""
    path, name = path_and_format(path, format, RUN_FORMATS)
    with source(path, errors) as file:
        if name == "json":
            return read_json_rows(file, SCORE)
        if name == "parquet":
            file.kind = "parquet"
        if name == "msmarco":
            return _marco_rows(file)
        if name == "trec-fair" or (name is None and _has_task_header(file)):
            return _task_rows(file)
        refuse_nested_json(file, SCORE, run_option("json"))
        if name != "trec" and (file.kind != "text" or has_header(file)):
            return read_named(file)
        rows = read_whitespace(file, RUN_LAYOUTS, _TYPES)
        rows.frame = rows.frame[list(RUN_LAYOUTS[1])]
        if rows.frame.empty:  # no row shows whether the run is sampled
            rows.frame = rows.frame.drop(columns=SAMPLE)
        return rows


def _marco_rows(file: Source) -> Rows:
    """Return the rows of a run of MS MARCO or ColBERT, with or without a header."""
    is_named = file.kind != "text" or has_header(file)
    rows = read_named(file) if is_named else read_whitespace(file, MSMARCO_LAYOUTS, _TYPES)
    rows.format = "msmarco"
    return rows


def _task_names(file: Source) -> tuple[str, ...]:
    """Return the names in the first line of a list of TREC Fair Ranking."""
    # the track's guidelines and its evaluation code use two names for the sequence number
    names = (field.lower() for field in fields_of(file.first_line))
    return tuple("seq_no" if name == "rep_number" else name for name in names)


def _has_task_header(file: Source) -> bool:
    return file.kind == "text" and _task_names(file) in TASK_LAYOUTS


def _task_rows(file: Source) -> Rows:
    """Return the rows of a list of TREC Fair Ranking, with or without a header."""
    if file.kind != "text":
        return read_named(file)
    rows = read_whitespace(file, TASK_LAYOUTS, {})
    return replace(rows.without([0]), head=1) if _has_task_header(file) else rows


# Checks ----------------------------------------------------------------------------------------


def run_of(rows: Rows, order: Order) -> Run:
    """Return the run in a file's rows, checked; see `read_run`."""
    columns = rows.frame.columns
    if "page_id" in columns and DOCNO not in columns:
        return _task_run(rows)
    if ANSWER_STATUS in columns:
        check_statuses(rows.frame[ANSWER_STATUS], rows.refuse)
    if CREDIT in columns and SCORE not in columns:
        return _checked_run(rows, _credit_of(rows))
    if rows.format == "beir":
        raise FormatError(
            f"expected a run, got labels of BEIR ({', '.join(BEIR)}); read them with "
            f"{qrels_option('beir')}, or rename the columns of a run to qid, docno and score",
            rows.path,
            rows.head,
        )
    has_scores = SCORE in columns or rows.format != "msmarco"
    if SCORE not in columns and has_scores and {QID, DOCNO, RANK} <= {*columns}:
        raise FormatError(
            f"missing column {SCORE!r}; read ranks without scores, as of MS MARCO, with "
            f"{run_option('msmarco')}",
            rows.path,
            rows.head,
        )
    rows.require([QID, DOCNO, SCORE if has_scores else RANK], "a run")
    rows.as_ids(QID, DOCNO)
    rows.as_numbers(SCORE, RANK)
    if not has_scores:
        rows.unique([QID, RANK], "duplicate rank in a ranking")
        rows.frame[SCORE] = -rows.frame[RANK].astype(np.float64)
    if SAMPLE in columns:
        _read_samples(rows)
    sampled = [SAMPLE] if SAMPLE in rows.frame.columns else []
    rows.unique([QID, *sampled, DOCNO], DUPLICATE_DOCUMENT)
    frame = replace(rows, frame=_ranked(rows, order)).ordered(QID, DOCNO, SCORE, RANK, SAMPLE)
    return _checked_run(rows, frame)


def _checked_run(rows: Rows, frame: pd.DataFrame) -> Run:
    frame = frame.reset_index(drop=True)
    return Run(frame, str(rows.path), ids=rows.ids, is_checked=True)


def _task_run(rows: Rows) -> Run:
    """Return the run in the rows of a list of TREC Fair Ranking 2022, checked."""
    rows.require(["id", "page_id"], "a list of TREC Fair Ranking")
    names = {"id": QID, "seq_no": SAMPLE, "page_id": DOCNO}
    rows = replace(rows, frame=rows.frame.rename(columns=names))
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
    return _checked_run(rows, frame[[QID, DOCNO, SCORE, RANK, *keys[1:]]])


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

    remedy = "use `order='score'` (as trec_eval) or `order='rank'` (as expeval)"
    try:
        check_order(
            ranking, rank[sorted_rows], score, sorted_rows, rows.refuse, remedy * (order == "auto")
        )
    except FormatError as error:
        if order == "auto":
            raise
        disagree = Remark(RANKS_DISAGREE, "", "", len(error.rows), 0, (), 0, str(error))
        remark_on_input([disagree], stacklevel=5)
    if order == "rank":
        single = single_precision(score)
        if (~fresh[1:] & (single[1:] >= single[:-1])).any():
            # ties, too: evaluators of other libraries would break them by docno
            frame = frame.assign(**{SCORE: ranks.max() + 1.0 - ranks})
    return frame.assign(**{RANK: ranks})


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


# Writing ---------------------------------------------------------------------------------------


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
        stream.write("\t".join(TASK_LAYOUTS[len(columns) - 2]) + "\n")
        stream.writelines("\t".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


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
        raise ParameterError(f"write_run: tag must be a string, got {short(tag)}")
    if is_parquet_name(path):
        refuse_aliases("write_run", coded.frame.columns)
        write_table(with_numbers(coded.frame, SCORE, RANK, SAMPLE), path)
        return
    remedy = "; write Parquet instead"
    refuse_spaces("write_run", remedy, qid=coded.qids, docno=coded.docnos, tag=[tag])
    scores = coded.scores[coded.order].tolist()
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
