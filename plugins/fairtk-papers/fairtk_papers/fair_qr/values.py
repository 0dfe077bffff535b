"""Measures, tests, controls and costs of systems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from ir_measures import nDCG

from fairtk.frames import DOCNO, QID, RANK, words
from fairtk.groups import Groups, Target
from fairtk.llm import ChatModel, Prices
from fairtk.measures import AWRF, E, nDCG_AWRF, nDCG_TREC
from fairtk.statistics import correct_p_values, mean_intervals, paired_test
from fairtk.wording import format_list
from fairtk_papers.fair_qr.systems import BM25, BY_EXPOSURE, FAIR_QR, RANDOM, TUNED, Cell
from fairtk_papers.studies import TIMES

if TYPE_CHECKING:
    from fairtk_papers.fair_qr.stages import SystemResults

NDCG, FAIRNESS, PRODUCT = "nDCG", "AWRF", "nDCG x AWRF"
MEASURES = (NDCG, FAIRNESS, PRODUCT)


def measures(groups: Groups, target: Target, cutoff: int, ndcg: str) -> dict[str, Any]:
    """Return the three measures of the paper's Table 1, by name.

    Args:
        groups: the groups.
        target: their target exposure.
        cutoff: the number of ranks to measure.
        ndcg: ``"TREC"`` or ``"trec_eval"``.
    """
    relevance = nDCG_TREC @ cutoff if ndcg == "TREC" else E(nDCG @ cutoff)
    return {
        NDCG: relevance,
        FAIRNESS: AWRF(groups=groups, target=target) @ cutoff,
        PRODUCT: nDCG_AWRF(groups=groups, target=target, ndcg=ndcg) @ cutoff,
    }


def summary(
    values: pd.DataFrame, missing: Mapping[str, set[str]], correction: str | None
) -> pd.DataFrame:
    """Return one row per system; see `QrResults.table`.

    Args:
        values: values per query: ``system``, ``qid``, ``measure``, ``value``; the first system is
            the baseline.
        missing: the queries without a result, by system.
        correction: the correction of p-values, as in `fairtk.Results.compare`; `None` for no tests,
            for exploratory settings.
    """
    systems = list(dict.fromkeys(values["system"]))
    table: dict[str, Any] = {"system": systems}
    for name in MEASURES:
        rows = values[values["measure"] == name]
        numbers = rows.pivot(index="system", columns=QID, values="value").loc[systems].to_numpy()
        answered = [
            part["value"][~part[QID].isin(missing[system])].mean()
            for system, part in rows.groupby("system", sort=False)
        ]
        table |= _with_interval(name, numbers) | {f"{name} answered": answered}
        # without rounding errors, so that equal changes have no interval
        table |= _with_interval(f"{name} change", np.round(numbers - numbers[0], _DECIMALS))
        if correction is not None:
            # the tests of a measure are one family, as in `fairtk.Results.compare`
            defined = numbers[:, ~np.isnan(numbers).any(axis=0)]
            p = [np.nan, *(paired_test(row, defined[0]).p for row in defined[1:])]
            table[f"{name} p"] = correct_p_values(p, correction)
    table["product of means"] = table[NDCG] * table[FAIRNESS]
    table["missing"] = [len(missing[system]) for system in systems]
    return pd.DataFrame(table)


_DECIMALS = 12


def _with_interval(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return columns for the means over queries and their intervals."""
    low, high = mean_intervals(values)
    mean = values.mean(axis=1)
    low, high = (np.where(np.isnan(mean), np.nan, end) for end in (low, high))
    return {name: mean, f"{name} low": low, f"{name} high": high}


LEAST_KEPT, LEAST_OVERLAP = 0.5, 0.25
DRIFT = [
    *("attribute", "system", "words kept", "overlap"),
    *("AWRF gained", "nDCG lost", "lost per gained"),
]
_PAIRS = (
    *((FAIR_QR, BM25), (RANDOM, BM25), (FAIR_QR, RANDOM)),
    *((BY_EXPOSURE, BM25), (BY_EXPOSURE, FAIR_QR)),
    *((BY_EXPOSURE + TUNED, BM25 + TUNED), (BY_EXPOSURE + TUNED, FAIR_QR + TUNED)),
)


