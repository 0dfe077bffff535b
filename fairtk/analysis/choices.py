"""`sensitivity`: the order of systems under other choices than those that were made."""

from __future__ import annotations

import math
import warnings
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
from fairtk.display.figures import INK
from fairtk.display.tables import aligned_lines, html_text
from fairtk.errors import InputError, ParameterError, printable
from fairtk.experiment.compare_runs import evaluate_runs
from fairtk.experiment.evaluate_runs import (
    GivenGroups,
    as_labels,
    as_run,
    asked_measures,
    completed,
    parse_with,
    run_names,
)
from fairtk.frames import DOCNO, LABEL, QID, SAMPLE, SCORE, FloatArray
from fairtk.frames.accepted import accepts_dataframes
from fairtk.groups.distances import RELEVANCE, UNIFORM
from fairtk.measures import FairMeasure, format_measure

COLUMNS = [
    "measure", "choice", "setting", "tau", "winner", "flips", "swapped", "defined", "note",
]  # fmt: skip
_EQUAL = 1e-12


@dataclass
class Sensitivity:
    """How the order of systems depends on choices.

    Attributes:
        table: one row per measure and setting, first those with ``choice`` ``"as asked"``:
            ``tau`` (Kendall's tau-b of the systems' means with those as asked; NaN where all are
            tied), ``winner`` (the best mean; ``""``: several tie), ``flips`` (whether another
            system wins than as asked), ``swapped`` (pairs of systems in the other order),
            ``defined`` (the fewest queries that a mean is over), ``note`` (why there is no value).
        means: one row per measure, setting and system: ``measure``, ``choice``, ``setting``,
            ``system``, ``mean``.
        systems: their names.
    """

    table: pd.DataFrame
    means: pd.DataFrame
    systems: list[str]

    @property
    def flips(self) -> pd.DataFrame:
        """The rows of `table` in which another system wins."""
        return self.table[self.table["flips"]].reset_index(drop=True)

    @property
    def summary(self) -> str:
        """What flips the winner, in words."""
        lines = []
        for measure, part in self.table.groupby("measure", sort=False):
            first = part[part["choice"] == "as asked"].iloc[0]
            flips = part[part["flips"]]
            other_choices = part["tau"].notna() & (part["choice"] != "as asked")
            wins = f"{first['winner']} wins" if first["winner"] else "several systems tie"
            if flips.empty:
                lines.append(
                    f"{measure}: {wins}, under all {int(other_choices.sum())} other choices too."
                )
                continue
            names = [f"{r.choice} {r.setting} ({r.winner or 'a tie'})" for r in flips.itertuples()]
            others = ", ".join(names)
            tau = ""
            if other_choices.any():
                tau = f"; tau is at least {part.loc[other_choices, 'tau'].min():.2f}"
            lines.append(f"{measure}: {wins}, but not with {others}{tau}.")
        return "\n".join(lines)

    def _table(self) -> Table:
        """Return `table` for people; the summary is its caption."""
        rows = [
            [row.measure, row.choice, row.setting, "-" if row.tau != row.tau else f"{row.tau:.2f}",
             row.note or (row.winner or "tie") + (" (flips)" if row.flips else ""),
             str(row.swapped)]
            for row in self.table.itertuples()
        ]  # fmt: skip
        columns = ["measure", "choice", "setting", "tau", "winner", "swapped"]
        return Table(columns, [list(map(printable, row)) for row in rows], self.summary)

    def __repr__(self) -> str:
        table = self._table()
        return "\n".join([*aligned_lines(table, (3, 5)), "", table.caption])

    def _repr_html_(self) -> str:
        return html_text(self._table())

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Return a heat map of tau: a row per setting, a column per measure.

        Cells in which another system wins name it.

        Args:
            path: a file (.svg, .pdf or .png) to write to, if any.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        changed = self.table[self.table["choice"] != "as asked"]
        place = {choice: i for i, choice in enumerate(dict.fromkeys(changed["choice"]))}
        rows = sorted(
            {(row.choice, row.setting) for row in changed.itertuples()},
            key=lambda row: (place[row[0]], len(row[1]), row[1]),
        )
        columns = list(dict.fromkeys(self.table["measure"]))
        figure = new_figure((2.6 + 1.5 * len(columns), 1.2 + 0.3 * max(len(rows), 1)), "a heat map")
        axes = figure.subplots()
        values = np.full((max(len(rows), 1), len(columns)), np.nan)
        for row in changed.itertuples():
            at = rows.index((row.choice, row.setting)), columns.index(row.measure)
            values[at] = row.tau
            dark = row.tau < 0.2
            words = [] if math.isnan(row.tau) else [f"{row.tau:.2f}"]
            words += [row.winner or "tie"] if row.flips else []
            axes.text(
                at[1], at[0], "\n".join(words), ha="center", va="center", fontsize=7,
                color="white" if dark else INK, weight="bold" if row.flips else "normal",
            )  # fmt: skip
        image = axes.imshow(values, cmap="cividis", vmin=-1, vmax=1, aspect="auto")
        axes.set_xticks(range(len(columns)), columns, fontsize=8, rotation=20, ha="right")
        axes.set_yticks(range(len(rows)), [f"{c} {s}" for c, s in rows], fontsize=8)
        figure.colorbar(image, ax=axes, shrink=0.5, label="Kendall's tau with the order as asked")
        if path is not None:
            write_figure(figure, Path(path))
        return figure


