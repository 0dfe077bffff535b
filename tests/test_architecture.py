"""The architecture: layers, no import cycles, one meaning per name, a light import."""

import ast
import importlib
import importlib.util
import json
import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from fairtk.plugins import registry

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fairtk"

LAYERS = tuple(
    [
        "wording",
        "errors",
        "remarks",
        "stage_context",
        "checks",
        "settings",
        "frames",
        "interpreters",
        "io",
        "statistics",
        "display",
        "exposure",
        "groups",
        "plugins",
        "utilities",
        "measures",
        "llm",
        "transformers",
        "datasets",
        "experiment",
        "report",
        "demo",
        "prompts",
        "builtin",
        "testing",
        "cli",
        "analysis",
        "batch",
        "credit",
        "__main__",
    ]
)
"""Subpackages and modules from the ground up."""

DEFERRED = {
    "fairtk.experiment.compare_runs": {"report"},
    "fairtk.experiment.results": {"report"},
}
"""Modules with methods of one line that call functions of a higher layer."""

FORBIDDEN_NAMES = {"utils", "helpers", "common", "core", "misc"}


def sources(*roots):
    """Return the files of the package and its plugins that users run; no tests."""
    paths = [p for root in roots for p in (ROOT / root).rglob("*.py")]
    return sorted(p for p in paths if not {"tests", "build"} & set(p.relative_to(ROOT).parts))


def module_name(path):
    """Return a module's name as it is imported; that of a package for its __init__."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[2:] if parts[0] == "plugins" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree, at_start=False):
    """Yield (module, name), those for annotations included; at_start: nothing inside functions."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if not (at_start and inside):
            waiting += ast.iter_child_nodes(node)


def homes():
    """Return the module of each name that an `__init__` exports, from the stubs."""
    behind = {}
    for stub in PACKAGE.rglob("__init__.pyi"):
        package = module_name(stub)
        for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                target = f"{package}.{node.module}" if node.module else None
                for alias in node.names:
                    behind[package, alias.name] = target or f"{package}.{alias.name}"
    return behind


def modules_named(tree, known, behind, at_start=False):
    """Yield the modules that a module imports, those of exported names included."""
    for module, name in imported(tree, at_start):
        module = behind.get((module, name), module)
        if (module, name) in behind:  # exported by the package from a subpackage that exports it
            module = behind[module, name]
        whole = f"{module}.{name}"
        if whole in known or module in known:
            yield whole if whole in known else module


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


