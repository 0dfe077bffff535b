"""What keeps a comparison honest: how far systems drift, and FAIR-QR against its placebo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from fairtk.frames.columns import DOCNO, QID, RANK
from fairtk.frames.scripts import words
from fairtk.statistics import mean_intervals, paired_test
from fairtk.studies.fair_qr.cells import BM25, BY_EXPOSURE, FAIR_QR, RANDOM, TUNED, Cell
from fairtk.studies.fair_qr.settings import Settings
from fairtk.studies.fair_qr.values import FAIRNESS, MEASURES, NDCG
from fairtk.studies.kept import KeptCell

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
    kept = trace[trace["kept"].astype(bool) & trace[QID].isin(refined(trace))]
    kept = kept.sort_values("iteration", kind="stable")
    last = kept.groupby(QID)["query"].last()
    shares = []
    for qid, query in kept.groupby(QID)["query"].first().items():
        original = {word.lower() for word in words(query)}
        now = {word.lower() for word in words(last[qid])}
        shares.append(len(original & now) / len(original) if original else 1.0)
    return float(np.mean(shares)) if shares else float("nan")


def same_answers(kept: Mapping[Cell, KeptCell]) -> dict[tuple[str, str], str]:
    """Return the models whose first answers are one for all of three topics or more.

    By attribute and system, what is to be said of them.
    """
    found = {}
    for cell, own in kept.items():
        trace = own.traces
        if cell.kind != FAIR_QR or cell.variation or cell.grid or trace.empty:
            continue
        first = trace[(trace["iteration"] == 1) & (trace["query"] != "")]
        if len(first) > 2 and first["query"].str.lower().nunique() == 1:
            found[cell.attribute, cell.system] = (
                f"has {first['query'].iloc[0]!r} as its model's answer for all {len(first)} topics"
            )
    return found


def drift_frame(kept: Mapping[Cell, KeptCell], table: pd.DataFrame, cutoff: int) -> pd.DataFrame:
    """Return one row for each system of the comparison but BM25; see `drift_row`.

    Args:
        kept: what there is of each cell.
        table: the comparison.
        cutoff: the ranks that count.
    """
    cells = {(c.attribute, c.system): own for c, own in kept.items() if not c.variation}
    rows = []
    for _, row in table[table["system"] != BM25].iterrows():
        own, first = cells[row["attribute"], row["system"]], cells[row["attribute"], BM25]
        drift = drift_row(own.traces, own.rankings, first.rankings, row, cutoff)
        rows.append({"attribute": row["attribute"], "system": row["system"], **drift})
    return pd.DataFrame(rows)


def refined(trace: pd.DataFrame) -> set[str]:
    """Return the queries of which a refinement was kept."""
    later = trace["kept"].astype(bool) & (trace["iteration"] > 0)
    return set(trace.loc[later, QID])


def overlap(run: pd.DataFrame, first: pd.DataFrame, cutoff: int) -> float:
    """Return the mean share of the first lists' top that rankings have in theirs."""
    top, then = (set(_pairs(frame, cutoff)) for frame in (run, first))
    sizes = first[first[RANK] < cutoff].groupby(QID).size()
    shared = pd.Series([qid for qid, _ in top & then], dtype=object).value_counts()
    return float((shared.reindex(sizes.index).fillna(0) / sizes).mean())


def drift_row(
    trace: pd.DataFrame, run: pd.DataFrame, first: pd.DataFrame, row: pd.Series, cutoff: int
) -> dict[str, float]:
    """Return how far a system is from the first lists, and what it gives for fairness.

    Args:
        trace: of its loops; empty: it has none.
        run: its rankings.
        first: the first rankings.
        row: of the comparison.
        cutoff: the ranks that count.
    """
    if len(trace):  # where no refinement was kept, the list is the first one, or re-ranked
        first = first[first[QID].isin(refined(trace))]
    gained, lost = row[f"{FAIRNESS} change"], -row[f"{NDCG} change"]
    return {
        "words kept": words_kept(trace),
        "overlap": overlap(run, first, cutoff),
        "AWRF gained": gained,
        "nDCG lost": lost,
        "lost per gained": lost / gained if gained > 0 else float("nan"),
    }


def drift_warning(drift: pd.DataFrame, same: Mapping[tuple[str, str], str], cutoff: int) -> str:
    """Return one warning of all systems that left their queries behind; empty: there is none.

    Args:
        drift: as of `drift_frame`.
        same: as of `same_answers`.
        cutoff: the ranks that count.
    """
    told = []
    for attribute, system, kept, shared in drift.iloc[:, :4].itertuples(index=False):
        facts = []
        if kept < LEAST_KEPT:
            facts.append(f"keeps {kept:.0%} of the original words")
        if shared < LEAST_OVERLAP and not np.isnan(kept):
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


def control_rows(
    values: pd.DataFrame, attributes: Sequence[str], settings: Settings
) -> pd.DataFrame:
    """Return paired differences between FAIR-QR, its placebo and BM25, one per row and measure.

    Args:
        values: each query's values, of systems as they are: see `Findings.per_query`.
        attributes: in their order.
        settings: confidence, resamples and seed of the intervals.

    Returns:
        ``attribute``, ``system``, ``against``, ``measure``, ``difference``, ``low``, ``high``,
        ``p`` (paired t-test, not corrected).
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
                [low], [high] = mean_intervals(
                    (own - base)[None, :],
                    confidence=settings.confidence,
                    resamples=settings.resamples,
                    seed=settings.seed,
                )
                rows.append(
                    {
                        "attribute": attribute,
                        "system": system,
                        "against": other,
                        "measure": measure,
                        "difference": float((own - base).mean()),
                        "low": float(low),
                        "high": float(high),
                        "p": paired_test(own, base).p,
                    }
                )
    names = ["attribute", "system", "against", "measure", "difference", "low", "high", "p"]
    return pd.DataFrame(rows, columns=names)


def _pairs(run: pd.DataFrame, cutoff: int) -> Iterator[tuple[str, str]]:
    top = run[run[RANK] < cutoff]
    return zip(top[QID], top[DOCNO], strict=True)
