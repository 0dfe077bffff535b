"""Labels and answers: qrels files, generated and gold answers, TREC Fair Ranking's topic files.

The format is a table with named columns, one row per ranking: ``qid``, ``sample`` (if the run is
sampled) and ``qanswer``, as TSV with a header, JSON lines or Parquet. Gold answers have ``qid``
and ``gold_answer``; both may stand in one file.

There are two forms. ``trec_2022_*_reldocs.jsonl`` (and NIST's file of the evaluation topics) has
one topic per line: ``{"id": 1, "title": ..., "rel_docs": [12, ...]}``, with or without keywords.
``train_topics_meta.jsonl`` is one object of columns, each an object keyed by row number, in which
the lists are strings: ``{"id": {"0": 1}, ..., "keywords": {"0": "['football']"}, "rel_docs":
{"0": "[12]"}}``. Either form is read wherever topics are. ``eval_topic_keywords.csv`` has the
keywords of the evaluation topics alone: an id, and a list as Python prints it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import ir_datasets
import numpy as np
import numpy.typing as npt
import pandas as pd

from fairtk.errors import FormatError, InputError, NotFoundError, listed
from fairtk.frames import (
    DOCNO,
    GOLD_ANSWER,
    LABEL,
    LIMIT,
    QANSWER,
    QID,
    SAMPLE,
    Qrels,
    require,
    takes_tables,
    uncoded,
)
from fairtk.io.atomic import atomic_text
from fairtk.io.lines import (
    STDIN,
    Flaw,
    Source,
    described,
    is_parquet_name,
    objects_of,
    parse_json,
    source,
)
from fairtk.io.rows import Rows, Type, read_whitespace, refuse_spaces
from fairtk.io.tables import (
    delimited_records,
    has_header,
    read_named,
    read_table,
    strings_or_lists,
    write_table,
)

_TYPES: dict[str, Type] = {LABEL: "float64"}
LAYOUTS = [(QID, "iteration", DOCNO, LABEL), (QID, DOCNO, LABEL)]
"""The columns of TREC's files of qrels."""
_NAMED = (".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")


def read_qrels(path: str | PathLike[str], errors: list[Flaw] | None = None) -> pd.DataFrame:
    """Read qrels.

    TREC's four columns ``qid iteration docno label`` (or three, without the iteration; it is not
    kept, whatever it holds), or a TSV file with a header, JSON lines or Parquet with the columns
    ``qid``, ``docno``, ``label`` and, for answers, ``gold_answer`` (a string or a list of them,
    in TSV a JSON array). Each may be gzipped. Where `errors` is given, what is wrong with lines
    and rows is noted there, and they are left out.

    Returns:
        Columns ``qid``, ``docno``, ``label`` (int64 if all labels are whole numbers, else
        float64), and what else a file with named columns has.

    Raises:
        FormatError: a line is broken, a label is not a finite number, or a document is labeled
            twice for one query; names the line.
    """
    return uncoded(coded_qrels(path, errors))


def coded_qrels(path: str | PathLike[str], errors: list[Flaw] | None = None) -> pd.DataFrame:
    """Return what `read_qrels` does, its ids coded already (categorical)."""
    with source(path, errors) as file:
        if file.kind == "text" and not has_header(file):
            rows = read_whitespace(file, LAYOUTS, _TYPES)
            rows.frame = rows.frame[[QID, DOCNO, LABEL]]
            return labels_in(rows)
        return labels_in(read_named(file))


def labels_in(rows: Rows) -> pd.DataFrame:
    """Return the labels of some rows, checked; see `coded_qrels`."""
    rows.typed("qrels", [QID, DOCNO, LABEL], {QID: "id", DOCNO: "id", LABEL: "number"})
    far = (rows.frame[LABEL].abs() >= LIMIT).to_numpy()
    rows.fail_at(far, "label must be below 2^53; found {}", LABEL)
    rows.unique([QID, DOCNO], "a document is labeled twice")
    if GOLD_ANSWER in rows.frame.columns:
        strings_or_lists(rows, GOLD_ANSWER)
    labels = rows.frame[LABEL]
    if (labels == np.trunc(labels)).all():
        rows.frame[LABEL] = labels.astype(np.int64)
    first = [QID, DOCNO, LABEL]
    return rows.frame[[*first, *rows.frame.columns.drop(first)]]


