"""`sensitivity`: the order of systems under other choices than those that were made."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

import ir_measures
import numpy as np
import pandas as pd

from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.evaluation import evaluate
from fairtk.evaluation.given_groups import GivenGroups, completed, parse_with
from fairtk.evaluation.reading import as_labels, as_run, run_names
from fairtk.evaluation.values import EvaluatedRuns
from fairtk.frames.qrels import Qrels
from fairtk.robustness.judging import judgments
from fairtk.robustness.orders import COLUMNS, Sensitivity, compared
from fairtk.robustness.varying import CHOICES, CUTOFFS, Variant, variants

Data: TypeAlias = str | PathLike[str] | pd.DataFrame


def sensitivity(
    qrels: Data,
    runs: Sequence[Data] | Mapping[str, Data],
    measures: Sequence[Any] | str,
    *,
    vary: Sequence[str] = CHOICES,
    cutoffs: Sequence[int] = CUTOFFS,
    groups: Sequence[Any] = (),
    targets: Sequence[Any] = (),
    answers: Sequence[Data] = (),
    gold: Data | None = None,
    order: str = "auto",
) -> Sensitivity:
    """Return how the order of systems depends on what was chosen.

    Each measure is taken once as asked, and once for each setting of each choice that it has: the
    browsing model, its patience, the cutoff, the target (uniform, of the qrels, and those given),
    what becomes of documents without a group, bounds, the base of the logarithm, and the labels of
    documents that nobody judged (`fairtk.robustness.judging`).

    Args:
        qrels: see `fairtk.evaluate`; so are the other arguments that have the same name there.
        runs: at least two.
        measures: measures, or strings that `fairtk.measures.parse` reads.
        vary: some of `CHOICES`.
        cutoffs: the settings of the choice ``"cutoff"``.
        groups: for measures that need some.
        targets: for measures that need one; the first that fits is as asked.
        answers: generated answers, none or one per run.
        gold: gold answers.
        order: what orders the runs of files.

    Raises:
        InputError: there is one run alone, or a file, frame, measure or choice cannot be used.
    """
    for choice in vary:
        if choice not in CHOICES:
            raise NotFoundError("choice", choice, CHOICES)
    if any(isinstance(k, bool) or not isinstance(k, int) or k < 1 for k in cutoffs):
        raise ParameterError(f"cutoffs must be whole numbers above 0; found {list(cutoffs)}")
    files, data = run_names(runs)
    if len(data) < 2:
        raise InputError("the order of systems needs at least two runs")
    answers = list(answers)
    if answers and len(answers) != len(data):
        raise InputError(
            f"answers must be given once per run; found {len(answers)} for {len(data)} runs"
        )
    given = GivenGroups.read(tuple(groups), tuple(targets))
    asked = [measures] if isinstance(measures, str | ir_measures.Measure) else list(measures)
    parsed = {str(m).strip(): parse_with(given, m) for m in asked}
    given.labels = labels = as_labels(qrels, gold, list(parsed.values()))
    whole = {text: completed(given, measure) for text, measure in parsed.items()}
    known = Qrels(labels, "sensitivity")
    padded = answers or [None] * len(data)
    frames = {
        name: as_run(run, file or name, order, answer, list(whole.values()), known)
        for (name, file), run, answer in zip(files.items(), data, padded, strict=True)
    }
    found = [
        Variant(choice.choice, choice.setting, (text, choice.measure), choice.why)
        for text, measure in whole.items()
        for choice in [
            Variant("as asked", "", measure),
            *variants(measure, [c for c in vary if c != "judgments"], cutoffs, given),
        ]
    ]
    means = _means(labels, frames, found)
    if "judgments" in vary:
        for name, others in judgments(labels, frames):
            again = [Variant("judgments", name, (text, m)) for text, m in whole.items()]
            found += again
            means += _means(others, frames, again)
    return _outcome(found, means, {text: _lower(m) for text, m in whole.items()}, list(frames))


def _lower(measure: Any) -> bool:
    return getattr(measure, "better", "higher") == "lower"


Means: TypeAlias = list[tuple[list[float], int, str]]


def _means(
    labels: pd.DataFrame, runs: Mapping[str, pd.DataFrame], found: Sequence[Variant]
) -> Means:
    """Return, for each variant, the systems' means, the fewest defined queries, and what is wrong.

    All measures are taken in one go; one by one only if one of them raises.
    """
    every = [variant.measure[1] for variant in found if variant.measure[1] is not None]
    errors: dict[str, str] = {}
    values: dict[str, EvaluatedRuns] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about labels and ids: `fairtk doctor` says it
        try:
            both = evaluate(labels, runs, every)
            values = {repr(measure): both for measure in every}
        except InputError:
            for measure in every:
                try:
                    values[repr(measure)] = evaluate(labels, runs, measure)
                except InputError as error:
                    errors[repr(measure)] = str(error)
    result: Means = []
    for variant in found:
        measure = variant.measure[1]
        key = repr(measure)
        if key in values:
            each = values[key].runs
            result.append(
                ([run.mean(measure) for run in each], min(run.defined(measure) for run in each), "")
            )
        else:
            result.append(([math.nan] * len(runs), 0, variant.why or errors.get(key, "")))
    if not values and errors:
        raise InputError(next(iter(errors.values())))
    return result


def _outcome(
    found: Sequence[Variant], means: Means, lower: Mapping[str, bool], systems: list[str]
) -> Sensitivity:
    rows, long = [], []
    base = {v.measure[0]: m[0] for v, m in zip(found, means, strict=True) if v.choice == "as asked"}
    for variant, (values, defined, note) in zip(found, means, strict=True):
        text = variant.measure[0]
        first = np.array(base[text])
        _, _, asked = compared(first, first, lower[text])
        tau, swapped, winner = compared(first, np.array(values), lower[text])
        defined_all = not np.isnan(values).any()
        rows.append(
            [text, variant.choice, variant.setting, tau, systems[winner] if winner >= 0 else "",
             defined_all and winner != asked, swapped, defined, note]
        )  # fmt: skip
        long += [
            [text, variant.choice, variant.setting, name, value]
            for name, value in zip(systems, values, strict=True)
        ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    place = {text: i for i, text in enumerate(lower)}
    table = table.sort_values("measure", key=lambda m: m.map(place), kind="stable")
    columns = ["measure", "choice", "setting", "system", "mean"]
    return Sensitivity(table.reset_index(drop=True), pd.DataFrame(long, columns=columns), systems)
