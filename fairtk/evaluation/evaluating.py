"""From qrels, runs and measures to values per run, measure and query."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

import ir_measures
import pandas as pd

from fairtk.errors import DataWarning, InputError, UnmatchedWarning
from fairtk.evaluation.given_groups import GivenGroups, completed, parse_with
from fairtk.evaluation.reading import as_labels, as_run, run_names
from fairtk.evaluation.values import EvaluatedRuns, RunValues
from fairtk.frames.columns import QID, TO_IR_MEASURES
from fairtk.frames.qrels import Qrels

Path: TypeAlias = str | PathLike[str]
Data: TypeAlias = Path | pd.DataFrame


def evaluate(
    qrels: Data,
    runs: Data | Sequence[Data] | Mapping[str, Data],
    measures: Sequence[Any] | str,
    *,
    answers: Sequence[Data] = (),
    gold: Data | None = None,
    order: str = "auto",
    groups: Sequence[Any] = (),
    targets: Sequence[Any] = (),
) -> EvaluatedRuns:
    """Measure runs, as the command ``fairtk evaluate`` does.

    Args:
        qrels: labels: a frame, a file, ``"-"`` (standard input) or the id of a dataset.
        runs: one or more frames or files; a mapping names them.
        measures: measures, or strings that `fairtk.measures.parse` reads.
        answers: generated answers, none or one per run.
        gold: gold answers, if the qrels have none.
        order: what orders the runs of files; see `fairtk.io.read_run`.
        groups: `fairtk.Groups`, or files of them, for measures that need some and name none.
        targets: `fairtk.Target`, files, ``"uniform"`` or ``"qrels"``, for measures that need one.

    Raises:
        InputError: a file, frame or measure cannot be used; says which.
    """
    return evaluated(
        qrels, runs, measures, {}, answers=answers, gold=gold, order=order, groups=groups,
        targets=targets,
    )[0]  # fmt: skip


def evaluated(
    qrels: Data,
    runs: Data | Sequence[Data] | Mapping[str, Data],
    measures: Sequence[Any] | str,
    frames: dict[str, pd.DataFrame],
    *,
    answers: Sequence[Data] = (),
    gold: Data | None = None,
    order: str = "auto",
    groups: Sequence[Any] = (),
    targets: Sequence[Any] = (),
) -> tuple[EvaluatedRuns, pd.DataFrame]:
    """Return the values and the labels, and put the runs into `frames` by file; see `evaluate`."""
    files, data = run_names(runs)
    answers = [answers] if isinstance(answers, str | PathLike | pd.DataFrame) else list(answers)
    if answers and len(answers) != len(data):
        raise InputError(
            f"answers must be given once per run, in the order of the runs; found {len(answers)} "
            f"for {len(data)} runs"
        )
    given = GivenGroups.read(tuple(groups), tuple(targets))
    asked = [measures] if isinstance(measures, str | ir_measures.Measure) else list(measures)
    parsed = {str(m).strip(): parse_with(given, m) for m in asked}
    labels = as_labels(qrels, gold, list(parsed.values()))
    given.labels = labels
    whole = {text: completed(given, measure) for text, measure in parsed.items()}
    wanted = list(dict.fromkeys(whole.values()))
    if given.attributes and not given.used:
        raise InputError(
            f"no measure uses --groups: name an attribute, e.g. "
            f"-m \"EE_L(groups='{next(iter(given.attributes))}')@20\""
        )
    _warn_of_item_forms(given, whole)
    known = Qrels(labels, "evaluate")
    qids = known.qids.tolist()
    evaluator = _evaluator(wanted, labels)
    result = EvaluatedRuns([], wanted, qids)
    if given.attributes:
        for text, measure in reversed(whole.items()):
            if "groups=" in repr(measure):
                result.written[measure] = text
    padded = answers or [None] * len(data)
    for (name, file), run, answer in zip(files.items(), data, padded, strict=True):
        frame = as_run(run, file or name, order, answer, wanted, known)
        frames[file or name] = frame
        values: dict[Any, dict[str, float]] = {m: dict.fromkeys(qids, math.nan) for m in wanted}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnmatchedWarning)  # said, with the name of the run
            metrics = list(evaluator.iter_calc(frame.rename(columns=TO_IR_MEASURES)))
        for metric in metrics:
            values[metric.measure][metric.query_id] = float(metric.value)
        result.runs.append(RunValues(name, file or name, values, set(frame[QID].unique())))
    return result, labels


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


def _evaluator(measures: list[Any], labels: pd.DataFrame) -> Any:
    try:
        return ir_measures.evaluator(measures, labels.rename(columns=TO_IR_MEASURES))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"ir_measures cannot compute this: {error}") from error
