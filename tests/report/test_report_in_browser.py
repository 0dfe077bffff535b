"""The page in headless Chromium: nothing is asked for, the keyboard is enough, no script is needed.

See `browser`, in which the tests are skipped where there is no Chromium.
"""

import json
from pathlib import Path

import pytest
from browser import (  # noqa: F401
    AXE,
    BEYOND,
    COVERED,
    LONGEST,
    driver_fixture,
    on_the_desk,
    opened,
    set_width,
    unfold,
    wait,
)
from report_world import MARKUP, N_SAMPLES
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from fairtk.display import Table
from fairtk.report import Section

PAPER = 720

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    table = Table(["who", "n"], [["b", "10"], ["a", "9"]], "Two rows")
    section = Section("More", ("Prose.",), table)
    results.report(path, sections=[section], license="CC BY-NC-SA 4.0", title=f"Study {MARKUP}")
    return path


def requests(driver):
    logged = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        entry["params"]["request"]["url"]
        for entry in logged
        if entry["method"] == "Network.requestWillBeSent"
    ]


def press(driver, key):
    driver.switch_to.active_element.send_keys(key)


def tab_to(driver, test):
    """Press the tabulator until the focus is on an element that passes a test."""
    for _ in range(400):
        press(driver, Keys.TAB)
        focused = driver.switch_to.active_element
        if test(focused):
            return focused
    raise AssertionError("the keyboard does not reach it")


@on_the_desk
def test_nothing_is_asked_for_and_no_error_is_logged(driver, page):
    first = opened(driver, page)[0]
    first.click()
    wait(driver, ".opened details > summary")[0].click()
    wait(driver, ".opened details[open] table")
    driver.find_element(By.CSS_SELECTOR, "button.more").click()
    within = (page.as_uri(), "data:image/svg+xml;base64,")  # the page, and what stands in it
    assert [url for url in requests(driver) if not url.startswith(within)] == []
    assert driver.get_log("browser") == []
    assert driver.title == f"Study {MARKUP}"  # and nothing has changed it
    assert driver.find_elements(By.CSS_SELECTOR, f"img:not([src^='{within[1]}']), b, i") == []


@on_the_desk
def test_tables_are_sorted_by_keyboard(driver, page):
    opened(driver, page)
    unfold(driver, "section-1")
    driver.execute_script("document.querySelector('#section-1 h2').scrollIntoView()")
    head = tab_to(driver, lambda e: e.tag_name == "button" and e.text == "n")
    column = head.find_element(By.XPATH, "..")
    for order, names in (("ascending", ["a", "b"]), ("descending", ["b", "a"])):
        press(driver, Keys.ENTER)
        assert column.get_attribute("aria-sort") == order
        rows = driver.find_elements(By.CSS_SELECTOR, "#section-1 tbody th")
        assert [row.text for row in rows] == names  # 9 before 10: as numbers
    assert driver.switch_to.active_element == head


@on_the_desk
def test_queries_are_found_and_opened_by_keyboard(driver, page, results):
    opened(driver, page)
    tab_to(driver, lambda e: e.get_attribute("type") == "search").send_keys("q17")
    status = driver.find_element(By.CSS_SELECTOR, "[role=status]")
    WebDriverWait(driver, LONGEST).until(lambda d: status.text == "1 of 1 queries are listed.")
    tab_to(driver, lambda e: e.tag_name == "summary" and "q17" in e.text)
    press(driver, Keys.ENTER)
    systems = wait(driver, ".opened details > summary")
    assert f"fair: {N_SAMPLES} rankings" in systems[1].text
    tab_to(driver, lambda e: e.tag_name == "summary" and e.text.startswith("fair:"))
    press(driver, Keys.ENTER)
    rows = wait(driver, ".opened details[open] tbody tr")
    cells = [row.find_elements(By.CSS_SELECTOR, "th, td") for row in rows]
    assert sum(int(count.text) for count, *_ in cells) == N_SAMPLES
    frame = results.rankings("fair")
    frame = frame[frame["qid"] == "q17"]
    top = {d.split("<")[0] for d in frame.loc[frame["rank"] == 0, "docno"]}
    assert {docs.text.split("<")[0] for *_, docs in cells} == top
    assert all(MARKUP in answer.text for _, answer, _ in cells)


