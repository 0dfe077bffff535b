"""The page of a report: what it says, that nothing in it is markup, that nothing is asked for."""

import base64
import html
import json
import re
import zlib
from html.parser import HTMLParser

import pandas as pd
import pytest
from report_world import MARKUP

import fairtk
from fairtk.display import Table
from fairtk.errors import InputError, NotFoundError, ParameterError
from fairtk.report import Section, load_sections, page_text, save_sections

PICTURE = "data:image/svg+xml;base64,"


class Page(HTMLParser):
    """The elements and the text of a page."""

    VOID = {"meta", "link", "br", "img", "input", "wbr"}

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def said(self):
        return " ".join(" ".join(self.words).split())


def unpacked(text):
    """Return the index and the queries of a page."""
    index = re.search(r'id="packed-index">([^<]*)<', text)[1]
    queries = re.search(r'id="packed-queries">([^<]*)<', text)[1].split()
    read = [json.loads(zlib.decompress(base64.b64decode(packed))) for packed in [index, *queries]]
    return read[0], read[1:]


def cells(text, part):
    """Return the texts of the cells of the rows of a part of a page."""
    inside = text.partition(f'id="{part}"')[2].partition("</tbody>")[0].partition("<tbody>")[2]
    rows = inside.split("<tr")[1:]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]


@pytest.fixture(scope="module")
def text(results):
    return page_text(results, title=f"Study {MARKUP}", license="CC BY-NC-SA 4.0", command="make")


def test_every_element_is_closed_and_no_text_is_markup(text):
    page = Page(text)
    assert page.open == []
    assert "document.title='" not in text and "document.title=&#39;" in text
    tags = [tag for tag, _ in page.elements]
    scripts = [attrs for tag, attrs in page.elements if tag == "script"]
    assert "b" not in tags and "i" not in tags
    assert all(attrs["src"].startswith(PICTURE) for tag, attrs in page.elements if tag == "img")
    assert [attrs for attrs in scripts if attrs.get("type") != "text/plain"] == [{}]  # ours
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    named = {n for _, attrs in page.elements for n in attrs.get("aria-labelledby", "").split()}
    assert named <= set(ids)
    links = {attrs["href"] for tag, attrs in page.elements if tag == "a"}
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert not any("style" in attrs for _, attrs in page.elements)  # the policy allows none


