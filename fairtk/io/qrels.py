"""Files of qrels and of answers (generated and gold), and the qrels of datasets.

A file of answers is TSV with a header, JSON lines or Parquet. It has one row per ranking: ``qid``,
``sample`` (if the run is sampled), ``qanswer`` and optionally ``answer_status``, or ``qid`` and
``gold_answer``, or both. With several answers per ranking, it has one row per answer, with its
number, ``answer``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import ir_datasets
import numpy as np
import pandas as pd

from fairtk.errors import DuplicateError, FormatError, InputError, NotFoundError
from fairtk.frames import (
    ANSWER_STATUS,
    DOCNO,
    GOLD_ANSWER,
    LABEL,
    QANSWER,
    QID,
    SAMPLE,
    SCORE,
    Qrels,
    Run,
    require_columns,
)
from fairtk.frames.accepted import frame_of
from fairtk.frames.answers import check_answers, check_statuses, flattened, has_lists, hashable
from fairtk.frames.columns import ANSWER, PROMPT_ID
from fairtk.frames.ids import decode_ids
from fairtk.frames.qrels import DUPLICATE_LABEL
from fairtk.frames.schema import (
    RowProblem,
    check_ids,
    check_samples,
    refuse_in,
    repeats,
    short_repr,
)
from fairtk.io.atomic import atomic_text
from fairtk.io.formats import (
    QRELS_FORMATS,
    QRELS_LAYOUTS,
    SHORT_QRELS,
    QrelsFormat,
    may_be_colbert,
    path_and_format,
    qrels_option,
    run_option,
)
from fairtk.io.lines import STDIN, Source, is_parquet_name, source
from fairtk.io.rows import (
    NUMBER,
    Rows,
    check_first_line,
    check_texts,
    fields_of,
    has_header,
    read_json_rows,
    read_named,
    read_table,
    read_whitespace,
    refuse_aliases,
    refuse_nested_json,
    refuse_spaces,
    with_numbers,
)
from fairtk.io.tables import check_gold_answers, check_names, strings_or_lists, write_table
from fairtk.remarks import OTHER_ANSWERS, REPEATED_ROWS, Remark
from fairtk.stage_context import remark_on_input
from fairtk.wording import format_list, short

ANSWER_COLUMNS = (QANSWER, ANSWER_STATUS, PROMPT_ID)
_NAMED = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")


def as_qrels(
    data: Any, where: str, needs: Iterable[str] = (), format: QrelsFormat | None = None
) -> Qrels:
    """Return labels from any form of them.

    Args:
        data: a file (see `read_qrels`) or the id of a dataset; a frame, also of another library, in
            PyTerrier's or ir_measures' column names; a dict ``{qid: {docno: label}}``; named
            tuples; or `Qrels`, which are not checked again.
        where: the caller, for messages about other forms than files.
        needs: the required columns besides ``qid``.
        format: as for `read_qrels`; only for files.

    Raises:
        InputError: the labels are invalid, there is no such file or dataset, or the dataset has no
            qrels.
    """
    if isinstance(data, Qrels):
        return data
    if not isinstance(data, str | PathLike):
        return Qrels(data, where, needs, either=True)
    if fspath(data) == STDIN or Path(data).exists():
        return labels_in(qrels_rows(data, format=format))
    return Qrels(_qrels_of_dataset(fspath(data), where), where, needs)


def read_qrels(path: str | PathLike[str], format: QrelsFormat | None = None) -> pd.DataFrame:
    """Read qrels.

    Args:
        path: a text file with TREC's columns ``qid iteration docno label`` (the iteration is
            ignored); or TSV or CSV with a header, JSON lines or Parquet with ``qid``, ``docno``,
            ``label`` and optionally ``gold_answer``, a string or a list of strings (in TSV and CSV,
            a JSON array); or labels of BEIR, with the header ``query-id``, ``corpus-id``,
            ``score``. Text may be gzipped.
        format: the format of a file that does not name it: ``"trec"`` (also without the iteration);
            ``"beir"``; ``"json"`` (JSON lines, or one object ``{qid: {docno: label}}``);
            ``"parquet"``. `None` for files in TREC's format, with a header or with named columns.

    Returns:
        Columns ``qid``, ``docno``, ``label`` (int64 if all labels are integers, otherwise
        float64), and all other named columns of the file. Rows that repeat an earlier row are
        left out, with a warning.

    Raises:
        FormatError: the file has another format, a line is invalid, a label is not finite, or a
            query has two labels for a document; names the line.
    """
    return decode_ids(labels_in(qrels_rows(path, format=format)).frame)


def qrels_rows(
    path: str | PathLike[str],
    errors: list[FormatError] | None = None,
    format: QrelsFormat | None = None,
) -> Rows:
    """Return the unchecked rows of a qrels file; `errors` collects those of lines."""
    path, name = path_and_format(path, format, QRELS_FORMATS)
    layouts = [*QRELS_LAYOUTS, *([SHORT_QRELS] if name == "trec" else [])]
    with source(path, errors) as file:
        if name == "json":
            return read_json_rows(file, LABEL)
        if name == "parquet":
            file.kind = "parquet"
        refuse_nested_json(file, LABEL, qrels_option("json"))
        if name != "trec" and (file.kind != "text" or has_header(file)):
            return read_named(file)
        if name == "beir":
            layouts = [SHORT_QRELS]
        if name is None:
            _refuse_colbert(file)
        rows = read_whitespace(file, layouts, {LABEL: "float64"})
        rows.frame = rows.frame[[QID, DOCNO, LABEL]]
        return rows


def _refuse_colbert(file: Source) -> None:
    """Refuse a run of ColBERT: its first rank is 0 or 1, and its scores have a decimal point."""
    fields = fields_of(file.first_line)
    if may_be_colbert(fields) and "." in fields[3] and NUMBER.fullmatch(fields[3]):
        raise FormatError(
            f"expected qrels, got a run of ColBERT (qid docno rank score): {' '.join(fields)!r}; "
            f"read it with {run_option('msmarco')}, or labels with a decimal point with "
            f"{qrels_option('trec')}",
            file.path,
            1,
        )


def labels_in(rows: Rows) -> Qrels:
    """Return the labels in a file's rows, checked; see `read_qrels`."""
    if rows.format == "beir":
        rows.frame = rows.frame.rename(columns={SCORE: LABEL})
    rows.require([QID, DOCNO, LABEL], "qrels")
    rows.as_ids(QID, DOCNO)
    rows.as_numbers(LABEL)
    rows = _without_repetitions(rows)
    rows.unique([QID, DOCNO], DUPLICATE_LABEL)
    if GOLD_ANSWER in rows.frame.columns:
        strings_or_lists(rows, GOLD_ANSWER)
    labels = rows.frame[LABEL]
    if (labels == np.trunc(labels)).all():
        rows.frame[LABEL] = labels.astype(np.int64)
    frame = rows.ordered(QID, DOCNO, LABEL).reset_index(drop=True)
    return Qrels(frame, str(rows.path), ids=rows.ids, is_checked=True)


