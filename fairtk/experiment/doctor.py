"""`doctor`: everything that is wrong with data, before anybody believes a number.

The rules are those of `fairtk.io` and `fairtk.groups`; only what happens at a broken row differs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeAlias

import pandas as pd

from fairtk import checks
from fairtk.errors import FairtkWarning, FormatError, InputError
from fairtk.experiment import findings
from fairtk.experiment.evaluate_runs import GivenGroups, completed, parse_with
from fairtk.experiment.findings import Diagnosis, Finding
from fairtk.frames import QID, RANK, SCORE, Qrels, Run
from fairtk.frames.accepted import accepts_dataframes
from fairtk.frames.columns import from_ir_measures
from fairtk.frames.ids import uncoded
from fairtk.groups import Groups, Target
from fairtk.groups.groups import groups_of_rows
from fairtk.io.lines import naming
from fairtk.io.qrels import labels_in, qrels_rows
from fairtk.io.rows import Rows, read_table
from fairtk.io.runs import run_of, run_rows
from fairtk.io.tables import named_file
from fairtk.measures import format_measure

_REMEDY = "mend whatever wrote these lines; they are left out of everything below"
_ORDER = (
    "choose what counts, scores (as trec_eval) or ranks (as expeval), and write the run again; "
    "here scores count"
)
_SAMPLES_LOST = (
    "if the run is sampled, its column sample was lost: write it with fairtk.io.write_run; else "
    "keep the better rank of each document; here the first row counts"
)


def read_noting(
    data: Any,
    what: str,
    read: Callable[[Any, list[FormatError]], Rows],
    check: Callable[[Rows], Any],
) -> tuple[Any, list[Finding]]:
    """Return the content of a file or frame, and what is wrong with it.

    Args:
        data: a file, or a frame in PyTerrier's or ir_measures' names.
        what: ``"run"``, ``"qrels"`` or ``"groups"``.
        read: returns the rows of a file, and notes errors of lines in the list that it gets.
        check: returns the content of rows. If its error names rows that break a rule, they are
            left out, or their ranks if these disagree with scores, and it is called again.

    Returns:
        What `check` returns, `None` if nothing can be read; and the findings.

    Raises:
        InputError: there is no such file.
    """
    problems: list[FormatError] = []
    result, unreadable = None, []
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            rows = read(data, problems) if isinstance(data, str | PathLike) else _rows(data, what)
            while result is None:
                try:
                    result = check(rows)
                except FormatError as error:
                    if not error.rows:
                        raise
                    problems.append(error)
                    if error.check == "order":  # scores count
                        rows.frame = rows.frame.drop(columns=RANK)
                    else:
                        rows = rows.without(error.rows)
        except FormatError as error:
            unreadable = [_error(what, "unreadable", str(error), 1, "fetch or write it again")]
    notes = [
        Finding("warning", "data", what, str(w.message), "look at what wrote it", 1)
        for w in raised
        if issubclass(w.category, FairtkWarning) and not problems and not unreadable
    ]
    return result, [*_findings(problems, what), *unreadable, *notes]


def _rows(data: Any, what: str) -> Rows:
    frame = from_ir_measures(data, f"the {what}").reset_index(drop=True)
    if what == "run" and RANK in frame.columns and SCORE not in frame.columns:
        frame[SCORE] = -frame[RANK]
    return Rows(frame.copy(), f"the {what}", lambda row: None, note={"name": "group"})


def _error(what: str, check: str, text: str, count: int, remedy: str) -> Finding:
    return Finding("error", check, what, text, remedy, count)


def _findings(problems: list[FormatError], what: str) -> Iterator[Finding]:
    """Yield what is wrong with a file or frame; broken lines are one finding."""
    lines = [problem for problem in problems if problem.check in ("line", "cut")]
    if lines:
        n, first = len(lines), min(lines, key=lambda problem: problem.line or 0)
        text = f"{n} broken line{'s' * (n != 1)} ({first})"
        if any(problem.check == "cut" for problem in lines):
            text += "; the file ends in the middle of a line"
            remedy = "the file was cut off: write or copy it again"
            yield _error(what, "truncated", text, n, remedy)
        else:
            yield _error(what, "broken-lines", text, n, _REMEDY)
    for problem in problems:
        error, n = str(problem), len(problem.rows)
        rows = f"{n} row{'s' * (n != 1)} cannot be used: {error}"
        if problem.check == "stopped":
            text = f"nothing can be read from here on: {error}"
            yield _error(what, "truncated", text, n, "write, copy or fetch the file again")
        elif problem.check == "order":
            yield _error(what, "order", error, 1, _ORDER)
        elif problem.check == "duplicates":
            again = _SAMPLES_LOST if what == "run" else "keep one of them; here the first counts"
            yield _error(what, "duplicates", rows, n, again)
        elif problem.check in ("bad-values", "samples"):
            yield _error(what, problem.check, rows, n, _REMEDY)


Data: TypeAlias = str | PathLike[str] | pd.DataFrame
MEASURES = ("EE_D", "EE_R", "EE_L", "E(nDCG{})")


@accepts_dataframes
def doctor(
    qrels: Data,
    run: Data,
    groups: Any = (),
    *,
    target: Any = (),
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
        qrels: labels: a file or frame.
        run: a run (R or S), likewise.
        groups: files, frames (``docno``, ``group``) or `fairtk.Groups`, one or several.
        target: a `fairtk.Target`, a file, ``"uniform"``, ``"population"`` or ``"relevance"``, one
            or one per attribute. Without a target, groups are examined, but AWRF is not among the
            measures.
        measures: what ties may move; by default EE_D, EE_R, EE_L and E(nDCG) at the cutoff, and
            AWRF if there are groups and a target.
        cutoff: ranks that are examined, above 0.
        support: groups with fewer documents, judged or retrieved, are reported.

    Raises:
        InputError: there is no such file, or a measure or target cannot be used.
    """
    for name, value in (("cutoff", cutoff), ("support", support)):
        checks.integer(name, value, "doctor", rule=checks.ABOVE_0)
    ranking, results = read_noting(run, "run", _run_rows, _run)
    labels, wrong = read_noting(qrels, "qrels", qrels_rows, _labels)
    attributes, wrong_groups = _read_groups(groups)
    results += wrong + wrong_groups
    given_groups = GivenGroups.read(attributes, target)
    given_groups.labels = labels
    empty = pd.DataFrame(columns=findings.COLUMNS)
    for what, frame in (("run", ranking), ("qrels", labels)):
        if frame is None or frame.empty:
            text = f"nothing is left of the {what}" if results else f"the {what} has no rows"
            results.append(_error(what, "empty", text, 1, "write it again"))
    if ranking is None or labels is None or ranking.empty or labels.empty:
        return Diagnosis(results, empty)
    ranked = Run(ranking, "doctor")
    results += findings.queries(ranking, labels)
    checked_labels = Qrels(labels, "doctor")
    results += findings.documents(ranked, checked_labels, cutoff)
    results += findings.labels(labels)
    results += findings.rankings(ranking, ranked, checked_labels, cutoff)
    for attribute in attributes:
        results += findings.groups(attribute, ranked, labels, cutoff, support)
    targets = _targets(given_groups)
    for name, fitted in targets.items():
        attribute = given_groups.attributes.get(name, given_groups.crossed)
        results += findings.targets(attribute, fitted, ranked, cutoff)
    moved = empty
    if set(ranking[QID]) & set(labels[QID]):
        asked = list(measures) or _measures(cutoff, list(targets))
        whole = {_text(m): completed(given_groups, parse_with(given_groups, m)) for m in asked}
        moved, wrong = _moved(ranking, labels, whole)
        results += wrong
    results += findings.said_of(ranking, moved, cutoff)
    counts = {
        "queries": len(ranked.qids),
        "rankings": ranked.n_rankings,
        "rows": len(ranking),
        "labeled": int(labels[QID].nunique()),
        "labels": len(labels),
    }
    return Diagnosis(results, moved, counts)


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
    results = [finding for _, wrong in parts for finding in wrong]
    return pd.concat([table for table, _ in parts], ignore_index=True), results


