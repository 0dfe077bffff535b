"""The places that catch or filter warnings, and those that keep a ContextVar: each with its reason.

Warnings of fairtk are data (remarks) inside of fairtk, so nothing needs to catch them. This list
only shrinks: a new place is an error, and so is one that is gone and still listed.
"""

import ast

import pytest
from test_architecture import ROOT, parsed, sources

NAMES = {"catch_warnings", "simplefilter", "filterwarnings", "ContextVar"}

PLACES = {
    "fairtk/cli/group.py::plain_warnings": "all libraries: the command line prints each once",
    "fairtk/experiment/executors.py::answer": "all libraries: the user sees those of workers",
    "fairtk/stage_context.py::module": "fairtk: the stage context, the only ContextVar",
    "plugins/fairtk-baselines/fairtk_baselines/vector_search.py::_candidates": (
        "torch: an array that is not writable"
    ),
}
"""The places, and the library whose warnings each is about."""


def places():
    """Return the functions of fairtk and its plugins, without those for tests, that use a name."""
    functions = set()
    for path in sources("fairtk", "plugins"):
        where = path.relative_to(ROOT)
        if "testing" in {*where.parts, where.stem}:
            continue
        waiting = [(node, "") for node in ast.iter_child_nodes(parsed(path))]
        while waiting:
            node, inside = waiting.pop()
            name = getattr(node, "attr", None) or getattr(node, "id", None)
            if name in NAMES:
                functions.add(f"{where.as_posix()}::{inside or 'module'}")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = f"{inside}.{node.name}".lstrip(".")
            waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
    return functions


def test_no_place_is_added():
    assert sorted(places() - PLACES.keys()) == []


def test_each_listed_place_exists():
    assert sorted(PLACES.keys() - places()) == []


@pytest.mark.parametrize("place", PLACES)
def test_each_place_names_its_library(place):
    library, _, reason = PLACES[place].partition(": ")
    assert library and reason
