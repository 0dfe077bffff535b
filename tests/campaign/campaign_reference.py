"""The values that a command must print for given files: the reference reader and formulas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import campaign_formulas as formulas
from campaign_case import Refused, Unspecified
from campaign_reader import Reading, read

NDCG = ("nDCG", "E(nDCG)")


@dataclass
class InputFile:
    """A file of a command, with its bytes, packed or not."""

    kind: str
    form: str
    name: str
    raw: bytes


@dataclass
class Command:
    """A command.

    Attributes:
        name: `evaluate`, `groups` or `coverage`.
        files: its files, by kind.
        measures: the name and cutoff of each measure.
        target: `uniform`, `qrels`, `file`, or empty for none.
    """

    name: str
    files: dict[str, InputFile]
    measures: list[tuple[str, int]] = field(default_factory=list)
    target: str = ""


def expected(command: Command) -> dict[Any, Any]:
    """Return the values that the command must print, by row and column.

    Raises:
        Refused: if a file is invalid, or the files do not match.
        Unspecified: if no rule specifies the values.
    """
    contents = Contents(command)
    try:
        values = contents.values()
    except Refused as refused:
        if contents.caveats:
            raise Unspecified("; ".join([*contents.caveats, str(refused)])) from None
        raise
    if contents.caveats:
        raise Unspecified("; ".join(contents.caveats), values)
    return values


class Contents:
    """The contents of a command's files."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.readings: dict[str, Reading] = {}
        for kind, file in command.files.items():
            with self.errors_of(kind):
                self.readings[kind] = read(kind, file.form, file.raw)
        self.caveats = [c for reading in self.readings.values() for c in reading.caveats]

    @contextlib.contextmanager
    def errors_of(self, kind: str) -> Iterator[None]:
        """Add the name of a file to refusals without one."""
        try:
            yield
        except Refused as refused:
            refused.file = refused.file or self.command.files[kind].name
            raise

    def values(self) -> dict[Any, Any]:
        """Return the values that the command must print."""
        if self.command.name == "evaluate":
            return self._evaluate()
        return self._groups() if self.command.name == "groups" else self._coverage()

    def _run(self) -> formulas.Run:
        with self.errors_of("run"):
            return formulas.run_of(self.readings["run"], self.command.files["run"].form)

    def _members(self) -> formulas.Groups:
        with self.errors_of("groups"):
            groups = formulas.groups_of(self.readings["groups"])
        if not groups:
            raise Unspecified("groups without rows")
        return groups

    def _targets(self, groups: formulas.Groups, labels: formulas.Labels) -> dict[Any, Any]:
        if self.command.target == "file":
            with self.errors_of("target"):
                return formulas.target_of(self.readings["target"], groups)
        if self.command.target == "qrels":
            return {q: formulas.target_from_labels(groups, row) for q, row in labels.items()}
        return {None: formulas.shares(dict.fromkeys(formulas.levels_of(groups), 1.0))}

    def _evaluate(self) -> dict[Any, Any]:
        run = self._run()
        names = [name for name, _ in self.command.measures]
        with self.errors_of("qrels"):
            labels = formulas.labels_of(self.readings["qrels"])
            if not labels:
                raise Refused("no rows")
            fractions = [g for row in labels.values() for g in row.values() if g != int(g)]
            if fractions and set(names) & set(NDCG):
                raise Refused("fractions")
        groups, targets, answers, gold = {}, {}, {}, {}
        if "groups" in self.readings:
            groups = self._members()
            targets = self._targets(groups, labels)
        if "answers" in self.readings:
            gold = self._gold()
            answers = self._answers(run)
            if not all(qid in gold for qid in labels if qid in run.rankings):
                raise Refused("a query without gold answer")
            if any(qid not in gold for qid in labels):
                raise Unspecified("a query without answers has no gold answer")
        self._check_rankings(run, labels, names)
        values = {}
        for index, (name, k) in enumerate(self.command.measures):
            for qid, row in labels.items():
                orders = run.orders(qid)
                if name == "AWRF":
                    target = targets.get(qid, targets.get(None, {}))
                    value = formulas.awrf(groups, target, orders, k)
                elif name == "EU":
                    value = formulas.utility(answers[qid], gold[qid]) if orders else 0.0
                elif name in NDCG:
                    value = formulas.ndcg(row, run.trec_orders(qid), k)
                else:
                    value = formulas.exposures(row, orders, k)["DRL".index(name[3])]
                values[index, qid] = value
        return values

    def _check_rankings(self, run: formulas.Run, labels: formulas.Labels, names: list[str]) -> None:
        with self.errors_of("run"):
            if run.rankings and not set(run.rankings) & set(labels):
                raise Refused("no query of the run is in the qrels")
            if "nDCG" in names and run.has_several:
                raise Refused("a plain measure on samples")
        if "nDCG" in names and len({s for own in run.rankings.values() for s in own}) > 1:
            raise Unspecified("each query has its own sample")

    def _answers(self, run: formulas.Run) -> dict[str, list[str]]:
        reading = self.readings["answers"]
        answers: dict[Any, str] = {}
        with self.errors_of("answers"):
            for record, line in zip(reading.records, reading.lines, strict=True):
                sample = record.get("sample")
                if sample is not None and not (sample.isascii() and sample.isdigit()):
                    raise Refused(f"sample {sample!r}", line)
                key = (record["qid"], None if sample is None else int(sample))
                if key in answers:
                    raise Refused("two answers", line)
                answers[key] = record["qanswer"]
            samples = {sample for _, sample in answers}
            run_samples = {sample for own in run.rankings.values() for sample in own}
            by_sample = run.is_sampled and None not in samples
            if not by_sample and max(len(samples), len(run_samples)) > 1:
                raise Refused("either the run or the answers have samples")
            if not by_sample:
                answers = {(qid, None): answer for (qid, _), answer in answers.items()}
            keys = {
                qid: [(qid, sample if by_sample else None) for sample in rankings]
                for qid, rankings in run.rankings.items()
            }
            if any(key not in answers for row in keys.values() for key in row):
                raise Refused("a ranking without an answer")
            return {qid: [answers[key] for key in row] for qid, row in keys.items()}

    def _gold(self) -> dict[str, list[str]]:
        gold: dict[str, list[str]] = {}
        for record in self.readings["gold"].records:
            answer = record["gold_answer"]
            texts = answer if isinstance(answer, list) else [answer]
            gold.setdefault(record["qid"], []).extend(texts)
        return gold

    def _groups(self) -> dict[Any, Any]:
        groups = self._members()
        targets = self._targets(groups, {}) if self.command.target else {}
        values: dict[Any, Any] = {}
        for level in formulas.levels_of(groups):
            column = [formulas.shares(weights).get(level, 0.0) for weights in groups.values()]
            values[level, "documents"] = sum(share > 0 for share in column)
            values[level, "share"] = sum(column) / len(groups)
            if targets:
                mass = sum(target.get(level, 0.0) for target in targets.values())
                values[level, "target"] = mass / len(targets)
        return values

    def _coverage(self) -> dict[Any, Any]:
        groups, run = self._members(), self._run()
        values: dict[Any, Any] = {}
        for qid in run.rankings:
            docnos = [docno for order in run.orders(qid) for docno in order]
            values[qid, "retrieved"] = len(docnos)
            values[qid, "with_row"] = sum(docno in groups for docno in docnos)
        return values