def _without_repetitions(rows: Rows) -> Rows:
    """Return the rows without those that repeat an earlier one, and warn of them."""
    if not repeats(rows.codes([QID]), rows.codes([DOCNO])).any():
        return rows
    again = np.flatnonzero(rows.frame.astype(str).duplicated())
    if not len(again):
        return rows
    line = rows.line_of(int(rows.frame.index[again[0]]))
    place = f"row {again[0]}" if line is None else f"line {line}"
    repeated = Remark(REPEATED_ROWS, "", "", len(again), 0, (), 0, f"{rows.path}, {place}")
    remark_on_input([repeated])
    left = rows.without(again.tolist())
    left.ids = {name: (np.delete(codes, again), of) for name, (codes, of) in rows.ids.items()}
    return left


def write_qrels(qrels: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write qrels atomically.

    Args:
        qrels: ``qid``, ``docno``, ``label`` and any other columns.
        path: ``.tsv``, ``.jsonl`` (each also ``.gz``) and ``.parquet`` keep all columns; any other
            suffix means TREC's four columns.

    Raises:
        ColumnError: ``qid``, ``docno`` or ``label`` is missing.
        DuplicateError: a query has two labels for a document.
        InputError: an id, label or gold answer is invalid or missing, or does not fit the format:
            for TREC's, an id with spaces, or other columns.
    """
    labeled = Qrels(qrels, "write_qrels", [DOCNO, LABEL])
    qrels = labeled.frame
    if is_parquet_name(path) or str(path).endswith(_NAMED):
        refuse_aliases("write_qrels", qrels.columns)
        if GOLD_ANSWER in qrels.columns:
            refuse = partial(refuse_in, "write_qrels", frame=qrels)
            check_gold_answers(qrels[GOLD_ANSWER], GOLD_ANSWER, refuse)
        check_names(qrels.columns, path)
        first = [QID, DOCNO, LABEL]
        write_table(with_numbers(qrels[[*first, *qrels.columns.drop(first)]], LABEL), path)
        return
    others = qrels.columns.drop([QID, DOCNO, LABEL])
    if len(others):
        raise InputError(
            f"write_qrels: TREC's format cannot hold the columns {format_list(others)}; write "
            ".tsv, .jsonl or .parquet, or drop them"
        )
    remedy = "; write .tsv or .parquet instead"
    refuse_spaces("write_qrels", remedy, qid=labeled.qids, docno=labeled.docnos)
    qids, docnos = labeled.qids[labeled.query].tolist(), labeled.docnos[labeled.doc].tolist()
    with atomic_text(path) as stream:
        triples = zip(qids, docnos, labeled.labels.tolist(), strict=True)
        for row, (qid, docno, label) in enumerate(triples):
            number = int(label) if label.is_integer() else label
            line = f"{qid} 0 {docno} {number!r}\n"
            if row == 0:
                check_first_line("write_qrels", line)
            stream.write(line)


def read_answers(path: str | PathLike[str]) -> pd.DataFrame:
    """Read generated answers.

    Args:
        path: TSV or CSV with a header, JSON lines or Parquet; text may be gzipped.

    Returns:
        Columns ``qid``, ``sample`` (if the file has it), ``qanswer`` (a string, may be empty),
        ``answer_status`` (if the file has it), and all other columns of the file. If the file has
        the column ``answer``, there is one row per ranking, with lists of answers and statuses.

    Raises:
        FormatError: a column is missing, a line is invalid, a status is unknown, or a ranking has
            two answers; names the line.
    """
    rows = _keyed(path, "answers", QANSWER)
    rows.as_strings(QANSWER)
    if ANSWER_STATUS in rows.frame.columns:
        check_statuses(rows.frame[ANSWER_STATUS], rows.refuse)
    if GOLD_ANSWER in rows.frame.columns:
        strings_or_lists(rows, GOLD_ANSWER)
    rows.as_numbers(ANSWER)
    keys = [c for c in (QID, SAMPLE, ANSWER) if c in rows.frame.columns]
    rows.unique(keys, "duplicate answer for a ranking")
    frame = decode_ids(rows.ordered(QID, SAMPLE, ANSWER, QANSWER, ANSWER_STATUS))
    return _with_lists(frame) if ANSWER in frame.columns else frame


def _with_lists(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row per ranking, with lists of answers, from a row per answer."""
    keys = [c for c in (QID, SAMPLE) if c in frame.columns]
    ranking = frame.groupby(keys, sort=False).ngroup().to_numpy()
    order = np.lexsort((frame[ANSWER].to_numpy(), ranking))
    start = np.flatnonzero(np.diff(ranking[order], prepend=-1))
    result = frame.iloc[order[start]].drop(columns=ANSWER).reset_index(drop=True)
    for name in (QANSWER, ANSWER_STATUS):
        if name in frame.columns:
            lists = np.split(frame[name].to_numpy(dtype=object)[order], start[1:])
            result[name] = pd.Series([part.tolist() for part in lists], dtype=object)
    return result


def a_row_per_answer(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row per answer, with its number, from a row per ranking with lists of answers.

    A frame without lists is returned as it is.

    Raises:
        InputError: a ranking has not one status per answer.
    """
    if not has_lists(frame[QANSWER]):
        return frame
    cell, answers = flattened(frame[QANSWER])
    result = frame.iloc[cell].reset_index(drop=True)
    result[QANSWER] = pd.Series(answers, dtype="str")
    if ANSWER_STATUS in frame.columns:
        of_status, statuses = flattened(frame[ANSWER_STATUS])
        if not np.array_equal(of_status, cell):
            raise InputError("answers: expected one answer_status per answer of each ranking")
        result[ANSWER_STATUS] = pd.Series(statuses, dtype="str")
    start = np.flatnonzero(np.diff(cell, prepend=-1))
    number = np.arange(len(cell)) - np.repeat(start, np.diff([*start, len(cell)]))
    result.insert(result.columns.get_loc(QANSWER), ANSWER, number)
    return result


def as_answers(data: Any) -> pd.DataFrame:
    """Return generated answers from a file or from a frame, also of another library."""
    return read_answers(data) if isinstance(data, str | PathLike) else frame_of(data)


def as_gold_answers(data: Any) -> pd.DataFrame:
    """Return gold answers from a file or from a frame, also of another library."""
    return read_gold_answers(data) if isinstance(data, str | PathLike) else frame_of(data)


def read_gold_answers(path: str | PathLike[str]) -> pd.DataFrame:
    """Read gold answers; `fairtk.join_answers` adds them to qrels.

    Args:
        path: TSV or CSV with a header, JSON lines or Parquet; text may be gzipped. If a query has
            several rows, each gold answer is correct.

    Returns:
        Columns ``qid`` and ``gold_answer`` (a string or a list of strings); rows as in the file.

    Raises:
        FormatError: a column is missing or a line is invalid; names the line.
    """
    rows = _keyed(path, "gold answers", GOLD_ANSWER)
    strings_or_lists(rows, GOLD_ANSWER)
    return decode_ids(rows.frame[[QID, GOLD_ANSWER]])


def write_answers(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write the answers of a frame atomically, one row per ranking.

    With several answers per ranking, there is one row per answer, with its number, ``answer``.

    Args:
        frame: ``qid``, ``sample`` if the run is sampled, ``qanswer`` and optionally
            ``answer_status`` and ``gold_answer``; one row per ranking or, as a generator returns
            it, per document.
        path: the suffix ``.parquet``, ``.jsonl`` or ``.csv`` chooses the format, any other means
            TSV; ``.gz`` compresses text.

    Raises:
        ColumnError: ``qid`` or ``qanswer`` is missing, or ``sample`` is not an integer.
        InputError: a ranking has two different answers, an answer is missing or not text, or a
            status is unknown.
    """
    frame = frame_of(frame)
    require_columns(frame, [QID, QANSWER], "write_answers")
    check_samples(frame, "write_answers")
    keys = [c for c in (QID, SAMPLE) if c in frame.columns]
    refuse = partial(refuse_in, "write_answers", frame=frame)
    check_ids(frame[QID], QID, refuse)
    several = has_lists(frame[QANSWER])
    if several:
        check_answers(frame[QANSWER], refuse)
        frame = frame.assign(**{QANSWER: hashable(frame[QANSWER])})
        alone = np.flatnonzero([not isinstance(cell, tuple) for cell in frame[QANSWER]])
        if len(alone):  # it would be read as a list
            message = f"{QANSWER} must have lists in all rows or in none"
            refuse(RowProblem(alone, message))
    else:
        check_texts(frame[QANSWER], QANSWER, refuse)
    if ANSWER_STATUS in frame.columns:
        check_statuses(frame[ANSWER_STATUS], refuse)
    if GOLD_ANSWER in frame.columns:
        check_gold_answers(frame[GOLD_ANSWER], GOLD_ANSWER, refuse)
    is_new = ~frame[[*keys, QANSWER]].duplicated()
    distinct = frame[is_new]
    twice = distinct[distinct.duplicated(keys)]
    if len(twice):
        where = ", ".join(f"{k} {twice[k].iloc[0]!r}" for k in keys)
        raise InputError(
            f"write_answers: expected one answer per ranking, got two different answers ({where})"
        )
    extra = [c for c in (ANSWER_STATUS, PROMPT_ID, GOLD_ANSWER) if c in frame.columns]
    rows = a_row_per_answer(distinct[[*keys, QANSWER, *extra]])
    if several:
        check_texts(rows[QANSWER], QANSWER, partial(refuse_in, "write_answers", frame=rows))
    write_table(with_numbers(rows, SAMPLE), path)


def add_answers(
    run: pd.DataFrame | Run, answers: pd.DataFrame, where: str = "answers"
) -> pd.DataFrame:
    """Return the run with the answer of each ranking on all its rows.

    The columns are ``qanswer`` and, if the answers have them, ``answer_status`` and ``prompt_id``.
    Answers of other rankings are ignored, with a warning.

    Args:
        run: R or S; a `Run` is not checked again.
        answers: as `read_answers` returns them, one row per ranking. The ranking of a query in a
            run without ``sample`` is sample 0.
        where: the name of the answers, for messages.

    Raises:
        ColumnError: ``sample`` is not an integer.
        DuplicateError: a ranking has two answers.
        InputError: an id is invalid, a ranking has no answer, or only one of the two frames is
            sampled.
    """
    run = run if isinstance(run, Run) else Run(run, f"{where} (run)")
    answers = frame_of(answers)
    require_columns(answers, [QID, QANSWER], where)
    refuse = partial(refuse_in, where, frame=answers)
    code, qids = check_ids(answers[QID], QID, refuse)
    check_samples(answers, where)
    samples = run.samples
    if samples is not None and SAMPLE not in answers.columns and len(np.unique(samples)) > 1:
        raise InputError(
            f"{where}: missing column 'sample', which answers of a sampled run require"
        )
    keys = [QID]
    sample, sample_of_row = np.zeros(len(answers), np.int64), np.zeros(len(run), np.int64)
    if SAMPLE in answers.columns:
        sample = answers[SAMPLE].to_numpy(np.int64)
        if samples is not None:
            keys, sample_of_row = [QID, SAMPLE], samples
        elif sample.any():
            message = f"{SAMPLE} must be 0 for a run without the column {SAMPLE!r}"
            remedy = f"give the sampled run, or one answer per query without {SAMPLE!r}"
            refuse(RowProblem(np.flatnonzero(sample), message, check="samples", remedy=remedy))
    index = pd.MultiIndex.from_arrays([code, sample])
    if index.has_duplicates:
        twice, remedy = np.flatnonzero(index.duplicated()), "keep one row per ranking"
        message = "duplicate answer for a ranking"
        refuse(RowProblem(twice, message, DuplicateError, "duplicates", remedy))
    code_of_row = qids.find(run.qids)[run.frame_query]
    row = index.get_indexer(pd.MultiIndex.from_arrays([code_of_row, sample_of_row]))
    others = np.setdiff1d(np.arange(len(answers)), row)
    if len(run) and len(others) == len(answers):
        raise InputError(
            f"{where}: no ranking in common: expected {_rankings(run.frame[keys])}, got "
            f"{_rankings(answers[keys])}"
        )
    missing = row < 0
    missing[~missing] = answers[QANSWER].isna().to_numpy()[row[~missing]]
    if missing.any():
        rankings = run.frame.loc[missing, keys].drop_duplicates()
        raise InputError(
            f"{where}: missing answers for {len(rankings)} rankings of the run "
            f"({_rankings(rankings)})"
        )
    if len(run) and len(others):
        detail = f"{where}: {len(others)} of {len(answers)} answers "
        detail += f"({_rankings(answers.iloc[others][keys])})"
        remark_on_input([Remark(OTHER_ANSWERS, "", "", len(others), 0, (), 0, detail)])
    # an index that has the name of a column would be ambiguous
    rows = run.frame.drop(columns=[*ANSWER_COLUMNS], errors="ignore").reset_index(drop=True)
    added = [c for c in ANSWER_COLUMNS if c in answers.columns]
    return rows.assign(**{c: answers[c].array.take(row) for c in added})


def _rankings(frame: pd.DataFrame) -> str:
    """Return the first ids of rankings as text."""
    records = frame.drop_duplicates().head(3).to_dict("records")
    names = [", ".join(f"{k} {short_repr(v, k == QID)}" for k, v in one.items()) for one in records]
    return "; ".join(names)


def _keyed(path: str | PathLike[str], what: str, column: str) -> Rows:
    rows = read_table(path)
    rows.require([QID, column], what)
    rows.as_ids(QID)
    rows.as_numbers(SAMPLE)
    return rows


def resolve_dataset(dataset: Any, where: str) -> Any:
    """Return an ``ir_datasets.Dataset``.

    Args:
        dataset: an id, also with PyTerrier's prefix ``irds:`` or ``fair:``; an
            ``ir_datasets.Dataset``; or a PyTerrier dataset of one.
        where: the caller, for messages.

    Raises:
        NotFoundError: the id is unknown.
        InputError: `dataset` is something else.
    """
    if isinstance(dataset, str):
        name = dataset.removeprefix("irds:").removeprefix("fair:")
        try:
            return ir_datasets.load(name)
        except KeyError:
            raise NotFoundError("dataset", name, ir_datasets.registry) from None
    if hasattr(dataset, "irds_ref"):
        return dataset.irds_ref()
    if isinstance(dataset, ir_datasets.Dataset):
        return dataset
    raise InputError(
        f"{where}: expected a dataset id, an ir_datasets Dataset or a PyTerrier dataset of one, "
        f"got {short(dataset)}"
    )


def _qrels_of_dataset(name: str, where: str) -> pd.DataFrame:
    """Return the qrels of a dataset id."""
    try:
        dataset = resolve_dataset(name, where)
    except NotFoundError as error:
        near = str(error).rpartition("; did you mean")
        tail = "".join(near[1:]) if near[1] else ""
        raise InputError(f"{name}: no such file or dataset{tail}") from None
    if not dataset.has_qrels():
        raise InputError(f"{name}: the dataset has no qrels")
    return dataset_qrels(dataset)


def dataset_qrels(dataset: Any) -> pd.DataFrame:
    """Return the qrels of an ``ir_datasets.Dataset``: ``qid``, ``docno``, ``label``."""
    rows = [(q.query_id, q.doc_id, q.relevance) for q in dataset.qrels_iter()]
    return pd.DataFrame(rows, columns=[QID, DOCNO, LABEL])
