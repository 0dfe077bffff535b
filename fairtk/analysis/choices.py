"""`sensitivity`: the order of systems under other settings of the measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from fairtk import checks, plugins
from fairtk.display import Table, new_figure, write_figure
from fairtk.display.figures import INK, name_parts
from fairtk.display.tables import (
    UNDEFINED,
    fitted_lines,
    format_rows,
    html_text,
    number_text,
    shorten,
    wrap_label,
)
from fairtk.errors import InputError, ParameterError
from fairtk.experiment.compare_runs import evaluate_runs
from fairtk.experiment.inputs import (
    GivenGroups,
    answers_of_runs,
    complete_measure,
    measure_list,
    parse_with,
    prepare_labels,
    prepare_run,
    run_names,
)
from fairtk.frames import DOCNO, LABEL, QID, SAMPLE, SCORE, FloatArray
from fairtk.frames.accepted import FileOrFrame
from fairtk.groups.levels import RELEVANCE, UNIFORM
from fairtk.measures import FairMeasure, format_measure
from fairtk.measures.info import MeasureInfo
from fairtk.remarks import Remark, emit
from fairtk.report.page import Section, write_analysis
from fairtk.report.tables import LIMITS, reading
from fairtk.wording import count_text, printable

COLUMNS = [
    "measure", "choice", "setting", "tau", "winner", "flips", "discordant_pairs", "defined", "note",
]  # fmt: skip
_EQUAL = 1e-12


@dataclass
class Sensitivity:
    """The order of systems under other settings.

    Attributes:
        table: one row per measure and setting, first the original ones (``choice`` is
            ``"original"``): ``tau`` (Kendall's tau-b between the means of the systems and the
            original ones; NaN if all are tied or a mean is undefined), ``winner`` (the system with
            the best mean; ``""`` for a tie, ``"undefined"`` if a mean is undefined), ``flips``
            (whether the winner is defined and differs from the original one), ``discordant_pairs``
            (the number of pairs of systems in the opposite order), ``defined`` (the smallest number
            of queries of a mean), ``note`` (the reason if there is no value).
        means: one row per measure, setting and system: ``measure``, ``choice``, ``setting``,
            ``system``, ``mean``.
        systems: the names of the systems.
        measures: what is known about each measure.
    """

    table: pd.DataFrame
    means: pd.DataFrame
    systems: list[str]
    measures: dict[str, MeasureInfo]

    @property
    def better(self) -> dict[str, str]:
        """The better direction of each measure, ``"higher"`` or ``"lower"``."""
        return {text: info.better for text, info in self.measures.items()}

    @property
    def flips(self) -> pd.DataFrame:
        """The rows of `table` with another winner."""
        return self.table[self.table["flips"]].reset_index(drop=True)

    @property
    def summary(self) -> str:
        """The settings that change the winner, in words."""
        lines = []
        for measure, part in self.table.groupby("measure", sort=False):
            first = part[part["choice"] == "original"].iloc[0]
            flips = part[part["flips"]]
            others = part[(part["choice"] != "original") & (part["note"] == "")]
            winner = first["winner"]
            wins = f"{_short(winner)} wins" if winner else "several systems tie"
            wins = "the winner is undefined" if winner == UNDEFINED else wins
            unknown = 0 if winner == UNDEFINED else int((others["winner"] == UNDEFINED).sum())
            end = f"; undefined with {count_text(unknown, 'setting')}." if unknown else "."
            if flips.empty:
                same = len(others) - unknown
                every = "all " if same > 1 and not unknown else ""
                also = f", also with {every}{count_text(same, 'other setting')}" if same else ""
                lines.append(f"{measure}: {wins}{also}{end}")
                continue
            names = [
                f"{row.choice} {row.setting} ({_short(row.winner) or 'a tie'})"
                for row in flips.itertuples()
            ]
            lowest = others["tau"].min()
            tau = "" if math.isnan(lowest) else f"; lowest tau {number_text(lowest, 2)}"
            lines.append(f"{measure}: {wins}, but not with {', '.join(names)}{tau}{end}")
        return "\n".join(lines)

    def _table(self) -> Table:
        """Return `table` as texts with the summary as caption."""
        rows = [
            [row.measure, row.choice, row.setting, number_text(row.tau, 2),
             row.note or (row.winner or "tie") + (" (flips)" if row.flips else ""),
             str(row.discordant_pairs)]
            for row in self.table.itertuples()
        ]  # fmt: skip
        columns = ["measure", "choice", "setting", "tau", "winner", "discordant pairs"]
        return Table(columns, [list(map(printable, row)) for row in rows], self.summary)

    def __repr__(self) -> str:
        table = self._table()
        return "\n".join([*fitted_lines(table, (3, 5), keys=3), "", table.caption])

    def _repr_html_(self) -> str:
        return html_text(self._table())

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw a heat map of tau: a row per setting, a column per measure.

        Cells with another winner name it.

        Args:
            path: an .svg, .pdf or .png file to write; `None` to write no file.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        changed = self.table[self.table["choice"] != "original"]
        rank = {choice: i for i, choice in enumerate(dict.fromkeys(changed["choice"]))}
        rows = sorted(
            {(row.choice, row.setting) for row in changed.itertuples()},
            key=lambda row: (rank[row[0]], len(row[1]), row[1]),
        )
        columns = list(dict.fromkeys(self.table["measure"]))
        figure = new_figure((2.6 + 1.5 * len(columns), 1.2 + 0.3 * max(len(rows), 1)), "a heat map")
        axes = figure.subplots()
        values = np.full((max(len(rows), 1), len(columns)), np.nan)
        for row in changed.itertuples():
            i, j = rows.index((row.choice, row.setting)), columns.index(row.measure)
            values[i, j] = row.tau
            is_dark = row.tau < 0.2
            words = [] if row.note else [number_text(row.tau, 2)]
            words += [_short(row.winner, 16) or "tie"] if row.flips else []
            text = axes.text(
                j, i, "\n".join(words), ha="center", va="center", fontsize=7,
                color="white" if is_dark else INK, weight="bold" if row.flips else "normal",
                parse_math=False,
            )  # fmt: skip
            name_parts(j, str(i), [text])
        image = axes.imshow(values, cmap="cividis", vmin=-1, vmax=1, aspect="auto")
        heads = [wrap_label(name, 24) for name in columns]
        axes.set_xticks(range(len(columns)), heads, fontsize=8, rotation=20, ha="right")
        axes.set_yticks(range(len(rows)), [f"{c} {s}" for c, s in rows], fontsize=8)
        figure.colorbar(image, ax=axes, shrink=0.5, label="Kendall's tau with the original order")
        if path is not None:
            write_figure(figure, Path(path))
        return figure

    def report(self, path: str | PathLike[str], *, command: str | None = None) -> None:
        """Write one HTML file with the heat map, the winners and all settings.

        `path`, `command` and errors are as in `fairtk.Frontier.report`.
        """
        table = self._table()
        rows = []
        for measure, part in self.table.groupby("measure", sort=False):
            others = part[part["choice"] != "original"]
            lowest = others["tau"].min()
            rows.append(
                [str(measure), part["winner"].iloc[0] or "tie", str(len(others)),
                 str(others["flips"].sum()), number_text(lowest, 2)]
            )  # fmt: skip
        n = len(self.systems)
        keys = self.means[["measure", "choice", "setting"]].iloc[::n].to_numpy().tolist()
        means = self.means["mean"].to_numpy().reshape(-1, n).tolist()
        flips = [table.rows[i] for i in np.flatnonzero(self.table["flips"])]
        write_analysis(
            path,
            title="Order of systems under other settings",
            overview=f"{len(self.systems)} systems by {count_text(len(rows), 'measure')}, with "
            f"{len(table.rows) - len(rows)} other settings; {len(flips)} change the winner.",
            figure=self.plot(),
            caption="Kendall's tau with the original order of systems, for each setting: 1 is the "
            "same order, -1 the reverse. A name is the system that wins with another setting. "
            "Empty: the measure does not support the setting.",
            table=Table(
                ["measure", "winner", "settings", "other winners", "lowest tau"], rows,
                "Winner: the system with the best mean, which is not a test result.",
            ),
            systems=list(range(len(rows))),
            readings={text: reading(info) for text, info in self.measures.items()},
            comparisons=Section(
                "Settings with another winner",
                () if flips else tuple(self.summary.splitlines()),
                Table(table.columns, flips) if flips else None,
            ),
            sections=[
                Section("All settings", table=table._replace(caption="")),
                Section(
                    "Means",
                    table=format_rows(
                        ["measure", "choice", "setting", *self.systems],
                        [[*key, *row] for key, row in zip(keys, means, strict=True)],
                    ),
                ),
                Section("Limits", LIMITS),
            ],
            command=command,
        )  # fmt: skip


def _short(name: str, letters: int = 40) -> str:
    return shorten(printable(name), letters)


def compared(base: FloatArray, values: FloatArray, lower: bool) -> tuple[float, int, int]:
    """Return Kendall's tau-b, the number of discordant pairs, and the index of the winner.

    Args:
        base: the original means of the systems, shape (n_systems,).
        values: the means under another setting, shape (n_systems,).
        lower: whether lower is better.

    Returns:
        tau (NaN if all are tied or a mean is undefined), the number of pairs, and the winner (-1
        for a tie or if a mean is undefined).
    """
    from scipy.stats import kendalltau

    if np.isnan(values).any() or np.isnan(base).any():
        return math.nan, 0, -1
    first, second = (np.sign(_gaps(v)) for v in (base, values))
    discordant_pairs = int((first * second < 0).sum() // 2)
    rounded = [np.unique(np.round(v, 12), return_inverse=True)[1] for v in (base, values)]
    tau = math.nan
    if all(len(np.unique(v)) > 1 for v in rounded):
        tau = float(kendalltau(*rounded).statistic)
    best = values.min() if lower else values.max()
    winners = np.flatnonzero(np.abs(values - best) <= _EQUAL)
    return tau, discordant_pairs, int(winners[0]) if len(winners) == 1 else -1


def _winner(values: FloatArray, systems: Sequence[str], lower: bool) -> str:
    """Return the winner as in `Sensitivity.table`."""
    if np.isnan(values).any():
        return UNDEFINED
    _, _, winner = compared(values, values, lower)
    return systems[winner] if winner >= 0 else ""


def _gaps(values: FloatArray) -> FloatArray:
    gaps = values[:, None] - values[None, :]
    return np.where(np.abs(gaps) <= _EQUAL, 0.0, gaps)


Choice = Literal[
    "browsing", "patience", "cutoff", "target", "unlabeled", "bounds", "base", "judgments"
]
CHOICES: tuple[Choice, ...] = get_args(Choice)
"""What can be varied: `judgments` varies missing labels, all others vary the measures."""

PATIENCE = (0.5, 0.7, 0.8, 0.9, 0.95)
CUTOFFS = (1, 3, 5, 10, 20, 50)
AWRF_UNLABELED_POLICIES = ("drop", "unknown", "uniform", "best", "worst")
BOUNDS = ("paper", "exact")
BASES = ("e", 2)


def browsing_models() -> list[str]:
    """Return the registered browsing models as strings, in order of registration.

    Models with a setting that has neither a default nor a typical value are skipped.
    """
    models = []
    for name in [
        n for p in plugins.loaded_plugins() for n in p.gave.get("fairtk_browsing_models", ())
    ]:
        model = plugins.registry.browsing_models.get(name)
        with suppress(TypeError):
            models.append(repr(model(**model.typical)))
    return models


@dataclass(frozen=True)
class Variant:
    """A measure with one setting changed.

    Attributes:
        choice: one of `CHOICES`.
        setting: the new setting.
        measure: the measure; `None` if it does not support the setting.
        why: the reason if `measure` is `None`.
    """

    choice: str
    setting: str
    measure: Any
    why: str = ""


def variants(
    measure: Any, choices: Sequence[str], cutoffs: Sequence[int], given_groups: GivenGroups
) -> Iterator[Variant]:
    """Yield a measure with each other setting.

    Args:
        measure: the measure with its groups and target.
        choices: the choices to vary.
        cutoffs: the settings of the choice ``"cutoff"``.
        given_groups: the groups and targets of the user.
    """
    params = measure.SUPPORTED_PARAMS if isinstance(measure, FairMeasure) else {}
    settings: dict[str, list[tuple[str, str, Any]]] = {
        "browsing": [("browsing", name, name) for name in browsing_models()],
        "patience": [("browsing", f"p={p}", f"RBP(p={p})") for p in PATIENCE],
        "unlabeled": [("unlabeled", name, name) for name in AWRF_UNLABELED_POLICIES],
        "bounds": [("bounds", name, name) for name in BOUNDS],
        "base": [("base", str(base), base) for base in BASES],
    }
    for choice in choices:
        if choice == "cutoff" and (cut := _cut(measure)) is not None:
            for k in cutoffs:
                yield from _changed(choice, f"@{k}", measure, partial(cut, k))
        elif choice == "target" and "target" in getattr(measure, "params", {}):
            for target in dict.fromkeys((UNIFORM, RELEVANCE, *given_groups.target)):
                make: Callable[[], Any] = partial(_with_target, measure, target, given_groups)
                yield from _changed(
                    choice, str(getattr(target, "name", target) or target.key), measure, make
                )
        else:
            for name, setting, value in settings.get(choice, []):
                if name in params:
                    make = partial(_with_params, measure, {name: value})
                    yield from _changed(choice, setting, measure, make)


def _changed(choice: str, setting: str, measure: Any, make: Any) -> Iterator[Variant]:
    try:
        variant = make()
    except InputError as error:
        yield Variant(choice, setting, None, str(error))
        return
    if variant != measure:
        yield Variant(choice, setting, variant)


def _cut(measure: Any) -> Any:
    """Return the function from a cutoff to the measure with it; `None` if it has no cutoff."""
    if getattr(measure, "NAME", "") == "E":
        inner = _cut(measure.inner)
        return None if inner is None else lambda k: type(measure)(measure=inner(k))
    if "cutoff" in getattr(measure, "params", {}):
        return lambda k: measure @ k
    return None


def _with_target(measure: Any, target: Any, given_groups: GivenGroups) -> Any:
    other = GivenGroups(given_groups.attributes, (target,), given_groups.labels)
    return _with_params(measure, {"target": other.target_for(measure["groups"], repr(measure))})


def _with_params(measure: Any, params: dict[str, Any]) -> Any:
    return type(measure)(**{**measure.params, **params})


USEFUL, BY_SCORE = "unjudged useful", "unjudged by score"


def judgments(
    qrels: pd.DataFrame, runs: Mapping[str, pd.DataFrame]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a name and labels that also cover the unjudged documents in the runs.

    ``unjudged useful``: all of them are useful. ``unjudged by score``: a document is useful if its
    mean score over the runs is at least the median of the query's useful documents in the runs.
    Scores are scaled to [0, 1] in each query, and 0 in runs without the document (CombSUM, Fox and
    Shaw 1994).

    Args:
        qrels: the labels.
        runs: the runs by name.
    """
    scores = _mean_scores(runs)
    judged = pd.MultiIndex.from_frame(qrels[[QID, DOCNO]])
    unjudged = scores[~scores.index.isin(judged)]
    yield USEFUL, _with_labels(qrels, pd.Series(1, index=unjudged.index))
    useful = pd.MultiIndex.from_frame(qrels.loc[qrels[LABEL] > 0, [QID, DOCNO]])
    median = scores[scores.index.isin(useful)].groupby(level=QID).median()
    needed = median.reindex(unjudged.index.get_level_values(QID)).to_numpy()
    labels = pd.Series((unjudged.to_numpy() >= needed).astype(int), unjudged.index)
    yield BY_SCORE, _with_labels(qrels, labels)


