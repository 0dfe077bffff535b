"""Each script in `benchmarks` runs at a tiny size; nothing imports from the tests."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [p for p in sorted(ROOT.glob("benchmarks/*.py")) if "__main__" in p.read_text("utf-8")]
REQUIRED = {
    "import openai": "openai",
    "OpenAICompatible": "openai",
    "fairtk_papers": "fairtk_papers",
    "pyterrier_pisa": "pyterrier_pisa",
    "CollectionBM25": "pyterrier_pisa",
    "torch": "torch",
    "CTranslate2": "ctranslate2",
    "FlanT5": "torch",
    "psutil": "psutil",
}
"""Packages that a script needs if its text has these words."""
OUTSIDE = ("benchmarks/*.py", "examples/**/*.py", "tutorials/*.py", "docs/**/*.py", "docs/**/*.md")


@pytest.mark.nightly
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_tiny_run(script, tmp_path):
    text = script.read_text(encoding="utf-8")
    for words, package in REQUIRED.items():
        if words in text:
            pytest.importorskip(package)
    environment = {**os.environ, "BENCH_TINY": "1", "CUDA_VISIBLE_DEVICES": ""}
    call = [sys.executable, str(script)]
    done = subprocess.run(
        call, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def imported(text):
    """Yield the modules that code imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


def code_of(path):
    """Return the code of a script, or of the blocks of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return text
    blocks = text.split("```python\n")[1:]
    return "\n".join(block.partition("```")[0] for block in blocks)


@pytest.mark.parametrize("pattern", OUTSIDE)
def test_nothing_imports_from_the_tests(pattern):
    own = {path.stem for path in ROOT.glob("benchmarks/*.py")}
    own |= {path.stem for path in ROOT.glob("examples/**/*.py")}
    modules = {path.stem for path in ROOT.glob("tests/**/*.py")} - own | {"tests"}
    paths = [path for path in sorted(ROOT.glob(pattern)) if "_build" not in path.parts]
    assert paths
    for path in paths:
        try:
            names = set(imported(code_of(path)))
        except SyntaxError:  # a page with a prompt or dots
            names = set()
        assert not names & modules, path
        if path.suffix == ".py":
            assert '"tests"' not in path.read_text(encoding="utf-8"), path
