"""The reference: a strict reader of every file format, written apart from fairtk's.

It takes a whole file at once, checks one line after the other, and knows three answers: records,
`Refused`, or records of a literal reading that no rule demands (``unsaid``), where an error is
right as well.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import unicodedata
import zlib
from typing import Any

from campaign_case import Refused
from campaign_values import ODD, Reading, typed

ALIASES = {
    "query_id": "qid", "doc_id": "docno", "docid": "docno", "pid": "docno",
    "relevance": "label", "relevance_label": "label", "rel": "label", "sim": "score",
}  # fmt: skip
LAYOUTS = {
    "run": (("qid", "sample", "docno", "rank", "score", "tag"),
            ("qid", "sample", "docno", "rank", "score")),
    "qrels": (("qid", "iteration", "docno", "label"), ("qid", "docno", "label")),
}  # fmt: skip
LONGEST = 1 << 20


def read(kind: str, form: str, raw: bytes, attribute: str = "groups") -> Reading:
    """Return what a file says.

    Args:
        kind: what it is of.
        form: its format.
        raw: its bytes, packed or not.
        attribute: the attribute that a wide target is over.
    """
    if form == "parquet":
        found = _parquet(raw)
    else:
        unsaid: list[str] = []
        lines = _text_lines(_unpacked(raw), unsaid)
        if form in ("trec", "task"):
            found = _columns(kind, form, lines)
        elif form == "jsonl":
            found = _json_lines(lines)
        else:
            found = _delimited(lines)
        found.unsaid[:0] = unsaid
    names = {attribute: "group"} if form == "wide" else {}
    _rename(found, {**(ALIASES if kind in ("run", "qrels") else {}), **names})
    typed(kind, form, found)
    return found


def _unpacked(raw: bytes) -> bytes:
    if raw[:2] != b"\x1f\x8b":
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise Refused(f"gzip: {error}") from None


def _text_lines(raw: bytes, unsaid: list[str]) -> list[str]:
    lines = []
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Refused("UTF-16")
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused("not UTF-8", number) from None
        if "\0" in text:
            raise Refused("NUL", number)
        if "\ufeff" in text:
            raise Refused("a byte order mark inside", number)
        if len(line) > LONGEST:
            raise Refused("the line is too long", number)
        text = text.removesuffix("\r")
        odd = [c for c in text if c != "\t" and unicodedata.category(c) in ODD]
        if odd or any(c.isspace() and c not in " \t" for c in text):
            unsaid.append(f"control characters or odd spaces in line {number}")
        lines.append(text)
    return lines


def _columns(kind: str, form: str, lines: list[str]) -> Reading:
    names: tuple[str, ...] | None = None
    result = Reading([], [])
    for number, line in enumerate(lines, start=1):
        fields = [part for part in re.split(r"[ \t]+", line) if part]
        if not fields:
            continue
        if names is None and form == "task":
            names = _task_columns(fields)
            if names is None:
                raise Refused("neither header nor numbers of a task file", number)
            if not fields[0].isdigit():
                continue
        if names is None:
            names = next((n for n in LAYOUTS[kind] if len(n) == len(fields)), None)
        if names is None or len(fields) != len(names):
            raise Refused(f"{len(fields)} columns", number)
        result.records.append(dict(zip(names, fields, strict=True)))
        result.lines.append(number)
    return result


def _task_columns(fields: list[str]) -> tuple[str, ...] | None:
    lowered = tuple(field.lower() for field in fields)
    if lowered in (("id", "page_id"), ("id", "seq_no", "page_id")):
        return ("qid", "docno") if len(fields) == 2 else ("qid", "sample", "docno")
    if len(fields) in (2, 3) and all(f.isascii() and f.isdigit() for f in fields):
        return ("qid", "docno") if len(fields) == 2 else ("qid", "sample", "docno")
    return None


def _json_lines(lines: list[str]) -> Reading:
    result = Reading([], [])
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_no_twins, parse_int=_small_int)
        except (ValueError, RecursionError) as error:
            raise Refused(f"JSON: {error}", number) from None
        if not isinstance(record, dict):
            raise Refused("no object", number)
        if result.records and record.keys() != result.records[0].keys():
            raise Refused("other keys", number)
        result.records.append(record)
        result.lines.append(number)
    return result


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _small_int(digits: str) -> int:
    if len(digits) > 400:
        raise ValueError("an integer without measure")
    return int(digits)


def _delimited(lines: list[str]) -> Reading:
    result = Reading([], [])
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise Refused("empty")
    if filled[0].startswith("# fairtk: "):
        lines = lines[lines.index(filled[0]) + 1 :]
        raise Refused("a note, which the campaign does not write")
    delimiter = "\t" if "\t" in filled[0] else ","
    reader = csv.reader(io.StringIO("\n".join(lines), newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    start = 0
    csv.field_size_limit(1 << 30)
    try:
        for fields in reader:
            before, start = start, reader.line_num
            if not fields or fields == [""]:
                continue
            if not header:
                header = fields
                _check_header(header, start)
                continue
            if len(fields) != len(header):
                raise Refused(f"{len(fields)} fields", before + 1)
            if fields == header:
                raise Refused("a second header", start)
            result.records.append(dict(zip(header, fields, strict=True)))
            result.lines.append(start)
    except csv.Error as error:
        raise Refused(f"CSV: {error}", reader.line_num) from None
    if not result.records:
        result.unsaid.append("a header alone, whose columns nothing needs")
    return result


def _check_header(header: list[str], line: int) -> None:
    names = [ALIASES.get(name.strip(), name.strip()) for name in header]
    if len(set(names)) < len(names):
        raise Refused("a column occurs twice", line)
    if any(name != name.strip() for name in header):
        raise Refused("spaces around a column's name", line)


def _parquet(raw: bytes) -> Reading:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(io.BytesIO(raw))
        records = table.to_pylist()
    except Exception as error:  # whatever kind of damage it is
        raise Refused(f"Parquet: {error}") from None
    if len(set(table.column_names)) < len(table.column_names):
        raise Refused("a column occurs twice")
    result = Reading(records, [None] * len(records))
    if not records:
        result.records, result.lines = [], []
    return result


def _rename(found: Reading, names: dict[str, str]) -> None:
    for at, record in enumerate(found.records):
        renamed = {names.get(name, name): value for name, value in record.items()}
        if len(renamed) < len(record):
            raise Refused("a column occurs twice", 1)
        found.records[at] = renamed
