"""What systems are worth and cost: measures per query, tests, controls, calls and seconds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from ir_measures import nDCG

from fairtk.errors import DataWarning, UndefinedWarning
from fairtk.experiment import Experiment
from fairtk.experiment.comparison import SystemComparison
from fairtk.frames import DOCNO, QID, RANK
from fairtk.frames.texts import words
from fairtk.groups import Groups, Target
from fairtk.llm import ChatModel, Prices
from fairtk.measures import AWRF, E, nDCG_AWRF, nDCG_TREC
from fairtk.statistics import mean_intervals
from fairtk_papers.fair_qr.systems import BM25, BY_EXPOSURE, FAIR_QR, RANDOM, TUNED, Cell
from fairtk_papers.studies import TIMES, collect_warnings

if TYPE_CHECKING:
    from fairtk_papers.fair_qr.stages import SystemResults

NDCG, FAIRNESS, PRODUCT = "nDCG", "AWRF", "nDCG x AWRF"
MEASURES = (NDCG, FAIRNESS, PRODUCT)


def measures(groups: Groups, target: Target, cutoff: int, ndcg: str) -> dict[str, Any]:
    """Return the three measures of the paper's Table 1, by name.

    Args:
        groups: the groups.
        target: the exposure that they should have.
        cutoff: the ranks that count.
        ndcg: ``"TREC"`` or ``"trec_eval"``.
    """
    relevance = nDCG_TREC @ cutoff if ndcg == "TREC" else E(nDCG @ cutoff)
    return {
        NDCG: relevance,
        FAIRNESS: AWRF(groups=groups, target=target) @ cutoff,
        PRODUCT: nDCG_AWRF(groups=groups, target=target, ndcg=ndcg) @ cutoff,
    }


def measured(
    runs: Mapping[str, pd.DataFrame],
    topics: pd.DataFrame,
    qrels: pd.DataFrame,
    asked: Mapping[str, Any],
    store: Path | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Return each query's values, and what the measures warned of.

    A query that a run lacks has the worst value. What the data cannot do whatever the system is no
    surprise of a study: such warnings are returned, and not shown.

    Args:
        runs: name to rankings.
        topics: the topics.
        qrels: the judgments.
        asked: measures by name.
        store: the folder of a store that keeps the values; None: they are measured each time.

    Returns:
        ``system``, ``qid``, ``measure``, ``value``; and the warnings.
    """
    with collect_warnings(DataWarning) as texts:
        results = Experiment(runs, topics, qrels, asked.values(), save_dir=store)
    names = dict(zip(results.measures, asked, strict=True))
    values = results.per_query.assign(measure=results.per_query["measure"].map(names))
    return values, texts


def summary(
    values: pd.DataFrame, lost: Mapping[str, set[str]], correction: str | None
) -> pd.DataFrame:
    """Return one row per system; see `QrResults.table`.

    Args:
        values: each query's values: ``system``, ``qid``, ``measure``, ``value``; the first system
            is what the others are compared with.
        lost: the queries without a result, by system.
        correction: of the p-values for the number of systems, as in `fairtk.Results.compare`;
            `None` for exploratory settings, which are not tested.
    """
    systems = list(dict.fromkeys(values["system"]))
    tested = pd.DataFrame()
    if correction is not None:
        tested = compared(values, systems, correction).set_index(["measure", "system"])
    table: dict[str, Any] = {"system": systems}
    for name in MEASURES:
        rows = values[values["measure"] == name]
        own = rows.pivot(index="system", columns=QID, values="value").loc[systems].to_numpy()
        answered = [
            part["value"][~part[QID].isin(lost[system])].mean()
            for system, part in rows.groupby("system", sort=False)
        ]
        table |= _with_interval(name, own) | {f"{name} answered": answered}
        table |= _with_interval(f"{name} change", own - own[0])
        if correction is not None:
            table[f"{name} p"] = tested.loc[name].loc[systems, "p_corrected"].to_numpy()
    table["product of means"] = table[NDCG] * table[FAIRNESS]
    table["missing"] = [len(lost[system]) for system in systems]
    return pd.DataFrame(table)


def compared(values: pd.DataFrame, systems: list[str], correction: str) -> pd.DataFrame:
    """Return the tests of systems against the first one, those of `fairtk.Results.compare`.

    A measure's tests are one family. The page of an attribute shows the same ones.
    """
    means = pd.DataFrame(index=systems)
    comparison = SystemComparison(values, systems, systems[0], lambda _: "higher", means)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedWarning)  # the page reports what is not tested
        return comparison.table(
            {"test": "t", "confidence": 0.95}, None if correction == "none" else correction
        )


