"""From files and measure strings to values per run, measure and query."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from fairtk.errors import DataWarning, InputError, listed
from fairtk.frames.columns import DOCNO, GOLD_ANSWER, LABEL, QANSWER, QID, SAMPLE
from fairtk.io import add_answers, read_answers, read_gold_answers, read_qrels, read_run

_SUFFIXES = {
    ".run", ".res", ".trec", ".top", ".out", ".txt", ".tsv", ".csv", ".jsonl", ".parquet", ".pq",
}  # fmt: skip
_NAMES = {QID: "query_id", DOCNO: "doc_id", LABEL: "relevance"}


@dataclass
class RunValues:
    """The values of one run.

    Attributes:
        name: what the run is called in the output.
        values: for each measure, the value of each query of the qrels.
    """

    name: str
    values: dict[Any, dict[str, float]] = field(default_factory=dict)

    def mean(self, measure: Any) -> float:
        """Return the measure's aggregate (the mean for nearly all) over the defined values."""
        aggregator = measure.aggregator()
        for value in self.values[measure].values():
            if not math.isnan(value):
                aggregator.add(value)
        return float(aggregator.result()) if self.defined(measure) else math.nan

    def defined(self, measure: Any) -> int:
        """Return the number of queries that have a value."""
        return sum(not math.isnan(value) for value in self.values[measure].values())

    def total(self, measure: Any) -> int:
        """Return the number of queries."""
        return len(self.values[measure])


@dataclass
class Values:
    """The values of all runs.

    Attributes:
        runs: one entry per run.
        measures: the measures, in the order of the command line.
        qids: the queries, in the order of the qrels.
        written: measures that got groups from options, as they were written.
    """

    runs: list[RunValues]
    measures: list[Any]
    qids: list[str]
    written: dict[Any, str] = field(default_factory=dict)


def evaluate(
    qrels: str,
    runs: Sequence[str],
    measures: Sequence[str],
    answers: Sequence[str] = (),
    gold: str | None = None,
    order: str = "auto",
    groups: Sequence[str] = (),
    targets: Sequence[str] = (),
) -> Values:
    """Measure run files.

    Args:
        qrels: file of labels.
        runs: files of runs.
        measures: measures as strings.
        answers: files of generated answers, none or one per run.
        gold: file of gold answers.
        order: see `fairtk.io.read_run`.
        groups: files of groups, for measures that need some.
        targets: ``uniform``, ``qrels`` or files of targets, for measures that need one.

    Raises:
        InputError: a file or a measure cannot be used; says which.
    """
    import ir_measures

    from fairtk.cli.group_files import GivenGroups, completed, parse_with

    if answers and len(answers) != len(runs):
        raise InputError(
            f"--answers must be given once per run, in the order of the runs; found {len(answers)} "
            f"for {len(runs)} runs"
        )
    given = GivenGroups.read(tuple(groups), tuple(targets))
    parsed = {text: parse_with(given, text) for text in measures}
    labels = _labels(qrels, gold, list(parsed.values()))
    given.labels = labels
    whole = {text: completed(given, measure) for text, measure in parsed.items()}
    wanted = list(dict.fromkeys(whole.values()))
    if given.attributes and not given.used:
        raise InputError(
            f"no measure uses --groups: name an attribute, e.g. "
            f"-m \"EE_L(groups='{next(iter(given.attributes))}')@20\""
        )
    _warn_of_item_forms(given, whole)
    qids = labels[QID].drop_duplicates().tolist()
    evaluator = _evaluator(ir_measures, wanted, labels)
    result = Values([], wanted, qids)
    if given.attributes:
        for text, measure in reversed(whole.items()):
            if "groups=" in repr(measure):
                result.written[measure] = text.strip()
    names = unique_names(runs)
    for name, path, answer_path in zip(names, runs, _padded(answers, len(runs)), strict=True):
        frame = _run(path, order, answer_path, wanted, qids)
        values: dict[Any, dict[str, float]] = {m: dict.fromkeys(qids, math.nan) for m in wanted}
        for metric in evaluator.iter_calc(frame.rename(columns=_NAMES)):
            values[metric.measure][metric.query_id] = float(metric.value)
        result.runs.append(RunValues(name, values))
    return result


def _warn_of_item_forms(given: Any, measures: dict[str, Any]) -> None:
    """Say which measures have a form by groups and were asked for without."""
    for text, measure in measures.items():
        if not given.attributes or getattr(measure, "NAME", "") not in ("EE_D", "EE_R", "EE_L"):
            continue
        if measure["groups"] is None:
            name = next(iter(given.attributes))
            warnings.warn(
                f"{text.strip()} is measured by documents; for its form by groups write "
                f"{measure.NAME}(groups='{name}')",
                DataWarning,
                stacklevel=2,
            )


