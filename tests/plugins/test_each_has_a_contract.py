"""Everything that fairtk registers is named by a test of its contract, in some file of tests."""

import ast
from functools import cache
from pathlib import Path

import pytest

from fairtk import plugins

CONTRACTS = {
    "fairtk_measures": {"MeasureContract"},
    "fairtk_browsing_models": {"BrowsingModelContract"},
    "fairtk_divergences": {"DivergenceContract"},
    "fairtk_utilities": {"UtilityContract"},
    "fairtk_transformers": {"TransformerContract", "ScorerContract"},
    "fairtk_backends": {"BackendContract"},
    "fairtk_chat_models": {"ChatModelContract"},
}


@cache
def files_of_tests():
    """Return, for each file of tests, the bases of its classes, and the names that it uses."""
    files = []
    for path in Path(__file__).parents[1].rglob("test_*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        bases = {getattr(base, "id", "") for node in classes for base in node.bases}
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
        files.append((bases, names | texts))
    return files


@pytest.mark.parametrize("hook", CONTRACTS)
def test_everything_has_a_contract_test(hook):
    tested = set().union(*(names for bases, names in files_of_tests() if bases & CONTRACTS[hook]))
    ours = [plugin for plugin in plugins.loaded() if plugin.name == "fairtk"]
    given = {name for plugin in ours for name in plugin.gave.get(hook, [])}
    assert given
    if hook not in tested:  # as where a test has all that the hook gives
        assert sorted(given - tested) == [], f"test these by {CONTRACTS[hook]}"
