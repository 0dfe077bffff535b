"""Headless Chromium for tests of pages: a driver, and what finds faults of the layout.

`.ci/run` installs Chromium, its driver and axe-core, and names axe's file in FAIRTK_AXE; then no
test that imports this module may be skipped.
"""

import contextlib
import os
import shutil
from functools import partial

import pytest

AXE = os.environ.get("FAIRTK_AXE", "")
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",  # which is small in containers: pages crash
)
WIDTHS = {"desk": 1280, "phone": 390}
LONGEST = 300  # seconds

if not AXE:
    pytest.importorskip("selenium")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("Chromium and its driver are not installed", allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
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


@pytest.fixture(params=WIDTHS, scope="module", name="driver")
def driver_fixture(request, tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile"), WIDTHS[request.param]) as found:
        yield found


# what a page does; where its parts are depends on the width, too
on_the_desk = pytest.mark.parametrize("driver", ["desk"], indirect=True)


def opened(driver, page):
    """Open the page and the folded list of its queries."""
    driver.get_log("performance")
    driver.get(page.as_uri())
    unfold(driver, "queries")
    return wait(driver, "details.query > summary")


def unfold(driver, *names):
    """Open folded parts of the page, all if none is named."""
    parts = [f"#{name}" for name in names] or ["details.part"]
    for part in driver.find_elements(By.CSS_SELECTOR, ", ".join(parts)):
        driver.execute_script("arguments[0].open = true", part)


def wait(driver, selector, least=1):
    found = partial(driver.find_elements, By.CSS_SELECTOR, selector)
    WebDriverWait(driver, LONGEST).until(lambda _: len(found()) >= least)
    return found()


BEYOND = """
const wide = (e) => e.scrollWidth > e.clientWidth + 1;
const page = document.documentElement;
const visible = [...document.querySelectorAll('th, td, h1, h2, h3, p, figure, svg, summary')]
  .filter((e) => e.getClientRects().length);
const reaches = (e) => !e.closest('.scroll') &&
  e.getBoundingClientRect().right > page.clientWidth + 1;
return [...(wide(page) ? [page] : []), ...visible.filter((e) => wide(e) || reaches(e))]
  .map((e) => e.outerHTML.slice(0, 200));
"""
"""Gives what is wider than its place, or reaches beyond the page; tables scroll in their boxes."""
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