def _mean_scores(runs: Mapping[str, pd.DataFrame]) -> pd.Series:
    """Return the mean scaled score of each document in the runs."""
    parts = []
    for run in runs.values():
        keys = [QID, *([SAMPLE] if SAMPLE in run.columns else [])]
        lowest, highest = (run.groupby(QID)[SCORE].transform(f) for f in ("min", "max"))
        width = (highest - lowest).to_numpy()
        scaled = np.where(width > 0, (run[SCORE] - lowest) / np.where(width > 0, width, 1), 1.0)
        scores = pd.Series(scaled, pd.MultiIndex.from_frame(run[[QID, DOCNO]]))
        n = run[keys].drop_duplicates().groupby(QID).size()
        total = scores.groupby(level=[QID, DOCNO]).sum()
        parts.append(total / n.reindex(total.index.get_level_values(QID)).to_numpy())
    return pd.concat(parts).groupby(level=[QID, DOCNO]).sum() / len(runs)


def _with_labels(qrels: pd.DataFrame, labels: pd.Series) -> pd.DataFrame:
    """Return qrels with additional labels; other columns repeat the values of the query."""
    rows = labels.rename(LABEL).reset_index()
    rows = rows[rows[QID].isin(qrels[QID])]
    first = qrels.drop_duplicates(QID).set_index(QID)
    for name in qrels.columns.drop([QID, DOCNO, LABEL]):
        rows[name] = first[name].reindex(rows[QID]).to_numpy()
    return pd.concat([qrels, rows[qrels.columns]], ignore_index=True)


