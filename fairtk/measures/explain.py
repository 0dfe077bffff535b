"""`explain`: the parts of a group measure's cost as frames, text and a plot."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from fairtk.display import despine, new_figure, write_figure
from fairtk.display.figures import BLACK, BLUE, ORANGE, against
from fairtk.display.tables import frame_html
from fairtk.errors import FairtkWarning, ParameterError
from fairtk.frames import QID, BoolArray, FloatArray, IntArray, ObjectArray, Qrels, takes_tables
from fairtk.groups import Groups, Target
from fairtk.io.qrels import frame_of_qrels
from fairtk.io.runs import frame_of_run
from fairtk.measures.awrf import AWRF
from fairtk.measures.base import Judged, undefined_reasons
from fairtk.measures.contributions import (
    ABSENT,
    NOT_IN_RUN,
    OUTSIDE,
    Bands,
    Contributions,
    Names,
    awrf_contributions,
    joined,
    loss_contributions,
)
from fairtk.measures.ee import EE_L
from fairtk.measures.params import parse, short_name


@dataclass(frozen=True)
class System:
    """One run's parts: values and costs of each query, NaN where undefined, and which it has."""

    parts: Contributions
    value: FloatArray
    cost: FloatArray
    present: BoolArray


def with_baseline(frame: pd.DataFrame, before: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the frame with the baseline's columns and the change of cost; absent parts are 0."""
    differs = [c for c in before.columns if c not in (*keys, "difference")]
    renamed = before[[*keys, *differs]].rename(columns={c: f"baseline_{c}" for c in differs})
    both = frame.merge(renamed, on=keys, how="outer", sort=False)
    if "target" in differs:  # a group that one of the two does not show has the target all the same
        both["target"] = both["target"].fillna(both["baseline_target"])
        both = both.drop(columns="baseline_target")
    numbers = [c for c in both.columns if c not in keys]
    both[numbers] = both[numbers].fillna(0)
    if "difference" in both.columns:
        both["difference"] = both["exposure"] - both["target"]
    for column in ("queries", "baseline_queries"):
        if column in both.columns:
            both[column] = both[column].astype(np.int64)
    both["change"] = both["cost"] - both["baseline_cost"]
    order = pd.MultiIndex.from_frame(frame[keys]).append(pd.MultiIndex.from_frame(before[keys]))
    place = pd.MultiIndex.from_frame(both[keys]).get_indexer(order.unique())
    return both.iloc[place].reset_index(drop=True)


def sorted_by_cost(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the highest cost first, ties in their order, NaN last."""
    return frame.sort_values("cost", ascending=False, kind="stable", ignore_index=True)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Where the cost of a measure comes from; made by `fairtk.explain`.

    It is printed as its costliest rows, and has a plot. All frames have the column ``cost``; its
    sum is `total` (in `by_query`, its mean). With a baseline they also have ``baseline_cost`` and
    ``change`` (``cost`` minus it: negative is an improvement), and the same for what else differs.

    Attributes:
        measure: the measure.
        qids: the queries of the labels.
        names: the groups' names.
        bands: the rank bands.
        defined: for which queries the measure is defined, for both systems.
        system: the run's parts.
        before: the baseline's parts.
    """

    measure: Any
    qids: ObjectArray
    names: Names
    bands: Bands
    defined: BoolArray
    system: System
    before: System | None = None

    @property
    def total(self) -> float:
        """The mean cost over the queries where it is defined: 1 - AWRF, or EE_L; NaN if none."""
        return self._mean(self.system.cost)

    @property
    def baseline_total(self) -> float:
        """The same for the baseline; NaN without one."""
        return float("nan") if self.before is None else self._mean(self.before.cost)

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """The cost of each group, highest first.

        ``group`` (a column per attribute if they are crossed), ``exposure`` and ``target``: mean
        shares of attention for AWRF, mean attention for EE_L, over queries that the run has;
        ``difference``: the first minus the second, above 0 for a group that is shown too much;
        ``queries``: in how many queries the group is shown; ``cost``; ``share`` of the total.
        """
        return self._two(lambda s: self._groups(s, self.names), self.names.columns)

    @cached_property
    def by_attribute(self) -> pd.DataFrame:
        """The cost of each level of each crossed attribute, whatever the others are.

        The columns of `by_group`, with ``attribute`` in front. The costs of each attribute's levels
        add up to the total; groups that are not listed one by one are a level.
        """
        parts = []
        for place, name in enumerate(self.names.space.names):
            one = self._two(
                lambda s, at=place: self._groups(
                    s, self.names.part(at), self.names.level(s.parts.level, at)
                ),
                ["group"],
            )
            one.insert(0, "attribute", name)
            parts.append(one)
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def by_rank(self) -> pd.DataFrame:
        """The cost of each band of ranks, from the top.

        ``ranks`` (counted from 1), ``attention``: the band's mean share of attention, ``cost``
        (below 0 for ranks that show what is missing), ``share`` of the total.
        """
        return self._two(self._ranks, ["ranks"], sort=False)

    @cached_property
    def by_query(self) -> pd.DataFrame:
        """The cost of each query, highest first; those undefined for a system (NaN) last.

        ``qid``, ``value`` of the measure, ``cost``, and ``costliest``: the group that costs most,
        with how much of the query's cost in ``costliest_share``.
        """
        system = self.system
        cost = np.where(self.defined, system.cost, np.nan)
        frame = pd.DataFrame(
            {QID: pd.Series(self.qids, dtype="str"), "value": system.value, "cost": cost}
        )
        frame["costliest"], frame["costliest_share"] = self._costliest()
        if self.before is not None:
            before = np.where(self.defined, self.before.cost, np.nan)
            frame.insert(3, "baseline_cost", before)
            frame.insert(4, "change", cost - before)
        return sorted_by_cost(frame)

    def to_frame(self) -> pd.DataFrame:
        """Return all parts: one row per query, group and band of ranks that has any.

        ``qid``, the group's columns, ``ranks``, ``exposure`` and ``cost`` (and the baseline's).
        Not divided by the number of queries: the sum over a query is that query's cost.
        """
        keys = [QID, *self.names.columns, "ranks"]
        return self._two(lambda s: self._long(s.parts), keys, sort=False, shares=False)

    @property
    def _n(self) -> int:
        return int(self.defined.sum())

    def _groups(self, system: System, names: Names, level: IntArray | None = None) -> pd.DataFrame:
        """Return mean exposure, target, difference and cost of each group, and its queries.

        Costs are over all queries, exposure over those with rankings. `level` is the group of each
        unit; None: the units' own.
        """
        parts, counted = system.parts, system.present & self.defined
        levels, place = np.unique(parts.level if level is None else level, return_inverse=True)
        rankings = max(int(counted.sum()), 1)
        exposed = parts.band_exposure.sum(axis=1)
        exposure = np.bincount(place, weights=exposed, minlength=len(levels)) / rankings
        target = np.bincount(place, weights=parts.target, minlength=len(levels)) / rankings
        cost = np.bincount(place, weights=parts.cost.sum(axis=1), minlength=len(levels))
        n_queries = np.int64(len(counted))
        both = np.unique(place[exposed > 0] * n_queries + parts.query[exposed > 0])
        frame = names.frame(levels)
        frame["exposure"] = exposure
        frame["target"] = target
        frame["difference"] = exposure - target
        frame["queries"] = np.bincount(both // n_queries, minlength=len(levels))
        frame["cost"] = cost / max(self._n, 1)
        return frame

    def _ranks(self, system: System) -> pd.DataFrame:
        """Return attention and cost of each band of ranks, in the mean."""
        bands, counted = self.bands, system.present & self.defined
        # a mean over no query is unknown, not 0
        cost = system.parts.cost.sum(axis=0) / (self._n or np.nan)
        attention = system.parts.attention.sum(axis=0) / (int(counted.sum()) or np.nan)
        frame = pd.DataFrame(
            {
                "ranks": pd.Series(bands.names, dtype="str"),
                "attention": attention,
                "cost": cost,
            }
        )
        used = np.ones(len(frame), dtype=bool)
        used[bands.outside] = np.nan_to_num(cost[bands.outside]) != 0
        return frame[used].reset_index(drop=True)

    def _mean(self, values: FloatArray) -> float:
        return float(values[self.defined].mean()) if self._n else float("nan")

    def _two(
        self,
        make: Any,
        keys: list[str],
        sort: bool = True,
        shares: bool = True,
    ) -> pd.DataFrame:
        frame = make(self.system)
        if self.before is not None:
            frame = with_baseline(frame, make(self.before), keys)
        if shares:
            place = frame.columns.get_loc("cost") + 1
            frame.insert(place, "share", frame["cost"] / self.total if self.total else np.nan)
        return sorted_by_cost(frame) if sort else frame

    def _costliest(self) -> tuple[list[str], FloatArray]:
        parts = self.system.parts
        cost = parts.cost.sum(axis=1)
        order = np.lexsort((parts.level, -cost, parts.query))
        query = parts.query[order]
        first = order[np.flatnonzero(np.diff(query, prepend=-1))]
        texts = [""] * len(self.qids)
        share = np.full(len(self.qids), np.nan)
        for at, text in zip(first, joined(self.names.frame(parts.level[first])), strict=True):
            of = parts.query[at]
            whole = self.system.cost[of]
            if whole > 0:
                texts[of], share[of] = text, cost[at] / whole
        return texts, share

    def _long(self, parts: Contributions) -> pd.DataFrame:
        unit, band = np.nonzero((parts.cost != 0) | (parts.band_exposure != 0))
        bands = np.array(self.bands.names, dtype=object)
        names = self.names.frame(parts.level[unit])
        return pd.DataFrame(
            {
                QID: pd.Series(self.qids[parts.query[unit]], dtype="str"),
                **{c: names[c] for c in names.columns},
                "ranks": pd.Series(bands[band], dtype="str"),
                "exposure": parts.band_exposure[unit, band],
                "cost": parts.cost[unit, band],
            }
        )

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draw exposure beside target, and cost by group, rank band and query.

        Args:
            path: an .svg, .pdf or .png file to write; None: none.

        Returns:
            A ``matplotlib.figure.Figure``.

        Raises:
            MissingExtraError: matplotlib is not installed.
            ParameterError: the name of the file ends otherwise.
            InputError: its folder does not exist.
        """
        return _figure(self, path)

    def __str__(self) -> str:
        return _written(self)

    def __repr__(self) -> str:
        than = "" if self.before is None else f", {self.baseline_total:.4f} before"
        n = int(self.defined.sum())
        return f"<Explanation of {self.measure!r}: cost {self.total:.4f}{than} over {n} queries>"

    def _repr_html_(self) -> str:
        about = f"{self!r}: by group (drawn: exposure, and the target as a line); .by_rank and "
        return frame_html(self.by_group, about + ".by_query are others", pictures=_drawn(self))


_SHOWN = 12
NOW, BEFORE, TARGET = BLUE, ORANGE, BLACK

_GROUPS = 12
_LABELED = 30


def _figure(explanation: Explanation, path: str | PathLike[str] | None) -> Any:
    """Return the figure; see `fairtk.Explanation.plot`."""
    groups = _top(explanation)
    rows = max(len(groups), 3)
    figure = new_figure((10, 2.9 + 0.3 * rows + 2.6), "the plot of an explanation")
    halves: Any = figure.subfigures(2, 1, height_ratios=[0.3 * rows + 1.6, 3.2])
    top, bottom = halves
    exposures, costs = top.subplots(1, 2, sharey=True)
    _exposures(exposures, groups, explanation)
    _bars(costs, groups, explanation)
    ranks, queries = bottom.subplots(1, 2)
    _ranks(ranks, explanation)
    _queries(queries, explanation)
    figure.suptitle(_title(explanation), fontsize=10, x=0.01, ha="left")
    despine(exposures, costs, ranks, queries)
    for axes in (exposures, costs, ranks, queries):
        axes.tick_params(labelsize=8)
    if path is not None:
        write_figure(figure, path)
    return figure


def _cost_name(explanation: Explanation) -> str:
    name: str = explanation.measure.NAME
    return "1 - AWRF" if name == "AWRF" else name


def _title(explanation: Explanation) -> str:
    measure, name = explanation.measure, _cost_name(explanation)
    cut = "" if measure["cutoff"] is None else f"@{measure['cutoff']}"
    names = " x ".join(explanation.names.space.names)
    n, every = int(explanation.defined.sum()), len(explanation.qids)
    over = f"{n} queries" if n == every else f"{n} of {every} queries"
    change = f" (baseline {explanation.baseline_total:.4f})" if explanation.before else ""
    return f"{name}{cut} by {names}: {explanation.total:.4f}{change}, mean of {over}"


def _top(explanation: Explanation) -> pd.DataFrame:
    """Return the costliest groups with a text each, the others in one row, lowest cost first."""
    frame = explanation.by_group.copy()
    frame["text"] = joined(frame[explanation.names.columns])
    if len(frame) > _GROUPS:
        numbers = [c for c in frame.columns if frame[c].dtype.kind == "f"]
        rest = frame[numbers].iloc[_GROUPS - 1 :].sum().to_frame().T
        rest["text"] = f"({len(frame) - _GROUPS + 1} other groups)"
        frame = pd.concat([frame[[*numbers, "text"]].head(_GROUPS - 1), rest], ignore_index=True)
    return frame.iloc[::-1].reset_index(drop=True)


def _outline() -> Any:
    """Return a white rim, so that black marks stand out from dark bars in grey, too."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=4.5, foreground="white")]


def _exposures(axes: Any, groups: pd.DataFrame, explanation: Explanation) -> None:
    y = np.arange(len(groups))
    labels = [textwrap.shorten(t, 44, placeholder=" ...") for t in groups["text"]]
    real = groups["text"] != NOT_IN_RUN
    axes.set_yticks(y, labels)
    y, groups = y[real], groups[real]
    axes.hlines(y, groups["target"], groups["exposure"], color=NOW, linewidth=2, zorder=1)
    if explanation.before is not None:
        axes.plot(groups["baseline_exposure"], y, "s", color=BEFORE, markersize=6,
                  markerfacecolor="white", markeredgewidth=1.5, label="baseline")  # fmt: skip
    axes.plot(groups["exposure"], y, "o", color=NOW, markersize=7, label="run")
    axes.plot(groups["target"], y, "|", color=TARGET, markersize=15, markeredgewidth=2.5,
              label="target", path_effects=_outline())  # fmt: skip
    axes.set_ylim(-0.7, len(labels) - 0.3)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    what = "share of attention" if explanation.measure.NAME == "AWRF" else "attention"
    axes.set_xlabel(f"{what}, mean over queries", fontsize=9)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)


def _beside(bars: Any, place: IntArray, frame: pd.DataFrame, compared: bool, shift: float) -> Any:
    """Draw the costs of the run, and beside them the baseline's; return where the run's are."""
    if not compared:
        bars(place, frame["cost"], 0.65, color=NOW, label="run")
        return place
    bars(place + shift, frame["cost"], 0.38, color=NOW, label="run")
    bars(place - shift, frame["baseline_cost"], 0.38, color="white", edgecolor=BEFORE,
         hatch="////", linewidth=1.2, label="baseline")  # fmt: skip
    return place + shift


def _bars(axes: Any, groups: pd.DataFrame, explanation: Explanation) -> None:
    before = explanation.before is not None
    y = _beside(axes.barh, np.arange(len(groups)), groups, before, 0.19)
    # the sign of the difference, in words rather than in color
    high = max(float(groups["cost"].max()), 1e-12)
    for place, (cost, difference) in enumerate(
        zip(groups["cost"], groups["difference"], strict=True)
    ):
        # sums of groups with too much and with too little have neither
        mixed = groups["text"].iloc[place].startswith("(") or difference == 0
        word = "" if mixed else "too much" if difference > 0 else "too little"
        axes.text(max(cost, 0) + 0.01 * high, y[place], word, va="center", fontsize=7)
    axes.set_xlim(right=1.18 * axes.get_xlim()[1])
    axes.set_xlabel("cost: what each group adds", fontsize=9)
    axes.tick_params(labelleft=False)


def _ranks(axes: Any, explanation: Explanation) -> None:
    frame = explanation.by_rank
    x = np.arange(len(frame))
    at = _beside(axes.bar, x, frame, explanation.before is not None, -0.19)
    ranked = frame["ranks"] != OUTSIDE
    even = frame["attention"][ranked] * frame["cost"][ranked].sum()
    axes.plot(at[ranked], even, "_", color=TARGET, markersize=18, markeredgewidth=2,
              label="if cost were as attention", path_effects=_outline())  # fmt: skip
    axes.axhline(0, color="0.3", linewidth=0.8)
    axes.set_xticks(x, frame["ranks"].str.replace(" in the ", "\nin the "))
    axes.set_xlabel("ranks", fontsize=9)
    axes.set_ylabel("cost", fontsize=9)
    axes.margins(y=0.15)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1),
                columnspacing=1.0)  # fmt: skip


