"""The built site: links lead somewhere, nothing is asked of a network, browsers can read it.

`.ci/run` builds it and names its folder in FAIRTK_SITE.
"""

import html
import html.parser
import json
import os
import re
import shutil
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from fairtk.cli.group import cli
from fairtk.plugins import registry
from fairtk.plugins.references import SITE as ADDRESS
from fairtk.plugins.references import help_address

DOCS = Path(__file__).parents[2] / "docs"
SITE = Path(os.environ.get("FAIRTK_SITE", "docs/_build/html")).resolve()
AXE = os.environ.get("FAIRTK_AXE", "")
PAGES = (
    "index.html",
    "measures/EE_D.html",
    "first_pipeline.html",
    "tutorials/01_evaluate_a_run.html",
    "tutorials/04_group_fairness_trec_fair.html",
    "api/fairtk.transformers.html",
    "cookbook/run_files.html",
    "citing.html",
    "cli.html",
)
WIDTHS = {"phone": 390, "desk": 1280}

pytestmark = pytest.mark.slow
if "FAIRTK_SITE" not in os.environ:
    pytest.skip("no site is built (FAIRTK_SITE names its folder)", allow_module_level=True)


class Page(html.parser.HTMLParser):
    """The links, anchors and loaded files of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.loaded = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        relation = given.get("rel") or ""
        if tag in ("script", "img", "iframe") and given.get("src"):
            self.loaded.append(given["src"])
        if tag == "link" and given.get("href") and "stylesheet" in relation:
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def pages():
    return {path: Page(path) for path in SITE.rglob("*.html")}


def test_links_lead_somewhere(pages):
    assert len(pages) > 50
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.relative_to(SITE)}: {link}")
            elif parts.fragment and target.suffix == ".html":
                anchor = unquote(parts.fragment)
                if anchor not in pages[target].anchors:
                    broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_transformers_are_in_the_api_reference(pages):
    for entry in registry.transformers.entries():
        address = help_address(registry.transformers.load(entry.name))
        page, _, anchor = address.removeprefix(ADDRESS).partition("#")
        assert anchor in pages[SITE / page].anchors, entry.name


def test_every_measure_has_a_page():
    for name in registry.measures.names():
        text = (SITE / "measures" / f"{name}.html").read_text(encoding="utf-8")
        assert f"<h1>{name}: " in text and "a query missing from the run" in text


def test_nothing_is_loaded_from_a_network(pages):
    for path, page in pages.items():
        outside = [x for x in page.loaded if re.match(r"(https?:)?//", x)]
        assert outside == [], path


def test_places_of_the_machine_are_not_told(pages):
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert str(Path(__file__).parents[2]) not in text, path
        assert "site-packages" not in text, path
        assert "fairtk: not found" not in text and "command not found" not in text, path


def test_commands_can_be_copied():
    text = (SITE / "cli.html").read_text(encoding="utf-8")
    text_of_page = html.unescape(re.sub(r"<[^>]*>", "", text))
    assert "fairtk compare qrels.txt *.run -m EE_R@5 --test" in text_of_page
    assert "Treat warnings as errors (fairtk --help lists them)" in text_of_page
    assert "mailto:" not in text and "`" not in text_of_page


def test_commands_have_their_names():
    text = (SITE / "cli.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]*>", "", text))
    commands = [point.command for point in cli.entry_points]
    assert {name for name in commands if f"\nfairtk {name} [OPTIONS]" not in text} == set()
    assert "**" not in text and "\\@" not in text and "KIND is" in text


def test_descriptions_are_whole(pages):
    """An example is code, a field of a named tuple has words, and a colon begins no type."""
    broken = ("<blockquote", "Alias for field number", ">Type<span", "mailto:", "typing.", "=&lt;")
    for path in (SITE / "api").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert [mark for mark in broken if mark in text] == [], path


def test_no_marks_of_the_sources_are_left(pages):
    marks = re.compile(r"\.\. [a-z-]+::|:[a-z]+:`|\{[a-z]+(:[a-z]+)?\}`|```|<#|Traceback")
    for path in pages:
        text = path.read_text(encoding="utf-8")
        article = re.search(r"<article.*?</article>", text, flags=re.S)
        shown = re.sub(
            r"<pre.*?</pre>|<code.*?</code>|<script.*?</script>|<[^>]*>",
            "",
            article[0] if article else "",
            flags=re.S,
        )
        found = marks.search(shown)
        assert not found, f"{path}: {shown[max(0, found.start() - 60) : found.end() + 60]}"


def test_tutorials_have_outputs_and_can_be_downloaded():
    release = tomllib.loads((DOCS.parent / "release.toml").read_text(encoding="utf-8"))
    released = "example" not in release["owner"]  # else Colab's address does not exist
    found = sorted((SITE / "tutorials").glob("*.ipynb"))
    assert len(found) >= 7
    for path in found:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert any(cell.get("outputs") for cell in cells), path
        assert "'image/png'" in str(cells), path  # a figure
        page = path.with_suffix(".html").read_text(encoding="utf-8")
        assert f'href="{path.name}"' in page
        badge = rf'href="https://colab[^"]*/{path.name}"><img alt="Open in Colab"'
        assert bool(re.search(badge, page)) == released, path
        assert "google.colab" in str(cells) and "google.colab" not in page  # for Colab alone


def test_questions_are_answered_within_two_links(pages):
    start = SITE / "index.html"

    def reached(path):
        links = (urlsplit(link).path for link in pages[path].links if "://" not in link)
        return {(path.parent / link).resolve() for link in links if link.endswith(".html")}

    one = reached(start)
    two = set().union(*(reached(path) for path in one))
    text = (DOCS / "makers" / "questions.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == 20
    for row in rows:
        answers = re.findall(r"\]\(\.\./([\w/]+)\.md#?([\w-]*)", row)
        assert answers and {(SITE / f"{page}.html").resolve() for page, _ in answers} <= one | two
        for page, place in answers:
            target = (SITE / f"{page}.html").read_text(encoding="utf-8")
            assert not place or f'id="{place}"' in target, row


def test_language_models_find_each_page(pages):
    """``llms.txt`` has each page of the contents once, most with a sentence."""
    text = (SITE / "llms.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[.+\]\((\S+)\.html\)(?:: \S.*)?$", text, re.MULTILINE)
    assert text.count("\n- ") == len(listed) == len(set(listed))
    names = {path.relative_to(SITE).with_suffix("").as_posix() for path in pages}
    assert {page.removeprefix(ADDRESS) for page in listed} == names - NOT_LISTED
    assert text.count(".html): ") > 0.95 * len(listed)
    assert text.startswith("# fairtk\n\n> ") and text.count("\n## ") == 3


NOT_LISTED = {"index", "genindex", "py-modindex", "search"}


@pytest.fixture(scope="module")
def browser():
    if not AXE:
        pytest.importorskip("selenium")
        if not (shutil.which("chromium") and shutil.which("chromedriver")):
            pytest.skip("Chromium and its driver are not installed")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for option in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-dev-shm-usage",  # which is small in containers: pages crash
    ):
        options.add_argument(option)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options, service)
    driver.set_script_timeout(300)
    yield driver
    driver.quit()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_page_in_a_browser(browser, page, width, tmp_path):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": WIDTHS[width], "height": 900, "deviceScaleFactor": 1, "mobile": width == "phone"},
    )
    browser.get((SITE / page).as_uri())
    shown = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert shown[0] <= shown[1] + 1, "the page is wider than the window"
    folder = os.environ.get("FAIRTK_SHOTS")
    if folder:
        browser.save_screenshot(f"{folder}/{Path(page).stem}-{width}.png")
    if not AXE:
        pytest.skip("axe-core is not there (FAIRTK_AXE names its file)")
    browser.execute_script(Path(AXE).read_text(encoding="utf-8"))
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document).then(r => done(r.violations.map(v => "
        "[v.impact, v.id, v.nodes.length, v.nodes[0].html])))"
    )
    assert [v for v in found if v[0] in ("serious", "critical")] == []


def test_no_code_is_cut(browser):
    """On a desk every line of code stands within its block, on all pages."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": WIDTHS["desk"], "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    cut = []
    for path in sorted(SITE.rglob("*.html")):
        browser.get(path.as_uri())
        cut += [(path.name, code) for code in browser.execute_script(CUT)]
    assert cut == []


