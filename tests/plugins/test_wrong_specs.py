"""Specs of plugins with a wrong target or name: an error names the spec and its plugin."""

import dataclasses
import inspect

import pytest

from fairtk import EU, FairMeasure, evaluate, hookimpl, plugins
from fairtk.errors import PluginError
from fairtk.plugins import host, registry
from fairtk.plugins.registry import Spec, UtilitySpec

SPECS = {hook: r for hook, r in host.ALL.items() if issubclass(r.base_class, Spec)}


def make(hook, *values):
    """Return a plugin that gives values to one hook."""
    return type("Wrong", (), {hook: hookimpl(lambda self: list(values), specname=hook)})()


def spec_of(kind, name, target):
    """Return a spec of a class; its other required settings are texts."""
    required = [f.name for f in dataclasses.fields(kind) if f.default is f.default_factory]
    given = {name: "R" for name in required} | {"name": name, "target": target, "summary": "a"}
    return kind(**given)


@pytest.fixture
def given():
    """Register plugins; they are taken back after the test."""
    registered = []

    def register(plugin):
        plugins.register(plugin, "lab", "1.0")
        registered.append(plugin)

    yield register
    for plugin in registered:
        plugins.unregister(plugin)


@pytest.mark.parametrize("hook", SPECS)
@pytest.mark.parametrize(
    "target", ["fairtk.nowhere:X", "nowhere_at_all:X", "nowhere.inside:X", "fairtk.remarks:Nope"]
)
def test_a_target_that_is_not_there(given, hook, target):
    filled = SPECS[hook]
    given(make(hook, spec_of(filled.base_class, "lost", target)))
    with pytest.raises(PluginError) as caught:
        filled.load("lost")
    assert f"{filled.kind} 'lost' (plugin lab 1.0): '{target}'" in str(caught.value)


def test_a_measure_with_a_lost_utility(given):
    given(make("fairtk_utilities", UtilitySpec("lost", "fairtk.remarks:Nope", "lost")))
    with pytest.raises(PluginError, match=r"'lost' \(plugin lab 1.0\)"):
        EU(utility="lost")


def test_a_package_of_an_extra_stays_an_import_error(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import package_that_is_missing")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="package_that_is_missing"):
        UtilitySpec("more", "needs_more:X", "more").load()


@pytest.mark.parametrize("hook", SPECS)
@pytest.mark.parametrize("target", ["nocolon", "a.b", ":X", "a:", "a b:X", "a:X()", "", None])
def test_a_target_without_module_and_attribute(given, hook, target):
    with pytest.raises(PluginError, match=f"'lost'.*{target!r}".replace("()", r"\(\)")):
        given(make(hook, spec_of(SPECS[hook].base_class, "lost", target)))
    assert "lost" not in SPECS[hook]


@pytest.mark.parametrize("hook", SPECS)
@pytest.mark.parametrize("name", ["bad name", "a(b)", "a,b", "a=b", "tab\t", "'a'"])
def test_a_name_that_cannot_be_written(given, hook, name):
    with pytest.raises(PluginError) as caught:
        given(make(hook, spec_of(SPECS[hook].base_class, name, "fairtk:EE_D")))
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("filled", host.ALL.values(), ids=lambda filled: filled.kind)
def test_registered_names_and_targets_are_valid(filled):
    for entry in filled.entries():
        assert inspect.isclass(filled.base_class) and filled.add(entry.value, entry.plugin)


class Raises(FairMeasure):
    """A measure that fails."""

    NAME, PRETTY_NAME, BETTER, MISSING = "RaisesHere", "Raises", "higher", 0.0

    def score_query(self, qrels, run):
        """Fail."""
        raise KeyError("x")


def test_the_place_of_a_failure_is_noted_once():
    rows = [{"qid": "q1", "docno": "a", "label": 1, "score": 1.0}]
    with pytest.raises(KeyError) as caught:
        evaluate(rows, rows, [Raises()])
    assert caught.value.__notes__ == [f"(in measure RaisesHere (module {__name__}), qid 'q1')"]


assert registry.utilities in SPECS.values()
