"""Fixtures of the tests of experiments."""

import pytest
from experiment_stages import world


@pytest.fixture(scope="module")
def data():
    """Return topics and labels."""
    return world()