def unique_names(paths: Sequence[str]) -> list[str]:
    """Return short names for files: stems, with suffixes and folders where stems do not differ.

    Args:
        paths: files; one that is given twice gets a number behind its name.
    """
    files = [Path(path).resolve() for path in paths]
    distinct = list(dict.fromkeys(files))
    same = Counter(file.with_name(_stem(file)) for file in distinct)
    ends = {f: _stem(f) if same[f.with_name(_stem(f))] == 1 else f.name for f in distinct}
    short = dict(ends)
    for depth in range(2, max(len(file.parts) for file in files) + 1):
        count = Counter(short.values())
        for file, name in short.items():
            if count[name] > 1:
                short[file] = "/".join([*file.parts[-depth:-1], ends[file]])
    seen: Counter[Path] = Counter()
    names = []
    for file in files:
        seen[file] += 1
        names.append(short[file] + (f"#{seen[file]}" if seen[file] > 1 else ""))
    return names


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix
    stem = name.removesuffix(suffix) if suffix.lower() in _SUFFIXES else name
    return stem or path.name


def _labels(path: str, gold: str | None, measures: list[Any]) -> pd.DataFrame:
    labels = read_qrels(path)
    if labels.empty:
        raise InputError(f"{path}: these qrels have no rows, so there is no query to evaluate")
    if gold is not None:
        from fairtk.datasets.answers import join_answers

        labels = join_answers(
            labels.drop(columns=GOLD_ANSWER, errors="ignore"), read_gold_answers(gold)
        )
    for measure in _needing(measures, "QREL_COLUMNS", GOLD_ANSWER):
        if GOLD_ANSWER not in labels.columns:
            raise InputError(
                f"{measure!r} needs gold answers: give --gold FILE (columns qid, gold_answer), or "
                "qrels with the named column gold_answer"
            )
    for measure in measures:
        if labels[LABEL].dtype.kind == "f" and not all(map(_is_ours, _parts(measure))):
            raise InputError(
                f"{path}: the labels have fractions, but {measure!r} needs whole numbers; only "
                "fairtk's own measures take any label"
            )
    return labels


def _run(
    path: str, order: Any, answers: str | None, measures: list[Any], qids: list[str]
) -> pd.DataFrame:
    run = read_run(path, order)
    if answers is not None:
        run = add_answers(run, read_answers(answers), answers)
    for measure in _needing(measures, "RUN_COLUMNS", QANSWER):
        if QANSWER not in run.columns and len(run):
            raise InputError(
                f"{path}: {measure!r} needs the generated answers: give --answers FILE (columns "
                "qid, sample, qanswer), or a Parquet run with the column qanswer"
            )
    if SAMPLE in run.columns:
        samples = run[SAMPLE].nunique()
        plain = [m for m in measures if not _is_ours(m)]
        if plain and samples > 1:
            raise InputError(
                f"{path}: {plain[0]!r} would read the {samples} sampled rankings as one; write "
                f'-m "E({plain[0]!r})" for the mean over samples'
            )
    _say_what_is_missing(path, run, qids)
    return run


def _say_what_is_missing(path: str, run: pd.DataFrame, qids: list[str]) -> None:
    found = set(run[QID].unique())
    missing = [qid for qid in qids if qid not in found]
    if not missing:
        return
    if len(missing) == len(qids) and found:
        raise InputError(
            f"{path}: no query of this run is in the qrels (run: {listed(run[QID].unique(), 3)}; "
            f"qrels: {listed(qids, 3)})"
        )
    warnings.warn(
        f"{path}: {len(missing)} of {len(qids)} queries of the qrels are missing; they count with "
        f"the worst value: {listed(missing, 3)}",
        DataWarning,
        stacklevel=2,
    )


def _needing(measures: list[Any], attribute: str, column: str) -> Iterator[Any]:
    for measure in measures:
        if any(column in getattr(part, attribute, ()) for part in _parts(measure)):
            yield measure


def _is_ours(measure: Any) -> bool:
    from fairtk.measures import FairMeasure

    return isinstance(measure, FairMeasure)


def _parts(measure: Any) -> Iterator[Any]:
    """Yield a measure and the measures that it is made of."""
    yield measure
    for part in measure.parts if _is_ours(measure) else ():
        yield from _parts(part)


def _evaluator(ir_measures: Any, measures: list[Any], labels: pd.DataFrame) -> Any:
    try:
        return ir_measures.evaluator(measures, labels.rename(columns=_NAMES))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"ir_measures cannot compute this: {error}") from error


def _padded(answers: Sequence[str], n: int) -> list[str | None]:
    return [*answers] if answers else [None] * n