def share_of_words_kept(trace: pd.DataFrame) -> float:
    """Return the mean share of the original words that are in the final query.

    The mean is over the queries with a kept refinement; it is NaN if no query has one.
    """
    if trace.empty:
        return float("nan")
    steps = trace[trace["kept"].astype(bool) & trace[QID].isin(refined_qids(trace))]
    steps = steps.sort_values("iteration", kind="stable")
    last = steps.groupby(QID)["query"].last()
    shares = []
    for qid, query in steps.groupby(QID)["query"].first().items():
        original, final = ({w.lower() for w in words(text)} for text in (query, last[qid]))
        shares.append(len(original & final) / len(original) if original else 1.0)
    return float(np.mean(shares)) if shares else float("nan")


def same_answers(systems: Mapping[Cell, SystemResults]) -> dict[tuple[str, str], str]:
    """Return a message for each system whose model has the same answer for all topics.

    The keys are attribute and system. Systems with fewer than three topics are skipped.
    """
    texts = {}
    for cell, results in systems.items():
        trace = results.traces
        if cell.kind != FAIR_QR or cell.variation or cell.grid or trace.empty:
            continue
        first = trace[(trace["iteration"] == 1) & (trace["query"] != "")]
        if len(first) > 2 and first["query"].str.lower().nunique() == 1:
            texts[cell.attribute, cell.system] = (
                f"has the answer {first['query'].iloc[0]!r} for all {len(first)} topics"
            )
    return texts


def drift_frame(
    systems: Mapping[Cell, SystemResults], table: pd.DataFrame, cutoff: int
) -> pd.DataFrame:
    """Return how far systems drift from BM25's rankings; see `QrResults.drift`.

    Args:
        systems: the results by cell.
        table: the comparison.
        cutoff: the number of ranks to compare.
    """
    results = {(c.attribute, c.system): r for c, r in systems.items() if not c.variation}
    rows = []
    for _, row in table[table["system"] != BM25].iterrows():
        attribute, system = row["attribute"], row["system"]
        traces, first = results[attribute, system].traces, results[attribute, BM25].rankings
        if len(traces):  # without a refinement, queries have BM25's ranking, maybe re-ranked
            first = first[first[QID].isin(refined_qids(traces))]
        gain, loss = row[f"{FAIRNESS} change"], -row[f"{NDCG} change"]
        rows.append(
            {
                "attribute": attribute,
                "system": system,
                "words kept": share_of_words_kept(traces),
                "overlap": overlap(results[attribute, system].rankings, first, cutoff),
                "AWRF gained": gain,
                "nDCG lost": loss,
                "lost per gained": loss / gain if gain > 0 else float("nan"),
            }
        )
    return pd.DataFrame(rows, columns=DRIFT)


