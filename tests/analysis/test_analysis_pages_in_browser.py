"""The pages of analyses in headless Chromium (see `browser`)."""

from pathlib import Path

import pytest
from analysis_world import QRELS, RUNS
from browser import AXE, BEYOND, COVERED, driver_fixture, unfold  # noqa: F401

import fairtk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Glyph:UserWarning"),  # the font of figures has no emoji
]


@pytest.fixture(scope="module", params=["frontier", "sensitivity"])
def page(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    if request.param == "frontier":
        outcome = fairtk.frontier(QRELS, RUNS, alphas=[0, 4], resamples=20)
    else:
        outcome = fairtk.sensitivity(QRELS, RUNS, ["EE_R@3", "EE_D@3"])
    outcome.report(path)
    return path


def test_nothing_reaches_beyond_the_page_or_covers_another_part(driver, page):
    driver.get_log("browser")
    driver.get(page.as_uri())
    unfold(driver)
    assert driver.execute_script(BEYOND) == []
    assert driver.execute_script(COVERED) == []
    assert driver.get_log("browser") == []


def test_axe_finds_no_violation(driver, page):
    if not AXE:
        pytest.skip("FAIRTK_AXE does not name axe.min.js of axe-core")
    driver.get(page.as_uri())
    unfold(driver)
    driver.execute_script(Path(AXE).read_text(encoding="utf-8"))
    outcome = driver.execute_async_script(
        "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then(done)"
    )
    assert [(v["id"], v["nodes"][0]["html"][:300]) for v in outcome["violations"]] == []
