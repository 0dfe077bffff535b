"""`doctor`: everything that is wrong with data, before anybody believes a number.

The rules are those of `fairtk.io` and `fairtk.groups`; only what happens at a broken row differs.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fairtk.analysis import findings
from fairtk.analysis.evaluate import GivenGroups, completed, parse_with
from fairtk.analysis.findings import Diagnosis, Finding
from fairtk.errors import FairtkWarning, FormatError, InputError, ParameterError
from fairtk.frames import (
    DOCNO,
    GROUP,
    QID,
    RANK,
    SCORE,
    WEIGHT,
    Qrels,
    encode_run,
    from_ir_measures,
)
from fairtk.groups import Groups, Target, attribute_of_rows
from fairtk.io import (
    ALIASES,
    Rows,
    delimited_records,
    fields_of,
    has_header,
    kind_of,
    parse_json,
    text_lines,
)
from fairtk.io import qrels as qrels_files
from fairtk.io import runs as run_files
from fairtk.measures import written

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


Data: TypeAlias = str | PathLike[str] | pd.DataFrame
MEASURES = ("EE_D", "EE_R", "EE_L", "E(nDCG{})")


def doctor(
    run: Data,
    qrels: Data,
    groups: Any = (),
    *,
    target: Any = None,
    measures: Sequence[Any] = (),
    cutoff: int = 5,
    support: int = 10,
) -> Diagnosis:
    """Examine a run beside its labels and groups, as the command ``fairtk doctor`` does.

    Nothing is refused at the first thing that is wrong: broken rows are counted and left out, and
    all checks see the rest. Looked for: broken, cut off and repeated lines, ids written in two
    ways, queries missing on either side, labels that are missing or say little, ties (how many, and
    how much they move each measure), samples of unequal number or length, groups with few documents
    or labels, targets that no ranking reaches.

    Args:
        run: a file or frame (R or S).
        qrels: labels, likewise.
        groups: files, frames (``docno``, ``group``) or `fairtk.Groups`, one or several.
        target: a `fairtk.Target`, a file, ``"uniform"`` or ``"qrels"``; None: groups are looked at
            without one, and AWRF is not among the measures.
        measures: what ties may move; by default EE_D, EE_R, EE_L and E(nDCG) at the cutoff, and
            AWRF if there are groups and a target.
        cutoff: ranks that are looked at, above 0.
        support: groups with fewer documents, judged or retrieved, have little support.

    Raises:
        InputError: there is no such file, or a measure or target cannot be used.
    """
    for name, value in (("cutoff", cutoff), ("support", support)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(f"doctor: {name} must be a whole number above 0; found {value!r}")
    shown, found = read_run(run)
    labels, wrong = read_loosely(
        qrels, "qrels", qrels_files.read_qrels, _labels, qrels_files.LAYOUTS
    )
    found += wrong
    attributes, wrong = _read_groups(groups)
    found += wrong
    given = GivenGroups.read(tuple(attributes), () if target is None else (target,))
    given.labels = labels
    empty = pd.DataFrame(columns=findings.COLUMNS)
    for what, frame in (("run", shown), ("qrels", labels)):
        if frame is None or frame.empty:
            text = f"nothing is left of the {what}" if found else f"the {what} has no rows"
            found.append(Finding("error", "empty", what, text, "write it again", 1))
    if shown is None or labels is None or shown.empty or labels.empty:
        return Diagnosis(found, empty)
    ranked = encode_run(shown, "doctor")
    found += findings.queries(shown, labels)
    found += findings.documents(ranked, Qrels(labels, "doctor"), cutoff)
    found += findings.labels(labels)
    found += findings.rankings(shown, ranked, cutoff)
    for attribute in attributes:
        found += findings.groups(attribute, ranked, labels, cutoff, support)
    targets = _targets(given)
    for name, wanted in targets.items():
        found += findings.targets(_named(given, name), wanted, ranked, cutoff)
    moved = empty
    if set(shown[QID]) & set(labels[QID]):
        asked = list(measures) or _measures(cutoff, list(targets))
        whole = {_text(m): completed(given, parse_with(given, m)) for m in asked}
        moved, wrong = _moved(shown, labels, whole)
        found += wrong
    found += findings.said_of(shown, moved, cutoff)
    counts = {
        "queries": len(ranked.qids),
        "rankings": ranked.n_rankings,
        "rows": len(shown),
        "labeled": int(labels[QID].nunique()),
        "labels": len(labels),
    }
    return Diagnosis(found, moved, counts)


def _moved(
    run: pd.DataFrame, labels: pd.DataFrame, measures: dict[str, Any]
) -> tuple[pd.DataFrame, list[Finding]]:
    """Return how much ties move measures, and which measures cannot be had."""
    try:
        return findings.effect(run, labels, measures), []
    except InputError as error:
        if len(measures) == 1:
            (name,) = measures
            text, remedy = f"{name} cannot be measured: {error}", "mend what the message names"
            nothing = pd.DataFrame(columns=findings.COLUMNS)
            return nothing, [Finding("error", "measure", "run, qrels", text, remedy, 1)]
    parts = [_moved(run, labels, {name: measure}) for name, measure in measures.items()]
    found = [finding for _, wrong in parts for finding in wrong]
    return pd.concat([table for table, _ in parts], ignore_index=True), found


def read_run(run: Data) -> tuple[pd.DataFrame | None, list[Finding]]:
    """Return a run in the order of its ranks, and what is wrong with it."""
    disagree: list[Finding] = []

    def checks(rows: Rows) -> pd.DataFrame:
        run_files.check_rows(rows)
        try:
            run_files.place(rows, "auto")
        except FormatError as error:
            remedy = (
                "choose what counts with --order score (as trec_eval) or --order rank (as "
                "expeval), and write the run again; here scores count"
            )
            disagree[:] = [Finding("error", "order", "run", str(error), remedy, 1)]
            run_files.place(rows, "score")
        return rows.frame

    layouts = run_files.LAYOUTS
    shown, found = read_loosely(run, "run", run_files.read_run, checks, layouts, disagree)
    return shown, found + disagree


def _labels(rows: Rows) -> pd.DataFrame:
    qrels_files.check_labels(rows)
    return rows.frame


def _read_groups(groups: Any) -> tuple[list[Groups], list[Finding]]:
    several = [groups] if isinstance(groups, str | PathLike | pd.DataFrame | Groups) else groups
    attributes: list[Groups] = []
    found: list[Finding] = []
    for one in several:
        if isinstance(one, Groups):
            attributes.append(one)
            continue
        name = "group" if isinstance(one, pd.DataFrame) else None
        read = partial(_attribute, name=name)
        made, wrong = read_loosely(one, "groups", Groups.read, read)
        found += wrong
        if made is not None:
            attributes.append(made)
    return attributes, found


def _attribute(rows: Rows, name: str | None) -> Groups:
    rows.require([DOCNO, GROUP], "a groups file")
    if WEIGHT in rows.frame.columns:
        rows.as_numbers(WEIGHT)
        weight = rows.frame[WEIGHT]
        rows.fail_at((weight < 0).to_numpy(), "weight must be 0 or above; found {}", WEIGHT)
    rows.fail_at(rows.frame[DOCNO].isin(["", None]).to_numpy(), "docno is missing", DOCNO)
    rows.unique([DOCNO, GROUP], "a document has a group twice")
    return Groups([attribute_of_rows(rows, name)])


def _targets(given: GivenGroups) -> dict[str, Target]:
    """Return the target of each attribute that it fits, or of all of them crossed.

    Raises:
        InputError: it fits none.
    """
    if not given.targets or not given.attributes:
        return {}
    found: dict[str, Target] = {}
    every = [*given.attributes.values(), given.crossed]
    for groups in every:
        if groups.name not in found and (groups is not given.crossed or not found):
            try:
                found[groups.name] = given.target(groups, "doctor").for_groups(groups)
            except InputError:
                if groups is every[-1] and not found:
                    raise
    return found


def _named(given: GivenGroups, name: str) -> Groups:
    return given.attributes.get(name, given.crossed)


def _text(measure: Any) -> str:
    return measure.strip() if isinstance(measure, str) else written(measure)


def _measures(cutoff: int, attributes: list[str]) -> list[str]:
    cut = f"@{cutoff}"
    asked = [m.format(cut) if "{" in m else m + cut for m in MEASURES]
    return asked + [f"AWRF(groups={name!r}){cut}" for name in attributes]
