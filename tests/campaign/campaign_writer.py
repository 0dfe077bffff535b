"""Writes tables in every file format, without fairtk: what the mutations start from."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import Any

from campaign_world import Table

NAMED = ("tsv", "csv", "jsonl", "parquet")
FORMS = {
    "run": ("trec", "task", *NAMED),
    "qrels": ("trec", *NAMED),
    "groups": ("tsv", "csv", "parquet", "jsonl"),
    "target": ("tsv", "csv", "parquet", "jsonl", "wide"),
    "answers": ("tsv", "csv", "jsonl", "parquet"),
    "gold": ("tsv", "csv", "jsonl", "parquet"),
}
"""The formats of each kind of file; ``task`` is TREC Fair 2022's Task 1 or 2."""

SUFFIX = {"trec": "txt", "task": "tsv", "wide": "tsv"}


def file_name(kind: str, form: str, packed: bool) -> str:
    """Return the name of a file of some kind and form."""
    return f"{kind}.{SUFFIX.get(form, form)}{'.gz' if packed else ''}"


def write(kind: str, form: str, table: Table, header: bool = True) -> bytes:
    """Return a table as the bytes of a file.

    Args:
        kind: what it is of.
        form: the format.
        table: the table.
        header: whether a Task 1 or 2 file has its header.
    """
    if form == "parquet":
        return _parquet(table)
    if form == "trec":
        return _lines(map(_trec_run if kind == "run" else _trec_qrels, _records(table)))
    if form == "task":
        return _task(table, header)
    if form == "jsonl":
        return _lines(json.dumps(record, ensure_ascii=False) for record in _records(table))
    return _delimited(table, "," if form == "csv" else "\t")


def pack(raw: bytes) -> bytes:
    """Return gzipped bytes, the same each time."""
    return gzip.compress(raw, mtime=0)


def wide(table: Table, attribute: str) -> Table:
    """Return a target whose levels stand in a column named after the attribute."""
    return Table([attribute if c == "group" else c for c in table.columns], table.rows)


def _records(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def _lines(lines: Any) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def _trec_run(row: dict[str, Any]) -> str:
    return f"{row['qid']} {row.get('sample', 'Q0')} {row['docno']} {row['rank']} {row['score']} tag"


def _trec_qrels(row: dict[str, Any]) -> str:
    return f"{row['qid']} 0 {row['docno']} {row['label']}"


def _task(table: Table, header: bool) -> bytes:
    sampled = "sample" in table.columns
    names = ["id", "seq_no", "page_id"] if sampled else ["id", "page_id"]
    lines = ["\t".join(names)] if header else []
    for row in _records(table):
        middle = [row["sample"] + 1] if sampled else []
        lines.append("\t".join(map(str, [row["qid"], *middle, row["docno"]])))
    return _lines(lines)


def _delimited(table: Table, delimiter: str) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return stream.getvalue().encode("utf-8")


def _parquet(table: Table, **options: Any) -> bytes:
    import pyarrow
    import pyarrow.parquet

    columns = {name: pyarrow.array(table.column(name)) for name in table.columns}
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink, **options)
    return sink.getvalue()
