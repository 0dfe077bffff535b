"""``fairtk docs`` and ``fairtk cite``."""

import json


def test_docs(fairtk):
    assert fairtk("docs", "EE_D", "--no-open").stdout.strip().endswith("measures/EE_D.html")
    assert fairtk("docs").stdout.strip().endswith("index.html")
    rows = json.loads(fairtk("docs", "--list", "--format", "json").stdout)
    assert {"topic": "faq", "page": rows[0]["page"]}.keys() <= rows[0].keys()
    assert "AWRF" in {row["topic"] for row in rows}
    wrong = fairtk("docs", "EED")
    assert wrong.exit_code == 2 and "did you mean 'EE_D'" in wrong.stderr


def test_docs_where_no_site_is(fairtk, monkeypatch):
    monkeypatch.setattr("fairtk.plugins.local_site", lambda: None, raising=False)
    text = fairtk("docs", "measures").stderr
    assert "not on the network yet" in text and "FAIRTK_DOCS" in text
    page = fairtk("docs", "ee_d")
    assert (page.stdout, page.stderr) == (fairtk("measures", "EE_D").stdout, "")


def test_docs_where_a_site_was_built(fairtk, monkeypatch, tmp_path):
    (tmp_path / "index.html").write_text("")
    monkeypatch.setenv("FAIRTK_DOCS", str(tmp_path))
    page = fairtk("docs", "EE_D")
    assert page.stdout.strip().endswith("measures/EE_D.html") and page.stderr == ""


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
