"""``fairtk docs`` and ``fairtk cite``."""

import json

import pytest


def test_docs(fairtk):
    assert fairtk("docs", "EE_D").stdout.strip().endswith("measures/EE_D.html")
    assert fairtk("docs").stdout.strip().endswith("index.html")
    rows = json.loads(fairtk("docs", "--list", "--format", "json").stdout)
    assert {"topic": "faq", "page": rows[0]["page"]}.keys() <= rows[0].keys()
    assert "AWRF" in {row["topic"] for row in rows}
    wrong = fairtk("docs", "EED")
    assert wrong.exit_code == 2 and "did you mean 'EE_D'" in wrong.stderr


@pytest.mark.parametrize("topic", ["ee_d", "measures"])
def test_docs_where_no_site_is(fairtk, monkeypatch, topic):
    monkeypatch.setattr("fairtk.plugins.references.local_site", lambda: None)
    said = fairtk("docs", topic).stderr
    assert "not on the network yet" in said and "FAIRTK_DOCS" in said
    assert ("fairtk measures EE_D" in said) == (topic == "ee_d")


def test_cite(fairtk, tmp_path):
    assert fairtk("cite", "AWRF").stdout.startswith("@inproceedings{sapiezynski2019quantifying,")
    assert fairtk("cite").stdout.startswith("@misc{fairtk,")
    [row] = json.loads(fairtk("cite", "FairQR", "--format", "json").stdout)
    assert row["title"].startswith("FAIR-QR: Enhancing") and row["year"] == "2025"
    fairtk("cite", "lamp/4/dev", "--output", str(tmp_path / "a.bib"))
    assert "salemi2024lamp" in (tmp_path / "a.bib").read_text(encoding="utf-8")
    assert fairtk("cite", "nope").exit_code == 2
    nothing = fairtk("cite", "Candidates")
    assert nothing.exit_code == 0 and "no source is known for Candidates" in nothing.stderr
