"""Values of the study, and Tables 1 and 3 to 12: utility by level of exposure, slopes and areas
of the trade-offs; and credit beside exposure.

A frame of values has the columns

==============  ==================================================================================
``task``        ``"LaMP-1"`` to ``"LaMP-7"``, or a name of one's own
``retriever``   ``"BM25"``, ``"SPLADE"``, ``"Contriever"``, or another; any word for the oracle
``generator``   ``"flan-t5-small"``, ``"flan-t5-base"``, ``"flan-t5-xxl"``, or another
``alpha``       of the sampled policies a number, else `DETERMINISTIC` or `ORACLE`
``qid``         the query
``measure``     `EE_D` and `EE_R` (normalized), `NORMALIZED_EU` (see `normalized_utility`), `EU`
``value``       the number; NaN where it is undefined
==============  ==================================================================================

A model is a retriever with a generator on a task. A frame of sizes has ``task``, ``generator``,
``qid``, ``documents`` (candidates) and ``useful`` (of them; labels belong to a generator).

``paper.tsv`` has Tables 3 to 15 of *Towards Fair RAG* (the version reviewed for ICLR 2025): table,
task, retriever, generator, statistic, value. Table 1 repeats rows of Tables 6 and 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import resources
from itertools import pairwise, zip_longest
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from fairtk import checks
from fairtk.display import MarkedText, Table, latex_text, rounded_text
from fairtk.errors import (
    DuplicateError,
    InputError,
    NotFoundError,
    UndefinedWarning,
    format_list,
)
from fairtk.frames import DOCNO, LABEL, QID, SAMPLE, FloatArray, IntArray, require_columns
from fairtk.statistics import correct_p_values, curve_values, mean_intervals, paired_test
from fairtk_papers.studies import file_name

TASK, RETRIEVER, GENERATOR, ALPHA = "task", "retriever", "generator", "alpha"
MEASURE, VALUE = "measure", "value"
DOCUMENTS, USEFUL = "documents", "useful"
DETERMINISTIC, ORACLE = "deterministic", "oracle"
EE_D, EE_R, EU, NORMALIZED_EU = "EE_D", "EE_R", "EU", "normalized EU"
MODEL = [TASK, RETRIEVER, GENERATOR]
NAMES = {EE_D: "disparity (EE-D)", EE_R: "ranking quality (EE-R)", NORMALIZED_EU: NORMALIZED_EU}
"""Measures in words."""


def sampled(alpha: pd.Series) -> pd.Series:
    """Return where a policy is a sampled one: its alpha is a number.

    Raises:
        InputError: an alpha is neither a number nor one of the two words.
    """
    number = alpha.map(lambda a: isinstance(a, Real) and not isinstance(a, bool) and a == a)
    bad = alpha[~number & ~alpha.isin([DETERMINISTIC, ORACLE])]
    if len(bad):
        raise InputError(
            f"alpha must be a number, {DETERMINISTIC!r} or {ORACLE!r}; found {bad.iloc[0]!r}"
        )
    return number.astype(bool)


def models(values: pd.DataFrame, where: str) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield each model and its values: one row per (alpha, qid), one column per measure.

    The rows are in the order of alphas, the deterministic policy last, then of qids; oracles are
    left out.

    Args:
        values: a frame of values.
        where: who asks, for messages.

    Raises:
        ColumnError: a column is missing.
        DuplicateError: a query has two values of a measure under one policy.
        InputError: there are no values.
    """
    keys = [*MODEL, ALPHA, QID, MEASURE]
    require_columns(values, [*keys, VALUE], where)
    values = values.reset_index(drop=True)  # parts that were put together repeat their indices
    number = sampled(values[ALPHA])
    rows = values[number | (values[ALPHA] == DETERMINISTIC)]
    if rows.empty:
        raise InputError(f"{where}: there are no values of sampled or deterministic policies")
    twice = rows.duplicated(keys)
    if twice.any():
        doubled = dict(zip(keys, rows.loc[twice, keys].iloc[0], strict=True))
        raise DuplicateError(f"{where}: two values for {doubled}")
    place = rows[ALPHA].where(number, float("inf")).astype(float)
    for model, part in rows.assign(place=place).groupby(MODEL, sort=False):
        wide = part.pivot(index=["place", ALPHA, QID], columns=MEASURE, values=VALUE)
        wide = wide.sort_index(level=["place", QID]).droplevel("place")
        yield model, wide.astype(float)