def sensitivity(
    qrels: FileOrFrame,
    runs: Sequence[FileOrFrame] | Mapping[str, FileOrFrame],
    measures: Sequence[Any] | str,
    *,
    vary: Sequence[Choice] = CHOICES,
    cutoffs: Sequence[int] = CUTOFFS,
    groups: Sequence[Any] = (),
    target: Any = (),
    answers: Sequence[FileOrFrame] | Mapping[str, FileOrFrame] = (),
    gold: FileOrFrame | None = None,
    order: str = "auto",
) -> Sensitivity:
    """Compute the order of systems under other settings of the measures.

    Each measure is computed with its original settings, and with one setting changed at a time: the
    registered browsing models, the patience of RBP, the cutoff, the target (uniform, relevance, and
    the given ones), the handling of documents without a group, bounds, the base of the logarithm,
    and the labels of unjudged documents.

    Args:
        qrels: see `fairtk.evaluate`, also for the other parameters with the same name.
        runs: at least two runs.
        measures: measures, or strings as for `fairtk.measures.parse`.
        vary: the choices to vary.
        cutoffs: the settings of the choice ``"cutoff"``.
        groups: see `fairtk.evaluate`.
        target: see `fairtk.evaluate`; the first target that fits is the original setting.
        answers: generated answers, one per run or by the name of the run, or empty.
        gold: gold answers.
        order: see `fairtk.evaluate`.

    Raises:
        InputError: there are fewer than two runs, or a file, frame, measure or choice is invalid.
    """
    vary = checks.listed("vary", vary)
    for choice in vary:
        checks.known("choice", choice, CHOICES)
    cutoffs = checks.listed("cutoffs", cutoffs)
    if any(isinstance(k, bool) or not isinstance(k, int) or k < 1 for k in cutoffs):
        raise ParameterError(f"`cutoffs` must be integers of at least 1, got {list(cutoffs)}")
    cutoffs = list(dict.fromkeys(cutoffs))
    files, data = run_names(runs)
    answers = answers_of_runs(answers, files)
    given_groups = GivenGroups.read(groups, target)
    parsed = {str(m).strip(): parse_with(given_groups, m) for m in measure_list(measures)}
    given_groups.labels = file_labels = prepare_labels(qrels, gold, list(parsed.values()))
    labels = file_labels.with_text_ids()
    complete = {text: complete_measure(given_groups, measure) for text, measure in parsed.items()}
    read = partial(prepare_run, order=order, measures=list(complete.values()), qrels=file_labels)
    frames = {
        name: read(run, file or name, answers=answer).with_text_ids()
        for (name, file), run, answer in zip(files.items(), data, answers, strict=True)
    }
    if len(frames) < 2:
        raise InputError(f"sensitivity requires at least two runs, got {len(frames)}")
    all_variants = [
        Variant(choice.choice, choice.setting, (text, choice.measure), choice.why)
        for text, measure in complete.items()
        for choice in [
            Variant("original", "", measure),
            *variants(measure, [c for c in vary if c != "judgments"], cutoffs, given_groups),
        ]
    ]
    means, remarks = _means(labels, frames, all_variants)
    original_labels = {"", *map(format_measure, complete.values())}
    emit(remark for remark in remarks if remark.measure in original_labels)
    if "judgments" in vary:
        for name, others in judgments(labels, frames):
            relabeled = [Variant("judgments", name, (text, m)) for text, m in complete.items()]
            all_variants += relabeled
            means += _means(others, frames, relabeled)[0]
    infos = {text: MeasureInfo.of(measure) for text, measure in complete.items()}
    return _outcome(all_variants, means, infos, list(frames))