CUT = """
return [...document.querySelectorAll('pre')]
  .filter((e) => e.getClientRects().length && e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.innerText.split('\\n').sort((a, b) => b.length - a.length)[0]);
"""


def test_search_finds_exposure(browser):
    browser.get((SITE / "search.html").as_uri() + "?q=exposure")
    from selenium.webdriver.support.wait import WebDriverWait

    def found(driver):
        return driver.execute_script(
            "return [...document.querySelectorAll('#search-results .search a')].map(a => a.href)"
        )

    # what is found is shown one by one
    wait = WebDriverWait(browser, 300)
    wait.until(lambda d: len(found(d)) > 5 and any("measures/EE_D" in link for link in found(d)))


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("resume", "faq"),
        ("intersectional", "faq"),
        ("p-value", "faq"),
        ("significance", "faq"),
        ("choose alpha", "faq"),
        ("BEIR", "cookbook/own_retriever"),
        ("ColBERT", "cookbook/own_retriever"),
        ("EE_D 0.3", "concepts/exposure"),
    ],
)
def test_the_index_of_the_search_has_what_people_ask(words, page):
    """The page has each of the words, in its text or title."""
    stemmer = pytest.importorskip("snowballstemmer").stemmer("english")
    text = (SITE / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    for word in re.findall(r"[a-z_]+", words.lower()):
        places = [index[kind].get(stemmer.stemWord(word), []) for kind in ("terms", "titleterms")]
        numbers = [n for p in places for n in ([p] if isinstance(p, int) else p)]
        assert page in [index["docnames"][n] for n in numbers], word


def test_commands_are_shown_as_a_shell_takes_them():
    text = (SITE / "first_number.html").read_text(encoding="utf-8")
    shown = html.unescape(re.sub(r"<[^>]*>", "", text))
    assert "\nfairtk evaluate qrels.txt bm25.run -m EE_D@5" in shown.replace("\n\n", "\n")
    assert "!fairtk" not in shown
    for name in ("qrels.txt", "bm25.run"):
        assert list((SITE / "_downloads").rglob(name)), name
