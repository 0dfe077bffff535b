"""The pages of analyses in headless Chromium (see `browser`)."""

from pathlib import Path

import pytest
from analysis_world import HOSTILE, QRELS, RUNS
from browser import AXE, BEYOND, COVERED, driver_fixture, on_the_desk, unfold  # noqa: F401

import fairtk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Glyph:UserWarning"),  # the font of figures has no emoji
]


@pytest.fixture(scope="module", params=["frontier", "sensitivity", "explain"])
def page(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    if request.param == "frontier":
        outcome = fairtk.frontier(QRELS, RUNS, alphas=[0, 4], resamples=20)
    elif request.param == "explain":
        outcome = fairtk.explain(QRELS, RUNS["plain"], "EE_L@3", baseline=RUNS[HOSTILE])
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


BROKEN_WORDS = """
const lines = (node) => {
  const range = document.createRange();
  range.selectNodeContents(node);
  return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
};
const texts = (e) => [...e.querySelectorAll('*'), e].flatMap((part) => [...part.childNodes])
  .filter((node) => node.nodeType === Node.TEXT_NODE && /^\\S{1,12}$/.test(node.data.trim()));
return [...document.querySelectorAll('th, td')].filter((e) => e.getClientRects().length)
  .flatMap(texts).filter((node) => lines(node) > 1).map((node) => node.data);
"""
"""Gives short words of tables that are broken over lines; tables scroll instead."""


def test_no_short_word_is_broken(driver, page):
    driver.get(page.as_uri())
    unfold(driver)
    assert driver.execute_script(BROKEN_WORDS) == []


@on_the_desk
def test_a_row_highlights_its_part_of_the_figure(driver, page):
    driver.get(page.as_uri())
    if not driver.execute_script("return document.querySelector('svg.chart .system')"):
        pytest.skip("the figure of an explanation has no systems")
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