def compared(base: FloatArray, values: FloatArray, lower: bool) -> tuple[float, int, int]:
    """Return Kendall's tau-b, the pairs in the other order, and the place of the winner.

    Args:
        base: the systems' means as asked; shape (n_systems,).
        values: those under another choice.
        lower: whether lower is better.

    Returns:
        tau (NaN: all are tied, or a mean is undefined), the number of pairs, and the winner (-1:
        several tie, or one is undefined).
    """
    from scipy.stats import kendalltau

    if np.isnan(values).any() or np.isnan(base).any():
        return math.nan, 0, -1
    first, second = (np.sign(_gaps(v)) for v in (base, values))
    swapped = int((first * second < 0).sum() // 2)
    rounded = [np.unique(np.round(v, 12), return_inverse=True)[1] for v in (base, values)]
    tau = math.nan
    if all(len(np.unique(v)) > 1 for v in rounded):
        tau = float(kendalltau(*rounded).statistic)
    best = values.min() if lower else values.max()
    at = np.flatnonzero(np.abs(values - best) <= _EQUAL)
    return tau, swapped, int(at[0]) if len(at) == 1 else -1


def _gaps(values: FloatArray) -> FloatArray:
    gaps = values[:, None] - values[None, :]
    return np.where(np.abs(gaps) <= _EQUAL, 0.0, gaps)


Choice = Literal[
    "browsing", "patience", "cutoff", "target", "unlabeled", "bounds", "base", "judgments"
]
CHOICES: tuple[Choice, ...] = get_args(Choice)
"""What can be varied; `judgments` is about labels that are missing, all others about measures."""

PATIENCE = (0.5, 0.7, 0.8, 0.9, 0.95)
CUTOFFS = (1, 3, 5, 10, 20, 50)
UNLABELED = ("drop", "unknown", "uniform", "best", "worst")
BOUNDS = ("paper", "exact")
BASES = ("e", 2)


def browsing_models() -> list[str]:
    """Return the registered browsing models, as strings, in the order of registration.

    A model with a setting that has neither a default nor a typical value is left out.
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
    """One measure with one choice made otherwise.

    Attributes:
        choice: one of `CHOICES`.
        setting: what was chosen, as a word.
        measure: the measure; None: it cannot be had so.
        why: why not.
    """

    choice: str
    setting: str
    measure: Any
    why: str = ""


def variants(
    measure: Any, choices: Sequence[str], cutoffs: Sequence[int], given_groups: GivenGroups
) -> Iterator[Variant]:
    """Yield a measure with other settings, those that it has not now.

    Args:
        measure: the measure, complete with groups and target.
        choices: which choices are varied.
        cutoffs: for the choice ``"cutoff"``.
        given_groups: the groups and targets that were given.
    """
    supported = getattr(measure, "SUPPORTED_PARAMS", {})
    own = supported if isinstance(measure, FairMeasure) else {}
    settings: dict[str, list[tuple[str, str, Any]]] = {
        "browsing": [("browsing", name, name) for name in browsing_models()],
        "patience": [("browsing", f"p={p}", f"RBP(p={p})") for p in PATIENCE],
        "unlabeled": [("unlabeled", name, name) for name in UNLABELED],
        "bounds": [("bounds", name, name) for name in BOUNDS],
        "base": [("base", str(base), base) for base in BASES],
    }
    for choice in choices:
        if choice == "cutoff" and (cut := _cut(measure)) is not None:
            for k in cutoffs:
                yield from _made(choice, f"@{k}", measure, partial(cut, k))
        elif choice == "target" and "target" in getattr(measure, "params", {}):
            for target in dict.fromkeys((UNIFORM, RELEVANCE, *given_groups.target)):
                make: Callable[[], Any] = partial(_aimed, measure, target, given_groups)
                yield from _made(
                    choice, str(getattr(target, "name", target) or target.key), measure, make
                )
        elif choice == "bounds" and getattr(measure, "params", {}).get("groups") is not None:
            continue  # the form by groups has none
        else:
            for name, setting, value in settings.get(choice, []):
                if name in own:
                    make = partial(_changed, measure, {name: value})
                    yield from _made(choice, setting, measure, make)


def _made(choice: str, setting: str, measure: Any, make: Any) -> Iterator[Variant]:
    try:
        made = make()
    except InputError as error:
        yield Variant(choice, setting, None, str(error))
        return
    if made != measure:
        yield Variant(choice, setting, made)


def _cut(measure: Any) -> Any:
    """Return what gives the measure another cutoff; None: it has none to change."""
    if getattr(measure, "NAME", "") == "E":
        inner = _cut(measure.inner)
        return None if inner is None else lambda k: type(measure)(measure=inner(k))
    if "cutoff" in getattr(measure, "params", {}):
        return lambda k: measure @ k
    return None


def _aimed(measure: Any, target: Any, given_groups: GivenGroups) -> Any:
    other = GivenGroups(given_groups.attributes, (target,), given_groups.labels)
    return _changed(measure, {"target": other.target_for(measure["groups"], repr(measure))})


def _changed(measure: Any, params: dict[str, Any]) -> Any:
    return type(measure)(**{**measure.params, **params})


USEFUL, BY_SCORE = "unjudged useful", "unjudged by score"


def judgments(
    qrels: pd.DataFrame, runs: Mapping[str, pd.DataFrame]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a name and labels that have one for every document that a run retrieved, as well.

    ``unjudged useful``: each such document is useful. ``unjudged by score``: one is where its mean
    score over the runs (scaled to [0, 1] in each query, 0 in a run that lacks it: CombSUM by Fox
    and Shaw 1994) is at least the median of the query's useful documents that a run retrieved.

    Args:
        qrels: the labels.
        runs: the runs, by name.
    """
    scores = _mean_scores(runs)
    judged = pd.MultiIndex.from_frame(qrels[[QID, DOCNO]])
    open_ = scores[~scores.index.isin(judged)]
    ones = pd.Series(1, index=open_.index)
    yield USEFUL, _with(qrels, ones)
    useful = pd.MultiIndex.from_frame(qrels.loc[qrels[LABEL] > 0, [QID, DOCNO]])
    least = scores[scores.index.isin(useful)].groupby(level=QID).median()
    needed = least.reindex(open_.index.get_level_values(QID)).to_numpy()
    yield BY_SCORE, _with(qrels, pd.Series((open_.to_numpy() >= needed).astype(int), open_.index))


def _mean_scores(runs: Mapping[str, pd.DataFrame]) -> pd.Series:
    """Return the mean scaled score of each document that a run retrieved."""
    parts = []
    for run in runs.values():
        keys = [QID, *([SAMPLE] if SAMPLE in run.columns else [])]
        lowest, highest = (run.groupby(QID)[SCORE].transform(f) for f in ("min", "max"))
        width = (highest - lowest).to_numpy()
        scaled = np.where(width > 0, (run[SCORE] - lowest) / np.where(width > 0, width, 1), 1.0)
        of = pd.Series(scaled, pd.MultiIndex.from_frame(run[[QID, DOCNO]]))
        n = run[keys].drop_duplicates().groupby(QID).size()
        total = of.groupby(level=[QID, DOCNO]).sum()
        parts.append(total / n.reindex(total.index.get_level_values(QID)).to_numpy())
    return pd.concat(parts).groupby(level=[QID, DOCNO]).sum() / len(runs)


def _with(qrels: pd.DataFrame, labels: pd.Series) -> pd.DataFrame:
    """Return labels with more of them; other columns repeat what the query has."""
    more = labels.rename(LABEL).reset_index()
    more = more[more[QID].isin(qrels[QID])]
    first = qrels.drop_duplicates(QID).set_index(QID)
    for name in qrels.columns.drop([QID, DOCNO, LABEL]):
        more[name] = first[name].reindex(more[QID]).to_numpy()
    return pd.concat([qrels, more[qrels.columns]], ignore_index=True)


Data: TypeAlias = str | PathLike[str] | pd.DataFrame


@accepts_dataframes
def sensitivity(
    qrels: Data,
    runs: Sequence[Data] | Mapping[str, Data],
    measures: Sequence[Any] | str,
    *,
    vary: Sequence[Choice] = CHOICES,
    cutoffs: Sequence[int] = CUTOFFS,
    groups: Sequence[Any] = (),
    target: Any = (),
    answers: Sequence[Data] = (),
    gold: Data | None = None,
    order: str = "auto",
) -> Sensitivity:
    """Return how the order of systems depends on what was chosen.

    Each measure is taken once as asked, and once for each setting of each choice that it has: the
    registered browsing models, the patience of one, the cutoff, the target (uniform, of the qrels,
    and those given), how documents without a group are handled, bounds, the base of the logarithm,
    and the labels of documents that nobody judged (`fairtk.analysis.sensitivity`).

    Args:
        qrels: see `fairtk.evaluate`; so are the other arguments that have the same name there.
        runs: at least two.
        measures: measures, or strings that `fairtk.measures.parse` reads.
        vary: the choices that are varied.
        cutoffs: the settings of the choice ``"cutoff"``.
        groups: for measures that need some.
        target: for measures that need one; the first that fits is as asked.
        answers: generated answers, none or one per run.
        gold: gold answers.
        order: what orders the runs of files.

    Raises:
        InputError: there is one run alone, or a file, frame, measure or choice cannot be used.
    """
    for choice in vary:
        checks.known("choice", choice, CHOICES)
    if any(isinstance(k, bool) or not isinstance(k, int) or k < 1 for k in cutoffs):
        raise ParameterError(f"cutoffs must be whole numbers above 0; found {list(cutoffs)}")
    cutoffs = list(dict.fromkeys(cutoffs))
    files, data = run_names(runs)
    if len(data) < 2:
        raise InputError("the order of systems needs at least two runs")
    answers = list(answers)
    if answers and len(answers) != len(data):
        raise InputError(
            f"answers must be given once per run; found {len(answers)} for {len(data)} runs"
        )
    given_groups = GivenGroups.read(groups, target)
    parsed = {str(m).strip(): parse_with(given_groups, m) for m in asked_measures(measures)}
    given_groups.labels = judged = as_labels(qrels, gold, list(parsed.values()))
    labels = judged.with_text_ids()
    whole = {text: completed(given_groups, measure) for text, measure in parsed.items()}
    padded = answers or [None] * len(data)
    frames = {
        name: as_run(run, file or name, order, answer, list(whole.values()), judged).with_text_ids()
        for (name, file), run, answer in zip(files.items(), data, padded, strict=True)
    }
    all_variants = [
        Variant(choice.choice, choice.setting, (text, choice.measure), choice.why)
        for text, measure in whole.items()
        for choice in [
            Variant("as asked", "", measure),
            *variants(measure, [c for c in vary if c != "judgments"], cutoffs, given_groups),
        ]
    ]
    means = _means(labels, frames, all_variants)
    if "judgments" in vary:
        for name, others in judgments(labels, frames):
            again = [Variant("judgments", name, (text, m)) for text, m in whole.items()]
            all_variants += again
            means += _means(others, frames, again)
    return _outcome(
        all_variants, means, {text: _lower(m) for text, m in whole.items()}, list(frames)
    )


def _lower(measure: Any) -> bool:
    return getattr(measure, "better", "higher") == "lower"


Means: TypeAlias = list[tuple[list[float], int, str]]


def _means(
    labels: pd.DataFrame, runs: Mapping[str, pd.DataFrame], all_variants: Sequence[Variant]
) -> Means:
    """Return, for each variant, the systems' means, the fewest defined queries, and what is wrong.

    All measures are taken in one go; one by one only if one of them raises.
    """
    every = [variant.measure[1] for variant in all_variants if variant.measure[1] is not None]
    errors: dict[str, str] = {}
    counts: dict[str, pd.DataFrame] = {}  # by measure
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about labels and ids: `fairtk doctor` says it
        try:
            counts = dict(iter(evaluate_runs(labels, runs, every).counts.groupby("measure")))
        except InputError:
            for measure in every:
                try:
                    counts[format_measure(measure)] = evaluate_runs(labels, runs, measure).counts
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
    return result


def _outcome(
    all_variants: Sequence[Variant], means: Means, lower: Mapping[str, bool], systems: list[str]
) -> Sensitivity:
    rows, long = [], []
    base = {
        v.measure[0]: m[0]
        for v, m in zip(all_variants, means, strict=True)
        if v.choice == "as asked"
    }
    for variant, (values, defined, note) in zip(all_variants, means, strict=True):
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