Means: TypeAlias = list[tuple[list[float], int, str]]


def _means(
    labels: pd.DataFrame, runs: Mapping[str, pd.DataFrame], all_variants: Sequence[Variant]
) -> tuple[Means, list[Remark]]:
    """Return the means of the systems, the fewest defined queries and the error of each variant.

    The second value are the remarks on them.

    All measures are computed in one call, and one by one only if one of them raises.
    """
    every = [variant.measure[1] for variant in all_variants if variant.measure[1] is not None]
    errors: dict[str, str] = {}
    counts: dict[str, pd.DataFrame] = {}  # by measure
    remarks: list[Remark] = []
    try:
        results = evaluate_runs(labels, runs, every)
        counts, remarks = dict(iter(results.counts.groupby("measure"))), list(results.remarks)
    except InputError:
        for measure in every:
            try:
                results = evaluate_runs(labels, runs, measure)
                counts[format_measure(measure)] = results.counts
                remarks += results.remarks
            except InputError as error:
                errors[format_measure(measure)] = str(error)
    result: Means = []
    for variant in all_variants:
        measure = variant.measure[1]
        key = "" if measure is None else format_measure(measure)
        if key in counts:
            result.append((counts[key]["mean"].tolist(), int(counts[key]["n"].min()), ""))
        else:
            result.append(([math.nan] * len(runs), 0, variant.why or errors.get(key, "")))
    if not counts and errors:
        raise InputError(next(iter(errors.values())))
    return result, remarks


