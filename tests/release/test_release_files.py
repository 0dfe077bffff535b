"""What a release needs beside the code says the same everywhere, first of all `release.toml`."""

import configparser
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest
import yaml

import fairtk
from fairtk import demo
from fairtk.plugins.references import SITE

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "makers" / "release.py"
FILLED = {
    "owner": "lamps",
    "repository": "https://github.com/lamps/fairtk",
    "site": "https://lamps.readthedocs.io/",
    "ai_usage": "None was used.",
    "authors": [
        {"given": "Ann", "family": "Lee", "orcid": "0000-0002-1825-0097", "affiliation": "U: 1"},
        {"name": "the others"},
        {"given": "Bo", "family": "Roe", "affiliation": "U: 1"},
    ],
}


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def front(page):
    """Return the YAML between the first two lines of dashes."""
    return yaml.safe_load(page.split("---\n")[1])


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("release", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def setup_cfg():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config


class TestReleaseToml:
    def test_it_has_what_others_read(self, script):
        release = script.read()
        assert set(release) == set(FILLED)
        for key in script.ADDRESSES[1:]:
            assert release[key].startswith("https://")
        assert release["site"].endswith("/")  # pages are put behind it
        assert all("name" in a or {"given", "family"} <= set(a) for a in release["authors"])

    def test_files_that_cannot_read_it_were_written_from_it(self, script):
        for name, write in script.WRITERS.items():
            assert write(text(name), script.read()) == text(name), f"{name}: run python {SCRIPT}"

    def test_no_other_file_has_an_address_to_fill_in(self):
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if listed.returncode:
            pytest.skip("not a checkout")
        # hosts of tests that nobody shall reach end in .invalid (RFC 2606)
        address = re.compile(rb"(//|\w@)[\w.-]*\bexample\b")
        for name in listed.stdout.splitlines():
            if name != "release.toml" and (ROOT / name).is_file():
                hit = address.search((ROOT / name).read_bytes())
                assert not hit, f"{name}: {hit.group()!r}; addresses to fill in are in release.toml"

    def test_placeholders_are_told(self, script):
        assert script.placeholders(FILLED) == []
        assert script.placeholders(FILLED | {"owner": "example"}) == ["owner"]
        done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
        assert done.returncode == bool(script.placeholders(script.read())), done.stderr


class TestFilledIn:
    def test_citation(self, script):
        filled = script.citation(text("CITATION.cff"), FILLED)
        card = yaml.safe_load(filled)
        assert card["repository-code"] == FILLED["repository"] and card["url"] == FILLED["site"]
        assert card["authors"] == [
            {
                "given-names": "Ann",
                "family-names": "Lee",
                "orcid": "https://orcid.org/0000-0002-1825-0097",
                "affiliation": "U: 1",
            },
            {"name": "the others"},
            {"given-names": "Bo", "family-names": "Roe", "affiliation": "U: 1"},
        ]
        assert script.citation(filled, script.read()) == text("CITATION.cff")

    def test_zenodo(self, script):
        filled = script.zenodo(text(".zenodo.json"), FILLED)
        creators = json.loads(filled)["creators"]
        assert [c["name"] for c in creators] == ["Lee, Ann", "the others", "Roe, Bo"]
        assert creators[0]["orcid"] == "0000-0002-1825-0097"
        assert script.zenodo(filled, script.read()) == text(".zenodo.json")

    def test_paper(self, script):
        filled = script.paper(text("paper.md"), FILLED)
        header = front(filled)
        assert header["affiliations"] == [{"index": 1, "name": "U: 1"}]
        assert [a.get("affiliation") for a in header["authors"]] == ["1", None, "1"]
        assert header["authors"][0]["name"] == "Ann Lee"
        assert "\n# AI usage disclosure\n\nNone was used.\n\n# References\n" in filled
        assert script.paper(filled, script.read()) == text("paper.md")


def test_metadata_of_the_distribution(setup_cfg):
    """Of the installed one: `setup.py` reads release.toml when fairtk is built."""
    lines = metadata("fairtk").get_all("Project-URL")
    assert f"Documentation, {SITE}" in lines and SITE.endswith("/")
    assert "url" not in setup_cfg["metadata"] and "author" not in setup_cfg["metadata"]


class TestRecipe:
    @pytest.fixture
    def recipe(self):
        jinja2 = pytest.importorskip("jinja2")
        folder = ROOT / "conda"

        # as conda-build has them
        def load_file_data(name, from_recipe_dir):
            return tomllib.loads((folder / name).read_text(encoding="utf-8"))

        def load_file_regex(load_file, regex_pattern, from_recipe_dir):
            return re.search(regex_pattern, (folder / load_file).read_text(encoding="utf-8"))

        template = jinja2.Template(text("conda/meta.yaml"), undefined=jinja2.StrictUndefined)
        functions = {"load_file_data": load_file_data, "load_file_regex": load_file_regex}
        return yaml.safe_load(template.render(**functions, PYTHON="python"))

    def test_it_needs_what_setup_cfg_needs(self, recipe, setup_cfg):
        required = {
            line.replace("lazy_loader", "lazy-loader")  # conda-forge's name
            for line in setup_cfg["options"]["install_requires"].split("\n")
            if line and ";" not in line  # PISA's wheel is for one platform alone
        }
        needed = [line.replace(" ", "") for line in recipe["requirements"]["run"]]
        assert needed[0] == "python" + setup_cfg["options"]["python_requires"]
        assert set(needed[1:]) == required
        assert recipe["requirements"]["host"][0] == recipe["requirements"]["run"][0]

    def test_it_has_the_version_and_the_addresses_of_the_project(self, recipe, script, setup_cfg):
        assert recipe["package"] == {"name": "fairtk", "version": fairtk.__version__}
        assert recipe["about"]["home"] == script.read()["repository"]
        assert recipe["about"]["summary"] == setup_cfg["metadata"]["description"]
        assert recipe["build"]["entry_points"] == ["fairtk = fairtk_command:main"]


class TestPaper:
    def test_its_length(self):
        words = text("paper.md").split("---\n", 2)[2].split()
        assert 750 <= len(words) <= 1200

    def test_each_source_is_cited_and_each_citation_has_a_source(self):
        cited = set(re.findall(r"@([a-z]\w+)", text("paper.md")))
        assert cited == set(re.findall(r"^@\w+\{(\w+),", text("paper.bib"), re.MULTILINE))

    def test_its_number_of_reference_values_is_that_of_the_site(self):
        [number] = re.findall(r"against (\d+) reference cases", text("paper.md"))
        assert f"| {number} cases in `tests/golden` |" in text("docs/concepts/trust.md")


def test_the_data_card_is_of_the_demo():
    folder = demo.collection_folder()
    page = (folder / "README.md").read_text(encoding="utf-8")
    card = front(page)
    assert card["license"] == "mit"
    for config in card["configs"]:
        assert (folder / config["data_files"]).is_file()
    questions = json.loads((folder / "dev_questions.json").read_text(encoding="utf-8"))
    entries = sum(len(question["profile"]) for question in questions)
    assert f"{len(questions)} queries and {entries:,} entries" in page


class TestHosted:
    def test_schemas_of_workflows_and_of_the_builder_of_the_site(self):
        pytest.importorskip("check_jsonschema", reason="the extra [release] is not installed")
        workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
        assert {path.name for path in workflows} == {"ci.yml", "publish.yml"}
        for schema, files in (
            ("vendor.github-workflows", workflows),
            ("custom.github-workflows-require-timeout", workflows),
            ("vendor.readthedocs", [ROOT / ".readthedocs.yaml"]),
            ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
        ):
            command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
            done = subprocess.run([*command, *files], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr

    def test_the_matrix_has_every_python_that_the_classifiers_name(self, setup_cfg):
        named = re.findall(r"Python :: (3\.\d+)", setup_cfg["metadata"]["classifiers"])
        jobs = yaml.safe_load(text(".github/workflows/ci.yml"))["jobs"]
        matrix = jobs["tests"]["strategy"]["matrix"]
        assert matrix["python"] == named
        systems = {system.partition("-")[0] for system in matrix["os"]}
        assert systems == {"ubuntu", "macos", "windows"}

    def test_publishing_keeps_no_secret(self):
        workflow = text(".github/workflows/publish.yml")
        job = yaml.safe_load(workflow)["jobs"]["pypi"]
        assert job["permissions"] == {"id-token": "write"}
        assert job["environment"]["name"] == "pypi"
        assert "secrets." not in workflow and "password:" not in workflow


def test_tutorials_install_extras_that_exist_on_colab(setup_cfg):
    extras = set(setup_cfg["options.extras_require"])
    tutorials = sorted((ROOT / "tutorials").glob("[0-9]*.py"))
    assert len(tutorials) >= 9
    for path in tutorials:
        source = path.read_text(encoding="utf-8")
        [needed] = re.findall(r'"fairtk\[([\w,]+)\]"', source)
        assert set(needed.split(",")) <= extras and '"google.colab" in sys.modules' in source, path


def test_files_that_the_jobs_name_are_there():
    """A file that moved would end a job that nobody starts by hand."""
    jobs = [*(ROOT / ".ci").iterdir(), *(ROOT / ".github" / "workflows").iterdir()]
    names = {n for job in jobs for n in re.findall(r"(?:tests|benchmarks)/[\w/.]+", text(job))}
    assert "tests/frames" in names
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []
