"""`doctor`: find problems in data before measuring.

The rules are those of `fairtk.io` and `fairtk.groups`, but malformed rows are skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from os import PathLike
from typing import Any

import ir_measures
import pandas as pd

from fairtk import checks
from fairtk.errors import FormatError, InputError
from fairtk.experiment import findings
from fairtk.experiment.findings import Diagnosis, Finding, joined
from fairtk.experiment.inputs import (
    GivenGroups,
    common_metadata,
    complete_measure,
    group_sources,
    measure_list,
    metadata_path,
    parse_with,
    read_groups,
    run_names,
)
from fairtk.frames import LABEL, RANK, SCORE, Qrels, Run
from fairtk.frames.accepted import FileOrFrame, as_frame, frame_of
from fairtk.frames.columns import PARENT, from_ir_measures
from fairtk.groups import Groups, Target
from fairtk.groups.groups import groups_of_rows
from fairtk.groups.levels import UNKNOWN
from fairtk.io.formats import GroupFile
from fairtk.io.lines import file_errors
from fairtk.io.qrels import labels_in, qrels_rows
from fairtk.io.rows import Rows, read_table, rows_of_frame
from fairtk.io.runs import run_of, run_rows
from fairtk.io.tables import name_and_path
from fairtk.measures import FairMeasure, format_measure
from fairtk.measures.base import iter_parts
from fairtk.remarks import Remark, text_of
from fairtk.stage_context import reading

_REMEDY = "fix the program that wrote these lines; the checks below skip them"
_ORDER = (
    "choose scores (as trec_eval) or ranks (as expeval) and write the run again; the checks below "
    "use scores"
)
_MISSING_SAMPLES = (
    "if the run is sampled, write its column sample with fairtk.io.write_run; otherwise keep the "
    "better rank of each document; the checks below use the first row"
)


def read_with_findings(
    data: Any,
    what: str,
    read: Callable[[Any, list[FormatError]], Rows],
    check: Callable[[Rows], Any],
) -> tuple[Any, list[Finding]]:
    """Return the content of a file or frame, and the findings about it.

    Args:
        data: a file, or a frame with PyTerrier's or ir_measures' column names.
        what: ``"run"``, ``"qrels"`` or ``"groups"``.
        read: returns the rows of a file, and appends errors of lines to a list.
        check: returns the content of rows. If its error has rows, these are removed (or all ranks,
            if ranks and scores disagree), and it is called again.

    Returns:
        The result of `check`, `None` if the data is unreadable; and the findings.

    Raises:
        InputError: the file does not exist.
    """
    problems: list[FormatError] = []
    result, unreadable = None, []
    with reading() as remarks:
        try:
            rows = read(data, problems) if isinstance(data, str | PathLike) else _rows(data, what)
            while result is None:
                try:
                    result = check(rows)
                except FormatError as error:
                    if not error.rows:
                        raise
                    problems.append(error)
                    if error.check == "order":  # use scores
                        rows.frame = rows.frame.drop(columns=RANK)
                    else:
                        rows = rows.without(error.rows)
        except FormatError as error:
            unreadable = [_error(what, "unreadable", str(error), 1, "write or download it again")]
    if problems or unreadable:
        return result, [*_findings(problems, what), *unreadable]
    return result, _on_input(remarks, what)


def _on_input(remarks: Iterable[Remark], what: str) -> list[Finding]:
    remedy = "check the program that wrote it"
    return [Finding("warning", "data", what, text_of([one]), remedy, 1) for one in remarks]


def _rows(data: Any, what: str) -> Rows:
    value = {"run": SCORE, "qrels": LABEL}.get(what)
    frame = frame_of(data) if value is None else as_frame(data, value, f"doctor: {what}")
    frame = from_ir_measures(frame, f"the {what}").copy()
    if what == "run" and RANK in frame.columns and SCORE not in frame.columns:
        frame[SCORE] = -frame[RANK]
    return rows_of_frame(frame, f"the {what}", note={"name": "group"})


def _error(what: str, check: str, text: str, count: int, remedy: str) -> Finding:
    return Finding("error", check, what, text, remedy, count)


def _findings(problems: list[FormatError], what: str) -> Iterator[Finding]:
    """Yield the problems of a file or frame; all malformed lines are one finding."""
    lines = [problem for problem in problems if problem.check in ("line", "cut")]
    if lines:
        n, first = len(lines), min(lines, key=lambda problem: problem.line or 0)
        text = f"{n} malformed line{'s' * (n != 1)} ({first})"
        if any(problem.check == "cut" for problem in lines):
            text += "; the last line is incomplete"
            remedy = "the file is truncated; write or copy it again"
            yield _error(what, "truncated", text, n, remedy)
        else:
            yield _error(what, "broken-lines", text, n, _REMEDY)
    for problem in problems:
        error, n = str(problem), len(problem.rows)
        rows = f"{n} invalid row{'s' * (n != 1)}: {error}"
        if problem.check == "stopped":
            text = f"the rest of the file is unreadable: {error}"
            yield _error(what, "truncated", text, n, "write, copy or download the file again")
        elif problem.check == "order":
            yield _error(what, "order", error, 1, _ORDER)
        elif problem.check == "duplicates":
            remedy = "keep one of them; the checks below use the first"
            if what == "run":
                remedy = _MISSING_SAMPLES
            yield _error(what, "duplicates", rows, n, remedy)
        elif problem.check in ("bad-values", "samples"):
            yield _error(what, problem.check, rows, n, _REMEDY)


MEASURES = ("EE_D", "EE_R", "EE_L", "E(nDCG{})")


def doctor(
    qrels: FileOrFrame,
    run: FileOrFrame,
    groups: Any = (),
    *,
    target: Any = (),
    measures: Sequence[Any] | str = (),
    cutoff: int = 5,
    support: int = 10,
    parent: str | None = None,
) -> Diagnosis:
    """Find problems in a run, its labels and its groups, as the command ``fairtk doctor`` does.

    Malformed rows are counted and skipped. The other checks cover truncated files and duplicate
    rows, ids with two spellings, queries missing on either side, missing or uninformative labels,
    ties and their effect on each measure, samples that differ in number or length, groups with few
    documents or labels, and unreachable targets.

    Args:
        qrels: the labels, a file or frame.
        run: a run (R or S), a file or frame; or several, as for `fairtk.evaluate`. Then findings
            that not all runs have start with the name of the run.
        groups: files, frames (``docno``, ``group``) or `fairtk.Groups`, one or several.
        target: as for `fairtk.evaluate`. AWRF requires a target.
        measures: the measures for the effect of ties, whose crossed groups are checked, too; if
            empty, EE_D, EE_R, EE_L and E(nDCG) at the cutoff and, if there are groups and a target,
            AWRF for each attribute and for all crossed.
        cutoff: the number of ranks to check, above 0.
        support: report groups with fewer judged or retrieved documents than this.
        parent: the separator of document and passage in docnos, e.g. ``"%p"``: ``d1%p3`` is a
            passage of ``d1``, and a docno without it is its own document. Labels, groups and
            providers are then of documents. `None` for the column ``parent`` of runs, if any.

    Raises:
        InputError: a file does not exist, or a measure or target is invalid.
    """
    run = frame_of(run)
    is_flat = isinstance(run, Mapping) and any(isinstance(v, Real) for v in run.values())
    files, runs = ({}, [run]) if is_flat else run_names(run)
    if len(runs) > 1:
        groups = frame_of(groups)
        options = {"groups": groups, "target": target, "measures": measures, "cutoff": cutoff}
        options |= {"support": support, "parent": parent}
        each = (doctor(qrels, one, **options) for one in runs)
        return joined(dict(zip(files, each, strict=True)))
    [run] = runs
    for name, value in (("cutoff", cutoff), ("support", support)):
        checks.integer(name, value, "doctor")
    ranked: Run | None
    checked_labels: Qrels | None
    ranked, results = read_with_findings(run, "run", run_rows, partial(run_of, order="auto"))
    checked_labels, wrong = read_with_findings(qrels, "qrels", qrels_rows, labels_in)
    with reading() as remarks:
        sources = group_sources(groups)
    results += _on_input(remarks, "groups")
    attributes, wrong_groups = _read_groups(sources)
    results += wrong + wrong_groups
    given_groups = GivenGroups.read(attributes, target)
    given_groups.metadata = common_metadata(sources)
    given_groups.labels = checked_labels
    empty = pd.DataFrame(columns=findings.COLUMNS)
    for what, rows in (("run", ranked), ("qrels", checked_labels)):
        if rows is None or not len(rows):
            text = f"{what}: no valid rows" if results else f"{what}: no rows"
            results.append(_error(what, "empty", text, 1, "write it again"))
    if ranked is None or checked_labels is None or not len(ranked) or not len(checked_labels):
        return Diagnosis(results, empty)
    ranked = ranked.with_parents(parent)
    try:
        documents = ranked.by_parent()
    except InputError as error:
        remedy = f"fix the column {PARENT!r}; the checks below ignore it"
        results.append(_error("run", "parents", str(error), 1, remedy))
        ranked = documents = Run(ranked.frame.drop(columns=PARENT), ranked.where)
    ranking, labels = ranked.with_text_ids(), checked_labels.with_text_ids()
    results += findings.queries(ranking, labels)
    results += findings.documents(documents, checked_labels, cutoff)
    results += findings.labels(labels)
    results += findings.rankings(ranking, ranked, checked_labels, cutoff)
    for attribute in attributes:
        results += findings.groups(attribute, documents, labels, cutoff, support)
    targets = _targets(given_groups)
    for name, fitted in targets.items():
        attribute = given_groups.attributes.get(name, given_groups.crossed)
        results += findings.targets(attribute, fitted, documents, cutoff)
    effects = empty
    if (checked_labels.qids.find(ranked.qids) >= 0).any():
        texts = measure_list(measures, may_be_empty=True)
        texts = texts or _measures(cutoff, _measured(given_groups, targets))
        parsed = {
            _text(m): complete_measure(given_groups, parse_with(given_groups, m)) for m in texts
        }
        parts = [part for measure in parsed.values() for part in iter_parts(measure)]
        for crossed in {part["groups"] for part in parts if "groups" in _params(part)}:
            if crossed is not None and crossed.space.crossed:
                results += findings.groups(crossed, documents, labels, cutoff, support)
        effects, wrong = _tie_effects(ranking, labels, parsed)
        results += wrong
    results += findings.ties(ranking, effects, cutoff)
    counts = {
        "queries": len(ranked.qids),
        "rankings": ranked.n_rankings,
        "rows": len(ranking),
        "labeled": len(checked_labels.qids),
        "labels": len(labels),
    }
    return Diagnosis(results, effects, counts)


def _params(measure: Any) -> Collection[str]:
    return measure.params if isinstance(measure, FairMeasure) else ()


def _tie_effects(
    run: pd.DataFrame, labels: pd.DataFrame, measures: dict[str, Any]
) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the effect of ties on measures, and a finding for each measure that fails."""
    try:
        return findings.tie_effects(run, labels, measures), []
    except InputError as error:
        if len(measures) == 1:
            (name,) = measures
            text, remedy = f"{name} cannot be computed: {error}", "fix the problem in the message"
            empty = pd.DataFrame(columns=findings.COLUMNS)
            return empty, [Finding("error", "measure", "run, qrels", text, remedy, 1)]
    parts = [_tie_effects(run, labels, {name: measure}) for name, measure in measures.items()]
    results = [finding for _, wrong in parts for finding in wrong]
    return pd.concat([table for table, _ in parts], ignore_index=True), results


