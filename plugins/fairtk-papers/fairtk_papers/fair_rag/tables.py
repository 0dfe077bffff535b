"""The tables: utility by level of exposure, slopes and areas of trade-offs, and credit.

A frame of values has these columns:

==============  ==================================================================================
``task``        ``"LaMP-1"`` to ``"LaMP-7"``, or another name
``retriever``   ``"BM25"``, ``"SPLADE"``, ``"Contriever"``, or another name
``generator``   ``"flan-t5-small"``, ``"flan-t5-base"``, ``"flan-t5-xxl"``, or another name
``alpha``       a number for a sampled policy, else `DETERMINISTIC` or `ORACLE`
``qid``         the query
``measure``     `EE_D` (unbiased) and `EE_R`, both normalized, `NORMALIZED_EU` (see
                `normalized_utility`), `EU`
``value``       the value; NaN if undefined
==============  ==================================================================================

A model is a combination of a task, a retriever and a generator. A frame of sizes has ``task``,
``generator``, ``qid``, ``documents`` (the number of candidates) and ``useful`` (how many of them
are useful).

``paper.tsv`` has Tables 3 to 15 of *Towards Fair RAG* (the version reviewed for ICLR 2025): table,
task, retriever, generator, statistic, value. Table 1 repeats rows of Tables 6 and 9.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import pairwise, zip_longest
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from fairtk.display import MarkedText, Table, latex_text, number_text, rounded_text
from fairtk.errors import DuplicateError, InputError, NotFoundError, UndefinedWarning
from fairtk.frames import LABEL, QID, FloatArray, IntArray, require_columns
from fairtk.statistics import correct_p_values, curve_values, mean_intervals, paired_test
from fairtk.wording import format_list
from fairtk_papers.studies import file_name

DETERMINISTIC, ORACLE = "deterministic", "oracle"
EE_D, EE_R, EU, NORMALIZED_EU = "EE_D", "EE_R", "EU", "normalized EU"
MODEL = ["task", "retriever", "generator"]
NAMES = {EE_D: "disparity (EE-D)", EE_R: "ranking quality (EE-R)", NORMALIZED_EU: NORMALIZED_EU}
"""Names of the measures in text."""
UNBIASED = (
    "EE-D of sampled rankings is the unbiased estimate. The paper's plain estimate from N samples "
    "is larger by (1 - EE-D) / N on average."
)


def is_sampled(alpha: pd.Series) -> pd.Series:
    """Return a mask of the rows whose policy is sampled, that is, whose alpha is a number.

    Raises:
        InputError: an alpha is neither a number, ``"deterministic"`` nor ``"oracle"``.
    """
    number = alpha.map(lambda a: isinstance(a, Real) and not isinstance(a, bool) and a == a)
    bad = alpha[~number & ~alpha.isin([DETERMINISTIC, ORACLE])]
    if len(bad):
        raise InputError(
            f"alpha must be a number, {DETERMINISTIC!r} or {ORACLE!r}, got {bad.iloc[0]!r}"
        )
    return number.astype(bool)


def models(values: pd.DataFrame, where: str) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield each model and its values, with one row per (alpha, qid) and one column per measure.

    Rows are sorted by alpha, with the deterministic policy last, then by qid. Oracles are excluded.

    Args:
        values: a frame of values.
        where: the caller, for messages.

    Raises:
        ColumnError: a column is missing.
        DuplicateError: a query has two values of a measure under one policy.
        InputError: there are no rows, or an alpha is invalid.
    """
    keys = [*MODEL, "alpha", QID, "measure"]
    require_columns(values, [*keys, "value"], where)
    values = values.reset_index(drop=True)  # concatenated frames repeat indices
    is_number = is_sampled(values["alpha"])
    rows = values[is_number | (values["alpha"] == DETERMINISTIC)]
    if rows.empty:
        raise InputError(f"{where}: no values of sampled or deterministic policies")
    duplicates = rows.loc[rows.duplicated(keys), keys]
    if len(duplicates):
        raise DuplicateError(f"{where}: duplicate value for {dict(duplicates.iloc[0])}")
    order = rows["alpha"].where(is_number, float("inf")).astype(float)
    for model, part in rows.assign(order=order).groupby(MODEL, sort=False):
        wide = part.pivot(index=["order", "alpha", QID], columns="measure", values="value")
        wide = wide.sort_index(level=["order", QID]).droplevel("order")
        yield model, wide.astype(float)


