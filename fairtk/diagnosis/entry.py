"""`doctor`: everything that is wrong with data, before anybody believes a number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeAlias

import pandas as pd

from fairtk.diagnosis import identifiers, shapes, ties
from fairtk.diagnosis import support as supporting
from fairtk.diagnosis.findings import Diagnosis, Finding
from fairtk.diagnosis.reading import read_loosely
from fairtk.errors import FormatError, InputError, ParameterError
from fairtk.evaluation.given_groups import GivenGroups, completed, parse_with
from fairtk.files.rows import Rows
from fairtk.frames.columns import DOCNO, GROUP, QID, WEIGHT
from fairtk.frames.qrels import Qrels
from fairtk.frames.rankings import encode_run
from fairtk.groups import Groups, Target
from fairtk.groups.files import attribute_of_rows
from fairtk.io import qrels as qrels_files
from fairtk.io import runs as run_files
from fairtk.measures import written

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
    empty = pd.DataFrame(columns=ties.COLUMNS)
    for what, frame in (("run", shown), ("qrels", labels)):
        if frame is None or frame.empty:
            text = f"nothing is left of the {what}" if found else f"the {what} has no rows"
            found.append(Finding("error", "empty", what, text, "write it again", 1))
    if shown is None or labels is None or shown.empty or labels.empty:
        return Diagnosis(found, empty)
    ranked = encode_run(shown, "doctor")
    found += identifiers.queries(shown, labels)
    found += identifiers.documents(ranked, Qrels(labels, "doctor"), cutoff)
    found += identifiers.labels(labels)
    found += shapes.rankings(shown, ranked, cutoff)
    for attribute in attributes:
        found += supporting.groups(attribute, ranked, labels, cutoff, support)
    targets = _targets(given)
    for name, wanted in targets.items():
        found += supporting.targets(_named(given, name), wanted, ranked, cutoff)
    moved = empty
    if set(shown[QID]) & set(labels[QID]):
        asked = list(measures) or _measures(cutoff, list(targets))
        whole = {_text(m): completed(given, parse_with(given, m)) for m in asked}
        moved, wrong = _moved(shown, labels, whole)
        found += wrong
    found += ties.said_of(shown, moved, cutoff)
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
        return ties.effect(run, labels, measures), []
    except InputError as error:
        if len(measures) == 1:
            (name,) = measures
            text, remedy = f"{name} cannot be measured: {error}", "mend what the message names"
            nothing = pd.DataFrame(columns=ties.COLUMNS)
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
