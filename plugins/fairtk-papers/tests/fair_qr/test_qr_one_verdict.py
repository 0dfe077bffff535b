"""A page of a study has one verdict on each comparison, in tables, sentences and files."""

from __future__ import annotations

import re

import pandas as pd
import pytest
import qr_world
from fairtk_papers.fair_qr.report import comparison
from html_tables import Tables, after

from fairtk.experiment import open_results
from fairtk.llm import KeywordRefiner
from fairtk.report.page import load_sections, page_text

pytest.importorskip("jinja2")
pytest.importorskip("pyterrier_pisa", reason="no wheel of pyterrier-pisa for this platform")
TOYS = (("toy-reverse", "reverse", False), ("toy-few", "few", False))
MEASURES = ("nDCG", "AWRF", "nDCG x AWRF")


def value(text):
    return 0.0 if text.startswith("<") else float(text)


def test_no_comparison_has_two_verdicts(gender, tmp_path):
    changed = {"variations": {"k": (5, 10)}, "tuning": {"fair-qr": {"depth": [5, 10]}}}
    changed["systems"] = ("toy-reverse", "toy-few", "fair-qr", "random-terms")
    with qr_world.installed(*TOYS):
        results = qr_world.study(gender, tmp_path, KeywordRefiner(terms=1), **changed).run()
        results.save(tmp_path)
    place = tmp_path / "pages" / "gender"
    saved = open_results(place)
    page = Tables(page_text(saved, sections=load_sections(place)))
    # the p-values of the study
    table = results.table.set_index("system")
    expected = {(s, m): table.loc[s, f"{m} p"] for s in table.index for m in MEASURES}
    assert any("(tuned)" in system for system, _ in expected)

    # those of the page's table of tests
    [[heads, *rows]] = [t for t in page.tables if "p corrected" in (t[0] if t else [])]
    column, labels = heads.index("p corrected"), saved.measures
    for row in rows:
        p = expected[row[0], MEASURES[labels.index(row[1])]]
        if row[column] != "undefined":
            assert value(row[column]) == pytest.approx(p, abs=6e-5)
        else:
            assert pd.isna(p)

    # the marks of the table of systems
    n_marks = 0
    for row in comparison(results).rows:
        for cell, measure in zip(row[1:], MEASURES, strict=True):
            p = expected[row[0].partition(" (a")[0], measure]
            marked = cell.endswith(("+", "-"))
            assert marked == bool(p < 0.05)
            n_marks += marked
    assert n_marks == sum(p < 0.05 for p in expected.values())

    # the file
    csv = pd.read_csv(tmp_path / "table.csv").set_index("system")
    for (system, measure), p in expected.items():
        assert csv.loc[system, f"{measure} p"] == pytest.approx(p, nan_ok=True)
    assert (csv["target"] == results.data.target_label("gender")).all()

    # intervals are labeled, and tables of exploratory settings have no marks
    for caption in re.findall(r"[^.]*intervals? over topics[^.]*\.", page.said):
        assert "not corrected for" in caption or "bootstrap" in caption
    assert "Intervals are not corrected for" in page.said
    [varied] = [t for t in page.tables if t and t[0][:2] == ["setting", "value"]]
    assert not any(cell.endswith(("+", "-")) for row in varied[1:] for cell in row)

    # tables and figures that compare systems name the target
    for start in ("Means over the queries", "Differences from bm25;", "Means and 95% intervals"):
        assert after(page.said, start, f"Target: {results.data.target_label('gender')}.")
