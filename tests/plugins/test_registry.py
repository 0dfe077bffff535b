"""Registries: look-ups, their errors, and the specs that they hold."""

import pytest

from fairtk.errors import NotFoundError, PluginError
from fairtk.plugins.registry import (
    ALL,
    DatasetSpec,
    Registry,
    TransformerSpec,
    UtilitySpec,
    load_target,
    measures,
    study_systems,
    transformers,
    utilities,
)


@pytest.fixture
def fruits():
    registry = Registry("fruit")
    for name in ("pear", "apple", "Cherry"):
        registry.add(name, name.upper(), "garden 1.0")
    return registry


def test_look_up(fruits):
    assert fruits.get("pear") == "PEAR"
    assert fruits.names() == ["Cherry", "apple", "pear"]
    assert [(e.name, e.value, e.owner) for e in fruits.entries()][2] == (
        "pear",
        "PEAR",
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
    with pytest.raises(NotFoundError, match="none is registered"):
        Registry("fruit").get("pear")


def test_a_name_is_given_once(fruits):
    with pytest.raises(PluginError, match="fruit 'pear' is given by two plugins, garden 1.0 and b"):
        fruits.add("pear", "PEAR", "balcony 2.0")
    assert fruits.get("pear") == "PEAR"


def test_discard_and_clear(fruits):
    fruits.discard(["pear", "never there"])
    assert fruits.names() == ["Cherry", "apple"]
    fruits.clear()
    assert fruits.names() == []


def test_before_use_comes_first():
    calls = []
    registry = Registry("fruit", before_use=lambda: calls.append(1))
    registry.add("pear", 1, "garden")
    assert calls == []
    registry.get("pear"), registry.names(), registry.entries(), "pear" in registry
    assert len(calls) == 4


def test_targets():
    assert load_target("fairtk.frames.columns:QID") == "qid"
    with pytest.raises(ImportError):
        load_target("fairtk.nowhere:X")
    registry = Registry("spec")
    registry.add("columns", UtilitySpec("columns", "fairtk.frames.columns:DOCNO", ""), "x")
    assert registry.load("columns") == "docno"


def test_every_hook_that_returns_values_has_a_registry():
    from fairtk.plugins.rules import hook_names

    assert set(ALL) | {"fairtk_commands"} == set(hook_names())


def test_what_is_registered():
    assert {"EE_D", "EE_R", "EE_L", "EU", "E"} <= set(measures.names())
    assert "rougeL" in utilities
    assert transformers.get("FairSampler").outputs == "S"
    for registry in ALL.values():
        # systems of the study beside fairtk's own come from plugins alone
        assert registry.names() or registry is study_systems, registry.kind
        for entry in registry.entries():
            assert getattr(entry.value, "summary", "-").strip()
            assert not getattr(entry.value, "summary", "-").endswith(".")


def test_specs_are_values():
    spec = DatasetSpec("a/b", "p:load", "data")
    assert spec.name == "a/b"
    assert spec == DatasetSpec("a/b", "p:load", "data")
    with pytest.raises(AttributeError):
        spec.id = "c"
    assert TransformerSpec("T", "p:T", "t", "R", "S").extra is None
    assert UtilitySpec("u", "p:u", "u").higher_is_better
