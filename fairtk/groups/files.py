"""Groups and targets in files: TSV and CSV (both ``.gz`` too) and Parquet."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from fairtk.errors import FormatError, InputError, MissingExtraError
from fairtk.frames.columns import DOCNO, GROUP, WEIGHT
from fairtk.groups.attribute import Attribute
from fairtk.groups.building import attribute_from_frame, level_order
from fairtk.groups.frames import attribute_frame
from fairtk.groups.levels import UNKNOWN

_NOTE = "# fairtk: "
_PARQUET_NOTE = b"fairtk"
_OTHER = (".json", ".jsonl", ".xlsx", ".feather")
_PARSER_LINE = re.compile(r"in line (\d+)")


def read_attribute(
    path: str | PathLike[str],
    name: str | None,
    unknown: str | None,
    levels: Sequence[str] | None,
    split: str,
    normalize: bool | None,
) -> Attribute:
    """Read one attribute; see `fairtk.Groups.read`."""
    frame, note = read_table(path, [DOCNO, GROUP], "a groups file")
    if levels is None and "levels" in note:
        levels = note["levels"]
    if unknown == UNKNOWN and "unknown" in note:
        unknown = note["unknown"]
    if normalize is None:
        normalize = bool(note.get("normalize", True))
    return attribute_from_frame(
        frame,
        name or note.get("name") or stem(path),
        unknown=unknown,
        levels=levels,
        split=split,
        normalize=normalize,
        fail=failing(path),
    )


def write_attribute(attribute: Attribute, path: str | PathLike[str]) -> None:
    """Write one attribute; see `fairtk.Groups.write`."""
    used = [attribute.levels[i] for i in np.unique(attribute.level)]
    unknown = attribute.levels[attribute.unknown] if attribute.unknown >= 0 else None
    note: dict[str, Any] = {}
    if attribute.name != stem(path):
        note["name"] = attribute.name
    if level_order(used, UNKNOWN) != attribute.levels:
        note["levels"] = list(attribute.levels)
    if unknown != (UNKNOWN if UNKNOWN in attribute.levels else None):
        note["unknown"] = unknown
    if not attribute.normalized:
        note["normalize"] = False
    if is_parquet(path):
        _write_parquet(_arrow(attribute), note, path)
    else:
        write_text(attribute_frame(attribute), note, path)


def stem(path: str | PathLike[str]) -> str:
    """Return a file's name without its suffixes."""
    return re.sub(r"\.(tsv|csv|txt|parquet|pq)$", "", Path(path).name.removesuffix(".gz"))


def is_parquet(path: str | PathLike[str]) -> bool:
    """Return whether a file is Parquet, by its suffix."""
    return Path(path).suffix in {".parquet", ".pq"}


def failing(path: str | PathLike[str]) -> Any:
    """Return the function that raises for a row of a file, naming its line."""

    def fail(row: int, message: str, kind: type[InputError]) -> NoReturn:
        line = None if is_parquet(path) else _line_of(path, row)
        place = f"row {row}: " if line is None else ""
        raise FormatError(place + message, path=path, line=line)

    return fail