def _queries(axes: Any, explanation: Explanation) -> None:
    frame = explanation.by_query
    frame = frame[frame["cost"].notna()]
    x = np.arange(len(frame))
    if len(frame) <= _LABELED:
        axes.bar(x, frame["cost"], 0.7, color=NOW)
        small = 7 if len(frame) > 12 else 8
        axes.set_xticks(x, frame["qid"], rotation=90, fontsize=small)
    else:
        axes.fill_between(x, frame["cost"], step="mid", color=NOW)
    if explanation.before is not None:
        axes.plot(x, frame["baseline_cost"], "_", color=BEFORE, markersize=9,
                  markeredgewidth=2.5, label="baseline")  # fmt: skip
        axes.legend(frameon=False, fontsize=8)
    axes.axhline(explanation.total, color=TARGET, linestyle=":", linewidth=1.2)
    axes.annotate("mean", (1, explanation.total), xycoords=("axes fraction", "data"),
                  ha="right", va="bottom", fontsize=8)  # fmt: skip
    axes.set_xlabel("query, costliest first", fontsize=9)
    axes.set_ylabel("cost", fontsize=9)
    axes.set_xlim(-0.7, max(len(frame), 1) - 0.3)


def _drawn(explanation: Explanation) -> list[list[str]]:
    """Return a picture for the column ``exposure`` of each group."""
    frame = explanation.by_group
    columns = list(frame.columns)
    high = float(frame[["exposure", "target"]].max(axis=None))
    return [
        [against(row.exposure, row.target, high) if c == "exposure" else "" for c in columns]
        for row in frame.itertuples()
    ]


