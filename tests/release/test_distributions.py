"""Wheel and source distribution: built, checked, and used in new environments, away from here."""

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build", reason="the extra [release] is not installed")
pytest.importorskip("twine", reason="the extra [release] is not installed")

ROOT = Path(__file__).parents[2]
LARGEST = 3_000_000
pytestmark = pytest.mark.slow


def run(*words, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    result = subprocess.run(
        [str(w) for w in words], capture_output=True, text=True, env=environment, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module", params=(".", "plugins/fairtk-classic", "plugins/fairtk-baselines"))
def built(request, tmp_path_factory):
    """The wheel and the source distribution of a project, from its tracked and new files."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    listed = run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", request.param)
    for name in listed.splitlines():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            target.write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "build", "-q", "-o", folder / "dist", source / request.param)
    [wheel] = (folder / "dist").glob("*.whl")
    [sdist] = (folder / "dist").glob("*.tar.gz")
    return request.param, wheel, sdist


def test_checked(built):
    _, wheel, sdist = built
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    assert wheel.stat().st_size < LARGEST


def test_wheel_has_what_it_needs_and_no_more(built):
    project, wheel, _ = built
    names = zipfile.ZipFile(wheel).namelist()
    assert not [n for n in names if re.search(r"(^|/)(tests|docs|tutorials)/", n)]
    if project == ".":
        for name in ("measures/pages/EE_D.md", "references.bib", "py.typed", "builtin.py"):
            assert f"fairtk/{name}" in names


def test_source_distribution_passes_its_tests(built, tmp_path):
    project, _, sdist = built
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [folder] = tmp_path.iterdir()
    if project != ".":
        return
    for name in ("tests", "tutorials", "docs", "plugins", "constraints.txt", "CITATION.cff"):
        assert (folder / name).exists(), name
    code = "import sys, pytest; sys.path.insert(0, '.'); sys.exit(pytest.main(sys.argv[1:]))"
    chosen = ["tests/files", "tests/statistics", "tests/documentation", "tests/test_layers.py"]
    out = run(sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *chosen, cwd=folder)
    assert " passed" in out


def test_wheel_in_a_new_environment(built, tmp_path):
    project, wheel, _ = built
    if project != ".":
        return
    venv.create(tmp_path / "new", with_pip=True)
    bin = tmp_path / "new" / ("Scripts" if os.name == "nt" else "bin")
    run(bin / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    assert "torch" not in run(bin / "python", "-m", "pip", "list")
    (tmp_path / "q").write_text("1 0 a 1\n1 0 b 0\n", encoding="utf-8")
    (tmp_path / "r").write_text("1 0 a 1 1.0 t\n1 1 b 1 1.0 t\n", encoding="utf-8")
    words = ("evaluate", "q", "r", "-m", "EE_D@1", "-m", "EE_R@1", "--format", "json")
    rows = json.loads(run(bin / "fairtk", *words, cwd=tmp_path))
    assert {row["measure"]: row["mean"] for row in rows} == {"EE_D@1": 0.5, "EE_R@1": 0.5}
    assert "Formula" in run(bin / "fairtk", "measures", "EE_D", cwd=tmp_path)
    assert (
        "[t5]"
        in subprocess.run(
            [bin / "fairtk", "demo"], capture_output=True, text=True, cwd=tmp_path
        ).stderr
    )


@pytest.mark.parametrize("python", ["3.12", "3.13", "3.14"])
def test_wheels_for_other_versions(built, python, tmp_path):
    """All dependencies have wheels; the tests themselves run there in the hosted matrix."""
    project, wheel, _ = built
    if project != ".":
        return
    words = ("--dry-run", "--quiet", "--ignore-installed", "--only-binary", ":all:")
    version = ("--python-version", python, "--implementation", "cp", "--target", tmp_path / "t")
    run(sys.executable, "-m", "pip", "install", *words, *version,
        "-c", ROOT / "constraints.txt", "--report", tmp_path / "r.json", wheel)  # fmt: skip
    found = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["install"]
    assert len(found) > 20
