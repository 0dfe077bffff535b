"""The pages of analyses in headless Chromium (see `browser`)."""

from pathlib import Path

import pytest
from analysis_world import QRELS, RUNS
from browser import AXE, BEYOND, COVERED, driver_fixture, on_the_desk, unfold  # noqa: F401

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


@on_the_desk
def test_a_row_highlights_its_part_of_the_figure(driver, page):
    driver.get(page.as_uri())
    systems = driver.execute_script(
        "return [...document.querySelectorAll('tr[data-system]')].map(row => row.dataset.system)"
    )
    for system in set(systems):
        parts, on, values = driver.execute_script(
            "const row = document.querySelector(`tr[data-system='${arguments[0]}']`); row.focus();"
            "const count = (more) => document.querySelectorAll(`svg.chart .system${more}`).length;"
            "return [count(''), count('.on'), document.getElementById('values').textContent]",
            system,
        )
        assert 0 < on < parts
        assert "undefined" not in values.replace("tau undefined", "") and values.strip()


@on_the_desk
def test_the_figure_follows_dark_mode(driver, page):
    driver.get(page.as_uri())
    colors = []
    for mode in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": mode}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        colors.append(
            driver.execute_script(
                "const of = (e) => getComputedStyle(e);"
                "return [of(document.body).color, of(document.querySelector('svg.chart')).fill]"
            )
        )
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert [text == ink for text, ink in colors] == [True, True] and colors[0] != colors[1]
