"""The layers of the design: imports point down, and importing fairtk stays light."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fairtk"

LAYERS = [
    {"errors"},
    {"renamed", "starting"},
    {"frames"},
    {"files", "exposure", "plackett_luce", "statistics"},
    {"divergence", "drawing"},
    {"plugins"},
    {"string_forms", "documentation"},
    {"groups"},
    {"utilities", "backends", "io"},
    {"llm"},
    {"prompts"},
    {"measures", "transformers", "datasets"},
    {"fair_qr", "evaluation", "report"},
    {"conformity", "diagnosis", "explanation", "experiment"},
    {"certainty"},
    {"robustness"},
    {"studies"},
    {"demo", "builtin", "testing"},
    {"cli"},
    {"__main__"},
]
"""From the ground up; rooms of one layer do not import each other."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
PURE = {"errors", "frames", "exposure", "plackett_luce", "divergence", "statistics"}
MODULES_AT_IMPORT = 76
"""71 today; with every room that is made lazy, less."""
ROOMS_AT_IMPORT = {
    "builtin",
    "datasets",
    "divergence",
    "errors",
    "exposure",
    "frames",
    "groups",
    "measures",
    "plugins",
    "renamed",
    "starting",
    "string_forms",
    "utilities",
}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "core", "misc"}


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py"))


def top(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(path):
    """Yield the imported modules, those for annotations and inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "fairtk":
            yield from (f"fairtk.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path):
    me = path.relative_to(PACKAGE).with_suffix("").parts[0]
    if me == "__init__":
        return  # the package itself ties everything together
    assert me in LEVEL, f"{me} has no layer: give it one in LAYERS"
    for name in imports(path):
        other = top(name) if name.startswith("fairtk.") else me
        if other == me or other not in LEVEL:
            continue
        assert LEVEL[other] < LEVEL[me], f"{path.name} imports {name}, which does not lie below it"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_names_say_something(path):
    assert not FORBIDDEN_NAMES & set(path.relative_to(PACKAGE).with_suffix("").parts)


def test_pure_mathematics_needs_numpy_scipy_and_what_holds_frames_only():
    allowed = {"numpy", "pandas", "pyarrow", "scipy", "fairtk"} | set(sys.stdlib_module_names)
    for path in modules():
        if path.relative_to(PACKAGE).with_suffix("").parts[0] in PURE:
            used = {name.split(".")[0] for name in imports(path)}
            assert used <= allowed, path


def test_importing_fairtk_is_light():
    code = (
        "import fairtk, json, sys; heavy = ('torch', 'transformers', 'matplotlib', 'dask', 'click',"
        " 'pyterrier', 'scipy'); print(json.dumps([m for m in heavy if m in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == []


def test_importing_fairtk_loads_what_measures_are_declared_with():
    code = "import fairtk, json, sys; print(json.dumps(list(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {tuple(name.split(".")) for name in json.loads(out.stdout)}
    ours = sorted(parts for parts in loaded if parts[0] == "fairtk")
    assert len(ours) <= MODULES_AT_IMPORT, ours
    rooms = {parts[1] for parts in ours if len(parts) > 1}
    assert rooms <= ROOMS_AT_IMPORT, rooms - ROOMS_AT_IMPORT
    assert not {("fairtk", "groups", name) for name in ("groups", "target")} & loaded
