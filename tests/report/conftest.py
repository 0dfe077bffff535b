"""Fixtures of the tests of reports."""

import pytest
from report_world import hostile_results


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    return hostile_results(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def answered():
    return hostile_results(n_queries=6)