def _attribute(rows: Rows, name: str | None, source: Any) -> Groups:
    cells = (source.separator, source.unknown_values) if isinstance(source, GroupFile) else ()
    with file_errors(rows.path):
        return groups_of_rows(rows, name, UNKNOWN, None, "count", None, *cells)


def _read_groups(groups: list[Any]) -> tuple[list[Groups], list[Finding]]:
    attributes: list[Groups] = []
    findings: list[Finding] = []
    for source in groups:
        if isinstance(source, Groups):
            attributes.append(source)
            continue
        if metadata_path(source) is not None:
            attributes.append(read_groups(source))
            continue
        source = frame_of(source)
        if not isinstance(source, str | PathLike | pd.DataFrame):
            with reading() as remarks:
                attributes.append(Groups.of(source))
            findings += _on_input(remarks, "groups")
            continue
        name, path = (None, source) if isinstance(source, pd.DataFrame) else name_and_path(source)
        check = partial(_attribute, name=name, source=source)
        attribute, wrong = read_with_findings(path, "groups", read_table, check)
        findings += wrong
        if attribute is not None:
            attributes.append(attribute)
    return attributes, findings


def _targets(given_groups: GivenGroups) -> dict[str, Target]:
    """Return the targets by attribute, or the target of all attributes crossed.

    Raises:
        InputError: the targets fit no attribute.
    """
    if not given_groups.target or not given_groups.attributes:
        return {}
    targets: dict[str, Target] = {}
    every = [*given_groups.attributes.values(), given_groups.crossed]
    for groups in every:
        if groups.name not in targets and (groups is not given_groups.crossed or not targets):
            try:
                targets[groups.name] = given_groups.target_for(groups, "doctor").for_groups(groups)
            except InputError:
                if groups is every[-1] and not targets:
                    raise
    return targets


_MOST_CELLS = 10_000
"""Larger crossings are only checked if a measure names them: most of their cells are empty."""


def _measured(given_groups: GivenGroups, targets: Mapping[str, Target]) -> list[str]:
    """Return the attributes with a target, and all attributes crossed if a target fits them."""
    names = [*targets]
    if len(given_groups.attributes) > 1 and targets:
        crossed = given_groups.crossed
        if crossed.name not in names and crossed.space.size <= _MOST_CELLS:
            with contextlib.suppress(InputError):
                given_groups.target_for(crossed, "doctor").for_groups(crossed)
                names.append(crossed.name)
    return names


def _text(measure: Any) -> str:
    is_measure = isinstance(measure, ir_measures.Measure)
    return format_measure(measure) if is_measure else str(measure).strip()


def _measures(cutoff: int, attributes: list[str]) -> list[str]:
    cut = f"@{cutoff}"
    measures = [m.format(cut) if "{" in m else m + cut for m in MEASURES]
    return measures + [f"AWRF(groups={name!r}){cut}" for name in attributes]
