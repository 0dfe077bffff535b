"""Formats of runs and qrels by name, and messages about files of another kind.

A format is named by the user (`FormattedFile`) or by the header of the file. Three columns without
a header are never interpreted: they may be labels, a run of MS MARCO or a list of TREC Fair
Ranking.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, Literal, get_args

from fairtk import checks
from fairtk.frames import DOCNO, LABEL, QID, RANK, SAMPLE, SCORE

RunFormat = Literal["trec", "msmarco", "trec-fair", "json", "parquet"]
QrelsFormat = Literal["trec", "beir", "json", "parquet"]
RUN_FORMATS: tuple[RunFormat, ...] = get_args(RunFormat)
QRELS_FORMATS: tuple[QrelsFormat, ...] = get_args(QrelsFormat)

QRELS_LAYOUTS: list[tuple[str, ...]] = [(QID, "iteration", DOCNO, LABEL)]
SHORT_QRELS = (QID, DOCNO, LABEL)
RUN_LAYOUTS: list[tuple[str, ...]] = [
    (QID, SAMPLE, DOCNO, RANK, SCORE, "tag"),
    (QID, SAMPLE, DOCNO, RANK, SCORE),
]
"""The columns of TREC's files."""

MSMARCO_LAYOUTS = [(QID, DOCNO, RANK), (QID, DOCNO, RANK, SCORE)]
"""The columns of runs of MS MARCO, and those of ColBERT."""

BEIR = ("query-id", "corpus-id", SCORE)
"""The header of BEIR's labels."""

TASK_LAYOUTS = [("id", "page_id"), ("id", "seq_no", "page_id")]
"""The columns of lists of TREC Fair Ranking 2022, Task 1 and Task 2."""


@dataclass(frozen=True)
class FormattedFile(PathLike[str]):
    """A file with the name of its format; accepted instead of the path of a run or of qrels.

    Attributes:
        path: the path.
        form: the name of the format, as for `fairtk.io.read_run` or `fairtk.io.read_qrels`.
    """

    path: str | PathLike[str]
    form: str

    def __fspath__(self) -> str:
        return fspath(self.path)

    def __str__(self) -> str:
        return fspath(self.path)


@dataclass(frozen=True)
class GroupFile(PathLike[str]):
    """A file of groups with settings of its cells; accepted instead of its path.

    Attributes:
        path: the path, also ``"NAME=FILE"``.
        separator: as for `fairtk.Groups.read`.
        unknown_values: as for `fairtk.Groups.read`.
    """

    path: str | PathLike[str]
    separator: str | None
    unknown_values: Iterable[str] | None

    def __fspath__(self) -> str:
        return fspath(self.path)

    def __str__(self) -> str:
        return fspath(self.path)


def path_and_format(
    path: str | PathLike[str], format: str | None, known: tuple[str, ...]
) -> tuple[str | PathLike[str], str | None]:
    """Return the path of a file, and the name of its format, `None` without a name."""
    file: Any = path
    if isinstance(path, FormattedFile):
        path, format = file.path, format or file.form
    return path, None if format is None else checks.known("format", format, known)


def run_option(format: RunFormat) -> str:
    """Return how to read a run in a format; on the command line, it becomes the option."""
    return f"fairtk.io.read_run(..., format={format!r})"


def qrels_option(format: QrelsFormat) -> str:
    """Return how to read qrels in a format; on the command line, it becomes the option."""
    return f"fairtk.io.read_qrels(..., format={format!r})"


def may_be_colbert(fields: list[str]) -> bool:
    """Return whether the first line of a file may be of a run of ColBERT, and not of labels."""
    return len(fields) == 4 and fields[2] in ("0", "1") and fields[1] not in ("0", "Q0")


def likely_kinds(value: str, fields: list[str]) -> str:
    """Return the end of the message about a line that is not of a run (or not of qrels).

    Args:
        value: the column of numbers in the expected file, ``score`` or ``label``.
        fields: the fields of the line.
    """
    is_number = [field.isascii() and field.isdecimal() for field in fields]
    if len(fields) == 2 and value == SCORE and all(is_number):
        return f"; read a list of TREC Fair Ranking (id page_id) with {run_option('trec-fair')}"
    if len(fields) == 4 and value == SCORE:
        return f"; read a run of ColBERT (qid docno rank score) with {run_option('msmarco')}"
    if len(fields) != 3:
        return ""
    labels = f"labels (qid docno label) with {qrels_option('trec')}"
    marco = f"a run of MS MARCO (qid docno rank) with {run_option('msmarco')}"
    lists = f"a list of TREC Fair Ranking (id seq_no page_id) with {run_option('trec-fair')}"
    kinds = [labels, marco] if value == LABEL else [marco, labels]
    if all(is_number):
        kinds.append(lists)
    return f"; read {', or '.join(kinds)}"
