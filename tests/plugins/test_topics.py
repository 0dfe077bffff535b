"""Topics lead to pages, and the project's addresses stand in one place."""

from pathlib import Path

import pytest

import fairtk
from fairtk.errors import InputError, NotFoundError
from fairtk.plugins import SITE, help_address, registry
from fairtk.plugins.references import FOLDER, PAGES, ROOMS, address, page_for

ROOT = Path(__file__).parents[2]


def test_topics():
    assert page_for("exposure") == "concepts/exposure.html"
    assert page_for("ee_d") == "measures/EE_D.html"
    assert page_for("FairSampler") == "api/fairtk.transformers.html#fairtk.transformers.FairSampler"
    with pytest.raises(NotFoundError, match="did you mean 'cookbook'"):
        page_for("cookbok")


def test_each_page_written_by_hand_is_a_topic():
    generated = ("_build", "api", "measures", "tutorials")
    of_makers = ("makers", "upstream")  # not on the site
    places = [p.relative_to(ROOT / "docs") for p in (ROOT / "docs").rglob("*.md")]
    places = [p for p in places if p.parts[0] not in (*generated, *of_makers)]
    written = {p.with_suffix(".html").as_posix() for p in places}
    known = {page for page, _ in PAGES.values()}
    assert known - {f"{folder}/index.html" for folder in generated} == written


def test_every_transformer_has_a_place():
    for entry in registry.transformers.entries():
        kind = registry.transformers.load(entry.name)
        assert help_address(kind).startswith(SITE)
        assert help_address(kind).endswith(f".{kind.__name__}")
    assert help_address(type("Mine", (), {"__module__": "__main__"})) is None


def test_schematics_lead_to_the_place():
    assert fairtk.FairSampler().schematic["help_url"] == help_address(fairtk.FairSampler)


def test_a_built_site_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(InputError, match=r"FAIRTK_DOCS names .* has no index.html"):
        address("cli.html#a")
    (tmp_path / "index.html").write_text("", encoding="utf-8")
    assert address("cli.html#a") == f"{tmp_path.as_uri()}/cli.html#a"


def test_rooms_exist():
    folders = {p.parent.name for p in (ROOT / "fairtk").glob("*/__init__.py")}
    folders |= {p.stem for p in (ROOT / "fairtk").glob("*.py")}
    for room in ROOMS:
        first, _, name = room.partition(".")
        assert first != "fairtk" or not name or name in folders, room