def select(frame: pd.DataFrame, key: Sequence[str], columns: Sequence[str] = MODEL) -> pd.DataFrame:
    """Return the rows whose columns have the values of a key, by default those of a model."""
    return frame[(frame[[*columns]] == [*key]).all(axis=1)]


def require_measures(wide: pd.DataFrame, measures: tuple[str, ...], where: str) -> None:
    """Raise a `NotFoundError` if a measure is missing."""
    for measure in measures:
        if measure not in wide.columns:
            raise NotFoundError(f"{where}: measure", measure, list(wide.columns))


def sizes(qrels: pd.DataFrame, task: str, generator: str) -> pd.DataFrame:
    """Return a frame of sizes.

    Args:
        qrels: ``qid``, ``docno``, ``label``: one row per candidate.
        task: the task of the queries.
        generator: the generator that the labels are for.
    """
    counts = (qrels[LABEL] > 0).groupby(qrels[QID], sort=False).agg(["size", "sum"])
    counts = counts.set_axis(["documents", "useful"], axis=1).reset_index()
    return counts.assign(task=task, generator=generator)[
        ["task", "generator", QID, "documents", "useful"]
    ]


FAIRNESS_TABLES = {f"LaMP-{task}": 5 + task for task in range(1, 8)}
"""The table with the intervals of each task."""


def paper_numbers() -> pd.DataFrame:
    """Return the numbers in the paper's tables.

    Returns:
        ``table`` (3 to 15), ``task``, ``retriever`` (empty in Tables 13 to 15), ``generator``,
        ``statistic`` and ``value``. The statistics are ``"slope"`` and ``"area"`` in Tables 3 to 5;
        ``"baseline"``, and intervals such as ``"[0.2, 0.4)"`` for differences from the baseline, in
        6 to 12; ``"queries"``, ``"documents"``, ``"documents std"``, ``"useful"``, ``"useful std"``
        and ``"percent useful"`` in 13 to 15.
    """
    path = resources.files(__package__) / "paper.tsv"
    with path.open("r", encoding="utf-8") as stream:
        return pd.read_csv(
            stream, sep="\t", dtype={"value": float, "table": int}, keep_default_na=False
        )


def add_paper_columns(rows: pd.DataFrame, statistic: pd.Series) -> pd.DataFrame:
    """Return a frame with the columns ``paper`` and ``from paper`` (value - paper).

    Both are NaN for tasks, retrievers and generators that are not in the paper.

    Args:
        rows: a frame with ``table``, ``task``, ``retriever``, ``generator`` and ``value``.
        statistic: the paper's name for the statistic of each row.
    """
    keys = ["table", *MODEL, "statistic"]
    printed = paper_numbers().set_index(keys)["value"]
    index = pd.MultiIndex.from_frame(rows.assign(statistic=statistic)[keys])
    paper = printed.reindex(index).to_numpy()
    return rows.assign(**{"paper": paper, "from paper": rows["value"].to_numpy() - paper})


EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
UNREACHABLE = "unreachable: there are too few candidates for exposure this even"
TOO_EVEN = "too few candidates for exposure this even: estimates vary between samples"
NO_VALUES = "no query has a value of both measures"
_DIGITS = 9
"""The decimals of EE-D that count, since a sum of fractions can be 0.6000000000000001."""


