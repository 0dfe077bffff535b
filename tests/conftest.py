"""Fixtures that all tests share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["processes_of_tests"]

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    """Add the options of tests/campaign; pytest reads them from this file alone."""
    campaign = parser.getgroup("campaign", "mutated files and frames (tests/campaign)")
    campaign.addoption("--campaign-cases", type=int, default=150, help="cases of each family")
    campaign.addoption("--campaign-seed", type=int, default=0, help="the first seed")
    campaign.addoption("--campaign-case", metavar="FAMILY:SEED", help="repeat one case")


def pytest_terminal_summary(terminalreporter):
    """Show the counts of the campaign, wherever it ran."""
    reports = [r for key in ("passed", "failed") for r in terminalreporter.stats.get(key, [])]
    properties = [p for r in reports for p in getattr(r, "user_properties", [])]
    lines = [line for name, line in properties if name == "campaign"]
    if lines:
        terminalreporter.section("campaign")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def golden():
    """Return a loader of the reference numbers in tests/golden."""
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


# A shared machine may be slow at any moment: examples are bounded in number, not in time. The
# nightly run has ten times as many, and other ones each night.
FEW = settings(
    max_examples=20,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("fairtk", FEW)
settings.register_profile("nightly", FEW, max_examples=200)
settings.load_profile("fairtk")
