"""Reading what the strict readers refuse: what is wrong is noted, left out, and reading goes on.

The rules are those of `fairtk.io` and `fairtk.groups`; only what happens at a broken row differs.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fairtk.diagnosis.findings import Finding
from fairtk.errors import FairtkWarning, FormatError, InputError
from fairtk.files.content import kind_of, text_lines
from fairtk.files.delimited import delimited_records
from fairtk.files.json_reading import parse_json
from fairtk.files.rows import Rows
from fairtk.files.tables import ALIASES, has_header
from fairtk.files.whitespace import fields_of
from fairtk.frames.columns import RANK, SCORE, from_ir_measures

MOST_KINDS = 60
"""After so many kinds of broken rows a file is given up."""

_VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|-?\d[\d.e+-]*")
_REMEDY = "mend whatever wrote these lines; they are left out of everything below"

Checks = Callable[[Rows], Any]


def read_loosely(
    data: Any,
    what: str,
    strict: Callable[[Any], Any],
    checks: Checks,
    layouts: Sequence[Any] = (),
    noted: Sequence[Finding] = (),
) -> tuple[Any, list[Finding]]:
    """Return what a file or frame has, and what is wrong with it.

    Args:
        data: a file, or a frame in PyTerrier's or ir_measures' names.
        what: ``"run"``, ``"qrels"`` or ``"groups"``.
        strict: reads a file, raising at the first thing that is wrong.
        checks: raises a `FormatError` for rows that are wrong; gives the result for good ones.
        layouts: the columns that a text file without a header may have; none: it has one.
        noted: where the checks note what they do not refuse.

    Returns:
        What `strict` or `checks` give, None if nothing can be read; and the findings.

    Raises:
        InputError: there is no such file.
    """
    if isinstance(data, pd.DataFrame):
        frame = from_ir_measures(data, f"the {what}").reset_index(drop=True)
        if what == "run" and RANK in frame.columns and SCORE not in frame.columns:
            frame[SCORE] = -frame[RANK]
        return _mended(Rows(frame.copy(), f"the {what}", lambda row: None), what, checks)
    if not Path(data).is_file():
        raise InputError(f"{fspath(data)}: there is no such file")
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = strict(data)
    except FormatError as error:
        try:
            rows, broken = _loose_rows(data, what, layouts)
        except FormatError:  # not even its beginning can be read
            rows, broken = None, []
        if rows is None:
            again = "fetch or write it again"
            return None, broken or [_finding(what, "unreadable", str(error), 1, again)]
        found, wrong = _mended(rows, what, checks)
        if not broken and not wrong and not noted:  # a rule that the loose reader does not know
            wrong = [_finding(what, "unreadable", str(error), 1, "mend what the message names")]
        return found, broken + wrong
    notes = [w for w in said if issubclass(w.category, FairtkWarning)]
    return found, [
        Finding("warning", "data", what, str(w.message), "look at what wrote it", 1) for w in notes
    ]


def _finding(what: str, check: str, text: str, count: int, remedy: str) -> Finding:
    return Finding("error", check, what, text, remedy, count)


def _mended(rows: Rows, what: str, checks: Checks) -> tuple[Any, list[Finding]]:
    """Return what the checks give once all rows that they refuse are left out."""
    wrong: dict[str, tuple[FormatError, int]] = {}
    result, frame, place = None, rows.frame, np.arange(len(rows.frame))
    for _ in range(MOST_KINDS):
        good = Rows(frame.copy(), rows.path, _lines(rows, place), rows.head, rows.note)
        try:
            result = checks(good)
            break
        except FormatError as error:
            key = _VARIABLE.sub("...", error.reason)
            first, count = wrong.get(key, (error, 0))
            wrong[key] = first, count + len(error.rows)
            if not error.rows:
                break
            kept = np.delete(np.arange(len(frame)), list(error.rows))
            frame, place = frame.iloc[kept].reset_index(drop=True), place[kept]
    found = []
    for first, count in wrong.values():
        some = f"{count} row{'s' * (count != 1)} cannot be used: " if count else ""
        reason = first.reason
        check = _check(reason) if count else "unreadable"
        found.append(_finding(what, check, f"{some}{first}", count or 1, _remedy(reason)))
    return result, found


def _lines(rows: Rows, place: Any) -> Callable[[int], int | None]:
    return lambda row: rows.line_of(int(place[row]))


def _check(reason: str) -> str:
    if "twice" in reason:
        return "duplicates"
    return "samples" if "sampled" in reason or "second column" in reason else "bad-values"


def _remedy(reason: str) -> str:
    if "document occurs twice" in reason:
        return (
            "if the run is sampled, its column sample was lost: write it with fairtk.io.write_run; "
            "else keep the better rank of each document; here the first row counts"
        )
    if "twice" in reason:
        return "keep one of them; here the first counts"
    return _REMEDY


def _loose_rows(
    path: str | PathLike[str], what: str, layouts: Sequence[Any]
) -> tuple[Rows | None, list[Finding]]:
    """Return all rows of a file that have the right number of fields."""
    kind = kind_of(path)
    if kind == "parquet":
        return None, []
    broken: list[tuple[int, str]] = []
    records: list[tuple[int, Any]] = []
    named = kind == "jsonl" or not layouts or has_header(path)
    source: Any = text_lines(path)
    if named and kind != "jsonl":
        source = delimited_records(path)
    stopped = None
    try:
        for number, entry in source:
            if kind == "jsonl":
                try:
                    records.append((number, parse_json(entry, path, number)))
                except FormatError as error:
                    if entry.strip():
                        broken.append((number, error.reason))
            elif fields := entry if named else fields_of(entry):
                records.append((number, fields))
    except FormatError as error:
        stopped = error
    columns, head = _columns(records, kind, named, layouts)
    if columns is None:
        return None, []
    good = []
    for number, entry in records[head:]:
        if isinstance(entry, dict) and entry.keys() == set(columns):
            good.append((number, [entry[name] for name in columns]))
        elif isinstance(entry, list) and len(entry) == len(columns):
            good.append((number, entry))
        else:
            shown = f"found {len(entry)}" if isinstance(entry, list) else "its keys differ"
            broken.append(
                (number, f"expected {len(columns)} fields ({' '.join(columns)}), {shown}")
            )
    found = []
    if broken:
        broken.sort()
        number, reason = broken[0]
        last = records and max(records[-1][0], broken[-1][0]) == broken[-1][0]
        tail = last and not _ends_with_a_line(path)
        text = f"{len(broken)} broken line{'s' * (len(broken) != 1)} ({path}:{number}: {reason})"
        if tail:
            text += "; the file ends in the middle of a line"
        remedy = "the file was cut off: write or copy it again" if tail else _REMEDY
        found.append(
            _finding(what, "truncated" if tail else "broken-lines", text, len(broken), remedy)
        )
    if stopped is not None:
        text = f"nothing can be read from here on: {stopped}"
        found.append(_finding(what, "truncated", text, 1, "write, copy or fetch the file again"))
    names = [ALIASES.get(str(name), str(name)) for name in columns]
    lines = [number for number, _ in good]
    frame = pd.DataFrame([entry for _, entry in good], columns=names)
    if kind != "jsonl":
        frame = frame.astype("str")
    return Rows(frame, path, lines.__getitem__), found


def _columns(
    records: list[Any], kind: str, named: bool, layouts: Sequence[Any]
) -> tuple[list[str] | None, int]:
    """Return the columns, and how many records stand before the first row."""
    if not records:
        return None, 0
    if kind == "jsonl":
        keys = Counter(tuple(r) for _, r in records if isinstance(r, dict))
        return (list(keys.most_common(1)[0][0]), 0) if keys else (None, 0)
    if named:
        return list(records[0][1]), 1
    widths = Counter(len(fields) for _, fields in records)
    fitting = [list(layout) for layout in layouts if len(layout) in widths]
    return (max(fitting, key=lambda columns: widths[len(columns)]), 0) if fitting else (None, 0)


def _ends_with_a_line(path: str | PathLike[str]) -> bool:
    whole = Path(path).read_bytes()
    return whole.endswith(b"\n") or whole.startswith(b"\x1f\x8b")