def needed(wide: pd.DataFrame, measures: tuple[str, ...], where: str) -> None:
    """Raise unless there are values of some measures.

    Raises:
        NotFoundError: there are none.
    """
    for measure in measures:
        if measure not in wide.columns:
            raise NotFoundError(f"{where}: measure", measure, list(wide.columns))


def sizes(qrels: pd.DataFrame, task: str, generator: str) -> pd.DataFrame:
    """Return a frame of sizes from labels of all candidates.

    Args:
        qrels: ``qid``, ``docno``, ``label``: a row per candidate.
        task: of these queries.
        generator: that the labels are for.
    """
    require_columns(qrels, [QID, DOCNO, LABEL], "sizes")
    counts = (qrels[LABEL] > 0).groupby(qrels[QID], sort=False).agg(["size", "sum"])
    counts = counts.set_axis([DOCUMENTS, USEFUL], axis=1).reset_index()
    return counts.assign(**{TASK: task, GENERATOR: generator})[
        [TASK, GENERATOR, QID, DOCUMENTS, USEFUL]
    ]


STATISTIC, TABLE, COVERED = "statistic", "table", "covered"
PAPER, APART = "paper", "from paper"
BASELINE, SLOPE, AREA = "baseline", "slope", "area"
FAIRNESS_TABLES = {f"LaMP-{task}": 5 + task for task in range(1, 8)}
"""Where the intervals of each task are printed."""


def paper_numbers() -> pd.DataFrame:
    """Return all printed numbers.

    Returns:
        ``table`` (3 to 15), ``task``, ``retriever`` (empty in Tables 13 to 15), ``generator``,
        ``statistic`` and ``value``. Statistics are ``"slope"`` and ``"area"`` in Tables 3 to 5;
        ``"baseline"`` and intervals such as ``"[0.2, 0.4)"`` (a difference from it) in 6 to 12;
        ``"queries"``, ``"documents"``, ``"documents std"``, ``"useful"``, ``"useful std"`` and
        ``"percent useful"`` in 13 to 15.
    """
    path = resources.files(__package__) / "paper.tsv"
    with path.open("r", encoding="utf-8") as stream:
        return pd.read_csv(
            stream, sep="\t", dtype={VALUE: float, TABLE: int}, keep_default_na=False
        )


def beside_paper(rows: pd.DataFrame, printed_as: pd.Series) -> pd.DataFrame:
    """Return rows with the columns ``paper`` and ``from paper`` (value - paper).

    NaN where the paper prints nothing: another task, retriever or generator.

    Args:
        rows: with ``table``, ``task``, ``retriever``, ``generator`` and ``value``.
        printed_as: the paper's name for each row's statistic.
    """
    keys = [TABLE, *MODEL, STATISTIC]
    printed = paper_numbers().set_index(keys)[VALUE]
    asked = pd.MultiIndex.from_frame(rows.assign(**{STATISTIC: printed_as})[keys])
    paper = printed.reindex(asked).to_numpy()
    return rows.assign(**{PAPER: paper, APART: rows[VALUE].to_numpy() - paper})


EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
INTERVAL = "interval"
OUT_OF_REACH = "out of reach: no policy spreads exposure over so few candidates so evenly"
_DIGITS = 9
"""Sampled EE-D is a sum of fractions: 0.6 may be 0.6000000000000001."""