def _written(explanation: Explanation) -> str:
    """Return the tables of an explanation, each cut to its costliest rows."""
    n, every = int(explanation.defined.sum()), len(explanation.qids)
    lines = [
        short_name(repr(explanation.measure)),
        f"cost ({_cost_name(explanation)}): {explanation.total:.4f}, "
        f"mean of {n} of {every} queries",
    ]
    if explanation.before is not None:
        change = explanation.total - explanation.baseline_total
        lines.append(f"baseline: {explanation.baseline_total:.4f}, change {change:+.4f}")
    tables = [("By group", explanation.by_group)]
    if explanation.names.space.crossed:
        of = explanation.by_attribute.groupby("attribute", sort=False)
        tables += [(f"By {name}", part.drop(columns="attribute")) for name, part in of]
    tables += [("By ranks", explanation.by_rank), ("By query", explanation.by_query)]
    for title, frame in tables:
        lines += ["", *_table(title, frame)]
    return "\n".join(lines)


def _table(title: str, frame: pd.DataFrame) -> list[str]:
    # the frames have all columns; a terminal has not
    hidden = ["baseline_exposure", "baseline_queries", "baseline_attention"]
    frame = frame.drop(columns=hidden, errors="ignore")
    rest = len(frame) - _SHOWN
    cut = f", the {_SHOWN} costliest of {len(frame)}" if rest > 0 else ""
    body = frame.head(_SHOWN).to_string(index=False, float_format="{:.4f}".format, na_rep="-")
    return [f"{title}{cut}:", body]


