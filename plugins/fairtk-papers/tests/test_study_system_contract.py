"""The contract of the study's systems: what keeps to it passes, what does not is caught."""

import pytest
from fairtk_papers.testing import StudySystemContract
from toy_systems import Plugin

from fairtk import hookimpl, plugins

Plugin.fairtk_study_systems = hookimpl(Plugin.fairtk_study_systems)


@pytest.fixture(autouse=True, scope="module")
def registered():
    plugin = Plugin()
    plugins.register(plugin, "toy-systems")
    yield
    plugins.unregister(plugin)


class TestGood(StudySystemContract):
    name = "toy-good"


class TestFitted(StudySystemContract):
    name = "toy-fitted"


@pytest.mark.parametrize(
    ("name", "test", "message"),
    [
        ("short", "test_rankings", "got 1"),
        ("leaking", "test_rankings", r"extra columns \['text'\]"),
        ("inventing", "test_rankings", "unknown qids"),
        ("batched", "test_topics_do_not_matter_to_each_other", "how topics are batched"),
        ("random", "test_deterministic", "when it is called twice"),
        ("careless", "test_unknown_options_are_named", "setting 'no_such_setting'"),
        ("untold", "test_fit", "not declared as trained"),
    ],
)
def test_what_is_caught(name, test, message):
    contract = StudySystemContract()
    contract.name = f"toy-{name}"
    with pytest.raises(AssertionError, match=message):
        getattr(contract, test)()
