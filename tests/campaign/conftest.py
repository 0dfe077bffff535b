"""What runs the campaigns that hypothesis draws."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

SECONDS = 120
"""Of CPU time: more is a hang."""


@pytest.fixture
def campaign(request, record_property):
    """Return what runs a check of drawn damages, as often as is asked for, and counts."""

    def run(name, strategy, check):
        outcomes = Counter()

        def example(drawn):
            begin = time.process_time()
            outcomes[check(drawn)] += 1
            assert time.process_time() - begin < SECONDS, "a hang"

        often = request.config.getoption("--campaign-cases")
        first = request.config.getoption("--campaign-seed")
        rules = settings(
            max_examples=often, deadline=None, database=None,
            suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
        )  # fmt: skip
        try:
            seed(first)(rules(given(strategy)(example)))()
        finally:
            counts = ", ".join(f"{kind}: {n}" for kind, n in sorted(outcomes.items()))
            record_property("campaign", f"{name}: {outcomes.total()} examples; {counts}")
        assert outcomes.total() >= 0.9 * often

    return run