@on_the_desk
def test_queries_can_be_ordered_by_what_differs(driver, page, results):
    opened(driver, page)
    values = results.per_query[results.per_query["measure"] == "EE_D@3"]
    spread = values.groupby("qid", sort=False)["value"].agg(lambda v: v.max() - v.min())
    order = driver.find_element(By.CSS_SELECTOR, ".controls select")
    Select(order).select_by_visible_text("systems differ most by EE_D@3")
    shown = driver.find_element(By.CSS_SELECTOR, "details.query .qid").text
    assert spread[shown] == spread.max()


@on_the_desk
def test_pointing_at_a_system_highlights_it_and_shows_its_values(driver, page, results):
    opened(driver, page)
    pointing = "arguments[0].dispatchEvent(new PointerEvent(arguments[1], {bubbles: true}))"
    values = driver.find_element(By.ID, "values")
    assert not values.is_displayed()
    for kind in ("svg .system", "#overview tbody tr"):
        part = driver.find_element(By.CSS_SELECTOR, f'{kind}[data-system="1"]')
        driver.execute_script(pointing, part, "pointerover")
        lit = driver.find_elements(By.CSS_SELECTOR, "#overview .on")
        assert [e.get_attribute("data-system") for e in lit] == ["1", "1"]
        mean = results.means.loc["fair", "EE_D@3"]
        assert values.is_displayed() and f"EE_D@3 {mean:.3f}* [" in values.text
        left = driver.find_element(By.ID, "overview")
        driver.execute_script(pointing.replace("bubbles: true", ""), left, "pointerleave")
        assert not values.is_displayed()


@on_the_desk
def test_a_link_into_a_folded_part_opens_it(driver, page):
    opened(driver, page)
    driver.find_element(By.CSS_SELECTOR, "a[href='#warnings-list']").click()
    warnings = driver.find_element(By.ID, "warnings-list")
    WebDriverWait(driver, LONGEST).until(lambda d: warnings.is_displayed())


@on_the_desk
def test_all_else_works_without_scripts(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(page.as_uri())
        assert len(driver.find_elements(By.CSS_SELECTOR, "#overview tbody tr")) == 3
        assert driver.find_element(By.CSS_SELECTOR, "svg.trade-off").size["height"] > 100
        assert driver.find_elements(By.CSS_SELECTOR, "th button, details.query") == []
        for name in ("queries", "settings"):
            driver.find_element(By.CSS_SELECTOR, f"#{name} > summary").click()
        assert "needs JavaScript" in driver.find_element(By.ID, "queries").text
        driver.find_element(By.CSS_SELECTOR, "#settings details > summary").click()
        assert driver.find_element(By.CSS_SELECTOR, "#settings pre").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_nothing_is_wider_than_the_screen_or_the_paper(driver, page):
    opened(driver, page)[0].click()
    wait(driver, ".opened details > summary")[1].click()
    unfold(driver)
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert driver.execute_script(wide) == 0
    assert driver.execute_script(BEYOND) == [] == driver.execute_script(COVERED)
    width = driver.execute_script("return window.innerWidth")
    set_width(driver, PAPER)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert driver.execute_script(wide) == 0
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        set_width(driver, width)
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert printed["data"].startswith("JVBER")  # %PDF


def test_axe_finds_no_violation(driver, page):
    if not AXE:
        pytest.skip("FAIRTK_AXE does not name axe.min.js of axe-core")
    opened(driver, page)[0].click()
    wait(driver, ".opened details > summary")[1].click()
    unfold(driver)
    driver.execute_script(Path(AXE).read_text(encoding="utf-8"))
    found = driver.execute_async_script(
        "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then(done)"
    )
    assert found["passes"] or found["testEngine"]["name"] == "axe-core"
    assert [(v["id"], v["nodes"][0]["html"][:300]) for v in found["violations"]] == []