def read_table(
    path: str | PathLike[str], columns: list[str], what: str
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows of a file, and what its writer noted.

    Weights are numbers if all are; other columns are strings (or integers, in Parquet), and empty
    fields are missing.

    Args:
        path: the file.
        columns: the columns that it must have.
        what: what it is, for messages.

    Raises:
        FormatError: a column is missing, or the file is broken.
        InputError: the file cannot be opened.
    """
    if is_parquet(path):
        frame, note = _read_parquet(path)
    else:
        frame, note = _read_text(path)
    missing = [c for c in columns if c not in frame.columns]
    if missing:
        raise FormatError(
            f"{what} needs the columns {columns}; missing: {missing}, found: {list(frame.columns)}",
            path=path,
            line=None if is_parquet(path) else 1,
        )
    return frame, note


def write_text(frame: pd.DataFrame, note: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write a frame as TSV or CSV in one step, with a comment line for what must be noted."""
    if Path(str(path).removesuffix(".gz")).suffix in _OTHER:
        raise FormatError("groups and targets are written as .tsv, .csv or .parquet", path)
    delimiter = "," if str(path).removesuffix(".gz").endswith(".csv") else "\t"
    with _replacing(path) as temporary:
        text = io.StringIO()
        if note:
            text.write(_NOTE + json.dumps(note, ensure_ascii=False) + "\n")
        frame.to_csv(text, sep=delimiter, index=False, lineterminator="\n")
        raw = text.getvalue().encode("utf-8")
        if Path(path).suffix == ".gz":
            raw = gzip.compress(raw, compresslevel=6, mtime=0)
        temporary.write_bytes(raw)


def write_frame(frame: pd.DataFrame, note: dict[str, Any], path: str | PathLike[str]) -> None:
    """Write a frame in the form that the suffix names, in one step."""
    if is_parquet(path):
        pyarrow = _pyarrow(f"writing {path}")
        _write_parquet(pyarrow.Table.from_pandas(frame, preserve_index=False), note, path)
    else:
        write_text(frame, note, path)


def _read_text(path: str | PathLike[str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    with _opened(path) as stream:
        noted, header = _head(stream)
    note = _note(noted.removeprefix(_NOTE), path) if noted else {}
    try:
        with _opened(path) as stream:
            frame = pd.read_csv(
                stream,
                sep=_delimiter(header),
                skiprows=1 if noted else 0,
                keep_default_na=False,
                index_col=False,
                dtype="str",
            )
    except pd.errors.EmptyDataError:
        raise FormatError("the file is empty; a header is needed", path=path) from None
    except pd.errors.ParserError as error:
        found = _PARSER_LINE.search(str(error))
        line = int(found.group(1)) if found else None
        reason = " ".join(str(error).split())
        raise FormatError(f"this is no table ({reason})", path=path, line=line) from None
    frame.columns = frame.columns.str.strip()
    for column in frame.columns:
        if column != WEIGHT:
            frame[column] = frame[column].mask(frame[column] == "")
    if WEIGHT in frame.columns:
        # Python's own reading of decimals is exact; if it fails, the caller says where
        with contextlib.suppress(ValueError):
            frame[WEIGHT] = np.array(list(map(float, frame[WEIGHT])), dtype=np.float64)
    return frame, note


def _line_of(path: str | PathLike[str], row: int) -> int:
    """Return the line of a row; reads the file again, since something is wrong anyway."""
    with _opened(path) as stream:
        noted, header = _head(stream)
        before = 2 if noted else 1
        rows = csv.reader(stream, delimiter=_delimiter(header))
        found = (rows.line_num for fields in rows if fields)
        return before + next(itertools.islice(found, row, None), row + 1)


def _head(stream: io.TextIOBase) -> tuple[str, str]:
    first = stream.readline()
    return (first, stream.readline()) if first.startswith(_NOTE) else ("", first)


def _delimiter(header: str) -> str:
    return "\t" if "\t" in header else ","


def _note(text: str, path: str | PathLike[str]) -> dict[str, Any]:
    try:
        note = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"the note is not JSON ({error.msg})", path=path, line=1) from None
    return note if isinstance(note, dict) else {}


@contextlib.contextmanager
def _opened(path: str | PathLike[str]) -> Iterator[io.TextIOWrapper]:
    try:
        with Path(path).open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            binary = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as stream:
                yield stream
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise FormatError(f"broken gzip file ({error}); fetch it again", path=path) from None
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (EOFError, zlib.error) as error:
        raise FormatError(f"broken gzip file ({error}); fetch it again", path=path) from None
    except UnicodeDecodeError as error:
        raise FormatError(f"this is not UTF-8 text ({error.reason})", path=path) from None


@contextlib.contextmanager
def _replacing(path: str | PathLike[str]) -> Iterator[Path]:
    """Give a temporary path that takes the target's place when the block ends well."""
    target = Path(path).resolve()
    temporary = target.with_name(f".{secrets.token_hex(6)}.part.{target.name[-100:]}")
    try:
        yield temporary
        os.replace(temporary, target)
    except FileNotFoundError:
        raise InputError(f"{path}: the folder does not exist") from None
    finally:
        temporary.unlink(missing_ok=True)


def _pyarrow(purpose: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", purpose) from None
    return pyarrow


def _arrow(attribute: Attribute) -> Any:
    pyarrow = _pyarrow("writing Parquet")
    owner = np.repeat(np.arange(len(attribute.documents)), np.diff(attribute.start))
    group = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array(attribute.level), pyarrow.array(attribute.levels, type=pyarrow.string())
    )
    return pyarrow.table(
        {
            DOCNO: pyarrow.array(attribute.documents.values[owner]),
            GROUP: group,
            WEIGHT: pyarrow.array(attribute.all_weights()),
        }
    )


def _write_parquet(table: Any, note: dict[str, Any], path: str | PathLike[str]) -> None:
    pyarrow = _pyarrow(f"writing {path}")
    metadata = {**(table.schema.metadata or {}), _PARQUET_NOTE: json.dumps(note)}
    with _replacing(path) as temporary:
        pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), temporary)


def _read_parquet(path: str | PathLike[str]) -> tuple[pd.DataFrame, dict[str, Any]]:
    pyarrow = _pyarrow(f"reading {path}")
    try:
        table = pyarrow.parquet.read_table(path)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise FormatError(f"broken Parquet file ({error})", path=path) from None
    note = (table.schema.metadata or {}).get(_PARQUET_NOTE, b"{}")
    return table.to_pandas(), _note(note.decode("utf-8"), path)
