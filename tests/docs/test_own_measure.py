"""The measure of docs/own_measure.md works from its module to the command line."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "plugins"))
from distributions import fairtk, run, write  # noqa: E402

BLOCK = re.compile(r"^```python\n# ([\w.]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The page's package, as an installed plugin, with its tests."""
    page = (ROOT / "docs" / "own_measure.md").read_text(encoding="utf-8")
    files = dict(BLOCK.findall(page))
    folder = write(tmp_path_factory.mktemp("lab") / "site", "lab-useful", files["lab_useful.py"])
    (folder / "test_lab_useful.py").write_text(files["test_lab_useful.py"], encoding="utf-8")
    return folder


def test_the_tests_of_the_page_pass(lab):
    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(lab)]
    printed, _ = run(["-m", "pytest", *options, str(lab / "test_lab_useful.py")], lab)
    assert "failed" not in printed and "passed" in printed


def test_the_command_line(lab):
    (lab / "qrels.txt").write_text("q 0 a 1\nq 0 b 0\n")
    (lab / "toy.run").write_text("q Q0 a 1 2 t\nq Q0 b 2 1 t\nq Q0 c 3 0 t\n")
    words = [
        "evaluate",
        lab / "qrels.txt",
        lab / "toy.run",
        "-m",
        "UsefulShare@2",
        "-m",
        "UsefulShare@3",
    ]
    printed, warned = fairtk([*map(str, words), "--format", "csv"], lab)
    # a has 1 of 2 and 1 of 3; c has no label, and is on rank 3
    assert "UsefulShare@2,0.5" in printed and "UsefulShare@3,0.333333" in printed
    assert "UsefulShare@3: documents without a label" in warned
    assert "UsefulShare@2: documents" not in warned
