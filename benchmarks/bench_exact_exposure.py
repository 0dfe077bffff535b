"""Exact top-k exposure: time and error next to sampling, and the cost of calibration. Run manually.

All in one run, in seconds of the processor (no part uses several cores), so that other work on the
machine counts less. Prints, for each alpha,

* the median time of a query of 1,000 candidates, and the largest deviation from the same integral
  with steps half as long, which is that much more exact that the deviation is the error;
* the time of 100 and 10,000 samples, and the largest error of the exposure that they estimate;
* the p-value of a chi-square test of 100,000 samples of a query against its exact exposure;

then times of 10,000 candidates; and, on a LaMP folder (by default the packaged demo), how close
calibrated samplers come to each target, with how many evaluations of a query.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import chi2
from sizes import scale

import fairtk
from fairtk import BM25Scorer, Candidates, FairSampler
from fairtk.datasets import lamp
from fairtk.exposure import draw_rankings, expected_attention, score_gaps
from fairtk.transformers import samplers as calibrated

CUTOFF = 5
MANY = scale(10_000, 100)
ALPHAS = (0.5, 1, 2, 4, 6, 8, 16)
Floats = npt.NDArray[np.float64]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return milliseconds of the processor, and what the work gives."""
    start = time.process_time()
    found = work()
    return 1e3 * (time.process_time() - start), found


def exact(gaps: Floats) -> Floats:
    """Return the exact top-k exposure of one query."""
    return expected_attention(gaps, np.array([0, len(gaps)]), np.ones(CUTOFF))


def finer(gaps: Floats) -> Floats:
    """Return the same with steps half as long."""
    with patch("fairtk.exposure.exact.STEP", 0.125):
        return exact(gaps)


def sampled(gaps: Floats, n_samples: int) -> Floats:
    """Return the top-k exposure that samples estimate."""
    start = np.array([0, len(gaps)])
    draws = draw_rankings(gaps, start, ["q"], n_samples, CUTOFF, 42)
    return np.bincount(draws.row, minlength=len(gaps)) / n_samples


def queries(size: int, count: int, alpha: float) -> list[Floats]:
    """Return gaps of queries with gamma distributed scores, as BM25's are."""
    scores = -np.sort(-np.random.default_rng(0).gamma(2.0, 1.0, (count, size)), axis=1)
    return [score_gaps(one, np.array([0, size]), alpha) for one in scores]


def p_value(gaps: Floats, n_samples: int) -> float:
    """Return the p-value of samples against exact exposure; cells under 20 are pooled."""
    expected = exact(gaps) * n_samples
    count = sampled(gaps, n_samples) * n_samples
    rare = expected < 20
    count = np.append(count[~rare], count[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    there = expected > 1e-6
    statistic = ((count - expected)[there] ** 2 / expected[there]).sum()
    return float(chi2.sf(statistic, max(there.sum() - 1, 1)))


def speed(size: int, count: int, alphas: tuple[float, ...], beside: bool) -> None:
    """Print times and errors."""
    for alpha in alphas:
        each = queries(size, count, alpha)
        exact(each[0])
        times, found = zip(*(timed(lambda g=g: exact(g)) for g in each), strict=True)
        error = max(np.abs(finer(g) - f).max() for g, f in zip(each[:10], found, strict=False))
        line = f"{size:>6} candidates, alpha {alpha:>4}: exact {np.median(times):7.2f} ms"
        line += f" (largest {max(times):.1f}), error {error:.0e}"
        if beside:
            for n_samples in (100, MANY):
                some = each[:5]
                times, drawn = zip(
                    *(timed(lambda g=g, n=n_samples: sampled(g, n)) for g in some), strict=True
                )
                off = max(np.abs(d - f).max() for d, f in zip(drawn, found, strict=False))
                line += f"; {n_samples} samples {np.median(times):.1f} ms, error {off:.0e}"
            line += f"; p of {10 * MANY:,} samples {p_value(each[0], 10 * MANY):.3f}"
        print(line)


def load(folder: str | None) -> pd.DataFrame:
    """Return BM25's run over the queries' own candidates."""
    dataset = lamp.from_folder(folder, task=4) if folder else fairtk.demo.load().dataset
    topics = pd.DataFrame(dataset.queries_iter()).rename(columns={"query_id": "qid"})
    return BM25Scorer()(Candidates(dataset)(topics))[["qid", "docno", "score"]]


def calibration(run: pd.DataFrame) -> None:
    """Print how close the wishes come, and how often a query is evaluated."""
    sizes = run.groupby("qid").size()
    print(f"{len(sizes)} queries, {sizes.mean():.0f} candidates on average, cutoff {CUTOFF}")
    wishes: list[dict[str, Any]] = [{"target_disparity": t / 10} for t in range(2, 10)]
    wishes += [{"max_relevance_loss": loss, "relevance": "scores"} for loss in (0.01, 0.05, 0.2)]
    search = calibrated.find_alphas
    for wish in wishes:
        count: dict[int, int] = {}

        def counting(values: Any, *ends: Floats, count: dict[int, int] = count) -> Any:
            def one_by_one(alpha: Floats, query: npt.NDArray[np.int64]) -> Floats:
                for each in query.tolist():
                    count[each] = count.get(each, 0) + 1
                return np.asarray(values(alpha, query))

            return search(one_by_one, *ends)

        with patch.object(calibrated, "find_alphas", counting), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = FairSampler(cutoff=CUTOFF, **wish)
            spent, found = timed(lambda s=sampler: s.calibrated(run))
        off = (found["value"] - found["wanted"])[found["reached"]]
        near = f"{off.min():+.4f} to {off.max():+.4f} from it"
        evaluations = list(count.values()) or [0]
        named = ", ".join(f"{k}={v}" for k, v in wish.items())
        print(
            f"{named}: {found['reached'].sum()} of {len(found)} reached, {near}; "
            f"values {found['value'].min():.3f} to {found['value'].max():.3f}, alpha "
            f"{found['alpha'].min():.2f} to {found['alpha'].max():.2f}; evaluations "
            f"{np.mean(evaluations):.1f} (at most {max(evaluations)}), {spent:.0f} ms"
        )


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lamp", help="a folder of LaMP-4's dev files")
    parser.add_argument("--queries", type=int, default=scale(100, 2))
    given = parser.parse_args()
    speed(scale(1_000, 50), given.queries, ALPHAS, beside=True)
    speed(scale(10_000, 100), max(3, given.queries // 20), (0.5, 2, 4, 8), beside=False)
    run = load(given.lamp)
    calibration(run if scale(True, False) else run[run["qid"].isin(run["qid"].unique()[:3])])


if __name__ == "__main__":
    main()
