"""Fixtures that all tests share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import settings

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden():
    """Return a loader of the reference numbers in tests/golden."""
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))

# A shared machine may be slow at any moment: examples are bounded in number, not in time.
settings.register_profile("fairtk", deadline=None, print_blob=True)
settings.load_profile("fairtk")
