"""The pages of `Frontier` and `Sensitivity`."""

import re
from html.parser import HTMLParser

import pytest
from analysis_world import HOSTILE, QRELS, RUNS
from click.testing import CliRunner

import fairtk
from fairtk.cli.group import cli
from fairtk.errors import MissingExtraError


class Parts(HTMLParser):
    """The tags that open a page's parts, and the rows of its tables."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows = [], []
        self.is_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag in ("h1", "figure", "table", "h2", "details", "script", "b", "em"):
            self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.is_cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.is_cell = self.is_cell and tag not in ("th", "td")

    def handle_data(self, data):
        if self.is_cell:
            self.rows[-1][-1] += data


def rows_of(text):
    """Return the cells of each row of the tables of a page."""
    return [[cell.strip() for cell in row] for row in Parts(text).rows]


@pytest.fixture(scope="module")
def frontier():
    return fairtk.frontier(QRELS, RUNS, alphas=[0, 4], resamples=20)


@pytest.fixture(scope="module")
def sensitivity():
    return fairtk.sensitivity(QRELS, RUNS, ["EE_R@3", "EE_D@3"], vary=["cutoff", "bounds"])


def page(outcome, path, **options):
    outcome.report(path, **options)
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["frontier", "sensitivity"])
def test_the_figure_and_a_table_come_first_and_names_are_text(name, request, tmp_path):
    text = page(request.getfixturevalue(name), tmp_path / "page.html", command="fairtk <x>")
    tags = Parts(text).tags
    # title, figure, table; reading; comparisons with their table; folded parts with tables
    assert tags[:6] == ["h1", "figure", "table", "h2", "h2", "table"]
    assert {"b", "em"} & set(tags) == set()  # the markup of names is not markup here
    assert tags.count("script") == 1
    assert "fairtk &lt;x&gt;" in text
    assert HOSTILE not in text


def test_the_page_of_a_frontier_has_its_values(frontier, tmp_path):
    rows = rows_of(page(frontier, tmp_path / "page.html"))
    curve = frontier.curve.iloc[0]
    assert [str(curve["system"]), "0", f"{curve['x']:.3f}", f"{curve['y']:.3f}"] in [
        row[:4] for row in rows
    ]
    gap = frontier.area_differences.iloc[0]
    assert [gap["other"], gap["one"], "difference in area", f"{gap['difference']:+.3f}"] in [
        row[:4] for row in rows
    ]


def test_the_page_of_a_sensitivity_has_winners_and_means(sensitivity, tmp_path):
    rows = rows_of(page(sensitivity, tmp_path / "page.html"))
    first = sensitivity.table.iloc[0]
    others = sensitivity.table[
        (sensitivity.table["measure"] == "EE_R@3") & (sensitivity.table["choice"] != "original")
    ]
    flips = int(others["flips"].sum())
    assert flips  # otherwise the page has nothing to list
    lowest = f"{others['tau'].min():.2f}"
    winner = first["winner"] or "tie"
    assert ["EE_R@3", winner, str(len(others)), str(flips), lowest] in rows
    last = sensitivity.means[sensitivity.means["measure"] == "EE_D@3"].iloc[-len(RUNS) :]
    means = [f"{value:.4f}" for value in last["mean"]]
    assert ["EE_D@3", *last.iloc[0][["choice", "setting"]], *means] in rows


def test_a_sensitivity_without_another_winner_says_so(tmp_path):
    same = fairtk.sensitivity(QRELS, RUNS, ["EE_R@3"], vary=["cutoff"], cutoffs=[3])
    tags = Parts(page(same, tmp_path / "page.html")).tags
    assert tags[:6] == ["h1", "figure", "table", "h2", "h2", "details"]


@pytest.mark.parametrize(
    "arguments",
    [["frontier", "-a", "0", "--resamples", "20"], ["sensitivity", "-m", "EE_R@3"]],
    ids=["frontier", "sensitivity"],
)
def test_commands_write_the_page_of_the_function(arguments, tmp_path):
    fairtk.io.write_qrels(QRELS, tmp_path / "qrels.txt")
    files = [str(tmp_path / "qrels.txt")]
    for i, run in enumerate(RUNS.values()):
        fairtk.io.write_run(run, tmp_path / f"run{i}.run")
        files.append(str(tmp_path / f"run{i}.run"))
    target = tmp_path / "page.html"
    name, *options = arguments
    result = CliRunner().invoke(cli, [name, *files, *options, "--page", str(target)])
    assert result.exit_code == 0, result.output
    assert str(target) in result.stderr
    assert re.search(rf"<pre[^>]*>fairtk {name} ", target.read_text(encoding="utf-8"))


def test_a_page_requires_jinja(frontier, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    with pytest.raises(MissingExtraError):
        frontier.report(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_printed_tables_fit_a_terminal(frontier, sensitivity):
    for outcome in (frontier, sensitivity):
        table, _, _ = str(outcome).partition("\n\n")
        assert max(map(len, table.splitlines())) <= 80