def refinements(traces: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers of ``asked`` and ``kept`` refinements of each query.

    Args:
        traces: rows of `fairtk.FairQR.trace`.
    """
    later = traces["iteration"] > 0
    counts = pd.DataFrame({"asked": later, "kept": later & traces["kept"].astype(bool)})
    return counts.groupby(traces[QID]).sum()


def refined_qids(trace: pd.DataFrame) -> set[str]:
    """Return the queries with a kept refinement."""
    return set(refinements(trace).query("kept > 0").index)


def overlap(run: pd.DataFrame, bm25: pd.DataFrame, cutoff: int) -> float:
    """Return the mean share of the documents at the top of BM25's rankings that a run has there."""
    top, bm25_top = (frame.loc[frame[RANK] < cutoff, [QID, DOCNO]] for frame in (run, bm25))
    sizes, shared = bm25_top.groupby(QID).size(), top.merge(bm25_top)[QID].value_counts()
    return float((shared.reindex(sizes.index).fillna(0) / sizes).mean())


def drift_warning(drift: pd.DataFrame, same: Mapping[tuple[str, str], str], cutoff: int) -> str:
    """Return a warning about systems that drift, or an empty string.

    Args:
        drift: the result of `drift_frame`.
        same: the result of `same_answers`.
        cutoff: the number of ranks to compare.
    """
    descriptions = []
    for attribute, system, share, shared in drift.iloc[:, :4].itertuples(index=False):
        facts = []
        if share < LEAST_KEPT:
            facts.append(f"keeps {share:.0%} of the original words")
        if shared < LEAST_OVERLAP and not np.isnan(share):
            facts.append(f"shares {shared:.0%} of BM25's top {cutoff}")
        facts += [same[attribute, system]] if (attribute, system) in same else []
        descriptions += [f"{system} for {attribute} {', '.join(facts)}"] if facts else []
    if not descriptions:
        return ""
    count = len(descriptions)
    if count > 3:
        descriptions[3:] = [f"{count - 3} more"]
    return (
        f"drift: refined queries may be off topic in {count} of {len(drift)} systems, which AWRF "
        f"does not measure: they have less than {LEAST_KEPT:.0%} of the original words, less than "
        f"{LEAST_OVERLAP:.0%} of BM25's top, or the same answer for all topics: "
        f"{'; '.join(descriptions)}. Check the models and their prompt"
    )


def empty_ranking_warning(systems: Mapping[Cell, SystemResults]) -> str:
    """Return a warning about topics without any document, or an empty string."""
    systems_of: dict[str, dict[str, None]] = {}
    for cell, results in systems.items():
        for qid in results.empty_qids if not cell.variation else ():
            systems_of.setdefault(qid, {})[cell.system] = None
    if not systems_of:
        return ""
    names = dict.fromkeys(name for names in systems_of.values() for name in names)
    return (
        f"no document is retrieved for {len(systems_of)} topics ({format_list(systems_of)}), which "
        f"get the worst value: {', '.join(names)}"
    )


def control_rows(values: pd.DataFrame, attributes: Sequence[str]) -> pd.DataFrame:
    """Return paired differences between FAIR-QR, its placebo and BM25; see `QrResults.controls`.

    Args:
        values: values per query, without variations.
        attributes: the attributes, in the order of the rows.
    """
    rows: list[tuple[Any, ...]] = []
    for attribute in attributes:
        part = values[values["attribute"] == attribute]
        wide = part.pivot(index=["system", "measure"], columns=QID, values="value")
        for system, other in _PAIRS:
            if not {system, other} <= set(part["system"]):
                continue
            for measure in MEASURES:
                change = wide.loc[(system, measure)] - wide.loc[(other, measure)]
                difference = change.to_numpy().round(_DECIMALS)
                [low], [high] = mean_intervals(difference[None, :])
                numbers = (float(difference.mean()), float(low), float(high))
                rows.append((attribute, system, other, measure, *numbers))
    names = ["attribute", "system", "against", "measure", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=names)


_QUARTILES = (0.25, 0.5, 0.75)
_RECORDED = ["prompt_tokens", "completion_tokens", "seconds"]
_COSTS = ["calls", "prompt_tokens", "completion_tokens", "price", *TIMES[:-1]]


def iterations(traces: pd.DataFrame) -> pd.DataFrame:
    """Return mean and quartiles of the number of refinements per query.

    Args:
        traces: rows of `fairtk.FairQR.trace`.

    Returns:
        Two rows, or none without traces: ``count`` (``"asked"`` for calls per query, ``"kept"`` for
        kept refinements per query), ``mean``, ``25%``, ``50%``, ``75%``, ``largest``,
        ``queries``.
    """
    names = ["count", "mean", "25%", "50%", "75%", "largest", "queries"]
    if traces.empty:
        return pd.DataFrame(columns=names)
    rows = [
        [name, counts.mean(), *counts.quantile(_QUARTILES), int(counts.max()), len(counts)]
        for name, counts in refinements(traces).items()
    ]
    return pd.DataFrame(rows, columns=names)


def cost_row(system: SystemResults, llm: ChatModel | None, prices: Prices) -> pd.DataFrame:
    """Return the mean cost of a query, as one row.

    Args:
        system: the results of the system.
        llm: the model; `None` for the placebo, which has none.
        prices: the prices of models.
    """
    traces = system.traces if llm is not None else pd.DataFrame(columns=[QID])
    calls = traces[traces["iteration"] > 0] if len(traces) else pd.DataFrame(columns=_RECORDED)
    prompts, answers, seconds = (calls[name].to_numpy(dtype=np.float64) for name in _RECORDED)
    rows = zip(prompts, answers, strict=True)
    price = [
        prices.of(llm, _none_if_unknown(p), _none_if_unknown(a)) for p, a in rows if llm is not None
    ]
    traced = traces[QID].nunique() or 1
    queries = len(system.notes)
    wait = float(np.nansum(seconds)) / traced
    local = (system.total("seconds") - system.total("waited")) / queries
    # without calls the price is 0, even if the model's price is unknown
    priced = llm is None or traces.empty or prices.known(llm)
    paid = math.fsum(price) if priced else math.nan
    numbers = [len(calls), float(prompts.sum()), float(answers.sum()), paid]
    training = system.total("training") if system.choices.empty else system.choices["seconds"].sum()
    times = [wait, local, training]
    return pd.DataFrame([[*(number / traced for number in numbers), *times]], columns=_COSTS)


def _none_if_unknown(count: float) -> float | None:
    return None if math.isnan(count) else count
