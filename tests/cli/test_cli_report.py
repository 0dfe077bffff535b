"""``fairtk report``: the page of a folder."""

import re
import shutil

import pandas as pd
import pytest
from report_world import hostile_results

pytest.importorskip("jinja2")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Saved results, and the folder of their store."""
    where = tmp_path_factory.mktemp("report")
    results = hostile_results(where / "study", n_queries=6)
    results.save(where / "saved")
    results.qrels.to_csv(where / "qrels.tsv", sep="\t", index=False)
    return where


def test_the_page_of_saved_results(fairtk, folders):
    page = folders / "page.html"
    found = fairtk("report", folders / "saved", "-o", page, "--title", "Mine & yours")
    assert (found.exit_code, found.output) == (0, f"Report: {page}\n")
    text = page.read_text(encoding="utf-8")
    assert "<title>Mine &amp; yours</title>" in text
    assert f"fairtk report {folders / 'saved'} -o {page} --title &#39;Mine &amp; yours&#39;" in text
    again = fairtk("report", folders / "saved", "-o", page, "--title", "Mine & yours")
    assert again.exit_code == 0 and page.read_text(encoding="utf-8") == text


def test_the_page_of_a_store_is_measured_with_given_labels(fairtk, folders):
    page = folders / "store.html"
    options = ("--qrels", folders / "qrels.tsv", "-m", "EE_D@3", "-m", "EU(utility='accuracy')")
    found = fairtk("report", folders / "study", "-o", page, *options, "--baseline", "fixed <i>")
    assert found.exit_code == 0, found.output
    text = page.read_text(encoding="utf-8")
    saved = folders / "saved.html"
    fairtk("report", folders / "saved", "-o", saved)
    tests = re.findall(r"<td>EE_D@3</td>.*", text)
    assert tests and all(row in saved.read_text(encoding="utf-8") for row in tests)
    assert fairtk("report", folders / "study", "-o", page).exit_code == 0
    assert "no measures" in page.read_text(encoding="utf-8")


def test_what_is_wrong_is_one_line(fairtk, folders, tmp_path):
    (tmp_path / "empty").mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "experiment.sqlite").write_text("no database")
    for words, place in (
        ([tmp_path / "empty"], "empty"),
        ([broken], "experiment.sqlite"),
        ([folders / "saved", "-o", tmp_path / "no" / "page.html"], "no such folder"),
        ([folders / "study", "-m", "EE_D@3"], "--qrels"),
    ):
        found = fairtk("report", "-o", tmp_path / "page.html", *words)
        assert found.exit_code in (1, 2), (words, found.output)
        assert place in found.output and found.output.count("\n") == 1, (words, found.output)
        assert not (tmp_path / "page.html").exists()


def test_results_of_a_study_lie_below_its_folder(fairtk, folders, tmp_path):
    shutil.copytree(folders / "saved", tmp_path / "study" / "gender" / "pages")
    page = tmp_path / "page.html"
    assert fairtk("report", tmp_path / "study", "-o", page).exit_code == 0
    shutil.copytree(folders / "saved", tmp_path / "study" / "place")
    shutil.copytree(folders / "saved", tmp_path / "study" / "two words")
    found = fairtk("report", tmp_path / "study", "-o", page)
    beside = [tmp_path / f"page-{name}.html" for name in ("place", "two words")]
    assert found.output == "".join(f"Report: {file}\n" for file in (page, *beside))
    links = re.findall(r'<li><a href="(page[^"]*)">([^<]*)</a>', page.read_text(encoding="utf-8"))
    assert links == [("page-place.html", "place"), ("page-two%20words.html", "two words")]
    text = beside[0].read_text(encoding="utf-8")
    assert '<a href="page.html">pages</a>' in text and 'aria-current="page">place<' in text
    found = fairtk("report", tmp_path / "study", "-o", "-")
    assert found.exit_code == 2 and "got 3;" in found.output


def test_failed_queries_of_a_store_are_counted(folders, tmp_path):
    from fairtk.experiment import open_results

    hostile_results(tmp_path / "study", n_queries=12)
    results = open_results(tmp_path / "study")
    assert len(results.systems) == 3
    assert results.failures[["system", "qid"]].to_numpy().tolist() == [[results.systems[2], "q1"]]
    assert "no luck" in results.failures["error"].iloc[0]
    assert isinstance(results.rankings("fair"), pd.DataFrame)