def _run_rows(path: Any, problems: list[FormatError]) -> Rows:
    return run_rows(path, errors=problems)


def _run(rows: Rows) -> pd.DataFrame:
    return uncoded(run_of(rows, "auto")).reset_index(drop=True)


def _labels(rows: Rows) -> pd.DataFrame:
    return uncoded(labels_in(rows)).reset_index(drop=True)


def _attribute(rows: Rows, name: str | None) -> Groups:
    with naming(rows.path):
        return groups_of_rows(rows, name)


def _read_groups(groups: Any) -> tuple[list[Groups], list[Finding]]:
    several = [groups] if isinstance(groups, str | PathLike | pd.DataFrame | Groups) else groups
    attributes: list[Groups] = []
    findings: list[Finding] = []
    for one in several:
        if isinstance(one, Groups):
            attributes.append(one)
            continue
        name, path = (None, one) if isinstance(one, pd.DataFrame) else named_file(one)
        attribute, wrong = read_noting(path, "groups", read_table, partial(_attribute, name=name))
        findings += wrong
        if attribute is not None:
            attributes.append(attribute)
    return attributes, findings


def _targets(given_groups: GivenGroups) -> dict[str, Target]:
    """Return the target of each attribute that it fits, or of all of them crossed.

    Raises:
        InputError: it fits none.
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


def _text(measure: Any) -> str:
    return measure.strip() if isinstance(measure, str) else format_measure(measure)


def _measures(cutoff: int, attributes: list[str]) -> list[str]:
    cut = f"@{cutoff}"
    asked = [m.format(cut) if "{" in m else m + cut for m in MEASURES]
    return asked + [f"AWRF(groups={name!r}){cut}" for name in attributes]
