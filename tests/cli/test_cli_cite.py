"""``fairtk cite``."""

import json


def test_cite(fairtk, tmp_path):
    assert fairtk("cite", "AWRF").stdout.startswith("@inproceedings{sapiezynski2019quantifying,")
    assert fairtk("cite").stdout.startswith("@misc{fairtk,")
    [row] = json.loads(fairtk("cite", "FairQR", "--format", "json").stdout)
    assert row["title"].startswith("FAIR-QR: Enhancing") and row["year"] == "2025"
    fairtk("cite", "lamp/4/dev", "--output", str(tmp_path / "a.bib"))
    assert "salemi2024lamp" in (tmp_path / "a.bib").read_text(encoding="utf-8")
    assert fairtk("cite", "nope").exit_code == 2
    nothing = fairtk("cite", "Candidates")
    assert nothing.exit_code == 0 and "Candidates" in nothing.stderr
