"""Answer files: what was generated from each ranking, and the gold answers.

The format is a table with named columns, one row per ranking: ``qid``, ``sample`` (if the run is
sampled) and ``qanswer``, as TSV with a header, JSON lines or Parquet. Gold answers have ``qid``
and ``gold_answer``; both may stand in one file.
"""

from __future__ import annotations

from os import PathLike

import pandas as pd

from fairtk.errors import InputError, listed
from fairtk.files.rows import Rows
from fairtk.files.tables import read_table, strings_or_lists, write_table
from fairtk.frames.columns import GOLD_ANSWER, QANSWER, QID, SAMPLE, require


def read_answers(path: str | PathLike[str]) -> pd.DataFrame:
    """Read generated answers.

    Returns:
        Columns ``qid``, ``sample`` (if the file has it), ``qanswer`` (a string, may be empty), and
        what else the file has.

    Raises:
        FormatError: a column is missing, a line is broken, or a ranking has two answers; names
            the line.
    """
    rows = _keyed(path, "answers", QANSWER)
    rows.as_strings(QANSWER)
    if GOLD_ANSWER in rows.frame.columns:
        strings_or_lists(rows, GOLD_ANSWER)
    keys = [c for c in (QID, SAMPLE) if c in rows.frame.columns]
    rows.unique(keys, "a ranking has two answers")
    first = [*keys, QANSWER]
    return rows.frame[[*first, *rows.frame.columns.drop(first)]]


def read_gold_answers(path: str | PathLike[str]) -> pd.DataFrame:
    """Read gold answers; `fairtk.join_answers` puts them into qrels.

    A query may stand on several rows, with the same gold answer (as in answer files and qrels) or
    with others, each of which is right.

    Returns:
        Columns ``qid`` and ``gold_answer`` (a string or a list of strings); rows as in the file.

    Raises:
        FormatError: a column is missing or a line is broken; names the line.
    """
    rows = _keyed(path, "gold answers", GOLD_ANSWER)
    strings_or_lists(rows, GOLD_ANSWER)
    return rows.frame[[QID, GOLD_ANSWER]]


def write_answers(frame: pd.DataFrame, path: str | PathLike[str]) -> None:
    """Write the answers of a frame in one step, one row per ranking.

    Args:
        frame: answers: ``qid``, ``sample`` if the run is sampled, ``qanswer`` and, if it has it,
            ``gold_answer``; what a generator returns, with one row per document, will do.
        path: the file: ``.parquet``, ``.jsonl``, or anything else for TSV; ``.gz`` packs.

    Raises:
        InputError: two different answers within one ranking.
    """
    require(frame, [QID, QANSWER], "write_answers")
    keys = [c for c in (QID, SAMPLE) if c in frame.columns]
    distinct = frame[[*keys, QANSWER]].drop_duplicates()
    twice = distinct[distinct.duplicated(keys)]
    if len(twice):
        where = ", ".join(f"{k} {twice[k].iloc[0]!r}" for k in keys)
        raise InputError(f"write_answers: two different answers within one ranking ({where})")
    extra = [GOLD_ANSWER] if GOLD_ANSWER in frame.columns else []
    write_table(frame.loc[distinct.index, [*keys, QANSWER, *extra]], path)


def add_answers(run: pd.DataFrame, answers: pd.DataFrame, where: str = "answers") -> pd.DataFrame:
    """Return the run with the answer of its ranking (``qanswer``) on each row.

    Args:
        run: R or S.
        answers: as `read_answers` gives them; answers of other rankings are ignored.
        where: the name of the answers, for messages.

    Raises:
        InputError: a ranking has no answer, or only one of the two frames is sampled.
    """
    keys = [c for c in (QID, SAMPLE) if c in run.columns]
    if SAMPLE in answers.columns and SAMPLE not in keys:
        if answers[SAMPLE].nunique() > 1:
            raise InputError(f"{where}: the answers are of a sampled run, this run is not sampled")
    elif SAMPLE in keys and SAMPLE not in answers.columns:
        if run[SAMPLE].nunique() > 1:
            raise InputError(
                f"{where}: the run is sampled, so the answers need the column 'sample', too"
            )
        keys = [QID]
    merged = run.drop(columns=QANSWER, errors="ignore").merge(
        answers[[*keys, QANSWER]], on=keys, how="left", validate="many_to_one"
    )
    missing = merged[merged[QANSWER].isna()].drop_duplicates(keys)
    if len(missing):
        raise InputError(
            f"{where}: no answer for {len(missing)} rankings of the run: "
            f"{listed(missing[keys].itertuples(index=False, name=None), 3)} ({', '.join(keys)})"
        )
    return merged


def _keyed(path: str | PathLike[str], what: str, column: str) -> Rows:
    rows = read_table(path)
    rows.require([QID, column], what)
    rows.as_ids(QID)
    if SAMPLE in rows.frame.columns:
        rows.as_samples()
    return rows