def fairness_intervals(values: pd.DataFrame, sizes: pd.DataFrame, *, cutoff: int) -> pd.DataFrame:
    """Return the difference in utility from the deterministic run, per model and interval of EE-D.

    A point is a query under one sampled policy. ``value`` is the difference in the paper: the mean
    of the points in the interval minus the mean of the deterministic run over all queries. But an
    interval may have no points of some queries. So the mean of each query in the interval is also
    compared with the query's deterministic value (paired t-test, with Holm's correction over the
    intervals of a model). There is one pair per query because the points of a query are dependent.
    Unbiased estimates of EE-D below 0 are in the first interval.

    Args:
        values: a frame of values with EE_D and normalized EU.
        sizes: a frame of sizes.
        cutoff: k of the rankings.

    Returns:
        One row per model and interval: ``baseline``, ``mean``, ``value``; ``points``, ``queries``;
        ``at the end`` (points of exactly 1, which are in no interval: the paper's Table 12 prints
        ``[0.8, 1.0]``, the others ``[0.8, 1.0)``); ``paired``, ``low``, ``high``, ``p``,
        ``p_corrected``; ``reachable`` (the queries for which k / n, the EE-D of the most even
        exposure, is below the upper end of the interval; estimates can be lower); ``note``;
        ``paper`` and ``from paper``
        (see `add_paper_columns`); ``table``.
    """
    parts = []
    for model, wide in models(values, "fairness_intervals"):
        n = select(sizes, model[::2], MODEL[::2])["documents"].to_numpy(dtype=np.float64)
        most_even = np.round(np.minimum(cutoff, n) / n, _DIGITS)  # EE_D of a uniform policy
        parts.append(_intervals(model, wide, most_even))
    table = pd.concat(parts, ignore_index=True)
    table["table"] = table["task"].map(FAIRNESS_TABLES).fillna(0).astype(int)
    return add_paper_columns(table, table["interval"])


def _intervals(model: tuple[Any, ...], wide: pd.DataFrame, most_even: FloatArray) -> pd.DataFrame:
    is_fixed = wide.index.get_level_values("alpha") == DETERMINISTIC
    fixed = wide.loc[is_fixed, NORMALIZED_EU].droplevel("alpha").dropna()
    points = wide[~is_fixed].dropna(subset=[EE_D, NORMALIZED_EU])
    disparity = np.maximum(np.round(points[EE_D].to_numpy(), _DIGITS), EDGES[0])
    bins: IntArray = np.searchsorted(np.asarray(EDGES), disparity, side="right") - 1
    rows = []
    for number, (start, end) in enumerate(pairwise(EDGES)):
        inside = points[NORMALIZED_EU][bins == number]
        per_query = inside.groupby(level=QID).mean()
        both = per_query.index.intersection(fixed.index)
        test = paired_test(per_query[both], fixed[both])
        reachable = most_even < end
        note = test.note
        if points.empty:
            note = NO_VALUES
        elif inside.empty:
            note = "no points in this interval" if reachable.any() else UNREACHABLE
        elif not reachable.any():
            note = "; ".join(filter(None, [TOO_EVEN, note]))
        rows.append(
            {
                **dict(zip(MODEL, model, strict=True)),
                "interval": f"[{start}, {end})",
                "baseline": fixed.mean(),
                "mean": inside.mean(),
                "value": inside.mean() - fixed.mean(),
                "points": len(inside),
                "queries": len(per_query),
                "at the end": int((disparity == end).sum()) if end == EDGES[-1] else 0,
                "paired": test.difference,
                "low": test.low,
                "high": test.high,
                "p": test.p,
                "reachable": int(reachable.sum()),
                "note": note,
            }
        )
    table = pd.DataFrame(rows)
    table.insert(
        table.columns.get_loc("p") + 1, "p_corrected", correct_p_values(table["p"], "holm")
    )
    return table


TRADE_OFFS = {3: (EE_D, EE_R), 4: (EE_R, NORMALIZED_EU), 5: (EE_D, NORMALIZED_EU)}
"""The horizontal and the vertical measure of the paper's tables."""


