"""Wheel and source distribution: built, checked, and used in new environments, away from here."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
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


PLUGINS = ("hello", "classic", "papers", "baselines")
PROJECTS = (".", *(f"plugins/fairtk-{name}" for name in PLUGINS))


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """A function that gives the wheel and the source distribution of a project, built once."""

    @functools.cache
    def built(project):
        folder = tmp_path_factory.mktemp("built")
        source = folder / "source"
        # its tracked and new files
        listed = run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", project)
        for name in listed.splitlines():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                target.write_bytes((ROOT / name).read_bytes())
        run(sys.executable, "-m", "build", "-q", "-o", folder / "dist", source / project)
        [wheel] = (folder / "dist").glob("*.whl")
        [sdist] = (folder / "dist").glob("*.tar.gz")
        return wheel, sdist

    return built


@pytest.fixture(params=PROJECTS)
def built(request, build):
    return request.param, *build(request.param)


def test_checked(built):
    _, wheel, sdist = built
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    assert wheel.stat().st_size < LARGEST


def test_wheel_has_what_it_needs_and_no_more(built):
    project, wheel, _ = built
    names = zipfile.ZipFile(wheel).namelist()
    assert not [n for n in names if re.search(r"(^|/)(tests|docs|tutorials)/", n)]
    if project == ".":
        pages = ("measures/pages/EE_D.md", "credit/pages/AE_D.md")
        for name in (*pages, "references.bib", "py.typed", "builtin.py"):
            assert f"fairtk/{name}" in names
        assert "fairtk_command.py" in names
        [metadata] = (n for n in names if n.endswith(".dist-info/METADATA"))
        lines = zipfile.ZipFile(wheel).read(metadata).decode().splitlines()
        release = tomllib.loads((ROOT / "release.toml").read_text(encoding="utf-8"))
        assert f"Project-URL: Documentation, {release['site']}" in lines
        assert f"Project-URL: Source, {release['repository']}" in lines


def test_source_distribution_passes_its_tests(build, tmp_path):
    _, sdist = build(".")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [folder] = tmp_path.iterdir()
    for name in (
        "tests",
        "tutorials",
        "benchmarks",
        "examples",
        "docs",
        "plugins",
        "constraints.txt",
        "CITATION.cff",
    ):
        assert (folder / name).exists(), name
    code = "import sys, pytest; sys.path.insert(0, '.'); sys.exit(pytest.main(sys.argv[1:]))"
    chosen = [
        "tests/io",
        "tests/statistics/test_paired.py",
        "tests/plugins/test_references.py",
        "tests/test_architecture.py",
    ]
    out = run(sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *chosen, cwd=folder)
    assert " passed" in out


def test_wheels_in_a_new_environment(build, tmp_path):
    # the others need torch, and have their tests in .ci/run
    wheels = [build(project)[0] for project in PROJECTS[:4]]
    venv.create(tmp_path / "new", with_pip=True)
    bin = tmp_path / "new" / ("Scripts" if os.name == "nt" else "bin")
    run(bin / "python", "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *wheels)
    assert "torch" not in run(bin / "python", "-m", "pip", "list")
    (tmp_path / "q").write_text("1 0 a 1\n1 0 b 0\n", encoding="utf-8")
    (tmp_path / "r").write_text("1 0 a 1 1.0 t\n1 1 b 1 1.0 t\n", encoding="utf-8")
    words = ("evaluate", "q", "r", "-m", "EE_D@1", "-m", "EE_R@1", "--format", "json")
    rows = json.loads(run(bin / "fairtk", *words, cwd=tmp_path))
    assert {row["measure"]: row["mean"] for row in rows} == {"EE_D@1": 0.5, "EE_R@1": 0.5}
    for measure in ("EE_D", "NDKL", "ExposureGini"):
        assert measure in run(bin / "fairtk", "measures", measure, cwd=tmp_path)
    assert "kim2024" in run(bin / "fairtk", "cite", "EE_D", cwd=tmp_path)
    for study in ("rag", "qr"):
        assert "--dry-run" in run(bin / "fairtk", study, "--help", cwd=tmp_path)
    assert (
        "[t5]"
        in subprocess.run(
            [bin / "fairtk", "demo"], capture_output=True, text=True, cwd=tmp_path
        ).stderr
    )


def test_tests_pass_with_the_wheels_and_without_the_source(build, tmp_path):
    """Of fairtk's own tests those that are quick; of the plugins' all."""
    wheels = [build(project)[0] for project in PROJECTS]
    venv.create(tmp_path / "new", with_pip=True)
    python = tmp_path / "new" / ("Scripts" if os.name == "nt" else "bin") / "python"
    constraints = ("-c", ROOT / "constraints.txt")
    run(python, "-m", "pip", "install", "-q", *constraints, f"{wheels[0]}[test]", *wheels[1:])
    for project in PROJECTS:
        folder = tmp_path / "away" / project  # tests of plugins use fairtk's
        shutil.copytree(ROOT / project / "tests", folder / "tests")
        shutil.copy(ROOT / project / "setup.cfg", folder)
        chosen = ("tests/frames", "tests/exposure", "tests/io") if project == "." else ("tests",)
        words = ("-q", "-p", "no:cacheprovider", "-c", "setup.cfg", *chosen)
        assert " passed" in run(python, "-m", "pytest", *words, cwd=folder)
        where = "import fairtk, sys; sys.exit('site-packages' not in fairtk.__file__)"
        run(python, "-c", where, cwd=folder)


@pytest.mark.parametrize("python", ["3.12", "3.13", "3.14"])
def test_dependencies_have_wheels_for_other_versions(build, python, tmp_path):
    """The tests themselves run there in the hosted matrix."""
    wheel, _ = build(".")
    words = ("--dry-run", "--quiet", "--ignore-installed", "--only-binary", ":all:")
    version = ("--python-version", python, "--implementation", "cp", "--target", tmp_path / "t")
    run(sys.executable, "-m", "pip", "install", *words, *version,
        "-c", ROOT / "constraints.txt", "--report", tmp_path / "r.json", wheel)  # fmt: skip
    found = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["install"]
    assert len(found) > 20
