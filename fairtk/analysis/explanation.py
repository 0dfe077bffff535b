"""`explain`: the cost of a group measure by group, rank and query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from fairtk.analysis.contributions import (
    ABSENT,
    awrf_parts,
    document_costs,
    document_parts,
    exposure_of_rows,
    group_loss_parts,
    rank_bands,
)
from fairtk.analysis.group_names import (
    LABELS,
    NOT_SHOWN,
    UNSEEN,
    band_names,
    group_columns,
    join_names,
)
from fairtk.display.tables import as_texts, frame_html, frame_lines, number_text
from fairtk.errors import InputError, ParameterError
from fairtk.frames import DOCNO, GROUP, LABEL, QID, RANK, SCORE, BoolArray, FloatArray, Qrels, Run
from fairtk.frames.accepted import as_frame
from fairtk.frames.columns import from_ir_measures, require_columns
from fairtk.groups import Groups, Target
from fairtk.groups.levels import LevelSpace
from fairtk.io.qrels import as_qrels
from fairtk.io.runs import as_run
from fairtk.measures.awrf import AWRF
from fairtk.measures.ee import EE_L, EE_R
from fairtk.measures.evaluation import evaluate
from fairtk.measures.facts import RunFacts, deepest_cutoff, remarks_on_run
from fairtk.measures.group_ee import GroupEE_L
from fairtk.measures.info import MeasureInfo
from fairtk.measures.labeled_run import LabeledRun
from fairtk.measures.parsing import format_measure, parse
from fairtk.remarks import MISSING, NO_JUDGED_DOCUMENT, emit
from fairtk.report.page import Section, write_analysis
from fairtk.report.tables import reading
from fairtk.wording import count_text, format_list, short


def with_baseline(frame: pd.DataFrame, before: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the frame with the baseline's columns and the change in cost; missing parts are 0."""
    before = before.drop(columns=["target", "difference"], errors="ignore").set_index(keys)
    both = pd.concat([frame.set_index(keys), before.add_prefix("baseline_")], axis=1).fillna(0)
    counts = both.filter(like="queries").columns
    both[counts] = both[counts].astype(np.int64)
    both["change"] = both["cost"] - both["baseline_cost"]
    return both.reset_index()


