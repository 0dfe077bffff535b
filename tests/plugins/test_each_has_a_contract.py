"""Whatever fairtk registers has a test of its contract, and is exported by its subpackage."""

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

from fairtk import plugins
from fairtk.plugins import registry
from fairtk.plugins.registry import Spec

CONTRACTS = {
    "fairtk_measures": {"MeasureContract"},
    "fairtk_browsing_models": {"BrowsingModelContract"},
    "fairtk_divergences": {"DivergenceContract"},
    "fairtk_utilities": {"UtilityContract"},
    "fairtk_prompts": {"PromptContract"},
    "fairtk_transformers": {"TransformerContract", "ScorerContract"},
    "fairtk_chat_models": {"ChatModelContract"},
}
EXPORTED = [hook for hook in CONTRACTS if hook not in ("fairtk_utilities", "fairtk_prompts")]
"""`get` finds the others by name."""


def builtin(hook):
    """Return the names that fairtk itself gives to a hook."""
    return [n for p in plugins.loaded_plugins() if p.name == "fairtk" for n in p.gave.get(hook, [])]


def words(node):
    """Return the names and the constants below a node."""
    below = list(ast.walk(node))
    names = {part.id for part in below if isinstance(part, ast.Name)}
    return names | {part.value for part in below if isinstance(part, ast.Constant)}


@cache
def classes_of_tests():
    """Return the words of each class of tests, with those of what it uses of its own file."""
    classes = []
    for path in Path(__file__).parents[1].rglob("test_*.py"):
        defined = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = getattr(node, "targets", [])
            for name in [getattr(node, "name", ""), *(getattr(t, "id", "") for t in targets)]:
                defined[name] = node
        for name in (name for name in defined if name.startswith("Test")):
            seen, todo = {name}, [name]
            while todo:
                new = words(defined.get(todo.pop(), ast.Pass())) - seen
                seen |= new
                todo += new
            classes.append(seen)
    return classes


@pytest.mark.parametrize("hook", CONTRACTS)
def test_everything_has_a_contract_test(hook):
    tested = set().union(*(found for found in classes_of_tests() if found & CONTRACTS[hook]))
    assert builtin(hook)
    if hook not in tested:  # a test with this word has all that the hook gives
        assert sorted(set(builtin(hook)) - tested) == [], f"test these by {CONTRACTS[hook]}"


@pytest.mark.parametrize("hook", EXPORTED)
def test_everything_is_exported_by_its_subpackage(hook):
    kind = getattr(registry, hook.removeprefix("fairtk_"))
    for name in builtin(hook):
        value = kind.get(name)
        value = kind.load(name) if isinstance(value, Spec) else value
        attribute = getattr(value, "__name__", name)  # a measure is no class
        package = ".".join(value.__module__.split(".")[:2])
        exported = getattr(importlib.import_module(package), attribute, None)
        assert exported is value, f"export {attribute} in the stub of {package}"