@takes_tables
def explain(
    measure: Any,
    run: Any,
    qrels: Any,
    *,
    baseline: pd.DataFrame | str | PathLike[str] | None = None,
    groups: Any = None,
    target: Any = None,
    bands: Sequence[int] | None = None,
) -> Explanation:
    """Break AWRF or EE-L down: which groups, rank bands and queries cost how much.

    The cost is 1 - AWRF, or EE_L itself, and its parts add up to it by group, by rank band and by
    query. Groups cost their summand of the divergence, whether they are shown too much or too
    little; ranks what they show, at the group's rate, and their share of what the target asks for.
    Other rules add up as well and give other numbers; none is a statement about causes. The site's
    page on `explain` has the formulas, and how to read the tables.

    Args:
        measure: ``AWRF(groups=..., target=...)@k``; ``EE_L`` with groups and target, or without
            (by documents); or the string of one.
        run: R or S, in PyTerrier's or ir_measures' column names, or a file.
        qrels: the labels, in either's, a file, or the id of a dataset; their queries are the ones
            that count.
        baseline: another run, to which the change of each part is shown; means are then over the
            queries that are defined for both.
        groups: an object, a frame or a file. For AWRF, those that it lacks; for EE_L by documents,
            groups that the documents' costs are summed for, each shared out among its groups.
            None: useful, not useful, not judged.
        target: that of a measure with `groups`: an object, a frame, a file, "uniform" or "qrels".
        bands: the last rank of each band, e.g. 5, 10 and 20.

    Raises:
        ParameterError: the measure is none of these, or has no parts (``unlabeled="best"``,
            variants of published code).
        InputError: the run or the labels cannot be used.
    """
    measure = parse(measure)
    where = f"explain({measure!r})"
    labels = Qrels(frame_of_qrels(qrels, where), where, either=True)
    measure, groups = _completed(measure, groups, target, labels, where)
    _check(measure, groups)
    names = Names.of(measure, groups)
    reads_labels = not isinstance(measure, type(AWRF))
    runs = [run] if baseline is None else [run, baseline]
    frames = [frame_of_run(one) for one in runs]
    judged_runs = [Judged.of(labels, f, where, documents=reads_labels) for f in frames]
    with undefined_reasons():  # the means here are over the defined queries
        values = [measure.score_all(judged) for judged in judged_runs]
    if isinstance(measure, type(AWRF)):  # of credit, ranks are those of credit
        judged_runs = [measure.shared_out(judged)[0] for judged in judged_runs]
    depth = max(_depth(measure, judged) for judged in judged_runs)
    of_ranks = Bands.make(bands, depth)
    defined = ~np.isnan(np.stack(values)).any(axis=0)
    systems = []
    for judged, value in zip(judged_runs, values, strict=True):
        # score_all has said it all
        with warnings.catch_warnings(action="ignore", category=FairtkWarning):
            if isinstance(measure, type(AWRF)):
                parts = awrf_contributions(measure, judged, of_ranks)
            else:
                parts = loss_contributions(measure, judged, of_ranks, groups)
        counted = defined & judged.present
        lost = np.flatnonzero(defined & ~judged.present)
        cost = 1.0 - value if isinstance(measure, type(AWRF)) else value
        outside = np.zeros((len(lost), len(of_ranks)))
        outside[:, -1] = cost[lost]
        parts = parts.kept(counted).with_unshown(lost, ABSENT, outside)
        systems.append(System(parts, value, cost, judged.present))
    before = systems[1] if baseline is not None else None
    return Explanation(measure, labels.qids, names, of_ranks, defined, systems[0], before)