@takes_tables
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
            number = int(label) if label.is_integer() else label
            stream.write(f"{qid} 0 {docno} {number!r}\n")


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
    return uncoded(rows.frame[[*first, *rows.frame.columns.drop(first)]])


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
    return uncoded(rows.frame[[QID, GOLD_ANSWER]])


@takes_tables
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


@takes_tables
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
    rows.typed(what, [QID, column], {QID: "id"})
    if SAMPLE in rows.frame.columns:
        rows.as_samples()
    return rows


@dataclass(frozen=True)
class Topic:
    """One topic of the track.

    The name of a WikiProject (`title`), the keywords, if the file has them, and the relevant pages,
    each once: integers, or strings where the file has such.
    """

    qid: str
    title: str
    keywords: tuple[str, ...]
    pages: npt.NDArray[Any]

    @property
    def docnos(self) -> list[str]:
        """The relevant pages as docnos."""
        return [str(page) for page in self.pages.tolist()]


def read_topics(path: str | PathLike[str]) -> list[Topic]:
    """Read topics with their relevant pages, in the order of the file, in one of two forms."""
    with source(path) as file:
        return _topics(file, labeled=True)


def _topics(file: Source, labeled: bool) -> list[Topic]:
    topics: dict[str, Topic] = {}
    for line, row, record in _records(file):
        try:
            topic = _topic(record, labeled)
            if topic.qid in topics:
                raise FormatError(f"the id {topic.qid!r} occurs twice")
        except FormatError as error:
            place = "" if row is None else f"row {row!r}: "
            raise FormatError(f"{place}{error}", file.path, line) from None
        topics[topic.qid] = topic
    if not topics:
        raise FormatError("the file has no topics", file.path)
    return list(topics.values())


def read_keywords(path: str | PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Return the keywords of each topic, by qid.

    From a file of topics in either form, or a CSV or TSV file of two columns, id and list of
    keywords, with or without a header.
    """
    with source(path) as file:
        if file.kind == "jsonl":
            return {topic.qid: topic.keywords for topic in _topics(file, labeled=False)}
        keywords: dict[str, tuple[str, ...]] = {}
        for line, fields in delimited_records(file):
            qid, printed = fields[0].strip(), ",".join(fields[1:])  # the list need not be quoted
            if not keywords and "[" not in printed and len(fields) == 2:
                continue  # the header
            try:
                words = _keywords(printed, f"topic {qid!r}")
                if qid in keywords:
                    raise FormatError(f"the id {qid!r} occurs twice")
            except FormatError as error:
                raise FormatError(str(error), path, line) from None
            keywords[qid] = words
    if not keywords:
        raise FormatError("the file has no keywords", path)
    return keywords


def qrels_of(topics: list[Topic]) -> pd.DataFrame:
    """Return the relevant pages of topics as qrels: ``qid``, ``docno``, ``label`` (1)."""
    counts = [len(topic.pages) for topic in topics]
    docnos = [docno for topic in topics for docno in topic.docnos]
    return pd.DataFrame(
        {
            QID: pd.Series(np.repeat([t.qid for t in topics], counts).tolist(), dtype="str"),
            DOCNO: pd.Series(docnos, dtype="str"),
            LABEL: np.ones(len(docnos), dtype=np.int64),
        }
    )


def _records(file: Source) -> Iterator[tuple[int, str | None, Mapping[str, Any]]]:
    """Yield line, row (of a file of columns) and fields of each topic."""
    for number, record in objects_of(file):
        if isinstance(record.get("id"), dict):
            yield from ((number, row, r) for row, r in _rows(record, file.path, number))
        else:
            yield number, None, record


def _rows(
    columns: Mapping[str, Any], path: str | PathLike[str], line: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    wrong = [name for name, column in columns.items() if not isinstance(column, dict)]
    if wrong:
        raise FormatError(
            f"expected columns keyed by row; {wrong[0]!r} is {described(columns[wrong[0]])}",
            path,
            line,
        )
    for row in dict.fromkeys(row for column in columns.values() for row in column):
        lacking = [name for name, column in columns.items() if row not in column]
        if lacking:
            raise FormatError(f"row {row!r} has no {lacking[0]!r}", path, line)
        yield row, {name: column[row] for name, column in columns.items()}


def _topic(record: Mapping[str, Any], labeled: bool) -> Topic:
    needed = ["id", "title", *(["rel_docs"] if labeled else [])]
    missing = [key for key in needed if key not in record]
    if missing:
        raise FormatError(
            f"a topic needs the keys {needed}; {missing[0]!r} is missing, found "
            f"{sorted(record)[:8]}"
        )
    qid, title = record["id"], record["title"]
    if isinstance(qid, bool) or not isinstance(qid, int | str) or qid == "":
        raise FormatError(f"'id' must be a number or a string; found {described(qid)}")
    where = f"topic {str(qid)!r}"
    if not isinstance(title, str):
        raise FormatError(f"{where}: 'title' must be a string; found {described(title)}")
    keywords = record.get("keywords")
    return Topic(
        str(qid),
        title,
        () if keywords is None else _keywords(keywords, where),
        _pages(record.get("rel_docs", []), where),
    )


_STRING = r"""(?:'(?:[^'\\\x00-\x1f]|\\.)*'|"(?:[^"\\\x00-\x1f]|\\.)*")"""
_LIST = re.compile(rf"[\[(]\s*(?:{_STRING}\s*(?:,\s*{_STRING}\s*)*,?)?\s*[\])]")
"""Strings with commas between them: Python reads two without as one."""