def trade_offs(values: pd.DataFrame, *, resamples: int = 1000, seed: int = 42) -> pd.DataFrame:
    """Return slopes and areas of quality and utility against exposure, for each model.

    The paper does not say whether it fits lines to queries or to means, and how it extends areas
    to [0, 1]. `fairtk.statistics.curve_values` computes the alternatives. The curves do not include
    the deterministic run, as in the paper ("the four repeated runs").

    Args:
        values: a frame of values.
        resamples: the number of bootstrap samples, over queries.
        seed: the seed of the bootstrap.

    Returns:
        One row per trade-off, model and statistic: ``table``, ``task``, ``retriever``,
        ``generator``, ``x``, ``y``, ``statistic``, ``value``, ``low``, ``high``, ``note`` (the
        reason if there is no interval), ``queries``, ``covered`` (the share of [0, 1] between the
        smallest and the largest mean x; the rest of an area is extrapolated), ``paper``, ``from
        paper``.
    """
    rows = []
    for model, wide in models(values, "trade_offs"):
        wide = wide[wide.index.get_level_values("alpha") != DETERMINISTIC]
        for table, (x, y) in TRADE_OFFS.items():
            defined = wide[[x, y]].dropna()
            # of shape (queries, policies), sorted by query; NaN if missing
            tables = (defined[name].unstack("alpha").sort_index() for name in (x, y))
            first, second = (values.to_numpy(dtype=np.float64) for values in tables)
            curves = curve_values(first, second, resamples=resamples, seed=seed)
            means = np.clip(np.nanmean(first, axis=0), 0.0, 1.0) if len(first) else [0.0]
            covered = float(np.ptp(means))
            for name, curve in curves.items():
                numbers = [curve.value, curve.low, curve.high, curve.note, len(first), covered]
                rows.append([table, *model, x, y, name, *numbers])
    columns = ["table", *MODEL, "x", "y", "statistic", "value", "low", "high", "note", "queries"]
    columns.append("covered")
    result = pd.DataFrame(rows, columns=columns)
    is_slope = result["statistic"].astype(str).str.startswith("slope")
    printed = pd.Series(np.where(is_slope, "slope", "area"), index=result.index)
    return add_paper_columns(result, printed)


PAPER_STATISTICS = ("slope of points", "area of means")
"""The slope (of a line fitted to all points) and the area (below the curve of the means)."""
TABLE_1_TASKS = ("LaMP-1", "LaMP-4")
"""The tasks of Table 1."""


def paper_tables(intervals: pd.DataFrame, slopes: pd.DataFrame) -> dict[str, Table]:
    """Return Tables 1 and 3 to 12 in the paper's layout, with the numbers of the study.

    Args:
        intervals: the result of `fairness_intervals`.
        slopes: the result of `trade_offs`.

    Returns:
        ``table_6`` to ``table_12``, and ``table_of_TASK`` for other tasks, have one row per model
        and one column per interval; values that are not negative are bold. ``table_1`` has LaMP-1
        and LaMP-4 side by side, if both were run. ``table_3`` to ``table_5`` have one row per task
        and one column per model, with "slope of points" / "area of means" in each cell.
    """
    parts = dict(list(_sort_by(intervals, *MODEL).groupby("task", sort=False)))
    tables = {}
    if set(TABLE_1_TASKS) <= set(parts):
        both = [_model_rows(parts[task], f"{task}: model") for task in TABLE_1_TASKS]
        empty = [""] * len(both[0][0])
        heads, *rows = ([*left, *right] for left, right in zip_longest(*both, fillvalue=empty))
        tables["table_1"] = _interval_table(" and ".join(TABLE_1_TASKS), 1, heads, rows)
    for number, part in slopes.groupby("table"):
        tables[f"table_{number}"] = _slope_table(part, int(number))
    for task, part in parts.items():
        number = part["table"].iloc[0]
        heads, *rows = _model_rows(part, "Model")
        name = f"table_{number}" if number else f"table_of_{file_name(str(task))}"
        tables[name] = _interval_table(str(task), number, heads, rows)
    return tables


def fitted_latex(table: Table) -> str:
    r"""Return a table in LaTeX, scaled down to the text width (requires graphicx)."""
    width = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
    text = latex_text(table).replace(r"\end{tabular}", r"\end{tabular}}", 1)
    return text.replace(r"\begin{tabular}", rf"\resizebox{{{width}}}{{!}}{{\begin{{tabular}}", 1)