def test_nothing_is_asked_for(text):
    page = Page(text)
    for tag, attrs in page.elements:
        own = {"src"} if tag == "img" and attrs["src"].startswith(PICTURE) else set()
        asking = {"src", "srcset", "action", "poster", "style"} & set(attrs)
        assert asking <= own, (tag, attrs)
        for name in ("href", "xlink:href"):
            assert attrs.get(name, "#").startswith(("#", "data:,")), (tag, attrs)
    assert "@import" not in text and "url(http" not in text
    policy = dict(page.elements)["meta"]  # the last meta
    policy = next(a["content"] for t, a in page.elements if a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy and "http" not in policy


def test_the_first_table_has_means_and_marks_the_best_and_what_differs(text, results):
    rows = cells(text, "overview")
    compared = results.compare().set_index(["system", "measure"])
    assert len(rows) == len(results.systems)
    for system, row in zip(results.systems, rows, strict=True):
        for measure, cell in zip(results.measures, row[1:], strict=True):
            best = results.means[measure].agg("min" if measure == "EE_D@3" else "max")
            mean = results.means.loc[system, measure]
            differs = compared["p_corrected"].get((system, measure), 1.0) < 0.05
            assert f"{mean:.3f}" in cell
            assert ("<strong>" in cell) == (round(mean, 3) == round(best, 3)), (system, measure)
            assert ("*" in cell) == differs, (system, measure)
    assert any("*" in cell for row in rows for cell in row)


def test_the_first_figure_has_a_point_per_system_and_says_what_is_better(text, results):
    svg = text.partition('<svg class="trade-off"')[2].partition("</svg>")[0]
    assert re.findall(r'data-system="(\d)"', svg) == ["0", "1", "2"]
    assert svg.count("<circle") == 2  # the baseline is a diamond
    assert "Expected exposure disparity (EE_D@3), lower is better" in svg
    assert "↖ better" in svg


def test_differences_and_all_tests_are_those_of_compare(text, results):
    row = results.compare().set_index(["measure", "system"]).loc[("EE_D@3", "fair")]
    page_words = Page(text).said
    assert f"{row['difference']:+.3f}*" in page_words  # significant
    assert f"{row['difference']:+.4f} [{row['low']:+.4f}, {row['high']:+.4f}]" in page_words


def test_the_page_has_settings_warnings_and_the_license(text):
    page_words = Page(text).said
    assert "3 systems on 30 queries, by 3 measures" in page_words
    assert "EE_R@3 is undefined for up to 1 query" in page_words
    assert "1 result failed and got the worst value" in page_words
    assert "CC BY-NC-SA 4.0" in page_words
    assert "this page: make" in page_words
    assert fairtk.__version__ in text and pd.__version__ in page_words
    assert '"n_samples": 12' in page_words  # settings of stages


def test_long_names_are_cut_with_the_full_text_in_a_tooltip():
    names = ["<b>" + "w" * 300, "שלום " * 60, "🐟" * 300, "a\"'&" * 100]
    frame = pd.DataFrame({"qid": ["a", "b"], "docno": ["d", "e"], "score": 1.0})
    qrels = frame[["qid", "docno"]].assign(label=[1, 0])
    results = fairtk.Experiment(
        dict.fromkeys(names, frame), qrels=qrels, measures=["P@1", "nDCG@2"]
    )
    text = page_text(results, title="t" * 300)
    page = Page(text)
    assert "t" * 300 not in page.said and f'title="{"t" * 300}"' in text
    tooltips = {attrs.get("title") for tag, attrs in page.elements if tag == "bdi"}
    assert set(names) <= tooltips
    labels = re.findall(r"<text x=[^>]*>([^<]*)</text></g>", text)
    assert labels and max(len(html.unescape(label)) for label in labels) == 24


def test_the_page_says_what_to_cite(text, results):
    part = text.partition('id="cite"')[2].partition("<pre")[2].partition("</pre>")[0]
    for entry in html.unescape(part).split("@")[1:]:
        assert f"@{entry.strip()[:60]}" in results.cite()
    assert "macdonald2021pyterrier" in part


def test_equal_results_give_equal_pages(results, text, tmp_path):
    again = page_text(results, title=f"Study {MARKUP}", license="CC BY-NC-SA 4.0", command="make")
    assert again == text
    results.save(tmp_path / "saved")
    loaded = fairtk.Results.load(tmp_path / "saved")
    assert page_text(loaded) == page_text(results)


def test_a_query_has_all_its_rankings_and_answers(text, results):
    index, queries = unpacked(text)
    assert index["systems"] == results.systems
    values = results.per_query.set_index(["measure", "system", "qid"])["value"]
    assert index["values"][0][1][5] == round(values["EE_D@3", "fair", "q5"], 4)
    assert index["values"][1][1][2] is None  # EE_R without a useful document
    query = queries[index["qids"].index("q5")]
    assert query["q"].startswith("words of q5 </script>")
    assert query["g"] == [f"it is q5-d0<b>{MARKUP}"]
    assert [d for d, label in zip(query["d"], query["l"], strict=True) if label] == [
        f"q5-d{j}<b>" for j in (0, 3, 6)
    ]
    counts = {}
    rankings = results.rankings("fair")
    for _, rows in rankings[rankings["qid"] == "q5"].groupby("sample"):
        rows = rows.sort_values("rank")
        key = (tuple(rows["docno"]), rows["qanswer"].iloc[0])
        counts[key] = counts.get(key, 0) + 1
    packed = {
        (tuple(query["d"][d] for d in docs), query["a"][answer]): count
        for count, docs, answer in query["s"][1]
    }
    assert packed == counts
    assert sum(packed.values()) == 12
    failed = queries[index["qids"].index("q1")]
    assert failed["s"][2] is None and "no luck" in failed["e"]["2"]


def test_deep_rankings_are_cut_and_counted_at_that_depth(results):
    index, queries = unpacked(page_text(results, cutoff=2))
    assert index["cutoff"] == 2
    assert {len(docs) for q in queries for s in q["s"] for _, docs, _ in s or []} == {2}


def test_a_page_has_no_more_queries_than_there_is_room(results, monkeypatch):
    from fairtk.report import queries

    packed = queries.drill_down(results, 3).packed
    assert len(packed) == 30
    monkeypatch.setattr(queries, "BYTES", sum(map(len, packed[:7])))
    assert queries.drill_down(results, 3).packed == packed[:7]
    assert "Only the first 7 of 30 queries" in Page(page_text(results, cutoff=3)).said


def test_results_without_measures_rankings_or_a_second_system(answered):
    topics = pd.DataFrame({"qid": ["a", "b"], "query": ["x", "y"]})
    plain = fairtk.Experiment(
        {"one": topics.assign(docno=["d", "e"], score=1.0), "two": topics.assign(qanswer="yes")},
        topics,
    )
    page_words = Page(page_text(plain)).said
    assert "no measures" in page_words
    assert not {"overview", "differences", "tests"} & ids(page_text(plain))
    index, queries = unpacked(page_text(plain))
    assert queries[0]["s"] == [[[1, [0], None]], [[1, [], 0]]]
    assert queries[0]["a"] == ["yes"]
    empty = fairtk.Experiment({"none": topics[:0].assign(docno="", score=0.0)}, topics)
    assert "no rankings and no answers to look at" in Page(page_text(empty)).said
    alone = page_text(one_system(answered))
    assert "<strong>" not in alone.partition("</section>")[0] and "differences" not in ids(alone)


def ids(text):
    return {attrs.get("id") for _, attrs in Page(text).elements}


def one_system(results):
    frame = results.rankings("fair")
    return fairtk.Experiment({"fair": frame}, qrels=results.qrels, measures=["EE_D@3"])


def test_equal_systems_are_said_to_be_equal(answered):
    fair = answered.rankings("fair")
    alike = fairtk.Experiment(
        {"one": fair, "two": fair}, qrels=answered.qrels, measures=["EE_D@3"], baseline="two"
    )
    text = page_text(alike)
    assert cells(text, "differences") == [["<bdi>one</bdi>", "+0.000"]]
    assert "<strong>" not in text.partition("</section>")[0]
    assert Page(text).said.count("all differences are 0") == 1


def test_a_baseline_that_was_not_named_is_said(answered):
    frames = {name: answered.rankings(name) for name in answered.systems}
    unnamed = fairtk.Experiment(frames, qrels=answered.qrels, measures=["EE_D@3"])
    assert "because no baseline was named" in Page(page_text(unnamed)).said
    page_words = Page(page_text(unnamed, baseline="fair", test="wilcoxon", correction=None)).said
    assert "no baseline was named" not in page_words
    test = "Wilcoxon signed-rank test of the pseudomedian, two-sided; p corrected: not"
    assert f"Differences from fair; {test}" in page_words


def test_sections_are_shown_as_they_are_and_kept_with_results(results, tmp_path):
    pytest.importorskip("matplotlib")
    figure = results.plot_trade_off("EE_D@3", "E(nDCG@3)")
    sections = [
        Section("Slopes <b>", ("One <b>.", "Two."), Table(["a", "n"], [["x<b>", "1.5"]], "What?")),
        Section("Drawn", figure=figure, alternative="Points & words."),
    ]
    text = page_text(results, sections=sections)
    page_words = Page(text).said
    assert "Slopes <b> One <b>. Two." in page_words and "x<b> 1.5" in page_words
    assert (
        "Points & words." in page_words and text.count('<img src="data:image/svg+xml;base64,') == 1
    )
    save_sections(tmp_path, sections)
    assert page_text(results, sections=load_sections(tmp_path)) == text
    assert load_sections(tmp_path / "nowhere") == []


def test_a_figure_without_a_text_alternative_is_refused():
    with pytest.raises(ParameterError, match="'Drawn'"):
        Section("Drawn", figure="<svg/>")


def test_settings_out_of_range(results, tmp_path):
    with pytest.raises(ParameterError, match="got 0"):
        page_text(results, cutoff=0)
    with pytest.raises(NotFoundError, match="'fiar'.*'fair'"):
        page_text(results, baseline="fiar")
    with pytest.raises(InputError):
        results.report(tmp_path / "no" / "report.html")


def test_a_report_replaces_a_file_in_one_step(answered, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    answered.report(path)
    assert path.read_text(encoding="utf-8") == page_text(answered)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