def fairness_intervals(
    values: pd.DataFrame,
    *,
    cutoff: int,
    sizes: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return, per model and interval of EE-D, how utility differs from the deterministic run's.

    A point is a query under one sampled policy. ``value`` is what the paper prints: the mean of
    the interval's points minus the mean of the deterministic run over all its queries. The queries
    of an interval differ from those; so each query's mean in the interval is paired with its own
    deterministic value, too, and tested (t-test, Holm's correction over the intervals of a model):
    one pair per query, since the points of a query depend on each other.

    Args:
        values: a frame of values (see `points`) with EE_D and normalized EU.
        cutoff: k of the rankings.
        sizes: a frame of sizes; None: what is out of reach is not marked.

    Returns:
        One row per model and interval: ``baseline``, ``mean``, ``value``; ``points``, ``queries``;
        ``at the end`` (points of exactly 1, which no interval holds; the paper's Table 12 prints
        ``[0.8, 1.0]``, the others ``[0.8, 1.0)``); ``paired``, ``low``, ``high``, ``p``,
        ``p_corrected``; ``reachable`` (queries whose most even exposure, k/n, lies below the
        interval's upper end); ``note``; ``paper`` and ``from paper`` (the printed difference, and
        ours minus it); ``table``.

    Raises:
        NotFoundError: there are no values of EE_D or normalized EU.
        InputError: a policy is unknown, or nothing to compare with.
    """
    where = "fairness_intervals"
    parts = []
    for model, wide in models(values, where):
        needed(wide, (EE_D, NORMALIZED_EU), where)
        floors = _floors(sizes, model, cutoff)
        parts.append(_intervals(model, wide, floors))
    table = pd.concat(parts, ignore_index=True)
    table[TABLE] = table[TASK].map(FAIRNESS_TABLES).fillna(0).astype(int)
    return beside_paper(table, table[INTERVAL])


def _deterministic(wide: pd.DataFrame, model: tuple[Any, ...]) -> pd.Series:
    fixed = wide.loc[wide.index.get_level_values(ALPHA) == DETERMINISTIC, NORMALIZED_EU]
    if fixed.isna().all():
        raise InputError(
            f"there is no deterministic run of {' with '.join(map(str, model[1:]))} on {model[0]} "
            f"to compare with: rows with alpha {DETERMINISTIC!r}"
        )
    return fixed.droplevel(ALPHA).dropna()


def _floors(sizes: pd.DataFrame | None, model: tuple[Any, ...], cutoff: int) -> FloatArray | None:
    """Return the smallest EE-D that any policy has, by query: that of a uniform one, k / n."""
    if sizes is None:
        return None
    require_columns(sizes, [TASK, GENERATOR, QID, DOCUMENTS], "fairness_intervals (sizes)")
    own = sizes[(sizes[TASK] == model[0]) & (sizes[GENERATOR] == model[2])]
    n = own[DOCUMENTS].to_numpy(dtype=np.float64)
    return np.asarray(np.round(np.minimum(cutoff, n) / n, _DIGITS))


def _intervals(
    model: tuple[Any, ...], wide: pd.DataFrame, floors: FloatArray | None
) -> pd.DataFrame:
    fixed = _deterministic(wide, model)
    is_sampled = sampled(wide.index.get_level_values(ALPHA).to_series()).to_numpy()
    points = wide[is_sampled].dropna(subset=[EE_D, NORMALIZED_EU])
    disparity = np.round(points[EE_D].to_numpy(), _DIGITS)
    place: IntArray = np.searchsorted(np.asarray(EDGES), disparity, side="right") - 1
    rows = []
    for number, (start, end) in enumerate(pairwise(EDGES)):
        own = points[NORMALIZED_EU][place == number]
        per_query = own.groupby(level=QID).mean()
        both = per_query.index.intersection(fixed.index)
        tested = paired_test(per_query[both], fixed[both])
        within = None if floors is None else floors < end
        note = tested.note
        if within is not None and len(within) and not within.any():
            note = OUT_OF_REACH
        elif own.empty:
            note = "no policy that was run gives this"
        rows.append(
            {
                **dict(zip(MODEL, model, strict=True)),
                INTERVAL: f"[{start}, {end})",
                BASELINE: fixed.mean(),
                "mean": own.mean(),
                VALUE: own.mean() - fixed.mean(),
                "points": len(own),
                "queries": len(per_query),
                "at the end": int((disparity == end).sum()) if end == EDGES[-1] else 0,
                "paired": tested.difference,
                "low": tested.low,
                "high": tested.high,
                "p": tested.p,
                "reachable": np.nan if within is None else int(within.sum()),
                "note": note,
            }
        )
    table = pd.DataFrame(rows)
    table.insert(
        table.columns.get_loc("p") + 1, "p_corrected", correct_p_values(table["p"], "holm")
    )
    return table


TRADE_OFFS = {3: (EE_D, EE_R), 4: (EE_R, NORMALIZED_EU), 5: (EE_D, NORMALIZED_EU)}
"""What the paper's tables set against what: x and y."""


def trade_offs(values: pd.DataFrame, *, resamples: int = 1000, seed: int = 42) -> pd.DataFrame:
    """Return slopes and areas of quality and utility against exposure, for each model.

    The paper says neither whether lines are fitted to queries or means, nor how areas are closed:
    `fairtk.statistics.curve_values` has both kinds of both, areas over [0, 1]. The deterministic
    run is no point of the curves, as the paper gathers "the four repeated runs".

    Args:
        values: a frame of values (see `points`); trade-offs without their measures are left out.
        resamples: of the bootstrap over queries.
        seed: of the bootstrap.

    Returns:
        One row per trade-off, model and statistic: ``table``, ``task``, ``retriever``,
        ``generator``, ``x``, ``y``, ``statistic``, ``value``, ``low``, ``high``, ``queries``,
        ``covered`` (the share of [0, 1] between the smallest and the largest mean x: the rest of
        an area is extrapolated), ``paper``, ``from paper``.
    """
    rows = []
    for model, wide in models(values, "trade_offs"):
        wide = wide[wide.index.get_level_values(ALPHA) != DETERMINISTIC]
        for table, (x, y) in TRADE_OFFS.items():
            if not {x, y} <= set(wide.columns):
                continue
            defined = wide[[x, y]].dropna()
            if defined.empty:
                continue
            first, second = (_by_query(defined[name]) for name in (x, y))
            curves = curve_values(first, second, resamples=resamples, seed=seed)
            covered = float(np.ptp(np.clip(np.nanmean(first, axis=0), 0.0, 1.0)))
            for name, one in curves.items():
                ends = [one.value, one.low, one.high, len(first), covered]
                rows.append([table, *model, x, y, name, *ends])
    columns = [TABLE, *MODEL, "x", "y", STATISTIC, VALUE, "low", "high", "queries", COVERED]
    result = pd.DataFrame(rows, columns=columns)
    of_slope = result[STATISTIC].astype(str).str.startswith(SLOPE)
    printed = pd.Series(np.where(of_slope, SLOPE, AREA), index=result.index)
    return beside_paper(result, printed)


def _by_query(points: pd.Series) -> FloatArray:
    """Return values of shape (queries, policies), queries in order; NaN where there is none."""
    table = points.unstack(ALPHA).sort_index()
    return np.asarray(table.to_numpy(dtype=np.float64))


LAID_OUT = ("slope of points", "area of means")
"""The slope and the area that Tables 3 to 5 show: a line through what all policies gave each query,
and the area under the curve that is drawn."""
BESIDE_EACH_OTHER = ("LaMP-1", "LaMP-4")
"""The tasks of Table 1."""


def paper_tables(intervals: pd.DataFrame, slopes: pd.DataFrame) -> dict[str, Table]:
    """Return Tables 1 and 3 to 12 as the paper lays them out, with the study's own numbers.

    Args:
        intervals: what `fairness_intervals` returns.
        slopes: what `trade_offs` returns.

    Returns:
        ``table_6`` to ``table_12``, of other tasks ``table_of_TASK``: a row per model, a column per
        interval, cells that are not negative in bold; ``table_1``: LaMP-1 and LaMP-4 side by side,
        if both were run; ``table_3`` to ``table_5``: a row per task, a column per model in two
        rows of heads, "slope of points" / "area of means".
    """
    parts = dict(list(_in_order(intervals, *MODEL).groupby(TASK, sort=False)))
    tables = {}
    if set(BESIDE_EACH_OTHER) <= set(parts):
        both = [_model_rows(parts[task], f"{task}: model") for task in BESIDE_EACH_OTHER]
        heads, *rows = (
            [*one, *other] for one, other in zip_longest(*both, fillvalue=[""] * len(both[0][0]))
        )
        tables["table_1"] = _interval_table(" and ".join(BESIDE_EACH_OTHER), 1, heads, rows)
    for number, part in slopes.groupby(TABLE):
        tables[f"table_{number}"] = _slope_table(part, int(number))
    for task, part in parts.items():
        number = part[TABLE].iloc[0]
        heads, *rows = _model_rows(part, "Model")
        name = f"table_{number}" if number else f"table_of_{file_name(str(task))}"
        tables[name] = _interval_table(str(task), number, heads, rows)
    return tables


def fitted_latex(table: Table) -> str:
    r"""Return a table in LaTeX, made smaller where it is wider than the text: needs graphicx."""
    width = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
    text = latex_text(table).replace(r"\end{tabular}", r"\end{tabular}}", 1)
    return text.replace(r"\begin{tabular}", rf"\resizebox{{{width}}}{{!}}{{\begin{{tabular}}", 1)


def _in_order(rows: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Return rows by the keys, whose values stay in the order in which they come."""
    return rows.iloc[np.lexsort([pd.factorize(rows[key])[0] for key in reversed(keys)])]


def _model_rows(part: pd.DataFrame, head: str) -> list[list[str]]:
    """Return the heads and a row for each model of a task."""
    rows = [[f"{head} (baseline utility)", *dict.fromkeys(part[INTERVAL])]]
    for (retriever, generator), own in part.groupby([RETRIEVER, GENERATOR], sort=False):
        name = f"{retriever}+{generator} ({own[BASELINE].iloc[0]:.3f})"
        rows.append([name, *map(_difference, own[VALUE])])
    return rows


def _difference(value: float) -> str:
    if np.isnan(value):
        return ""
    value = round(value, _DIGITS)
    text = rounded_text(value, 2)
    return MarkedText(f"+{text}" if value > 0 and text[0] != "<" else text, int(value >= 0))


def _interval_table(of: str, number: int, heads: list[str], rows: list[list[str]]) -> Table:
    caption = (
        f"{of}{_in_paper(number)}: mean {NORMALIZED_EU} of the rankings whose {NAMES[EE_D]} is in "
        "an interval, minus that of the fixed ranking (in parentheses). Bold: not negative."
    )
    note = (
        "Empty: no ranking is there. Not all queries have rankings in an interval; the same by "
        "query, with intervals and p, is in fairness_intervals.csv."
    )
    return Table(heads, rows, caption, note)


def _slope_table(part: pd.DataFrame, number: int) -> Table:
    # Table 3 has the retrievers of each generator, the others the generators of each retriever
    sides = (GENERATOR, RETRIEVER) if number == 3 else (RETRIEVER, GENERATOR)
    models = list(_in_order(part, *sides).groupby([*sides], sort=False).groups)
    values = part.set_index([TASK, *sides, STATISTIC])[VALUE].to_dict()
    outer = [model[0] for model in models]
    first = [name if name not in outer[:place] else "" for place, name in enumerate(outer)]
    rows = [["", *(model[1] for model in models)]]
    for task in dict.fromkeys(part[TASK]):
        row = [str(task)]
        for model in models:
            both = [values.get((task, *model, name)) for name in LAID_OUT]
            row.append(" / ".join(rounded_text(v, 4) for v in both if v is not None))
        rows.append(row)
    x, y = (NAMES[name] for name in TRADE_OFFS[number])
    caption = (
        f"Slope / AUC of {y} against {x}{_in_paper(number)}: of a line fitted to all queries at "
        "all alphas, and below the curve of the means of each alpha, over 0 to 1."
    )
    note = "Other ways to fit and to close, with intervals, are in trade_offs.csv."
    if COVERED in part:
        low, high = part[COVERED].min(), part[COVERED].max()
        share = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}, by model,"
        note = (
            f"The runs cover {share} of the range 0 to 1 of {x}; over the rest the area is "
            f"extrapolated. {note}"
        )
    return Table(["Task", *first], rows, caption, note)


def _in_paper(number: int) -> str:
    return f" (Table {number} of Towards Fair RAG)" if number else ""


def uniform_end(values: pd.DataFrame, sizes: pd.DataFrame, *, cutoff: int) -> pd.DataFrame:
    """Return what quality a uniform policy has, beside what the most even run shows.

    The paper reads the left end of its curves as the share of useful documents. That is the
    normalized EE-R of a uniform policy where there are more useful documents than ranks; with m
    useful ones of n and k ranks it is (k^2 / n) / (m + (k - m)^2 / (n - m)) else. And that policy
    has a normalized EE-D of k / n, not 0.

    Args:
        values: a frame of values (see `points`) with EE_D and EE_R.
        sizes: a frame of sizes.
        cutoff: k of the rankings.

    Returns:
        One row per model: ``share of useful`` (mean of m / n over the queries), ``uniform EE_R``
        and ``uniform EE_D`` (exact means), ``alpha`` (the smallest that was run), ``EE_R`` and
        ``EE_D`` (its means: with samples a little off where alpha is 0, and apart where it is
        larger), ``queries``.
    """
    where = "uniform_end"
    require_columns(sizes, [TASK, GENERATOR, QID, DOCUMENTS, USEFUL], f"{where} (sizes)")
    rows = []
    for model, wide in models(values, where):
        needed(wide, (EE_D, EE_R), where)
        smallest = wide.index.get_level_values(ALPHA)[0]
        run = wide[wide.index.get_level_values(ALPHA) == smallest].droplevel(ALPHA)
        own = sizes[(sizes[TASK] == model[0]) & (sizes[GENERATOR] == model[2])].set_index(QID)
        n, m = (own[name].reindex(run.index).to_numpy(dtype=float) for name in (DOCUMENTS, USEFUL))
        defined = m > 0  # without a useful document EE-R is undefined
        relevance = _uniform_relevance(n[defined], m[defined], cutoff)
        disparity = np.minimum(cutoff, n[defined]) / n[defined]
        means = [np.mean(v) if len(v) else np.nan for v in (m[defined] / n[defined], relevance)]
        ends = [np.mean(disparity) if len(disparity) else np.nan, smallest]
        measured = [run[name][defined].mean() for name in (EE_R, EE_D)]
        rows.append([*model, *means, *ends, *measured, int(defined.sum())])
    columns = ["share of useful", "uniform EE_R", "uniform EE_D", ALPHA, EE_R, EE_D, "queries"]
    return pd.DataFrame(rows, columns=[*MODEL, *columns])


def _uniform_relevance(n: FloatArray, m: FloatArray, cutoff: int) -> FloatArray:
    """Return a uniform policy's EE-R, normalized (Eqs. 6 and 24); arrays: (queries,)."""
    k = np.minimum(cutoff, n)
    rest = np.where(n > m, (k - m) ** 2 / np.maximum(n - m, 1.0), 0.0)
    bound = np.where(m <= k, m + rest, k**2 / m)
    return np.asarray(k**2 / n / bound, dtype=np.float64)


OVER = ("retriever", "generator")
BEST = "best"


def normalized_utility(
    utilities: pd.DataFrame,
    *,
    over: str = "retriever",
    deterministic: bool = False,
) -> pd.DataFrame:
    """Return each query's expected utility over the best utility of a single ranking.

    *Towards Fair RAG*, Eqs. 25 and 26: EU_q / u_max, where u_max is the largest utility of any
    sampled ranking of the query, the oracle's among them. That is a maximum over rankings, not over
    means; it depends on how many were drawn. Where u_max is 0 the value is 1, as in the published
    code.

    Args:
        utilities: ``task``, ``retriever``, ``generator``, ``alpha``, ``qid``, ``sample`` and
            ``value``: the utility of each answer, higher better (of an error, 4 minus it: LaMP-3).
            A row with alpha "oracle" counts for all retrievers of its task and generator.
        over: whose rankings count beside the oracle's: ``"retriever"`` (one retriever's, as Eq. 25
            and the published code) or ``"generator"`` (all runs with a generator, as section
            3.3.3 says).
        deterministic: whether the deterministic run counts, too. In the published code it does
            not, so that its value can exceed 1.

    Returns:
        ``task``, ``retriever``, ``generator``, ``alpha``, ``qid``, ``EU`` (the mean), ``best``
        (u_max) and ``value``. In [0, 1] where utilities are at least 0, but for the deterministic
        run. NaN, with a warning, for queries without an answer of the oracle.

    Raises:
        ParameterError: `over` is neither.
        ColumnError: a column is missing.
        InputError: an alpha is neither a number nor one of the two words.
    """
    where = "normalized_utility"
    checks.choice("over", over, OVER, where)
    require_columns(utilities, [*MODEL, ALPHA, QID, SAMPLE, VALUE], where)
    counted = sampled(utilities[ALPHA])
    if deterministic:
        counted |= utilities[ALPHA] == DETERMINISTIC
    place = [TASK, GENERATOR, QID]
    own = place if over == "generator" else [*MODEL, QID]
    highest = utilities[counted].groupby(own)[VALUE].max().rename("_own").reset_index()
    oracle = utilities[utilities[ALPHA] == ORACLE].groupby(place)[VALUE].max()
    means = utilities.groupby([*MODEL, ALPHA, QID], sort=False)[VALUE].mean().rename(EU)
    table = means.reset_index().merge(highest, on=own, how="left")
    table = table.merge(oracle.rename("_oracle").reset_index(), on=place, how="left")
    lacking = table["_oracle"].isna()
    best = table["_own"].fillna(-np.inf).clip(lower=table["_oracle"])  # the oracle's own rows
    table[BEST] = best.where(~lacking)
    # the published code: 1 wherever the best is 0, whatever the mean
    ratio = table[EU] / table[BEST].where(table[BEST] != 0)
    table[VALUE] = ratio.where(table[BEST] != 0, 1.0).where(~lacking)
    if lacking.any():
        qids = list(dict.fromkeys(table.loc[lacking, QID]))
        warnings.warn(
            f"{where}: no answer of the oracle for {len(qids)} queries ({format_list(qids)}): "
            "their largest utility is unknown, so their values are undefined",
            UndefinedWarning,
            stacklevel=2,
        )
    return table[[*MODEL, ALPHA, QID, EU, BEST, VALUE]]


AE_D, AE_R, GAP = "AE_D", "AE_R", "CreditGap"
CREDIT_MEASURES = (AE_D, AE_R, GAP)
OF_EXPOSURE = " of exposure"
"""Behind a measure of credit: the same, as if all documents of a prompt had equal credit."""
SUM, UNDEFINED, BELOW = "credit sum", "credit undefined", "credit below 0"
PLACE = "credit at place "
"""Before a place in the prompt, from 1: its share of the credit."""


def credit_table(values: pd.DataFrame) -> pd.DataFrame:
    """Return credit next to exposure: means over the queries, with 95 % t intervals.

    AE_D and CreditGap of sampled systems are the unbiased estimates, of credit and of exposure, so
    that they do not depend on the number of samples. Intervals are not corrected for the number of
    rows.

    Args:
        values: a frame of values (see `fairtk_papers.fair_rag.tables`) with `credit_values`.

    Returns:
        Rows of ``AE_D``, ``AE_R``, ``CreditGap`` and ``credit sum`` for each model and alpha:
        ``exposure`` (the measure if all documents of a prompt had equal credit), ``value`` (of
        credit), ``difference`` of these two by query, ``low`` and ``high`` (of the difference, or
        of the value where exposure has none), ``queries`` (with a value), ``undefined`` (share
        of the rankings whose credit is undefined) and ``below 0`` (share of documents whose
        credit counts as 0).
    """
    rows = []
    for model, alpha, part in _policies(values):
        left_out, below = part[UNDEFINED].mean(), part[BELOW].mean()
        for name in (AE_D, AE_R, GAP, SUM):
            value = part[name].to_numpy(dtype=float)
            even = part.get(name + OF_EXPOSURE, pd.Series(np.nan, part.index)).to_numpy(float)
            beside = bool(np.isfinite(even).any())
            apart = value - even if beside else value
            low, high = mean_intervals(apart[None])
            means = [mean_of(each) for each in (even, value, value - even)]
            n = int(np.isfinite(apart).sum())
            rows.append([*model, alpha, name, *means, low[0], high[0], n, left_out, below])
    columns = ["exposure", VALUE, "difference", "low", "high", "queries", "undefined", "below 0"]
    return pd.DataFrame(rows, columns=[*MODEL, ALPHA, MEASURE, *columns])


def place_table(values: pd.DataFrame) -> pd.DataFrame:
    """Return which share of the credit each place of the prompt gets, with 95 % t intervals.

    Args:
        values: as in `credit_table`.

    Returns:
        A row for each model, alpha and place (from 1): ``value``, ``low``, ``high``, ``queries``.
    """
    rows = []
    for model, alpha, part in _policies(values):
        for name in sorted((c for c in part if str(c).startswith(PLACE)), key=_place):
            share = part[name].to_numpy(dtype=float)
            low, high = mean_intervals(share[None])
            n = int(np.isfinite(share).sum())
            rows.append([*model, alpha, _place(name), mean_of(share), low[0], high[0], n])
    return pd.DataFrame(rows, columns=[*MODEL, ALPHA, "place", VALUE, "low", "high", "queries"])


def mean_of(values: FloatArray) -> float:
    """Return the mean of the defined values; NaN: there are none."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else np.nan


def _place(name: Any) -> int:
    return int(str(name).removeprefix(PLACE))


def _policies(values: pd.DataFrame) -> Iterator[tuple[tuple[Any, ...], Any, pd.DataFrame]]:
    """Yield each model, its alphas, and their values: a row per query, a column per measure."""
    for model, wide in models(values, "credit"):
        for alpha, part in wide.groupby(ALPHA, sort=False):
            yield model, alpha, part