def _sort_by(rows: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Sort rows by keys, in the order in which the values of a key appear."""
    return rows.iloc[np.lexsort([pd.factorize(rows[key])[0] for key in reversed(keys)])]


def _model_rows(part: pd.DataFrame, head: str) -> list[list[str]]:
    """Return the header and one row per model of a task."""
    rows = [[f"{head} (baseline utility)", *dict.fromkeys(part["interval"])]]
    for (retriever, generator), model in part.groupby(["retriever", "generator"], sort=False):
        baseline = model["baseline"].iloc[0]
        text = number_text(baseline, 3)
        name = f"{retriever}+{generator} ({text})"
        rows.append([name, *map(_difference, model["value"])])
    return rows


def _difference(value: float) -> str:
    if np.isnan(value):
        return ""
    value = round(value, _DIGITS)
    text = rounded_text(value, 2)
    return MarkedText(f"+{text}" if value > 0 and text[0] != "<" else text, int(value >= 0))


def _interval_table(task: str, number: int, heads: list[str], rows: list[list[str]]) -> Table:
    caption = (
        f"{task}{_in_paper(number)}: mean {NORMALIZED_EU} of the rankings whose {NAMES[EE_D]} is "
        "in the interval, minus that of the deterministic ranking (in parentheses). Bold: not "
        "negative."
    )
    note = (
        f"Empty: no rankings in the interval. {UNBIASED} Not all queries have rankings in an "
        "interval; paired differences with confidence intervals and p-values are in "
        "fairness_intervals.csv."
    )
    return Table(heads, rows, caption, note)


def _slope_table(part: pd.DataFrame, number: int) -> Table:
    # Table 3 has the retrievers of each generator, the others the generators of each retriever
    sides = ("generator", "retriever") if number == 3 else ("retriever", "generator")
    models = list(_sort_by(part, *sides).groupby([*sides], sort=False).groups)
    values = part.set_index(["task", *sides, "statistic"])["value"].to_dict()
    outer = [model[0] for model in models]
    first = [name if name not in outer[:i] else "" for i, name in enumerate(outer)]
    rows = [["", *(model[1] for model in models)]]
    for task in dict.fromkeys(part["task"]):
        row = [str(task)]
        for model in models:
            both = [values.get((task, *model, name)) for name in PAPER_STATISTICS]
            row.append(" / ".join(rounded_text(v, 4) for v in both if v is not None))
        rows.append(row)
    x, y = (NAMES[name] for name in TRADE_OFFS[number])
    caption = (
        f"Slope / AUC of {y} against {x}{_in_paper(number)}: slope of a line fitted to all queries "
        "at all alphas, and area below the curve of the means over 0 to 1."
    )
    low, high = part["covered"].min(), part["covered"].max()
    share = number_text(low, 2)
    if low != high:
        share += f" to {number_text(high, 2)}, by model,"
    note = (
        f"The runs cover {share} of the range 0 to 1 of {x}; the rest of the area is "
        "extrapolated. Other slopes and areas, with intervals, are in trade_offs.csv."
    )
    if TRADE_OFFS[number][0] == EE_D:
        note += f" {UNBIASED}"
    return Table(["Task", *first], rows, caption, note)


def _in_paper(number: int) -> str:
    return f" (Table {number} of Towards Fair RAG)" if number else ""


def uniform_end(values: pd.DataFrame, sizes: pd.DataFrame, *, cutoff: int) -> pd.DataFrame:
    """Return the exact values of a uniform policy, next to those of the smallest alpha.

    The paper takes the left end of its curves as the share of useful documents. This is the
    normalized EE-R of a uniform policy only if there are more useful documents than ranks.
    Otherwise, with m useful documents of n and k ranks, it is
    (k^2 / n) / (m + (k - m)^2 / (n - m)). The normalized EE-D of a uniform policy is k / n, not 0.

    Args:
        values: a frame of values with EE_D and EE_R.
        sizes: a frame of sizes.
        cutoff: k of the rankings.

    Returns:
        One row per model: ``share of useful`` (the mean of m / n over the queries), ``uniform
        EE_R`` and ``uniform EE_D`` (exact means), ``alpha`` (the smallest in the study), ``EE_R``
        and ``EE_D`` (the means at this alpha), ``queries``.
    """
    rows = []
    for model, wide in models(values, "uniform_end"):
        smallest = wide.index.get_level_values("alpha")[0]
        run = wide[wide.index.get_level_values("alpha") == smallest].droplevel("alpha")
        counts = select(sizes, model[::2], MODEL[::2]).set_index(QID)
        n, m = (
            counts[name].reindex(run.index).to_numpy(dtype=float)
            for name in ("documents", "useful")
        )
        defined = m > 0  # EE-R is undefined for queries without useful documents
        relevance = _uniform_relevance(n[defined], m[defined], cutoff)
        disparity = np.minimum(cutoff, n[defined]) / n[defined]
        uniform = [
            finite_mean(numbers) for numbers in (m[defined] / n[defined], relevance, disparity)
        ]
        means = [run[name][defined].mean() for name in (EE_R, EE_D)]
        rows.append([*model, *uniform, smallest, *means, int(defined.sum())])
    columns = ["share of useful", "uniform EE_R", "uniform EE_D", "alpha", EE_R, EE_D, "queries"]
    return pd.DataFrame(rows, columns=[*MODEL, *columns])


def _uniform_relevance(n: FloatArray, m: FloatArray, cutoff: int) -> FloatArray:
    """Return a uniform policy's normalized EE-R (Eqs. 6 and 24), of shape (queries,)."""
    k = np.minimum(cutoff, n)
    rest = np.where(n > m, (k - m) ** 2 / np.maximum(n - m, 1.0), 0.0)
    bound = np.where(m <= k, m + rest, k**2 / m)
    return np.asarray(k**2 / n / bound, dtype=np.float64)


def normalized_utility(
    utilities: pd.DataFrame,
    *,
    over: str = "retriever",
    deterministic: bool = False,
) -> pd.DataFrame:
    """Return each query's expected utility divided by the utility of its best single ranking.

    *Towards Fair RAG*, Eqs. 25 and 26: EU_q / u_max, where u_max is the largest utility of any
    sampled ranking of the query, including the oracle's. Because it is a maximum over rankings, not
    over means, it grows with the number of samples. The value is 1 if u_max is 0, as in the
    published code.

    Args:
        utilities: ``task``, ``retriever``, ``generator``, ``alpha``, ``qid``, ``sample`` and
            ``value``: the utility of each answer, where higher is better (for LaMP-3, 4 minus the
            error), NaN if it is undefined. The oracle's rows count for all retrievers of their task
            and generator.
        over: the rankings for the best utility, in addition to the oracle's: those of one
            ``"retriever"`` (Eq. 25 and the published code) or all with the same ``"generator"``
            (section 3.3.3).
        deterministic: whether the deterministic ranking counts, too. In the published code it does
            not, so the value of the deterministic run can exceed 1.

    Returns:
        ``task``, ``retriever``, ``generator``, ``alpha``, ``qid``, ``EU`` (the mean), ``best``
        (u_max) and ``value``. If utilities are at least 0, values are in [0, 1], except those of
        the deterministic run. Queries without an answer of the oracle, or whose best utility or
        mean depends on an undefined one, are NaN, with a warning.
    """
    counted = is_sampled(utilities["alpha"])
    if deterministic:
        counted |= utilities["alpha"] == DETERMINISTIC
    generator_keys = ["task", "generator", QID]
    keys = generator_keys if over == "generator" else [*MODEL, QID]
    is_oracle = utilities["alpha"] == ORACLE
    # an undefined utility becomes inf; NaN then is a query without rankings
    highest = utilities[counted].groupby(keys)["value"].max(skipna=False).fillna(np.inf)
    oracle = utilities[is_oracle].groupby(generator_keys)["value"].max(skipna=False).fillna(np.inf)
    means = utilities.groupby([*MODEL, "alpha", QID], sort=False)["value"].mean(skipna=False)
    table = means.rename(EU).reset_index()
    table = table.merge(highest.rename("_highest").reset_index(), on=keys, how="left")
    table = table.merge(oracle.rename("_oracle").reset_index(), on=generator_keys, how="left")
    missing = table["_oracle"].isna()
    # the oracle's rows have no other rankings
    best = table["_highest"].fillna(-np.inf).clip(lower=table["_oracle"])
    undefined = (best == np.inf) | table[EU].isna()
    table["best"] = best.where(~missing & (best < np.inf))
    # as in the published code: 1 if the best is 0, whatever the mean
    ratio = table[EU] / table["best"].where(table["best"] != 0)
    table["value"] = ratio.where((table["best"] != 0) | undefined, 1.0)
    for reason, rows in (
        ("the oracle has no answers", missing),
        ("the utility of an answer is undefined", undefined & ~missing),
    ):
        if rows.any():
            qids = list(dict.fromkeys(table.loc[rows, QID]))
            warnings.warn(
                f"normalized_utility: {reason} for {len(qids)} queries "
                f"({format_list(qids)}), so their values are undefined",
                UndefinedWarning,
                stacklevel=2,
            )
    return table[[*MODEL, "alpha", QID, EU, "best", "value"]]


AE_D, AE_R, GAP = "AE_D", "AE_R", "CreditGap"
CREDIT_MEASURES = (AE_D, AE_R, GAP)
EXPOSURE_SUFFIX = " of exposure"
"""Suffix of a credit measure for equal credit of all documents in a prompt."""
SUM, UNDEFINED, BELOW = "credit sum", "credit undefined", "credit below 0"
POSITION = "credit at place "
"""Prefix of the share of the credit at a position in the prompt, counted from 1."""


def credit_table(values: pd.DataFrame) -> pd.DataFrame:
    """Return credit next to exposure: means over the queries, with 95 % t intervals.

    AE_D and CreditGap of sampled systems are unbiased estimates, so their expectation does not
    depend on the number of samples. Intervals are not corrected for the number of rows.

    Args:
        values: a frame of values with `credit_values`.

    Returns:
        Rows of ``AE_D``, ``AE_R``, ``CreditGap`` and ``credit sum`` for each model and alpha:
        ``exposure`` (the measure with equal credit for all documents of a prompt), ``value``, the
        ``difference`` of both, ``low`` and ``high`` (the interval of the difference, or of the
        value if there is no exposure), ``queries`` (with a value), ``undefined`` (the share of
        rankings whose credit is undefined) and ``below 0`` (the share of documents with negative
        credit, which counts as 0).
    """
    rows = []
    for model, alpha, part in _policies(values):
        undefined, below = part[UNDEFINED].mean(), part[BELOW].mean()
        for name in (AE_D, AE_R, GAP, SUM):
            value = part[name].to_numpy(dtype=float)
            exposure = part.get(name + EXPOSURE_SUFFIX, pd.Series(np.nan, part.index)).to_numpy(
                float
            )
            difference = np.round(value - exposure, _DIGITS)  # without rounding errors
            estimated = difference if np.isfinite(exposure).any() else value
            _, low, high = mean_with_interval(estimated)
            means = [finite_mean(numbers) for numbers in (exposure, value, value - exposure)]
            n = int(np.isfinite(estimated).sum())
            rows.append([*model, alpha, name, *means, low, high, n, undefined, below])
    columns = ["exposure", "value", "difference", "low", "high", "queries", "undefined", "below 0"]
    return pd.DataFrame(rows, columns=[*MODEL, "alpha", "measure", *columns])


def position_table(values: pd.DataFrame) -> pd.DataFrame:
    """Return the mean share of the credit at each position of the prompt, with 95 % t intervals.

    Args:
        values: as in `credit_table`.

    Returns:
        One row per model, alpha and position (``place``, from 1): ``value``, ``low``,
        ``high``, ``queries``.
    """
    rows = []
    for model, alpha, part in _policies(values):
        for name in sorted((c for c in part if str(c).startswith(POSITION)), key=_position):
            share = part[name].to_numpy(dtype=float)
            n = int(np.isfinite(share).sum())
            rows.append([*model, alpha, _position(name), *mean_with_interval(share), n])
    return pd.DataFrame(rows, columns=[*MODEL, "alpha", "place", "value", "low", "high", "queries"])


def finite_mean(values: FloatArray) -> float:
    """Return the mean of the finite values, or NaN."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else np.nan


def mean_with_interval(
    values: FloatArray, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[float, float, float]:
    """Return the mean of the finite values, and the ends of its 95 % t interval."""
    [low], [high] = mean_intervals(values[None], bounds=bounds)
    return finite_mean(values), low, high


def _position(name: Any) -> int:
    return int(str(name).removeprefix(POSITION))


def _policies(values: pd.DataFrame) -> Iterator[tuple[tuple[Any, ...], Any, pd.DataFrame]]:
    """Yield each model, alpha and their values: one row per query, one column per measure."""
    for model, wide in models(values, "credit"):
        for alpha, part in wide.groupby("alpha", sort=False):
            yield model, alpha, part
