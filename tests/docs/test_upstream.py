"""The patches for upstream apply to what is installed, pass their tests, and do what they say."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import ir_measures
import pytest

from fairtk import EE_D

UPSTREAM = Path(__file__).parents[2] / "docs" / "upstream"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="git applies the patches"),
    pytest.mark.skipif(
        importlib.metadata.version("ir_measures") != "0.4.3", reason="the patch is for 0.4.3"
    ),
]


@pytest.fixture(scope="module")
def patched(tmp_path_factory):
    """A folder with a copy of ir_measures that has the patch."""
    folder = tmp_path_factory.mktemp("upstream")
    source = Path(ir_measures.__file__).parent
    shutil.copytree(source, folder / "ir_measures", ignore=shutil.ignore_patterns("__pycache__"))
    patch = UPSTREAM / "ir_measures_entry_points.patch"
    subprocess.run(["git", "apply", "-p1", patch], cwd=folder, check=True)  # noqa: S603, S607
    return folder


def run(patched, *words, **places):
    paths = os.pathsep.join([str(patched), *places.get("before", ()), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-W", "ignore", *words],
        cwd=patched,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_patch_passes_its_own_test(patched):
    done = run(patched, "test/test_plugins.py")
    assert done.returncode == 0 and "Ran 7 tests" in done.stderr, done.stderr


def test_measures_of_fairtk_are_there_without_importing_it(patched, tmp_path):
    readme = (UPSTREAM / "README.md").read_text(encoding="utf-8")
    declared = readme.partition("[options.entry_points]\n")[2].partition("```")[0]
    info = tmp_path / "announced-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: announced\nVersion: 1.0\n")
    groups = [f"[{line[:-2]}]" if line.endswith(" =") else line for line in declared.splitlines()]
    (info / "entry_points.txt").write_text("\n".join(groups))
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 b 1\n2 0 c 1\n2 0 d 1\n")
    (tmp_path / "run").write_text("1 Q0 a 0 2 r\n1 Q0 b 1 1 r\n2 Q0 d 0 1 r\n")
    files = [str(tmp_path / "qrels"), str(tmp_path / "run")]
    done = run(patched, "-m", "ir_measures", *files, "EE_D@1", "P@1", before=[str(tmp_path)])
    qrels, rows = ir_measures.read_trec_qrels(files[0]), ir_measures.read_trec_run(files[1])
    value = ir_measures.calc_aggregate([EE_D @ 1], qrels, rows)[EE_D @ 1]
    assert done.stdout == f"EE_D@1\t{value:.4f}\nP@1\t1.0000\n", done.stderr
