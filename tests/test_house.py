"""What keeps the house in order: no import cycles, one meaning per name, files not too long."""

import ast
import importlib.util
import pkgutil
import re
from collections import defaultdict
from pathlib import Path

import pytest

from fairtk.plugins import registry

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fairtk"
LONGEST = 300
LOOSE = 7

SAME_AS_MODULE = {  # what is exempt, and why
    "fairtk.groups.coverage": "fairtk.coverage, and its import path is public",
}


def sources(*roots):
    """Return the files of the package and its plugins that users run; no tests."""
    found = [p for root in roots for p in (ROOT / root).rglob("*.py")]
    return sorted(p for p in found if not {"tests", "build"} & set(p.relative_to(ROOT).parts))


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree, known):
    """Yield the modules that a module names, also those for annotations or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in known or node.module in known:
                    yield whole if whole in known else node.module


def cycles(graph):
    """Return the sets of modules that all reach each other."""
    reached = {}
    for start in graph:
        seen, waiting = set(), [start]
        while waiting:
            for other in graph[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        reached[start] = seen
    return {frozenset(b for b in reached[a] if a in reached[b]) for a in graph if a in reached[a]}


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {frozenset("bc")}
    tree = ast.parse("def f():\n    from p.a import g\nif TYPE_CHECKING:\n    from p import b")
    assert set(imported(tree, {"p", "p.a", "p.b"})) == {"p.a", "p.b"}


def test_no_module_imports_what_imports_it():
    """Annotations count, too: who is named in a signature is depended on.

    Front doors (``__init__``) are left out: they import their rooms' modules, which need not come
    in by the door.
    """
    paths = [p for p in sources("fairtk", "plugins") if p.name != "__init__.py"]
    known = {_plugin_name(p) for p in paths}
    graph = {_plugin_name(p): set(imported(parsed(p), known)) - {_plugin_name(p)} for p in paths}
    assert len(graph) > 300
    assert [sorted(group) for group in cycles(graph)] == []


def _plugin_name(path):
    """Return a module's name as it is imported: without plugins/ and the plugin's folder."""
    name = module_name(path)
    return name.split(".", 2)[2] if name.startswith("plugins.") else name


def test_a_public_class_name_stands_once():
    places = defaultdict(list)
    for path in sources("fairtk", "plugins"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_module_is_named_like_a_function_of_its_package():
    found = set()
    for path in sources("fairtk", "plugins"):
        folder = path.parent
        siblings = {p.stem for p in folder.iterdir() if p.suffix == ".py" or p.is_dir()}
        for node in parsed(path).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in siblings:
                found.add(f"{module_name(folder / '__init__.py')}.{node.name}")
    assert found == set(SAME_AS_MODULE), sorted(found ^ set(SAME_AS_MODULE))


@pytest.mark.parametrize("path", sources("fairtk", "plugins"), ids=module_name)
def test_a_file_can_be_read_at_once(path):
    length = len(path.read_text(encoding="utf-8").splitlines())
    assert length <= LONGEST, f"{length} lines: split it by idea, in files of at most {LONGEST}"


def test_plugins_come_in_by_the_doors_of_rooms():
    known = {module_name(p) for p in sources("fairtk") if p.name != "__init__.py"}
    inside = {name for name in known if name.count(".") > 1}
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources("plugins")
        for name in imported(parsed(path), inside)
    }
    assert len(inside) > 300 and sorted(found) == []


def test_modules_lie_in_rooms():
    loose = sorted(p.name for p in PACKAGE.glob("*.py"))
    assert len(loose) <= LOOSE, f"give {loose} a room, at most {LOOSE} files lie at the top"


TARGET = re.compile(r"fairtk\w*(\.\w+)*:\w+(\.\w+)*")


def _called(node):
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def test_strings_that_name_code_resolve():
    """Targets, ``module:attribute``, wherever they stand, and packages that hold files."""
    targets, packages = set(), set()
    for path in sources("fairtk", "plugins"):
        nodes = list(ast.walk(parsed(path)))
        pieces = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            text = node.value if isinstance(node, ast.Constant) and node not in pieces else None
            if isinstance(text, str) and TARGET.fullmatch(text):
                targets.add(text)
            if isinstance(node, ast.Call) and _called(node) in ("files", "import_module"):
                packages |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
    for kind in (registry.utilities, registry.transformers, registry.datasets, registry.prompts):
        specs = {entry.value.target for entry in kind.entries()}
        assert any(_is_of("fairtk", target) for target in specs), kind.kind
        targets |= specs
    targets |= {entry.value.target for entry in registry.study_systems.entries()}
    assert sum(_is_of("fairtk", target) for target in targets) > 30
    assert "fairtk.groups:Groups" in targets and any(t.endswith(":working") for t in targets)
    for target in targets:
        if _is_of("fairtk", target) or importlib.util.find_spec(re.split("[.:]", target)[0]):
            pkgutil.resolve_name(target)  # its error says which
    ours = {package for package in packages if _is_of("fairtk", package)}
    assert len(ours) > 3
    for package in ours:
        importlib.import_module(package)


def _is_of(package, name):
    return re.split("[.:]", name)[0] == package
