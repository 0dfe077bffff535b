"""The page in headless Chromium: nothing is asked for, the keyboard is enough, no script is needed.

`.ci/run` installs Chromium, its driver and axe-core, and names axe's file in FAIRTK_AXE; then none
of these tests may be skipped.
"""

import contextlib
import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
import qr_world
from click.testing import CliRunner
from figure_words import words_on_words
from report_world import MARKUP, N_SAMPLES

from fairtk import BM25Scorer, demo
from fairtk.cli.group import cli
from fairtk.display import Table
from fairtk.llm import KeywordRefiner
from fairtk.report import Section

AXE = os.environ.get("FAIRTK_AXE", "")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",  # which is small in containers: pages crash
)
WIDTHS = {"phone": 390, "desk": 1280}
PAPER = 720
LONGEST = 300  # seconds

pytestmark = pytest.mark.slow
if not AXE:
    pytest.importorskip("selenium")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("Chromium and its driver are not installed", allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402


@contextlib.contextmanager
def chromium(folder, width):
    """Give a browser with a new profile, whose window is as wide as a device."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in (*OPTIONS, f"--user-data-dir={folder}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options, service)
    driver.set_script_timeout(LONGEST)
    try:
        set_width(driver, width)
        driver.get_log("performance")  # the page that the browser begins with
        driver.get_log("browser")
        yield driver
    finally:
        driver.quit()


def set_width(driver, width):
    """Make the window as wide as a device, or as paper."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )


@pytest.fixture(params=WIDTHS, scope="module")
def driver(request, tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile"), WIDTHS[request.param]) as found:
        yield found


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    table = Table(["who", "n"], [["b", "10"], ["a", "9"]], "Two rows")
    section = Section("More", ("Prose.",), table)
    results.report(path, sections=[section], license="CC BY-NC-SA 4.0", title=f"Study {MARKUP}")
    return path


def opened(driver, page):
    """Open the page and wait for the list of queries."""
    driver.get_log("performance")
    driver.get(page.as_uri())
    return wait(driver, "details.query > summary")


def wait(driver, selector, least=1):
    found = partial(driver.find_elements, By.CSS_SELECTOR, selector)
    WebDriverWait(driver, LONGEST).until(lambda _: len(found()) >= least)
    return found()


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


def test_tables_are_sorted_by_keyboard(driver, page):
    opened(driver, page)
    driver.execute_script("document.querySelector('#section-1 h2').scrollIntoView()")
    head = tab_to(driver, lambda e: e.tag_name == "button" and e.text == "n")
    column = head.find_element(By.XPATH, "..")
    for order, names in (("ascending", ["a", "b"]), ("descending", ["b", "a"])):
        press(driver, Keys.ENTER)
        assert column.get_attribute("aria-sort") == order
        rows = driver.find_elements(By.CSS_SELECTOR, "#section-1 tbody th")
        assert [row.text for row in rows] == names  # 9 before 10: as numbers
    assert driver.switch_to.active_element == head


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


def test_queries_can_be_ordered_by_what_differs(driver, page, results):
    opened(driver, page)
    values = results.per_query[results.per_query["measure"] == "EE_D@3"]
    spread = values.groupby("qid", sort=False)["value"].agg(lambda v: v.max() - v.min())
    order = driver.find_element(By.CSS_SELECTOR, ".controls select")
    Select(order).select_by_visible_text("systems differ most by EE_D@3")
    shown = driver.find_element(By.CSS_SELECTOR, "details.query .qid").text
    assert spread[shown] == spread.max()


def test_all_else_works_without_scripts(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(page.as_uri())
        said = driver.find_element(By.TAG_NAME, "body").text
        for words in (
            "is best with a mean of",
            "This part needs JavaScript",
            "License of the data",
        ):
            assert words in said
        assert len(driver.find_elements(By.CSS_SELECTOR, "#means tbody tr")) == 3
        assert all(e.size["height"] > 100 for e in driver.find_elements(By.TAG_NAME, "img"))
        assert driver.find_elements(By.CSS_SELECTOR, "th button, details.query") == []
        driver.find_element(By.CSS_SELECTOR, "#settings details > summary").click()
        assert driver.find_element(By.CSS_SELECTOR, "#settings pre").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_nothing_is_wider_than_the_screen_or_the_paper(driver, page):
    opened(driver, page)[0].click()
    wait(driver, ".opened details > summary")[1].click()
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


@pytest.fixture(scope="module")
def study_pages(tmp_path_factory):
    """The pages of small studies: FAIR-QR by two attributes, Fair RAG with one model.

    No words lie on each other in any of their figures.
    """
    from fairtk_papers.fair_rag import (
        LampTask,
        RagSettings,
        RagStudy,
        make_generator,
        save_model_sections,
    )
    from matplotlib.figure import Figure

    where, figures = tmp_path_factory.mktemp("studies"), []

    def read_before(save):
        def saved(figure, *args, **options):
            assert words_on_words(figure) == []
            figures.append(figure)
            return save(figure, *args, **options)

        return saved

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IR_DATASETS_HOME", str(where / "home"))
        patch.setattr(Figure, "savefig", read_before(Figure.savefig))
        data = qr_world.read(qr_world.write_world(where / "wiki"))
        varied = {"choose": ["difference", "ratio"], "max_iterations": [1, 2]}
        of_qr = qr_world.study(data, where / "qr", KeywordRefiner(), variations=varied)
        of_qr.run().save(where / "qr")
        tiny = make_generator(f"t5:{demo.model_folder()}", max_new_tokens=8, device="cpu")
        settings = RagSettings(alphas=(0, 8), n_samples=3, limit=3)
        task = LampTask(demo.load().dataset)
        rag = RagStudy([task], {"BM25": BM25Scorer()}, {"tiny": tiny}, where / "rag", settings)
        results = rag.run(lambda text: None, True)
        results.save(where / "rag")
        save_model_sections(results, where / "rag")
        for name in ("qr", "rag"):
            asked = ["report", str(where / name), "-o", str(where / f"{name}.html")]
            done = CliRunner().invoke(cli, asked)
            assert done.exit_code == 0, done.output
    assert len(figures) > 20
    return sorted(where.glob("*.html"))


BEYOND = """
const wide = (e) => e.scrollWidth > e.clientWidth + 1;
const page = document.documentElement;
const visible = [...document.querySelectorAll('.scroll, th, td, h2, h3, p, figure, summary')]
  .filter((e) => e.getClientRects().length);
return [...(wide(page) ? [page] : []), ...visible.filter((e) => wide(e) ||
  e.getBoundingClientRect().right > page.clientWidth + 1)].map((e) => e.outerHTML.slice(0, 200));
"""
"""Gives what is wider than its place, or reaches beyond the page."""
COVERED = """
const boxes = [...document.querySelectorAll('table, figure, p, h2, h3, details.query')]
  .filter((e) => !e.parentElement.closest('table, figure, details'))
  .map((e) => [e.getBoundingClientRect(), e]).filter(([box]) => box.height && box.right > 0);
boxes.sort(([a], [b]) => a.top - b.top);
return boxes.slice(1).filter(([box], i) => boxes[i][0].bottom > box.top + 1 &&
  boxes[i][0].left < box.right - 1 && box.left < boxes[i][0].right - 1)
  .map(([, e]) => e.outerHTML.slice(0, 200));
"""
"""Gives what lies on what stands above it."""


def test_pages_of_studies_fit(driver, study_pages):
    names = [path.name for path in study_pages]
    assert names == ["qr-geography.html", "qr.html", "rag.html"]
    for path in study_pages:
        opened(driver, path)[0].click()
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
    qids = [e.text for e in wait(driver, "details.query .qid")]
    assert qids == sorted(qids, key=int) and len(qids) == qr_world.TOPICS


def test_axe_finds_no_violation(driver, page):
    if not AXE:
        pytest.skip("FAIRTK_AXE does not name axe.min.js of axe-core")
    opened(driver, page)[0].click()
    wait(driver, ".opened details > summary")[1].click()
    driver.execute_script(Path(AXE).read_text(encoding="utf-8"))
    found = driver.execute_async_script(
        "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then(done)"
    )
    assert found["passes"] or found["testEngine"]["name"] == "axe-core"
    assert [(v["id"], v["nodes"][0]["html"][:300]) for v in found["violations"]] == []


def test_old_browsers_are_told(driver, answered, tmp_path):
    path = tmp_path / "page.html"
    answered.report(path)
    source = {"source": "delete window.DecompressionStream"}
    script = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
    try:
        driver.get(path.as_uri())
        assert "This browser is too old" in driver.find_element(By.ID, "drill-down").text
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
