"""How often each test of `fairtk.statistics` finds a difference where there is none.

A script to run by hand. Two systems with the same distribution of values, 50 queries with a
difficulty of their own that both share: the share of comparisons with p below 5 % should be 5 %.
The tests against a margin are run where the true difference is the margin, the worst case of their
null hypothesis. Also Holm's correction of five such tests: any finding, in at most 5 %.
"""

from __future__ import annotations

import argparse

import numpy as np

from fairtk.report.statistics import sign_flips
from fairtk.statistics import TESTS, correct, equivalence_test, non_inferiority_test, paired_test

MARGIN = 0.3


def main() -> None:
    """Simulate, and print the shares with their standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--resamples", type=int, default=999)
    options = parser.parse_args()
    generator = np.random.default_rng(7)
    size = (options.comparisons, options.queries)
    difficulty = generator.normal(0, 0.2, size)
    x, y = (difficulty + generator.gamma(2.0, 0.1, size) for _ in range(2))
    found: dict[str, list[float]] = {}
    for name in TESTS:
        # Wilcoxon's p-value draws nothing, only its interval does; randomization's without one
        resamples = 20 if name == "wilcoxon" else options.resamples
        found[name] = [
            sign_flips(np.sort(a - b), resamples, seed)
            if name == "randomization"
            else paired_test(a, b, name, resamples=resamples, seed=seed).p
            for seed, (a, b) in enumerate(zip(x, y, strict=True))
        ]
    found["non-inferiority"] = [
        non_inferiority_test(a - MARGIN, b, MARGIN).p for a, b in zip(x, y, strict=True)
    ]
    found["equivalence"] = [
        equivalence_test(a - MARGIN, b, MARGIN).p for a, b in zip(x, y, strict=True)
    ]
    families = np.array(found["t"])[: options.comparisons // 5 * 5].reshape(-1, 5)
    found["Holm, any of five"] = [float(correct(family, "holm").min()) for family in families]
    for name, p in found.items():
        share = float((np.array(p) < 0.05).mean())
        error = np.sqrt(0.05 * 0.95 / len(p))
        print(f"{name:18} {share:6.2%} of {len(p)} (+- {error:.2%})")


if __name__ == "__main__":
    main()
