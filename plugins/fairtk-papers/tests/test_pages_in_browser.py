"""The pages of both studies in headless Chromium: nothing is wider than its place, or covered."""

import shutil

import pytest
import qr_world
import rag_world
from browser import BEYOND, COVERED, LONGEST, driver_fixture, opened, unfold, wait  # noqa: F401
from click.testing import CliRunner
from fairtk_papers.fair_rag import (
    save_model_sections,
)
from figure_words import words_on_words
from matplotlib.figure import Figure
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from fairtk.cli.group import cli
from fairtk.llm import KeywordRefiner

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study_pages(tmp_path_factory, data, finished_rag):
    """The pages of small studies: FAIR-QR by two attributes, Fair RAG with one model.

    No words lie on each other in any of their figures.
    """
    where, figures = tmp_path_factory.mktemp("studies"), []
    shutil.copytree(finished_rag, where / "rag")

    def read_before(save):
        def saved(figure, file, **options):
            if figure not in figures:
                assert words_on_words(figure) == []
                figures.append(figure)
            if options["format"] == "svg":  # pages have no others
                save(figure, file, **options)
            else:
                file.touch()

        return saved

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", read_before(Figure.savefig))
        varied = {"choose": ["difference", "ratio"], "max_iterations": [1, 2]}
        of_qr = qr_world.study(data, where / "qr", KeywordRefiner(), variations=varied)
        of_qr.run().save(where / "qr")
        results = rag_world.study(where / "rag").run(keep_rankings=True)
        results.save(where / "rag")
        save_model_sections(results, where / "rag")
        for name in ("qr", "rag"):
            words = ["report", str(where / name), "-o", str(where / f"{name}.html")]
            done = CliRunner().invoke(cli, words)
            assert done.exit_code == 0, done.output
    assert len(figures) > 12
    return sorted(where.glob("*.html"))


def test_pages_of_studies_fit(driver, study_pages):
    names = [path.name for path in study_pages]
    assert names == ["qr-geography.html", "qr.html", "rag.html"]
    for path in study_pages:
        opened(driver, path)[0].click()
        unfold(driver)
        summaries = wait(driver, ".opened details > summary")
        for summary in summaries:
            driver.execute_script("arguments[0].click()", summary)
        wait(driver, ".opened details[open] table", len(summaries))
        assert driver.execute_script(BEYOND) == [], path.name
        assert driver.execute_script(COVERED) == [], path.name


def test_a_page_is_about_one_attribute(driver, study_pages):
    gender, geography = study_pages[1], study_pages[0]
    opened(driver, gender)
    assert "geography" not in driver.find_element(By.TAG_NAME, "main").text
    driver.find_element(By.LINK_TEXT, "geography").click()
    WebDriverWait(driver, LONGEST).until(lambda d: d.current_url == geography.as_uri())
    unfold(driver, "queries")
    qids = [e.text for e in wait(driver, "details.query .qid")]
    assert qids == sorted(qids, key=int) and len(qids) == qr_world.TOPICS
