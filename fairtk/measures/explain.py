"""`explain`: the parts of a group measure's cost as frames, text and a plot."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from fairtk.display.tables import frame_html
from fairtk.errors import FairtkWarning, ParameterError
from fairtk.frames import QID, BoolArray, FloatArray, ObjectArray, Qrels
from fairtk.frames.columns import accepts_dataframes
from fairtk.groups import Groups, Target
from fairtk.groups.distances import LevelSpace
from fairtk.io.qrels import frame_of_qrels
from fairtk.io.runs import frame_of_run
from fairtk.measures.awrf import AWRF
from fairtk.measures.base import undefined_reasons
from fairtk.measures.contributions import ABSENT, Parts, awrf_parts, loss_parts, rank_bands
from fairtk.measures.ee import EE_L
from fairtk.measures.explain_figure import draw, group_pictures
from fairtk.measures.group_names import LABELS, NOT_SHOWN, UNSEEN, GroupNames, band_names
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.parsing import format_measure, parse


@dataclass(frozen=True)
class System:
    """One run's parts: values and costs of each query, NaN where undefined, and which it has."""

    parts: Parts
    value: FloatArray
    cost: FloatArray
    present: BoolArray


def with_baseline(frame: pd.DataFrame, before: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the frame with the baseline's columns and the change of cost; absent parts are 0."""
    now, before = frame.set_index(keys), before.set_index(keys)
    index = now.index.append(before.index).unique()
    now, before = now.reindex(index), before.reindex(index)
    if "target" in now:  # a group that one of the two does not show has the target all the same
        now["target"] = now["target"].fillna(before["target"])
        now, before = now.fillna(0), before.drop(columns=["target", "difference"])
        now["difference"] = now["exposure"] - now["target"]
    both = now.join(before.add_prefix("baseline_")).fillna(0)
    counts = [c for c in ("queries", "baseline_queries") if c in both]
    both[counts] = both[counts].astype(np.int64)
    both["change"] = both["cost"] - both["baseline_cost"]
    return both.reset_index()


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
        bands: the names of the rank bands.
        defined: for which queries the measure is defined, for both systems.
        system: the run's parts.
        before: the baseline's parts.
    """

    measure: Any
    qids: ObjectArray
    names: GroupNames
    bands: list[str]
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
        return self._compared(self._groups, self.names.columns)

    @cached_property
    def by_attribute(self) -> pd.DataFrame:
        """The cost of each level of each crossed attribute, whatever the others are.

        The columns of `by_group`, with ``attribute`` in front. The costs of each attribute's levels
        add up to the total; groups that are not listed one by one are a level.
        """
        frames = []
        for attribute, name in enumerate(self.names.space.names):
            frame = self._compared(partial(self._groups, attribute=attribute), ["group"])
            frame.insert(0, "attribute", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def by_rank(self) -> pd.DataFrame:
        """The cost of each band of ranks, from the top.

        ``ranks`` (counted from 1), ``attention``: the band's mean share of attention, ``cost``
        (below 0 for ranks that show what is missing), ``share`` of the total.
        """
        return self._compared(self._ranks, ["ranks"], sort=False)

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
        return self._compared(self._long, keys, sort=False, shares=False)

    @property
    def cost_name(self) -> str:
        """What the cost is: ``"1 - AWRF"`` or ``"EE_L"``."""
        name: str = self.measure.NAME
        return "1 - AWRF" if name == "AWRF" else name

    @property
    def _n(self) -> int:
        return int(self.defined.sum())

    def _mean(self, values: FloatArray) -> float:
        return float(values[self.defined].mean()) if self._n else float("nan")

    def _compared(
        self,
        make: Callable[[System], pd.DataFrame],
        keys: list[str],
        sort: bool = True,
        shares: bool = True,
    ) -> pd.DataFrame:
        """Return a frame of the run, with that of the baseline and shares of the total."""
        frame = make(self.system)
        if self.before is not None:
            frame = with_baseline(frame, make(self.before), keys)
        if shares:
            column = frame.columns.get_loc("cost") + 1
            frame.insert(column, "share", frame["cost"] / self.total if self.total else np.nan)
        return sorted_by_cost(frame) if sort else frame

    def _groups(self, system: System, attribute: int | None = None) -> pd.DataFrame:
        """Return mean exposure, target, difference and cost of each group, and its queries.

        Costs are over all queries, exposure over those with rankings. Groups are the levels of one
        crossed attribute, if it is given.
        """
        shares, targets, names = system.parts.shares, system.parts.targets, self.names
        if attribute is not None:
            shares, targets = (
                f.assign(level=names.levels_of_part(f["level"].to_numpy(), attribute))
                for f in (shares, targets)
            )
            names = names.part(attribute)
        rankings = max(int((system.present & self.defined).sum()), 1)
        target = targets.groupby("level")["target"].sum() / rankings
        sums = shares.groupby("level")[["exposure", "cost"]].sum()
        sums = sums.reindex(target.index, fill_value=0.0)
        queries = shares[shares["exposure"] > 0].groupby("level")["query"].nunique()
        frame = names.frame(target.index.to_numpy())
        frame["exposure"] = sums["exposure"].to_numpy() / rankings
        frame["target"] = target.to_numpy()
        frame["difference"] = frame["exposure"] - frame["target"]
        frame["queries"] = queries.reindex(target.index, fill_value=0).to_numpy()
        frame["cost"] = sums["cost"].to_numpy() / max(self._n, 1)
        return frame

    def _ranks(self, system: System) -> pd.DataFrame:
        """Return attention and cost of each band of ranks, in the mean."""
        shares, bands = system.parts.shares, self.bands
        # a mean over no query is unknown, not 0
        cost = np.bincount(shares["band"], shares["cost"], len(bands)) / (self._n or np.nan)
        n_present = int((system.present & self.defined).sum())
        attention = system.parts.attention.sum(axis=0) / (n_present or np.nan)
        ranks = pd.Series(bands, dtype="str")
        frame = pd.DataFrame({"ranks": ranks, "attention": attention, "cost": cost})
        return frame if np.nan_to_num(cost[-1]) != 0 else frame[:-1]

    def _costliest(self) -> tuple[list[str], FloatArray]:
        """Return the name of each query's costliest group, and its share of the query's cost."""
        sums = self.system.parts.shares.groupby(["query", "level"], as_index=False)["cost"].sum()
        order = ["query", "cost", "level"]
        sums = sums.sort_values(order, ascending=[True, False, True]).drop_duplicates("query")
        sums = sums[self.system.cost[sums["query"]] > 0]
        query = sums["query"].to_numpy()
        texts = np.full(len(self.qids), "", dtype=object)
        texts[query] = self.names.joined(self.names.frame(sums["level"].to_numpy()))
        share = np.full(len(self.qids), np.nan)
        share[query] = sums["cost"].to_numpy() / self.system.cost[query]
        return texts.tolist(), share

    def _long(self, system: System) -> pd.DataFrame:
        shares = system.parts.shares.reset_index(drop=True)
        frame = self.names.frame(shares["level"].to_numpy())
        frame.insert(0, QID, pd.Series(self.qids[shares["query"]], dtype="str"))
        frame["ranks"] = pd.Series(np.array(self.bands, dtype=object)[shares["band"]], dtype="str")
        return frame.assign(exposure=shares["exposure"], cost=shares["cost"])

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
        return draw(self, path)

    def __str__(self) -> str:
        return _written(self)

    def __repr__(self) -> str:
        than = "" if self.before is None else f", {self.baseline_total:.4f} before"
        cost = f"cost {self.total:.4f}{than} over {self._n} queries"
        return f"<Explanation of {self.measure!r}: {cost}>"

    def _repr_html_(self) -> str:
        about = f"{self!r}: by group (drawn: exposure, and the target as a line); .by_rank and "
        pictures = group_pictures(self)
        return frame_html(self.by_group, about + ".by_query are others", pictures=pictures)


_SHOWN = 12


def _written(explanation: Explanation) -> str:
    """Return the tables of an explanation, each cut to its costliest rows."""
    n, every = int(explanation.defined.sum()), len(explanation.qids)
    lines = [
        format_measure(explanation.measure),
        f"cost ({explanation.cost_name}): {explanation.total:.4f}, mean of {n} of {every} queries",
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


@accepts_dataframes
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
        target: that of a measure with `groups`: an object, a frame, a file, "uniform",
            "population" or "relevance".
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
    named = groups if measure["groups"] is None else measure["groups"]
    space = LevelSpace(("label",), (LABELS,), (-1,)) if named is None else named.space
    names = GroupNames(space, UNSEEN if measure["groups"] is None else NOT_SHOWN)
    is_awrf = isinstance(measure, type(AWRF))
    runs = [frame_of_run(one) for one in ([run] if baseline is None else [run, baseline])]
    judged_runs = [LabeledRun.of(labels, one, where, documents=not is_awrf) for one in runs]
    with undefined_reasons():  # the means here are over the defined queries
        values = [measure.score_all(judged) for judged in judged_runs]
    if is_awrf:  # of credit, ranks are those of credit
        judged_runs = [measure.shared_out(judged)[0] for judged in judged_runs]
    ends = rank_bands(bands, max(_depth(measure, judged) for judged in judged_runs))
    defined = ~np.isnan(np.stack(values)).any(axis=0)
    systems = []
    for judged, value in zip(judged_runs, values, strict=True):
        # score_all has warned already
        with warnings.catch_warnings(action="ignore", category=FairtkWarning):
            if is_awrf:
                parts, cost = awrf_parts(measure, judged, ends), 1.0 - value
            else:
                parts, cost = loss_parts(measure, judged, ends, groups), value
        lost = np.flatnonzero(defined & ~judged.present)
        outside = np.zeros((len(lost), len(ends) + 1))
        outside[:, -1] = cost[lost]
        parts = parts.only(defined & judged.present).with_unshown(lost, ABSENT, outside)
        systems.append(System(parts, value, cost, judged.present))
    before = systems[1] if baseline is not None else None
    return Explanation(measure, labels.qids, names, band_names(ends), defined, systems[0], before)


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


def _depth(measure: Any, judged: LabeledRun) -> int:
    deepest = int(judged.run.position.max(initial=0)) + 1
    return deepest if measure["cutoff"] is None else min(deepest, measure["cutoff"])
