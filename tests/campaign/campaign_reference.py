"""What a command must print for given files: the reference reader and formulas put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import campaign_formulas as formulas
from campaign_case import Refused, Unsaid
from campaign_reader import read
from campaign_values import Reading


@dataclass
class Given:
    """A file as it is given to a command.

    Attributes:
        kind: what it is of.
        form: its format.
        name: its name.
        raw: its bytes, packed or not.
    """

    kind: str
    form: str
    name: str
    raw: bytes


@dataclass
class Command:
    """A command on files.

    Attributes:
        name: ``evaluate``, ``groups`` or ``coverage``.
        measures: name and cutoff of each measure.
        target: ``uniform``, ``qrels``, ``file`` or nothing.
    """

    name: str
    measures: list[tuple[str, int]] = field(default_factory=list)
    target: str = ""


def expected(command: Command, files: dict[str, Given]) -> dict[Any, Any]:
    """Return what the command must print, by row and column.

    Raises:
        Refused: a file is none, or the files do not go together.
        Unsaid: no rule says that the values are these; they come with it.
    """
    unsaid: list[str] = []
    readings: dict[str, Reading] = {}
    for kind, given in files.items():
        try:
            readings[kind] = read(kind, given.form, given.raw)
        except Refused as refused:
            refused.file = given.name
            raise
        unsaid += readings[kind].unsaid
    try:
        values = _COMMANDS[command.name](command, files, readings)
    except Refused as refused:
        if unsaid:
            raise Unsaid("; ".join([*unsaid, str(refused)])) from None
        raise
    except Unsaid:
        raise
    if unsaid:
        raise Unsaid("; ".join(unsaid), values)
    return values


def _of(files: dict[str, Given], kind: str, make: Callable[..., Any], *more: Any) -> Any:
    """Return what a file holds; what is refused names the file."""
    try:
        return make(*more)
    except Refused as refused:
        refused.file = files[kind].name
        raise


def _evaluate(
    command: Command, files: dict[str, Given], readings: dict[str, Reading]
) -> dict[Any, Any]:
    run: formulas.Run = _of(files, "run", formulas.run_of, readings["run"], files["run"].form)
    labels: formulas.Labels = _of(files, "qrels", formulas.labels_of, readings["qrels"])
    if not labels:
        raise _refusal(files, "qrels", "no rows")
    names = [name for name, _ in command.measures]
    _check_labels(labels, names, files)
    groups = target = answers = gold = None
    if "groups" in files:
        groups = _of(files, "groups", formulas.groups_of, readings["groups"])
        if not groups:
            raise Unsaid("groups without rows")
        target = _targets(command, files, readings, groups, labels)
    if "answers" in files:
        gold = _gold(readings["gold"])
        answers = _answers(run, readings["answers"], files, labels)
        if any(qid not in gold for qid in labels):
            if not all(qid in gold for qid in labels if qid in run.rankings):
                raise Refused("a query without gold answer")
            raise Unsaid("a query that nobody answers has no gold answer")
    if not set(run.rankings) & set(labels) and run.rankings:
        raise _refusal(files, "run", "no query of the run is in the qrels")
    _check_samples(run, names, files)
    values = {}
    for at, (name, k) in enumerate(command.measures):
        for qid, own in labels.items():
            rankings = run.rankings.get(qid)
            orders = None if rankings is None else run.orders(qid)
            if name == "AWRF":
                wanted = target.get(qid, target.get(None)) if target else None
                value = formulas.awrf(groups or {}, wanted, orders, k)
            elif name == "EU":
                missing = orders is None or answers is None
                value = 0.0 if missing else formulas.utility(answers[qid], gold[qid])
            elif name.startswith("EE_"):
                value = formulas.exposures(own, orders, k)["DRL".index(name[3])]
            else:
                value = _relevance(name, own, run, qid, k)
            values[at, qid] = value
    return values


def _relevance(name: str, labels: dict[str, float], run: formulas.Run, qid: str, k: int) -> float:
    rankings = run.rankings.get(qid)
    if rankings is None:
        return 0.0
    measure = formulas.PLAIN[name.removeprefix("E")]
    if any(len(own) > 1 for own in run.rankings.values()):
        orders = run.orders(qid)
    else:
        orders = [formulas.by_score(ranking) for ranking in rankings.values()]
    return sum(measure(labels, order, k) for order in orders) / len(orders)


def _check_labels(labels: formulas.Labels, names: list[str], files: dict[str, Given]) -> None:
    fractions = any(g != int(g) for own in labels.values() for g in own.values())
    if fractions and any(name.removeprefix("E") in formulas.PLAIN for name in names):
        raise _refusal(files, "qrels", "fractions")


def _check_samples(run: formulas.Run, names: list[str], files: dict[str, Given]) -> None:
    if not any(name in formulas.PLAIN for name in names):
        return
    if any(len(own) > 1 for own in run.rankings.values()):
        raise _refusal(files, "run", "a plain measure on samples")
    if len({sample for own in run.rankings.values() for sample in own}) > 1:
        raise Unsaid("each query has a sample of its own")


def _answers(
    run: formulas.Run, reading: Reading, files: dict[str, Given], labels: formulas.Labels
) -> dict[str, list[str]]:
    sampled = any("sample" in record for record in reading.records)
    words = [record.get("sample") for record in reading.records]
    numbers = [int(w) if w is not None and w.isascii() and w.isdigit() else w for w in words]
    found: dict[Any, str] = {}
    for record, number, line in zip(reading.records, numbers, reading.lines, strict=True):
        if isinstance(number, str):
            refused = Refused(f"sample {number!r}", line)
            refused.file = files["answers"].name
            raise refused
        if (record["qid"], number) in found:
            refused = Refused("two answers", line)
            refused.file = files["answers"].name
            raise refused
        found[record["qid"], number] = record["qanswer"]
    several = len({sample for own in run.rankings.values() for sample in own}) > 1
    if sampled and not run.sampled:
        if len(set(numbers)) > 1:
            raise _refusal(files, "answers", "answers are sampled, the run is not")
        found = {(qid, None): answer for (qid, _), answer in found.items()}
    if not sampled and run.sampled and several:
        raise _refusal(files, "answers", "the run is sampled, answers are not")
    by_sample = sampled and run.sampled
    result: dict[str, list[str]] = {}
    for qid, rankings in run.rankings.items():
        for sample in rankings:
            key = (qid, sample if by_sample else None)
            if key not in found:
                raise _refusal(files, "answers", f"no answer for {key}")
            result.setdefault(qid, []).append(found[key])
    return result


def _gold(reading: Reading) -> dict[str, list[str]]:
    gold: dict[str, list[str]] = {}
    for record in reading.records:
        answer = record["gold_answer"]
        gold.setdefault(record["qid"], []).extend(answer if isinstance(answer, list) else [answer])
    return gold


def _targets(
    command: Command, files: dict[str, Given], readings: dict[str, Reading], groups: Any,
    labels: formulas.Labels | None,
) -> dict[Any, dict[str, float]]:  # fmt: skip
    levels = formulas.levels_of(groups)
    if command.target == "file":
        return _of(files, "target", formulas.target_of, readings["target"], levels)
    if command.target == "qrels":
        return {q: formulas.target_from_labels(groups, own) for q, own in (labels or {}).items()}
    return {None: dict.fromkeys(levels, 1 / len(levels))}


def _groups(
    command: Command, files: dict[str, Given], readings: dict[str, Reading]
) -> dict[Any, Any]:
    groups = _of(files, "groups", formulas.groups_of, readings["groups"])
    if not groups:
        raise Unsaid("groups without rows")
    values: dict[Any, Any] = {}
    whole = len(groups)
    for level in formulas.levels_of(groups):
        own = [formulas.shares(w).get(level, 0.0) for w in groups.values()]
        values[level, "documents"] = sum(share > 0 for share in own)
        values[level, "share"] = sum(own) / whole
    if command.target:
        targets = _targets(command, files, readings, groups, None)
        for level in formulas.levels_of(groups):
            own = [target.get(level, 0.0) for target in targets.values()]
            values[level, "target"] = sum(own) / len(own)
    return values


def _coverage(
    command: Command, files: dict[str, Given], readings: dict[str, Reading]
) -> dict[Any, Any]:
    groups = _of(files, "groups", formulas.groups_of, readings["groups"])
    run: formulas.Run = _of(files, "run", formulas.run_of, readings["run"], files["run"].form)
    if not groups:
        raise Unsaid("groups without rows")
    values: dict[Any, Any] = {}
    for qid in run.rankings:
        documents = [docno for order in run.orders(qid) for docno in order]
        values[qid, "retrieved"] = len(documents)
        values[qid, "with_row"] = sum(docno in groups for docno in documents)
    return values


def _refusal(files: dict[str, Given], kind: str, why: str) -> Refused:
    refused = Refused(why)
    refused.file = files[kind].name
    return refused


_COMMANDS = {"evaluate": _evaluate, "groups": _groups, "coverage": _coverage}