def _outcome(
    all_variants: Sequence[Variant],
    means: Means,
    infos: dict[str, MeasureInfo],
    systems: list[str],
) -> Sensitivity:
    rows, long = [], []
    base = {
        v.measure[0]: m[0]
        for v, m in zip(all_variants, means, strict=True)
        if v.choice == "original"
    }
    for variant, (values, defined, note) in zip(all_variants, means, strict=True):
        text = variant.measure[0]
        first = np.array(base[text])
        lower = infos[text].better == "lower"
        first_winner = _winner(first, systems, lower)
        tau, discordant_pairs, _ = compared(first, np.array(values), lower)
        winner = _winner(np.array(values), systems, lower)
        rows.append(
            [text, variant.choice, variant.setting, tau, winner,
             winner not in (UNDEFINED, first_winner), discordant_pairs, defined, note]
        )  # fmt: skip
        long += [
            [text, variant.choice, variant.setting, name, value]
            for name, value in zip(systems, values, strict=True)
        ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    rank = {text: i for i, text in enumerate(infos)}
    table = table.sort_values("measure", key=lambda m: m.map(rank), kind="stable")
    columns = ["measure", "choice", "setting", "system", "mean"]
    long_means = pd.DataFrame(long, columns=columns)
    return Sensitivity(table.reset_index(drop=True), long_means, systems, infos)