def _completed(
    measure: Any, groups: Any, target: Any, labels: Qrels, where: str
) -> tuple[Any, Groups | None]:
    """Return the measure with the groups and the target that it lacks, and groups apart from it."""
    if groups is None and target is None:
        return measure, None
    own = "groups" in measure.params
    aside = None if groups is None else Groups.of(groups)
    if aside is not None and not own and (target is not None or isinstance(measure, type(AWRF))):
        measure, aside, own = measure(groups=aside), None, True
    if target is not None:
        if not own:
            raise ParameterError(f"{where}: a target needs groups; give groups as well")
        measure = measure(target=Target.of(target, measure["groups"], labels, where))
    return measure, aside


def _check(measure: Any, groups: Groups | None) -> None:
    if isinstance(measure, type(AWRF)):
        if groups is not None:
            raise ParameterError("explain: AWRF has groups of its own; drop groups=")
        measure.target_for(measure.groups)
        if measure["unlabeled"] in ("best", "worst"):
            raise ParameterError(
                f"explain: {measure!r} is a bound over all completions of what is unknown, which "
                "has no parts; use unlabeled='drop', 'unknown' or 'uniform'"
            )
        return
    if isinstance(measure, type(EE_L)):
        if measure["variant"] != "paper":
            raise ParameterError(
                f"explain: {measure!r} follows a published code, whose departures from the paper "
                "have no parts; use variant='paper'"
            )
        if measure["estimator"] != "plain":
            raise ParameterError(
                f"explain: {measure!r} is no sum over groups; use estimator='plain', the value of "
                "the samples as they are"
            )
        if measure["groups"] is None:
            return
        if groups is not None:
            raise ParameterError("explain: this EE_L has groups of its own; drop groups=")
        if measure["target"] is None:
            raise ParameterError("explain: EE_L with groups needs a target: EE_L(..., target=...)")
        return
    factors = getattr(measure, "factors", [])
    hint = f"; explain its factor {factors[-1]!r}" if factors else ""
    raise ParameterError(
        f"explain takes AWRF and EE_L, which are sums over groups; found {measure!r}{hint}"
    )


def _depth(measure: Any, judged: Judged) -> int:
    deepest = int(judged.run.position.max(initial=0)) + 1
    return deepest if measure["cutoff"] is None else min(deepest, measure["cutoff"])