def subpackage_of(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "fairtk" and len(parts) > 1 else None


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {frozenset("bc")}
    tree = ast.parse("def f():\n    from p.a import g\nif TYPE_CHECKING:\n    from p import b")
    assert set(modules_named(tree, {"p.a", "p.b"}, {})) == {"p.a", "p.b"}
    assert set(modules_named(tree, {"p.a", "p.b"}, {}, at_start=True)) == {"p.b"}


def test_no_module_imports_what_imports_it():
    paths = [p for p in sources("fairtk", "plugins") if p.name != "__init__.py"]
    known, behind = {module_name(p) for p in paths}, homes()
    graph = {
        module_name(p): set(modules_named(parsed(p), known, behind, at_start=True))
        - {module_name(p)}
        for p in paths
    }
    assert len(graph) > 100
    assert [sorted(group) for group in cycles(graph)] == []


def above(tree, me):
    """Yield the subpackages of higher layers that a module imports, and where."""
    level = {name: i for i, name in enumerate(LAYERS)}
    assert me in level, f"{me} has no layer: give it one in LAYERS"
    at_start = set(imported(tree, at_start=True))
    for module, name in imported(tree):
        other = subpackage_of(f"{module}.{name}" if module == "fairtk" else module)
        if other in level and level[other] > level[me]:
            yield other, (module, name) in at_start


def test_imports_point_down():
    deferred = defaultdict(set)
    for path in sources("fairtk"):
        module = module_name(path)
        if subpackage_of(module) is None:
            continue  # the package itself ties everything together
        for other, at_start in above(parsed(path), subpackage_of(module)):
            assert not at_start, f"{module} imports {other}, which does not lie below it"
            deferred[module].add(other)
    assert deferred == DEFERRED


def test_methods_that_call_a_higher_layer_have_one_line():
    for module in DEFERRED:
        tree = parsed(ROOT / f"{module.replace('.', '/')}.py")
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        named = subpackage_of(module)
        methods = [f for f in functions if [other for other, _ in above(f, named)]]
        assert methods
        for method in methods:
            steps = [
                step
                for step in method.body
                if not isinstance(step, ast.ImportFrom)
                and not (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
            ]
            assert len(steps) <= 2, f"{module}: {method.name}"  # a check, and the call


OPTIONAL = ("analysis", "batch", "credit")
"""Subpackages that nothing else imports: they come with their commands, by entry points."""

WITHOUT_OPTIONAL = f"""
import sys
for name in {OPTIONAL}:
    sys.modules["fairtk." + name] = None  # an import of it fails
import pandas as pd
import fairtk
from fairtk import BM25Scorer, Candidates, EE_D, EE_R, EU, FairSampler, FlanT5, demo

data = demo.load()
topics = data.topics.head(2)
system = Candidates(data.dataset) >> BM25Scorer() >> FairSampler(alpha=2, n_samples=3, cutoff=2)
system >>= FlanT5(demo.model_folder(), "lamp-2", cutoff=2, device="cpu", max_new_tokens=4)
measures = [EE_D @ 2, EE_R @ 2, EU(utility="accuracy")]
qrels = fairtk.drop_undefined(data.qrels)
results = fairtk.Experiment({{"a": system, "b": system}}, topics, qrels, measures)
results.compare("a")
results.report(sys.argv[1] + "/page.html")
fairtk.doctor(qrels, results.rankings("a"))
from fairtk.cli.group import main
main(["measures"])
"""


def test_the_core_imports_no_optional_part():
    for path in sources("fairtk"):
        me = subpackage_of(module_name(path))
        if me in (*OPTIONAL, None):
            continue
        others = {subpackage_of(f"{module}.{name}") for module, name in imported(parsed(path))}
        assert not others & set(OPTIONAL), path


@pytest.mark.slow
def test_the_core_runs_without_the_optional_parts(tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_OPTIONAL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def private_names(path, decisions):
    """Yield the names of fairtk that a file imports and that fairtk does not export for users.

    Args:
        path: the file.
        decisions: the lines of `docs/api.txt`: the decision by name.
    """
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fairtk":
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                is_public_module = any(other.startswith(f"{name}.") for other in decisions)
                if decisions.get(name, "keep" if is_public_module else "drop") == "drop":
                    yield name


def test_plugins_import_exported_names_only():
    lines = (ROOT / "docs" / "api.txt").read_text(encoding="utf-8").splitlines()
    decisions = {line.split()[0]: line.split()[1] for line in lines if line and line[0] != "#"}
    private = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources("plugins")
        for name in private_names(path, decisions)
    }
    assert private == set()


def test_a_public_class_name_is_used_once():
    places = defaultdict(list)
    for path in sources("fairtk", "plugins"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(places) > 100
    # Fitted is a browsing model in fairtk.exposure, and a trained system in fairtk
    assert {name for name, at in places.items() if len(at) > 1} == {"Fitted"}
    assert len(places["Fitted"]) == 2


def test_no_subpackage_exports_the_name_of_its_module():
    """Which of the two one gets would depend on what was imported before."""
    clashes = {(d, n) for (d, n), home in homes().items() if home.endswith(f".{n}.{n}")}
    named = {f"{package}.{name}" for package, name in clashes if package != "fairtk"}
    assert named == set()


def test_each_subpackage_has_a_layer_and_no_vague_name():
    subpackages = {
        p.relative_to(PACKAGE).parts[0] for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE
    }
    assert subpackages <= set(LAYERS)
    parts = {
        part for p in sources("fairtk") for part in p.relative_to(PACKAGE).with_suffix("").parts
    }
    assert not FORBIDDEN_NAMES & parts


def test_pure_mathematics_needs_numpy_scipy_and_what_holds_frames_only():
    allowed = {
        "numpy",
        "pandas",
        "pyarrow",
        "scipy",
        "fairtk",
        "lazy_loader",
        *sys.stdlib_module_names,
    }
    used = {
        module.split(".")[0]
        for subpackage in ("frames", "exposure")
        for path in sources(f"fairtk/{subpackage}")
        for module, _ in imported(parsed(path))
    }
    assert used <= allowed


def test_importing_is_light():
    """What measures are declared with is loaded, nothing heavy, and Ctrl-C has its handler."""
    code = (
        "import signal; before = signal.getsignal(signal.SIGINT); "
        "import fairtk, json, sys; first = list(sys.modules); "
        "import fairtk.demo, fairtk.llm, fairtk.prompts; models = list(sys.modules); "
        "import fairtk.testing; contracts = list(sys.modules); "
        "fairtk.Experiment, fairtk.explain, fairtk.FairQR, fairtk.frontier; "
        "assert signal.getsignal(signal.SIGINT) is before is signal.default_int_handler; "
        "print(json.dumps([first, models, contracts, list(sys.modules)]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, models, contracts, drawn = map(set, json.loads(out.stdout))
    heavy = {"click", "dask", "ijson", "msgspec", "pydantic", "scipy"}
    of_models = {"pyterrier", "tokenizers", "torch", "transformers"}
    assert not first & (heavy | of_models) and not models & of_models
    assert not contracts & {"pytest", *of_models}
    assert "matplotlib" not in drawn


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
    assert "fairtk.groups:Groups" in targets and any(t.endswith(":make_worker") for t in targets)
    for target in targets:
        if _is_of("fairtk", target) or importlib.util.find_spec(re.split("[.:]", target)[0]):
            pkgutil.resolve_name(target)  # its error says which
    ours = {package for package in packages if _is_of("fairtk", package)}
    assert len(ours) > 3
    for package in ours:
        importlib.import_module(package)


def _is_of(package, name):
    return re.split("[.:]", name)[0] == package


OPTION = re.compile(r"(?<![-\w])--[a-z]")
COMMAND = re.compile(r"`[^`]*`|pip install( --[a-z-]+)+")


def test_messages_outside_of_the_command_line_name_parameters():
    """Outside of commands an option is part of a whole command or in backquotes."""
    for path in sources("fairtk"):
        is_command = path.stem.endswith(("command", "options"))
        if is_command or path.is_relative_to(ROOT / "fairtk" / "cli"):
            continue
        tree = parsed(path)
        prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            text = COMMAND.sub("", str(getattr(node, "value", "")))
            if isinstance(node, ast.Constant) and OPTION.search(text):
                where = f"{path}:{node.lineno}: {node.value!r}"
                assert id(node) in prose, where