def _with_interval(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return means over the queries with the ends of their intervals, as columns."""
    low, high = mean_intervals(values)
    mean = values.mean(axis=1)
    low, high = (np.where(np.isnan(mean), np.nan, end) for end in (low, high))
    return {name: mean, f"{name} low": low, f"{name} high": high}


LEAST_KEPT, LEAST_OVERLAP = 0.5, 0.25
_PAIRS = (
    *((FAIR_QR, BM25), (RANDOM, BM25), (FAIR_QR, RANDOM)),
    *((BY_EXPOSURE, BM25), (BY_EXPOSURE, FAIR_QR)),
    *((BY_EXPOSURE + TUNED, BM25 + TUNED), (BY_EXPOSURE + TUNED, FAIR_QR + TUNED)),
)


def words_kept(trace: pd.DataFrame) -> float:
    """Return the mean share of the original words that the last kept queries have.

    Over the queries of which a refinement was kept; NaN: there is none.
    """
    if trace.empty:
        return float("nan")
    steps = trace[trace["kept"].astype(bool) & trace[QID].isin(refined(trace))]
    steps = steps.sort_values("iteration", kind="stable")
    last = steps.groupby(QID)["query"].last()
    shares = []
    for qid, query in steps.groupby(QID)["query"].first().items():
        original = {word.lower() for word in words(query)}
        now = {word.lower() for word in words(last[qid])}
        shares.append(len(original & now) / len(original) if original else 1.0)
    return float(np.mean(shares)) if shares else float("nan")


def same_answers(systems: Mapping[Cell, SystemResults]) -> dict[tuple[str, str], str]:
    """Return the models whose first answers are one for all of three topics or more.

    By attribute and system, what is to be said of them.
    """
    texts = {}
    for cell, own in systems.items():
        trace = own.traces
        if cell.kind != FAIR_QR or cell.variation or cell.grid or trace.empty:
            continue
        first = trace[(trace["iteration"] == 1) & (trace["query"] != "")]
        if len(first) > 2 and first["query"].str.lower().nunique() == 1:
            texts[cell.attribute, cell.system] = (
                f"has {first['query'].iloc[0]!r} as its model's answer for all {len(first)} topics"
            )
    return texts


def drift_frame(
    systems: Mapping[Cell, SystemResults], table: pd.DataFrame, cutoff: int
) -> pd.DataFrame:
    """Return how far systems are from the first lists, and what they give for fairness.

    Args:
        systems: what there is of each, by cell.
        table: the comparison; each system but BM25 has a row.
        cutoff: the ranks that count.
    """
    cells = {(c.attribute, c.system): own for c, own in systems.items() if not c.variation}
    rows = []
    for _, row in table[table["system"] != BM25].iterrows():
        own, first = cells[row["attribute"], row["system"]], cells[row["attribute"], BM25].rankings
        if len(own.traces):  # where no refinement was kept, the list is the first, or re-ranked
            first = first[first[QID].isin(refined(own.traces))]
        gained, lost = row[f"{FAIRNESS} change"], -row[f"{NDCG} change"]
        rows.append(
            {
                "attribute": row["attribute"],
                "system": row["system"],
                "words kept": words_kept(own.traces),
                "overlap": overlap(own.rankings, first, cutoff),
                "AWRF gained": gained,
                "nDCG lost": lost,
                "lost per gained": lost / gained if gained > 0 else float("nan"),
            }
        )
    return pd.DataFrame(rows)


def refined(trace: pd.DataFrame) -> set[str]:
    """Return the queries of which a refinement was kept."""
    later = trace["kept"].astype(bool) & (trace["iteration"] > 0)
    return set(trace.loc[later, QID])


def overlap(run: pd.DataFrame, first: pd.DataFrame, cutoff: int) -> float:
    """Return the mean share of the first lists' top that rankings have in theirs."""
    top, then = (frame.loc[frame[RANK] < cutoff, [QID, DOCNO]] for frame in (run, first))
    sizes, shared = then.groupby(QID).size(), top.merge(then)[QID].value_counts()
    return float((shared.reindex(sizes.index).fillna(0) / sizes).mean())


def drift_warning(drift: pd.DataFrame, same: Mapping[tuple[str, str], str], cutoff: int) -> str:
    """Return one warning of all systems that left their queries behind; empty: there is none.

    Args:
        drift: as of `drift_frame`.
        same: as of `same_answers`.
        cutoff: the ranks that count.
    """
    told = []
    for attribute, system, share, shared in drift.iloc[:, :4].itertuples(index=False):
        facts = []
        if share < LEAST_KEPT:
            facts.append(f"keeps {share:.0%} of the original words")
        if shared < LEAST_OVERLAP and not np.isnan(share):
            facts.append(f"shares {shared:.0%} of the first list's top {cutoff}")
        facts += [same[attribute, system]] if (attribute, system) in same else []
        told += [f"{system} for {attribute} {', '.join(facts)}"] if facts else []
    if not told:
        return ""
    return (
        f"drift: refined queries may have left their topics in {len(told)} of {len(drift)} "
        "systems, which AWRF alone does not see (below "
        f"{LEAST_KEPT:.0%} of the original words or {LEAST_OVERLAP:.0%} of the first top, or one "
        f"answer for all): {'; '.join(told[:3])}"
        f"{f'; {len(told) - 3} more' * (len(told) > 3)}. Look at the models and their prompt"
    )


def control_rows(values: pd.DataFrame, attributes: Sequence[str]) -> pd.DataFrame:
    """Return paired differences between FAIR-QR, its placebo and BM25, one per row and measure.

    Args:
        values: each query's values, of systems as they are: see `QrResults.per_query`.
        attributes: in their order.

    Returns:
        ``attribute``, ``system``, ``against``, ``measure``, ``difference``, ``low``, ``high`` (95 %
        t interval, not corrected for the number of rows). Tests against BM25 are in
        `QrResults.table`; the other pairs are not tested.
    """
    rows: list[Mapping[str, object]] = []
    for attribute in attributes:
        here = values[values["attribute"] == attribute]
        wide = here.pivot(index=["system", "measure"], columns=QID, values="value")
        for system, other in _PAIRS:
            if not {system, other} <= set(here["system"]):
                continue
            for measure in MEASURES:
                own, base = (wide.loc[(name, measure)].to_numpy() for name in (system, other))
                [low], [high] = mean_intervals((own - base)[None, :])
                rows.append(
                    {
                        "attribute": attribute,
                        "system": system,
                        "against": other,
                        "measure": measure,
                        "difference": float((own - base).mean()),
                        "low": float(low),
                        "high": float(high),
                    }
                )
    names = ["attribute", "system", "against", "measure", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=names)


_QUARTILES = (0.25, 0.5, 0.75)
_RECORDED = ["prompt_tokens", "completion_tokens", "seconds"]
_COSTS = ["calls", "prompt_tokens", "completion_tokens", "price", *TIMES[:-1]]


def iterations(traces: pd.DataFrame) -> pd.DataFrame:
    """Return mean and quartiles of how often queries were refined; no row without a trace.

    Args:
        traces: rows of `fairtk.FairQR.trace`.

    Returns:
        Two rows: ``count`` (``"asked"``: calls that a query took, ``"kept"``: refinements that it
        kept), ``mean``, ``25%``, ``50%``, ``75%``, ``largest``, ``queries``.
    """
    names = ["count", "mean", "25%", "50%", "75%", "largest", "queries"]
    if traces.empty:
        return pd.DataFrame(columns=names)
    later = (traces["iteration"] > 0).to_numpy(dtype=bool)
    rows = []
    for name, counted in (("asked", later), ("kept", later & traces["kept"].to_numpy(dtype=bool))):
        counts = pd.Series(counted, index=traces[QID]).groupby(level=0).sum()
        rows.append(
            [name, counts.mean(), *counts.quantile(_QUARTILES), int(counts.max()), len(counts)]
        )
    return pd.DataFrame(rows, columns=names)


def cost_row(system: SystemResults, llm: ChatModel | None, prices: Prices) -> pd.DataFrame:
    """Return the mean costs of a query, as one row.

    Args:
        system: what there is of it.
        llm: the model; None: the loop's words come from none, as the placebo's.
        prices: of models.
    """
    traces = system.traces if llm is not None else pd.DataFrame(columns=[QID])
    calls = traces[traces["iteration"] > 0] if len(traces) else pd.DataFrame(columns=_RECORDED)
    asked, told, seconds = (calls[name].to_numpy(dtype=np.float64) for name in _RECORDED)
    rows = zip(asked, told, strict=True)
    price = [prices.of(llm, _known(a), _known(t)) for a, t in rows if llm is not None]
    traced = traces[QID].nunique() or 1
    queries = len(system.notes)
    waited = float(np.nansum(seconds)) / traced
    own = (system.total("seconds") - system.total("waited")) / queries
    # without a call nothing was paid, but what calls cost is not known
    priced = llm is None or traces.empty or prices.known(llm)
    paid = math.fsum(price) if priced else math.nan
    numbers = [len(calls), float(asked.sum()), float(told.sum()), paid]
    times = [waited, own, system.total("training")]
    return pd.DataFrame([[*(number / traced for number in numbers), *times]], columns=_COSTS)


def _known(count: float) -> float | None:
    return None if math.isnan(count) else count