def sorted_by_cost(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows by descending cost, NaN last."""
    return frame.sort_values("cost", ascending=False, kind="stable", ignore_index=True)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The parts of a measure's cost; returned by `fairtk.explain`.

    It prints its costliest rows. All frames of parts have the column ``cost``, whose sum is `total`
    (in `by_query`, its mean). With a baseline, they also have ``baseline_cost`` and ``change``, the
    cost minus that of the baseline: negative is an improvement.

    Attributes:
        measure: the measure.
        space: the groups.
        queries: ``qid``, ``value`` and ``cost``, which is NaN if the run or baseline is undefined.
        parts: ``qid``, the group's columns, ``ranks``, ``exposure``, ``target`` and ``cost``.
        attention: share of each query's attention by band; shape (n_queries, n_bands).
        present: whether each query is in the run; shape (n_queries,).
        documents: the documents of the query, if only one is explained.
        before: the explanation of the baseline, or `None`.
    """

    measure: Any
    space: LevelSpace
    queries: pd.DataFrame
    parts: pd.DataFrame
    attention: FloatArray
    present: BoolArray
    documents: pd.DataFrame | None
    before: Explanation | None

    @property
    def total(self) -> float:
        """The mean cost over the queries with a cost; NaN without any."""
        return float(self.queries["cost"].mean())

    @property
    def n_defined(self) -> int:
        """The number of queries with a cost."""
        return int(self.queries["cost"].count())

    @property
    def explained(self) -> BoolArray:
        """Whether each query is in the run and defined; shape (n_queries,)."""
        explained: BoolArray = self.present & self.queries["cost"].notna().to_numpy()
        return explained

    @property
    def columns(self) -> list[str]:
        """The columns that name a group: ``group``, or one per crossed attribute."""
        return list(self.space.names) if self.space.crossed else [GROUP]

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """The cost of each group, highest first.

        Columns: ``group`` (or one per crossed attribute); ``exposure`` and ``target``, mean shares
        of attention for AWRF, otherwise mean attention, over the queries in the run;
        ``difference``, exposure minus target, above 0 for an overexposed group; ``queries``, the
        number of queries with exposure of the group; ``cost``; ``share`` of the total.
        """
        return self._compared(Explanation._groups, self.columns)

    @cached_property
    def by_attribute(self) -> pd.DataFrame:
        """The cost of each level of each crossed attribute, summed over the other attributes.

        Columns: ``attribute`` and those of `by_group`. The costs of an attribute's levels sum to
        the total.
        """
        frames = []
        for name, column in zip(self.space.names, self.columns, strict=True):
            frame = self._compared(Explanation._groups, [column]).rename(columns={column: GROUP})
            frame.insert(0, "attribute", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    @cached_property
    def by_rank(self) -> pd.DataFrame:
        """The cost of each band of ranks, from the top.

        Columns: ``ranks`` (from 1); ``attention``, the band's mean share; ``cost``, below 0 for
        ranks that show underexposed groups; ``share`` of the total.
        """
        return self._compared(Explanation._ranks, ["ranks"], sort=False)

    @cached_property
    def by_query(self) -> pd.DataFrame:
        """The cost of each query, highest first; undefined ones (NaN) last.

        Columns: ``qid``; ``value`` of the measure; ``cost``; ``costliest``, the group with the
        highest cost; ``costliest_share``, its share of the query's cost.
        """
        frame = self.queries.copy()
        if self.before is not None:
            frame["baseline_cost"] = self.before.queries["cost"]
            frame["change"] = frame["cost"] - frame["baseline_cost"]
        costs = self.parts.groupby([QID, *self.columns], observed=True)["cost"].sum()
        top = sorted_by_cost(costs.reset_index()).drop_duplicates(QID)
        top.index = top.pop(QID).astype("str")
        has_cost, qids = frame["cost"] > 0, frame[QID]
        names = pd.Series(join_names(top[self.columns]), top.index, dtype="str")
        frame["costliest"] = qids.map(names).where(has_cost, "")
        frame["costliest_share"] = (qids.map(top["cost"]) / frame["cost"]).where(has_cost)
        return sorted_by_cost(frame)

    @property
    def by_document(self) -> pd.DataFrame:
        """The documents of the explained query up to the cutoff, the most exposed first.

        Columns: ``docno``; ``rank``, from 1, the best one over samples, missing if not retrieved;
        ``groups``, if there are any; ``exposure`` or credit, the mean over samples; ``label``, NaN
        if not judged; with a baseline, ``baseline_rank`` and ``baseline_exposure``.

        For EE_L and EE_R, also ``target``; ``difference``, exposure minus target; ``cost``; with a
        baseline, ``baseline_cost``. These are NaN if the measure is undefined. Documents with the
        lowest difference, those that lack exposure, are first, retrieved or not.

        Raises:
            ParameterError: all queries are explained.
        """
        if self.documents is None:
            raise ParameterError("`qid` is required for the table by document")
        frame = self.documents
        if self.before is not None and self.before.documents is not None:
            before = self.before.documents.drop(columns=["target", "difference"], errors="ignore")
            names = {name: f"baseline_{name}" for name in (RANK, "exposure", "cost")}
            before = before.rename(columns=names)
            keys = [name for name in frame.columns if name in before.columns]
            frame = frame.merge(before, "outer", keys)
        if "difference" in frame.columns:
            return frame.sort_values(["difference", RANK], ignore_index=True)
        return frame.sort_values(["exposure", RANK], ascending=[False, True], ignore_index=True)

    def to_frame(self) -> pd.DataFrame:
        """Return all parts, one row per query, group and band of ranks.

        Columns: ``qid``, those of the group, ``ranks``, ``exposure`` and ``cost``, and those of the
        baseline. The costs of a query sum to its cost.
        """
        keys = [QID, *self.columns, "ranks"]
        return self._compared(Explanation._long, keys, sort=False, shares=False)

    def _compared(
        self,
        make: Callable[[Explanation, list[str]], pd.DataFrame],
        keys: list[str],
        sort: bool = True,
        shares: bool = True,
    ) -> pd.DataFrame:
        """Return a frame of parts, with the baseline's values and shares of the total."""
        frame = make(self, keys).astype(dict.fromkeys(keys, "str"))
        if self.before is not None:
            before = make(self.before, keys).astype(dict.fromkeys(keys, "str"))
            frame = with_baseline(frame, before, keys)
        if shares:
            column = frame.columns.get_loc("cost") + 1
            frame.insert(column, "share", frame["cost"] / self.total if self.total else np.nan)
        return sorted_by_cost(frame) if sort else frame

    def _groups(self, keys: list[str]) -> pd.DataFrame:
        """Return mean exposure, target, difference and cost of each group, and its queries."""
        parts = self.parts
        sums = parts.groupby(keys, observed=True)[["exposure", "target", "cost"]].sum()
        n_queries = parts[parts["exposure"] > 0].groupby(keys, observed=True)[QID].nunique()
        frame = sums[["exposure", "target"]] / max(self.explained.sum(), 1)
        frame["difference"] = frame["exposure"] - frame["target"]
        frame["queries"] = n_queries.reindex(frame.index, fill_value=0)
        frame["cost"] = sums["cost"] / max(self.n_defined, 1)
        return frame.reset_index()

    def _ranks(self, keys: list[str]) -> pd.DataFrame:
        """Return mean attention and cost of each band of ranks."""
        # a mean over no queries is NaN, not 0
        cost = self.parts.groupby(keys, observed=False)["cost"].sum() / (self.n_defined or np.nan)
        attention = self.attention[self.explained].sum(axis=0) / (self.explained.sum() or np.nan)
        frame = pd.DataFrame({"attention": attention, "cost": cost}).reset_index()
        return frame if np.nan_to_num(cost.iloc[-1]) != 0 else frame[:-1]

    def _long(self, keys: list[str]) -> pd.DataFrame:
        sums = self.parts.groupby(keys, observed=True)[["exposure", "cost"]].sum()
        return sums[(sums != 0).any(axis=1)].reset_index()

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Return a figure of exposure and target, and of cost by group, rank band and query.

        Args:
            path: an .svg, .pdf or .png file to write; `None` for no file.

        Returns:
            A ``matplotlib.figure.Figure``.

        Raises:
            MissingExtraError: matplotlib is not installed.
            ParameterError: the suffix of the file is not supported.
            InputError: its folder does not exist.
        """
        from fairtk.analysis.explanation_figure import draw

        return draw(self, path)

    def report(self, path: str | PathLike[str], *, command: str | None = None) -> None:
        """Write one HTML file with the figure and all tables.

        `path`, `command` and errors are as in `fairtk.Frontier.report`.
        """
        (_, groups), *others = [
            (name, frame.rename(columns=lambda column: column.replace("_", " ")))
            for name, frame in self._tables()
        ]
        last, of_last = others.pop()
        caption = (
            ""
            if last == "document"
            else ("Costliest: the group with the highest cost, with its share of the query's cost.")
        )
        write_analysis(
            path,
            title="Explanation of a value",
            overview=f"{'; '.join(self.summary)}.",
            figure=self.plot(),
            caption="Exposure and target of each group, and the cost of groups, ranks and queries. "
            "The costs of groups, and those of ranks, add up to the total.",
            table=as_texts(groups, "Difference: exposure minus target. Share: of the total cost."),
            systems=list(range(len(groups))),
            readings={format_measure(self.measure): reading(MeasureInfo.of(self.measure))},
            comparisons=Section(f"By {last}", table=as_texts(of_last, caption)),
            sections=[
                *(Section(f"By {part}", table=as_texts(frame)) for part, frame in others),
                Section(
                    "Limits",
                    ("Costs describe a value. They do not predict what would change if a document "
                     "moved, and they do not show causes.",),
                ),
            ],
            command=command,
        )  # fmt: skip

    def _tables(self) -> list[tuple[str, pd.DataFrame]]:
        """Return the tables with their names: groups first, documents or queries last."""
        tables = [("group", self.by_group)]
        if self.space.crossed:
            of = self.by_attribute.groupby("attribute", sort=False)
            tables += [(str(name), part.drop(columns="attribute")) for name, part in of]
        tables.append(("ranks", self.by_rank))
        if self.documents is None:
            return [*tables, ("query", self.by_query)]
        documents = self.by_document
        # a missing value, such as the label of an unjudged document, is not undefined
        numbers = documents.select_dtypes("float").columns
        return [*tables, ("document", documents.astype(dict.fromkeys(numbers, "Float64")))]

    def __repr__(self) -> str:
        tables = (_written(*table) for table in self._tables())
        return "\n\n".join(["\n".join(self.summary), *tables])

    def _repr_html_(self) -> str:
        about = "; ".join(self.summary)
        about = f"{about}: by group (drawn: exposure, and the target as a line); .by_rank and "
        from fairtk.analysis.explanation_figure import group_pictures

        pictures = group_pictures(self)
        html = frame_html(self.by_group, about + ".by_query are others", pictures=pictures)
        if self.documents is not None:
            html += frame_html(self.by_document, "By document")
        return html

    @property
    def summary(self) -> list[str]:
        """The measure, its cost and the number of queries, as lines of text."""
        n, missing = count_text(len(self.queries), "query", "queries"), int((~self.present).sum())
        text = f"cost ({cost_name(self.measure)}): {number_text(self.total)}"
        lines = [format_measure(self.measure), f"{text}, mean of {self.n_defined} of {n}"]
        if self.documents is not None:
            qid, value, _ = self.queries.iloc[0]
            lines = [f"{lines[0]} of query {qid}", f"value: {number_text(value)}, {text}"]
        if self.before is not None:
            before = self.before.total
            change = number_text(self.total - before, sign="+")
            lines.append(f"baseline: {number_text(before)}, change {change}")
        if missing:
            one = "; pass `qid` to explain one query" if self.documents is None else ""
            lines.append(f"missing from the run: {missing} of {n}{one}")
        return lines


_SHOWN = 12


def _written(part: str, frame: pd.DataFrame) -> str:
    """Return the first rows of a table as text."""
    # the frames have all columns; a terminal shows fewer
    hidden = ["baseline_exposure", "baseline_queries", "baseline_attention"]
    frame = frame.drop(columns=hidden, errors="ignore")
    rest = len(frame) - _SHOWN
    cut = f", the first {_SHOWN} of {len(frame)}" if rest > 0 else ""
    lines = frame_lines(frame.head(_SHOWN))
    return "\n".join([f"By {part}{cut}:", *(lines if len(frame) else ["nothing"])])


def explain(
    qrels: Any,
    run: Any,
    measure: Any,
    *,
    qid: str | None = None,
    baseline: pd.DataFrame | str | PathLike[str] | None = None,
    groups: Any = None,
    target: Any = None,
    bands: Sequence[int] | None = None,
    parent: str | None = None,
) -> Explanation:
    """Split AWRF, GroupEE_L, EE_L or EE_R into the costs of groups, rank bands and queries.

    The cost is 1 - AWRF, 1 - EE_R, or the loss itself. Its parts by group, and by rank band, sum to
    it. The cost of a group is its term of the divergence, whether it is over- or underexposed. For
    EE_R, the cost of a document is target * (target - exposure), negative for an overexposed one,
    divided as the measure is. The cost of a rank is that of the groups that it shows, plus its
    share of the target's cost. Other rules also sum to the total; none is a statement about causes.
    The site's page on `explain` has the formulas.

    Args:
        qrels: the labels, in PyTerrier's or ir_measures' column names, a file, or the id of a
            dataset; only their queries count.
        run: R or S, in PyTerrier's or ir_measures' column names, or a file.
        measure: ``AWRF(groups=..., target=...)@k``, ``GroupEE_L(groups=..., target=...)@k``,
            ``EE_L@k`` or ``EE_R@k`` (by documents), or its string.
        qid: explain only this query, with its documents. `None` for all queries of the qrels;
            those missing from the run have the worst value.
        baseline: another run; the tables then have the change from it. Means are over the queries
            that are defined for both.
        groups: an object, a frame or a file. For AWRF and GroupEE_L, the groups if the measure has
            none; for EE_L and EE_R, the groups to sum documents' costs by, instead of their labels
            (useful, not useful, not judged).
        target: the target of a measure with `groups`, as for `fairtk.evaluate`.
        bands: the last rank of each band of ranks, e.g. 5, 10 and 20.
        parent: the separator of document and passage in docnos, e.g. ``"%p"``: ``d1%p3`` is a
            passage of ``d1``, and a docno without it is its own document. Labels, groups and
            providers are then of documents. `None` for the column ``parent`` of runs, if any.

    Raises:
        ParameterError: the measure is not one of these four, or cannot be split
            (``unlabeled="best"``, ``estimator="unbiased"``).
        InputError: the run or the labels are invalid.
    """
    measure = parse(measure)
    _require_sum(measure)
    where = f"explain({measure!r})"
    runs = [run] if baseline is None else [run, baseline]
    if qid is not None:
        qrels, *runs = _of_query(str(qid), qrels, runs, where)
    labels = as_qrels(qrels, where)
    measure, groups = _completed(measure, groups, target, labels, where)
    _check(measure, groups)
    named = groups if _is_by_document(measure) else measure.groups
    space = LevelSpace(("label",), (LABELS,), (-1,)) if named is None else named.space
    is_awrf = isinstance(measure, type(AWRF))
    ranked = [
        as_run(one, f"{where} ({name})").with_parents(parent)
        for name, one in zip(("run", "baseline"), runs, strict=False)
    ]
    judged_runs = [LabeledRun(labels, one, where) for one in ranked]
    scores = [evaluate([measure], judged) for judged in judged_runs]
    for judged, of_run in zip(judged_runs, scores, strict=True):
        remarks = remarks_on_run(of_run, RunFacts.of(judged, deepest_cutoff([measure])), labels)
        # the tables have missing queries, and AWRF does not read labels
        silent = (MISSING, NO_JUDGED_DOCUMENT) if is_awrf else (MISSING,)
        emit(remark for remark in remarks if remark.kind not in silent)
    values = [of_run[measure].values for of_run in scores]
    if is_awrf:  # for credit, ranks are those of credit
        judged_runs = [measure.run_for_shares(judged)[0] for judged in judged_runs]
    ends = rank_bands(bands, max(_depth(measure, judged) for judged in judged_runs))
    defined = ~np.isnan(np.stack(values)).any(axis=0)
    rest = UNSEEN if _is_by_document(measure) else NOT_SHOWN

    def explained(
        judged: LabeledRun, value: FloatArray, before: Explanation | None = None
    ) -> Explanation:
        cost = np.where(defined, _cost(measure, judged, value), np.nan)
        if is_awrf:
            frame, attention = awrf_parts(measure, judged, ends)
        elif isinstance(measure, type(GroupEE_L)):
            frame, attention = group_loss_parts(measure, judged, ends)
        else:
            frame, attention = document_parts(measure, judged, ends, groups)
        missing = np.flatnonzero(defined & ~judged.present)
        absent = {"query": missing, "level": ABSENT, "band": len(ends), "cost": cost[missing]}
        frame = frame[(defined & judged.present)[frame["query"]]]
        frame = pd.concat([frame, pd.DataFrame(absent)], ignore_index=True).fillna(0.0)
        parts = group_columns(space, rest, frame["level"].to_numpy())
        parts.insert(0, QID, pd.Categorical.from_codes(frame["query"], labels.qids))
        parts["ranks"] = pd.Categorical.from_codes(frame["band"], band_names(ends))
        parts = parts.join(frame[["exposure", "target", "cost"]])
        queries = {QID: pd.Series(labels.qids, dtype="str"), "value": value, "cost": cost}
        return Explanation(
            measure,
            space,
            pd.DataFrame(queries),
            parts,
            attention,
            judged.present,
            None if qid is None else _documents(measure, judged, named, bool(defined.all())),
            before,
        )

    systems = [*zip(judged_runs, values, strict=True)]
    return explained(*systems[0], *(explained(*system) for system in systems[1:]))


def _of_query(qid: str, qrels: Any, runs: list[Any], where: str) -> list[pd.DataFrame]:
    """Return the rows of one query in qrels and runs; raise an `InputError` without labels.

    The other rows of frames are not checked.
    """
    if isinstance(qrels, str | PathLike):
        qrels = as_qrels(qrels, where)
    runs = [as_run(run, where) if isinstance(run, str | PathLike) else run for run in runs]
    frames = []
    for data, value in [(qrels, LABEL), *((run, SCORE) for run in runs)]:
        is_coded = isinstance(data, Qrels | Run)
        frame = data.with_text_ids() if is_coded else as_frame(data, value, where)
        frame = from_ir_measures(frame, where)
        require_columns(frame, [QID], where)
        frames.append(frame)
    parts = [frame[frame[QID].astype(str) == qid] for frame in frames]
    if parts[0].empty:
        missing = "the qrels" if len(parts[1]) else "qrels and run"
        known = format_list(map(str, frames[0][QID].unique()), 3)
        raise InputError(
            f"{where}: qid {short(qid)} is missing from {missing}; the qrels have {known}"
        )
    return parts


def cost_name(measure: Any) -> str:
    """Return the cost of a measure as a formula."""
    if isinstance(measure, type(EE_R)) and not measure["normalize"]:
        return "upper bound - EE_R"
    return f"1 - {measure.NAME}" if measure.BETTER == "higher" else str(measure.NAME)


def _cost(measure: Any, judged: LabeledRun, value: FloatArray) -> FloatArray:
    """Return the distance of values from the best one; shape (n_queries,)."""
    if measure.BETTER == "lower":
        return value
    best = 1.0 if measure.params.get("normalize", True) else measure.part(judged).upper
    return np.asarray(best - value)


def _is_by_document(measure: Any) -> bool:
    return isinstance(measure, (type(EE_L), type(EE_R)))


def _documents(
    measure: Any, judged: LabeledRun, groups: Groups | None, is_defined: bool
) -> pd.DataFrame:
    """Return docno, rank, groups, exposure and label of the documents of a query.

    For EE_L and EE_R, also target, difference and cost, NaN if the measure is undefined; documents
    with a target are listed even if they are not in the ranking.
    """
    ranked = judged.run
    rows = pd.DataFrame({"pair": judged.pair_of_row, RANK: ranked.position + 1})
    rows["exposure"] = exposure_of_rows(measure, judged)
    by_pair = rows.groupby("pair").agg({RANK: "min", "exposure": "sum"})
    by_pair = by_pair.reindex(range(judged.n_pairs))
    frame = pd.DataFrame({DOCNO: judged.docnos[judged.pair_doc]})
    frame[RANK] = by_pair[RANK].astype("Int64")
    if groups is not None:
        own = groups.memberships(judged.docnos, "drop")
        names = pd.Series(join_names(group_columns(groups.space, "", own.level)), dtype="str")
        names = names.groupby(own.row).agg(", ".join)
        frame["groups"] = names.reindex(judged.pair_doc, fill_value="").to_numpy()
    frame["exposure"] = by_pair["exposure"].fillna(0.0)
    depth = _depth(measure, judged)
    listed = by_pair[RANK].le(depth)
    if _is_by_document(measure):
        _, target, costs, _, _ = document_costs(measure, judged, (depth,))
        frame["target"] = target if is_defined else np.nan
        frame["difference"] = frame["exposure"] - frame["target"]
        frame["cost"] = costs.sum(axis=1) if is_defined else np.nan
        listed = listed | (frame["target"] > 0)
    frame[LABEL] = judged.pair_label
    return frame[listed]


def _completed(
    measure: Any, groups: Any, target: Any, labels: Qrels, where: str
) -> tuple[Any, Groups | None]:
    """Return the measure with groups and target, and the groups of EE_L or EE_R by documents."""
    if groups is None and target is None:
        return measure, None
    if groups is not None:
        groups = Groups.of(groups)
        if not _is_by_document(measure) and measure["groups"] is None:
            measure, groups = measure(groups=groups), None
    if target is not None:
        if _is_by_document(measure) or measure["groups"] is None:
            raise ParameterError(
                f"{where}: `target` requires a measure of groups, AWRF or GroupEE_L, with `groups`"
            )
        measure = measure(target=Target.of(target, measure["groups"], labels, where))
    return measure, groups


def _check(measure: Any, groups: Groups | None) -> None:
    """Raise a `ParameterError` if the measure cannot be split, or has groups already."""
    problem = ""
    if not _is_by_document(measure):
        measure.target_for(measure.groups)
        if groups is not None:
            problem = "has groups already; drop `groups`"
    if measure.params.get("unlabeled") in ("best", "worst"):
        problem = (
            "is a bound, which is not a sum over groups; use unlabeled='drop', 'unknown' or "
            "'uniform'"
        )
    elif measure.params.get("estimator") == "unbiased":
        problem = "is not a sum over groups; use estimator='plain'"
    if problem:
        raise ParameterError(f"explain: {measure!r} {problem}")


def _require_sum(measure: Any) -> None:
    """Raise a `ParameterError` unless the measure is a sum over groups or documents."""
    if not isinstance(measure, (type(AWRF), type(GroupEE_L), type(EE_L), type(EE_R))):
        parts = getattr(measure, "parts", [])
        hint = f"; explain its factor {parts[-1]!r}" if len(parts) == 2 else ""
        raise ParameterError(
            "explain: expected AWRF, GroupEE_L, EE_L or EE_R, which are sums over groups or "
            f"documents, got {measure!r}{hint}"
        )


def _depth(measure: Any, judged: LabeledRun) -> int:
    deepest = int(judged.run.position.max(initial=0)) + 1
    cutoff = measure.params.get("cutoff")
    return deepest if cutoff is None else min(deepest, cutoff)
