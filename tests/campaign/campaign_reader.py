"""The reference: a strict reader of every file format, written independently of fairtk's.

It has three answers: records, `Refused`, or records of a literal reading that no rule demands (with
`caveats`), for which an error is right as well.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import unicodedata
import zlib
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from campaign_case import Refused

ALIASES = {
    "query_id": "qid", "doc_id": "docno", "docid": "docno", "pid": "docno",
    "relevance": "label", "relevance_label": "label", "rel": "label", "sim": "score",
}  # fmt: skip
LAYOUTS = {
    "run": (("qid", "sample", "docno", "rank", "score", "tag"),
            ("qid", "sample", "docno", "rank", "score")),
    "qrels": (("qid", "iteration", "docno", "label"), ("qid", "docno", "label")),
}  # fmt: skip
NEEDED = {
    "run": ("qid", "docno", "score"),
    "qrels": ("qid", "docno", "label"),
    "groups": ("docno", "group"),
    "target": ("group", "weight"),
    "topics": ("qid", "query"),
}
TYPES = {
    "qid": "str", "docno": "str", "group": "str", "score": "float64", "label": "float64",
    "weight": "float64", "rank": "int64", "sample": "int64",
}  # fmt: skip
INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass
class Reading:
    """The contents of a file.

    Attributes:
        records: a mapping per row; numbers are numbers, everything else is text.
        lines: the line of each record; `None` in Parquet.
        caveats: why no rule demands this reading; empty if one does.
    """

    records: list[dict[str, Any]]
    lines: list[int | None]
    caveats: list[str] = field(default_factory=list)


def read(kind: str, form: str, raw: bytes) -> Reading:
    """Return the contents of a file, packed or not."""
    if form == "parquet":
        reading = _parquet(raw)
    elif form in ("trec", "task"):
        reading = _columns(kind, form, _lines(raw))
    elif form == "jsonl":
        reading = _json_lines(_lines(raw))
    else:
        reading = _delimited(_lines(raw))
    _rename(reading, {"groups": "group"} if form == "wide" else _aliases(kind))
    _check_values(kind, form, reading)
    return reading


def _aliases(kind: str) -> dict[str, str]:
    return ALIASES if kind in ("run", "qrels") else {}


def _lines(raw: bytes) -> list[str]:
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise Refused(f"gzip: {error}") from None
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Refused("UTF-16")
    lines = []
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused("not UTF-8", number) from None
        if "\ufeff" in text:
            raise Refused("a byte order mark inside", number)
        lines.append(text.removesuffix("\r"))
    return lines


def _columns(kind: str, form: str, lines: list[str]) -> Reading:
    names: tuple[str, ...] | None = None
    reading = Reading([], [])
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields:
            continue
        if names is None and form == "task":
            names = _task_columns(fields)
            if names is None:
                raise Refused("neither header nor numbers of a task file", number)
            if not fields[0].isdigit():
                continue
        elif form == "task" and fields[0].lower() == "id":
            raise Refused("a second header", number)
        if names is None:
            names = next((n for n in LAYOUTS[kind] if len(n) == len(fields)), None)
        if names is None or len(fields) != len(names):
            raise Refused(f"{len(fields)} columns", number)
        reading.records.append(dict(zip(names, fields, strict=True)))
        reading.lines.append(number)
    return reading


def _task_columns(fields: list[str]) -> tuple[str, ...] | None:
    names = ("qid", "docno") if len(fields) == 2 else ("qid", "sample", "docno")
    is_header = [f.lower() for f in fields] in (["id", "page_id"], ["id", "seq_no", "page_id"])
    is_row = len(fields) in (2, 3) and all(f.isascii() and f.isdigit() for f in fields)
    return names if is_header or is_row else None


def _json_lines(lines: list[str]) -> Reading:
    reading = Reading([], [])
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_unique_keys)
        except ValueError as error:
            raise Refused(f"JSON: {error}", number) from None
        if not isinstance(record, dict):
            raise Refused("not an object", number)
        if reading.records and record.keys() != reading.records[0].keys():
            raise Refused("other keys", number)
        reading.records.append(record)
        reading.lines.append(number)
    return reading


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def _delimited(lines: list[str]) -> Reading:
    reading = Reading([], [])
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise Refused("empty")
    stream = io.StringIO("\n".join(lines), newline="")
    rows = csv.reader(stream, delimiter="\t" if "\t" in first else ",", strict=True)
    header: list[str] = []
    end = 0
    try:
        for fields in rows:
            start, end = end + 1, rows.line_num
            if not fields or fields == [""]:
                continue
            if not header:
                header = fields
                if any(name != name.strip() for name in header):
                    raise Refused("spaces around a column's name", end)
                if len(set(header)) < len(header):
                    raise Refused("duplicate column", end)
                continue
            if len(fields) != len(header):
                raise Refused(f"{len(fields)} fields", start)
            if fields == header:
                raise Refused("a second header", end)
            reading.records.append(dict(zip(header, fields, strict=True)))
            reading.lines.append(end)
    except csv.Error as error:
        raise Refused(f"CSV: {error}", rows.line_num) from None
    if not reading.records:
        reading.caveats.append("a header without rows, whose columns are not needed")
    return reading


def _parquet(raw: bytes) -> Reading:
    import pyarrow
    import pyarrow.parquet

    try:
        records = pyarrow.parquet.read_table(io.BytesIO(raw)).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise Refused(f"Parquet: {error}") from None
    return Reading(records, [None] * len(records))


def _rename(reading: Reading, names: dict[str, str]) -> None:
    for index, record in enumerate(reading.records):
        renamed = {names.get(name, name): value for name, value in record.items()}
        if len(renamed) < len(record):
            raise Refused("duplicate column", 1)
        reading.records[index] = renamed


# Values -------------------------------------------------------------------------------------------


def _check_values(kind: str, form: str, reading: Reading) -> None:
    """Convert the values of a reading to those of their columns, or refuse them."""
    needed = ("qid", "docno") if form == "task" else NEEDED[kind]
    for record, line in zip(reading.records, reading.lines, strict=True):
        missing = [name for name in needed if name not in record]
        if missing:
            raise Refused(f"missing {missing}")
        try:
            for name, value in record.items():
                record[name] = _value(kind, form, name, value, reading.caveats)
        except ValueError as error:
            raise Refused(str(error), line) from None


def _value(kind: str, form: str, name: str, value: Any, caveats: list[str]) -> Any:
    if name in ("qid", "docno"):
        return _id(name, value)
    if name in ("score", "label", "weight"):
        if isinstance(value, str) and form in ("jsonl", "parquet"):
            caveats.append(f"{name} is text")
        return _number(name, value, caveats)
    if name == "rank" or (name == "sample" and form == "task"):
        return _integer(name, value, caveats)
    if name == "sample":
        return value if isinstance(value, str) else str(_integer(name, value, caveats))
    if name == "group":
        return _level(kind, value, caveats)
    return value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _id(name: str, value: Any) -> str:
    if _is_integer(value):
        return str(value)
    if not isinstance(value, str) or not value or value != value.strip():
        raise ValueError(f"{name} is {value!r}")
    if any(unicodedata.category(sign) == "Cc" for sign in value):  # control characters
        raise ValueError(f"{name} is {value!r}")
    return value


def _number(name: str, value: Any, caveats: list[str]) -> float:
    if isinstance(value, str):
        if value != value.strip():
            caveats.append(f"spaces around {name}")
        if not NUMBER.fullmatch(value.strip()):
            raise ValueError(f"{name} is {value!r}")
        value = float(value)
    if not (_is_integer(value) or isinstance(value, float)) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}")
    if name == "weight" and value < 0:
        raise ValueError("negative weight")
    if name == "label" and not 0 <= value < 1 << 15:
        caveats.append("a label out of the usual range")
    return float(value)


def _integer(name: str, value: Any, caveats: list[str]) -> int:
    if isinstance(value, str) and INTEGER.fullmatch(value):
        number = int(value)
    else:
        number = int(_number(name, value, caveats))
        if number != float(value):
            raise ValueError(f"{name} is {value!r}")
        if not _is_integer(value):
            caveats.append(f"{name} is {value!r}")
    if abs(number) >= 1 << 63 or (name == "sample" and number < 0):
        raise ValueError(f"{name} is {value!r}")
    if abs(number) >= 1 << 53:
        caveats.append(f"{name} is huge")
    return number


def _level(kind: str, value: Any, caveats: list[str]) -> str:
    if value is None or value == "":
        if kind == "target":
            raise ValueError("the group is missing")
        return "@UNKNOWN"
    if _is_integer(value):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"group is {value!r}")
    if value != value.strip() or "\n" in value:
        caveats.append("spaces around a level")
    return value


# Plain frames -------------------------------------------------------------------------------------


def plain_frame(kind: str, form: str, reading: Reading) -> pd.DataFrame:
    """Return a reading as a frame with the columns that count."""
    frame = pd.DataFrame(reading.records, columns=None if reading.records else [*NEEDED[kind]])
    if form == "task":  # its order is that of the file
        frame = frame.assign(rank=range(len(frame)), score=[-float(i) for i in range(len(frame))])
    elif "sample" in frame:
        samples = _samples([*map(str, frame["sample"])], reading.lines)
        frame = frame.drop(columns="sample") if samples is None else frame.assign(sample=samples)
    types = {name: kind for name, kind in TYPES.items() if name in frame}
    frame = frame[[*types]].astype(types)
    return frame.assign(rank=_ranks(frame)) if {"rank", "score"} <= types.keys() else frame


def _ranks(frame: pd.DataFrame) -> pd.Series:
    """Return ranks without ties, which are broken by score, and then by docno, as in trec_eval."""
    of_ranking = ["qid", "sample"] if "sample" in frame else ["qid"]
    ordered = frame.sort_values("docno", ascending=False)
    ordered = ordered.sort_values(["rank", "score"], ascending=[True, False], kind="stable")
    return ordered.groupby(of_ranking).cumcount()


def _samples(words: list[str], lines: list[int | None]) -> list[int] | None:
    """Return numbers of samples; `None` if the column has none."""
    for pattern, least in (("[0-9]{1,18}", 1), ("[Qq][0-9]{1,18}", 2)):
        if all(re.fullmatch(pattern, w) for w in words) and len(set(words)) >= least:
            return [int(w.lstrip("Qq")) for w in words]
    if len(set(words)) > 1:
        index = next(i for i, word in enumerate(words) if word != words[0])
        raise Refused("samples and other words", lines[index])
    return None
