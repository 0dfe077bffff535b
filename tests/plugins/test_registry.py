"""Registries: look-ups, their errors, and the specs that they hold."""

import sys
import threading

import pytest

from fairtk.errors import NotFoundError, ParameterError, PluginError
from fairtk.plugins.host import ALL
from fairtk.plugins.registry import (
    DatasetSpec,
    Registry,
    TransformerSpec,
    UtilitySpec,
    load_target,
    measures,
    parse_call,
    studies,
    study_systems,
    transformers,
    utilities,
)
from fairtk.plugins.streams import to_stderr


@pytest.fixture
def fruits():
    registry = Registry("fruit")
    for name in ("pear", "apple", "Cherry"):
        registry.add(UtilitySpec(name, f"garden:{name.upper()}", ""), "garden 1.0")
    return registry


def test_look_up(fruits):
    assert fruits.get("pear").target == "garden:PEAR"
    assert fruits.names() == ["Cherry", "apple", "pear"]
    assert [(e.name, e.value.target, e.owner) for e in fruits.entries()][2] == (
        "pear",
        "garden:PEAR",
        "garden 1.0",
    )
    assert "pear" in fruits
    assert "plum" not in fruits
    assert 3 not in fruits


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aple", "unknown fruit 'aple'; did you mean 'apple'?"),
        ("cherry", "unknown fruit 'cherry'; did you mean 'Cherry'?"),
        ("xyz", "unknown fruit 'xyz'; known: Cherry, apple, pear"),
        (None, "unknown fruit None; known: Cherry, apple, pear"),
    ],
)
def test_unknown_names(fruits, name, message):
    with pytest.raises(NotFoundError) as caught:
        fruits.get(name)
    assert str(caught.value) == message
    assert isinstance(caught.value, ValueError)
    assert (caught.value.kind, caught.value.name) == ("fruit", name)


def test_an_empty_registry():
    with pytest.raises(NotFoundError):
        Registry("fruit").get("pear")


def test_a_name_is_given_once(fruits):
    with pytest.raises(PluginError, match="'pear'"):
        fruits.add(UtilitySpec("pear", "garden:PEAR", ""), "balcony 2.0")
    assert fruits.get("pear").target == "garden:PEAR"


def test_a_plugin_takes_back_what_is_its_own(fruits):
    events = []
    fruits.listener = lambda name, value: events.append((name, value))
    plum = UtilitySpec("plum", "balcony:PLUM", "")
    fruits.add(plum, "balcony 2.0")
    fruits.discard("balcony 2.0")
    fruits.discard("never there")
    assert fruits.names() == ["Cherry", "apple", "pear"]
    assert events == [("plum", plum), ("plum", None)]


def test_before_use_comes_first():
    calls = []
    registry = Registry("fruit")
    registry.before_use = lambda: calls.append(1)
    registry.add(UtilitySpec("pear", "garden:PEAR", ""), "garden")
    assert calls == []
    registry.get("pear"), registry.names(), registry.entries(), "pear" in registry
    assert len(calls) == 4


def test_targets():
    registry = Registry("spec")
    registry.add(UtilitySpec("columns", "fairtk.frames.columns:DOCNO", ""), "x")
    assert registry.load("columns") == "docno"


def test_what_is_registered():
    assert {"EE_D", "EE_R", "EE_L", "EU", "E"} <= set(measures.names())
    assert "rougeL" in utilities
    assert transformers.get("FairSampler").outputs == "S"
    for registry in ALL.values():
        # studies and their systems come from plugins alone
        assert registry.names() or registry in (studies, study_systems), registry.kind
        for entry in registry.entries():
            assert getattr(entry.value, "summary", "-").strip()
            assert not getattr(entry.value, "summary", "-").endswith(".")


def test_specs_are_values():
    spec = DatasetSpec("a/b", "p:load", "data")
    assert spec.name == "a/b"
    assert spec == DatasetSpec("a/b", "p:load", "data")
    with pytest.raises(AttributeError):
        spec.name = "c"
    assert TransformerSpec("T", "p:T", "t", "R", "S").extra is None
    assert UtilitySpec("u", "p:u", "u").higher_is_better


def test_a_target_is_imported():
    assert load_target("fairtk.frames.columns:QID") == "qid"


def test_a_target_that_is_not_there():
    with pytest.raises(ImportError, match="fairtk.nowhere"):
        load_target("fairtk.nowhere:X")
    with pytest.raises(AttributeError, match="NO_COLUMN"):
        load_target("fairtk.frames.columns:NO_COLUMN")


def test_threads_may_leave_in_any_order(capsys):
    """Enter first and leave last: what the other's end prints is still no output."""
    entered, left = threading.Event(), threading.Event()

    def other():
        with to_stderr():
            entered.set()
            left.wait()
            print("the other is still within")

    thread = threading.Thread(target=other)
    before = sys.stdout
    with to_stderr():
        thread.start()
        entered.wait()
    left.set()
    thread.join()
    print("output")
    assert sys.stdout is before
    assert capsys.readouterr() == ("output\n", "the other is still within\n")


def test_a_call_gives_each_option_once():
    assert parse_call(" RBP(p=0.8) ", "browsing model") == ("RBP", {"p": 0.8})
    deep = f"RBP(p={'-' * 100_000}1)"
    for text in ("RBP(p=0.8, p=0.9)", "RBP(**{})", "RBP(p={[]})", "RBP(p=f())", "RBP(", deep):
        with pytest.raises(ParameterError):
            parse_call(text, "browsing model")
