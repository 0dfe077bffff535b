"""Fixtures that all tests share."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import settings

# Tests run in several processes: torch's threads would only get into each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden():
    """Return a loader of the reference numbers in tests/golden."""
    return lambda name: json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


# A shared machine may be slow at any moment: examples are bounded in number, not in time.
settings.register_profile("fairtk", deadline=None, print_blob=True)
settings.load_profile("fairtk")
