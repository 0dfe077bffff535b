"""A page of the study labels its intervals, and its marks and tests agree."""

from __future__ import annotations

import json
import shutil

import pytest
import rag_world
from fairtk_papers.fair_rag import (
    RagResults,
    save_model_sections,
)
from html_tables import Tables

from fairtk.errors import FormatError
from fairtk.experiment import open_results
from fairtk.report.page import load_sections, page_text

pytest.importorskip("jinja2")
pytest.importorskip("torch")


@pytest.fixture(scope="module")
def study(tmp_path_factory, finished_rag):
    folder = tmp_path_factory.mktemp("verdicts")
    shutil.copytree(finished_rag, folder, dirs_exist_ok=True)
    results = rag_world.study(folder, limit=8).run(keep_rankings=True)
    results.save(folder)
    return results, folder


@pytest.mark.filterwarnings("ignore::fairtk.errors.UndefinedWarning")
def test_no_comparison_has_two_verdicts(study):
    results, folder = study
    [place] = save_model_sections(results, folder)
    saved = open_results(place)
    page = Tables(page_text(saved, sections=load_sections(place)))
    # the paired differences by interval of EE_D: one family, whose intervals are not corrected
    tested = results.tables()["fairness_intervals"]
    n = int(tested["p"].notna().sum())
    assert f"not corrected for {n} comparisons" in page.said
    assert (tested["p_corrected"].dropna() >= tested["p"].dropna() - 1e-12).all()
    # the table of tests is that of Results.compare
    expected = saved.compare().set_index(["measure", "system"])["p_corrected"]
    compared = [t for t in page.tables if t and "p corrected" in t[0] and t[0][0] == "system"]
    [[heads, *rows]] = compared
    column = heads.index("p corrected")
    assert len(rows) == len(saved.measures) * (len(saved.systems) - 1)
    for row in rows:
        if row[column] != "undefined":
            number = 0.0 if row[column].startswith("<") else float(row[column])
            assert number == pytest.approx(expected[row[1], row[0]], abs=6e-5)
    assert "Intervals are not corrected for" in page.said
    assert "EE-D of sampled rankings is the unbiased estimate" in page.said
    assert saved.sampling_bias().empty and "Sampling bias" not in page.said
    assert "normalized EU" in page.said and "The runs cover" not in page.said
    assert "rest of an area is extrapolated" in page.said


def test_results_without_a_format_are_refused(study, tmp_path):
    results, folder = study
    copy = tmp_path / "study"
    shutil.copytree(folder, copy)
    assert RagResults.load(copy).means.equals(RagResults.load(folder).means)
    [facts] = [p for p in copy.glob("settings/*/*.json") if "format" in json.loads(p.read_text())]
    content = json.loads(facts.read_text(encoding="utf-8"))
    del content["format"]
    facts.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FormatError):
        RagResults.load(copy)
    results.save(copy)
    assert RagResults.load(copy).settings == results.settings
