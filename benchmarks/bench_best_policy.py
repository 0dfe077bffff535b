"""The best policy for given scores, against the exact exposure of one Plackett-Luce policy.

Run manually. Prints, for each browsing model, the seconds for 1,000 queries of 1,000 candidates at
one disparity, and the ratio to the exact exposure of the sampler at alpha 4 with the same cutoff,
in the same run; then the seconds of the bound over the labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sizes import scale

from fairtk.analysis.best_policy import best_exposure, largest_relevance
from fairtk.exposure import DCG, MU, RBP, BrowsingModel, expected_attention, score_gaps

QUERIES, CANDIDATES = scale(1000, 5), scale(1000, 50)
CASES: dict[str, tuple[BrowsingModel, int]] = {
    "MU@5": (MU(), 5),
    "MU@20": (MU(), 20),
    "RBP(p=0.8)@20": (RBP(0.8), 20),
    "DCG@20": (DCG(), 20),
}


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the time of the work and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main() -> None:
    """Print the times and ratios."""
    rng = np.random.default_rng(1)
    table = np.sort(rng.standard_normal((QUERIES, CANDIDATES)))[:, ::-1]
    scores, start = table.ravel(), np.arange(QUERIES + 1) * CANDIDATES
    gaps = score_gaps(scores, start, 4.0)
    disparity = np.ones(QUERIES)
    best_exposure(scores[:2], np.array([0, 2]), np.ones(1), np.ones(1))  # imports scipy.optimize
    for name, (model, cutoff) in CASES.items():
        weight = model.weights(np.arange(cutoff))
        exact, exposure = seconds(lambda weight=weight: expected_attention(gaps, start, weight))
        disparity = (exposure.reshape(table.shape) ** 2).sum(axis=1)
        best, _ = seconds(
            lambda weight=weight, wanted=disparity: best_exposure(scores, start, weight, wanted)
        )
        print(f"{name:14} {best:6.2f} s, {best / exact:5.2f} of the sampler's exact exposure")
    full = np.full(QUERIES, weight.sum())
    n = np.full(QUERIES, CANDIDATES)
    bound, _ = seconds(lambda: largest_relevance(disparity, full, full, disparity, n))
    print(f"{'over labels':14} {bound:6.4f} s")


if __name__ == "__main__":
    main()