def _keywords(value: Any, where: str) -> tuple[str, ...]:
    words = value
    if isinstance(value, str):
        try:
            # a list as Python prints it; runs no code
            words = ast.literal_eval(value.strip()) if _LIST.fullmatch(value.strip()) else None
            json.dumps(words, ensure_ascii=False).encode()  # half a character is none
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            words = None
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise FormatError(
            f"{where}: 'keywords' must be a list of strings, or one as Python prints it; found "
            f"{described(value)}"
        )
    return tuple(words)


def _pages(value: Any, where: str) -> npt.NDArray[Any]:
    content = value
    if isinstance(value, str):
        try:
            content = parse_json(value)
        except FormatError:
            content = None
    if not isinstance(content, list):
        raise FormatError(
            f"{where}: 'rel_docs' must be a list of pages, or a string of one; found "
            f"{described(value)}"
        )
    kinds = {type(page) for page in content}
    if kinds <= {int}:
        try:
            pages: npt.NDArray[Any] = np.array(content, dtype=np.int64)
        except OverflowError:
            pages = np.array([str(page) for page in content], dtype=object)
    elif kinds <= {int, str}:
        pages = np.array([str(page) for page in content], dtype=object)
    else:
        odd = next(page for page in content if type(page) not in (int, str))
        raise FormatError(f"{where}: a page of 'rel_docs' must be a number; found {described(odd)}")
    # the track's code counts a page that is listed twice once
    return np.asarray(pd.unique(pages))


def resolve_dataset(dataset: Any, where: str) -> Any:
    """Return the ``ir_datasets.Dataset`` that an id or a dataset, also PyTerrier's, stands for.

    An id may have PyTerrier's prefix ``irds:`` or ``fair:``.
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
        f"{where} needs a dataset id, an ir_datasets Dataset or a PyTerrier dataset made of one; "
        f"found {dataset!r}"
    )


def frame_of_qrels(qrels: Any, where: str) -> Any:
    """Return labels of a file or a data set's id; anything else as it is, for who checks frames.

    Raises:
        InputError: there is no such file and no such data set, or it has no labels.
    """
    if not isinstance(qrels, str | PathLike):
        return qrels
    name = fspath(qrels)
    if name == STDIN or Path(name).exists():
        return coded_qrels(qrels)
    try:
        dataset = resolve_dataset(name, where)
    except NotFoundError as error:
        near = str(error).partition(";")[2].partition("; known")[0]
        tail = f";{near}" if "did you mean" in near else ""
        raise InputError(
            f"{name}: there is no such file, and no dataset has this id{tail}"
        ) from None
    if not dataset.has_qrels():
        raise InputError(f"{name}: this dataset has no qrels")
    return labels_of(dataset)


def labels_of(dataset: Any) -> pd.DataFrame:
    """Return the labels of an ``ir_datasets.Dataset``: ``qid``, ``docno``, ``label``."""
    rows = [(q.query_id, q.doc_id, q.relevance) for q in dataset.qrels_iter()]
    return pd.DataFrame(rows, columns=[QID, DOCNO, LABEL])
