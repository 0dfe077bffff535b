"""Results of runs in frames and files, and their tables for a paper."""

import numpy as np
import pandas as pd
import pytest
from ir_measures import P, nDCG

import fairtk
from fairtk.display import rounded_text
from fairtk.errors import NotFoundError, ParameterError, UndefinedWarning
from fairtk.experiment import open_results
from fairtk.groups import Groups, Target

QIDS = [f"q{i}" for i in range(20)]
QRELS = pd.DataFrame([(q, f"d{i}", int(i < 2)) for q in QIDS for i in range(6)])
QRELS.columns = ["qid", "docno", "label"]


def ranked(*orders):
    """Return a run: query i has the documents in the order i, counted modulo the orders."""
    rows = [
        (q, f"d{d}", float(-rank))
        for i, q in enumerate(QIDS)
        for rank, d in enumerate(orders[i % len(orders)])
    ]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


BEST, MIXED = ranked((0, 1, 2, 3)), ranked((2, 0, 1, 3), (2, 3, 0, 1), (0, 1, 2, 3))
WORST = ranked((2, 3, 4, 5), (3, 2, 4, 0), (4, 2, 3, 5), (2, 3, 5, 4), (0, 2, 3, 4))
RUNS = {"My best": BEST, "mixed_1": MIXED, "worst": WORST}


@pytest.fixture(scope="module")
def results():
    groups = Groups.from_frame(
        pd.DataFrame({"docno": [f"d{i}" for i in range(6)], "group": list("xyxyxy")}), name="color"
    )
    awrf = fairtk.AWRF(groups=groups, target=Target.uniform(groups)) @ 3
    return fairtk.evaluate(QRELS, RUNS, [P @ 2, nDCG @ 3, awrf])


def test_names_of_groups_and_targets_are_printed(results, tmp_path):
    label = "AWRF(groups='color',target='uniform')@3"
    text = str(results)
    assert [line.split("  ")[0] for line in text.splitlines()[2:5]] == list(RUNS)
    assert text.splitlines()[0].split("  ")[-1].strip() == label
    assert results.means.columns[2] == results.measures[2] == label
    for written in (results.to_csv(), results.to_markdown(), results.to_latex()):
        assert label in written and "#" not in written.replace("\\#", "")
    results.save(tmp_path)
    assert fairtk.Results.load(tmp_path).measures[2] == label
    assert set(results.config["digests"][label]) == {"groups", "target"}


def test_layouts_hold_the_same_values(results):
    long = results.counts.pivot(index="system", columns="measure", values="mean")
    pd.testing.assert_frame_equal(
        long.loc[results.systems, results.measures], results.means, check_names=False
    )
    means = results.per_query.groupby(["system", "measure"])["value"].mean()
    assert means["mixed_1", "P@2"] == pytest.approx(results.means.loc["mixed_1", "P@2"])


def test_saved_results_of_runs_are_opened(results, tmp_path):
    results.save(tmp_path)
    again = open_results(tmp_path)
    assert repr(again) == repr(results)
    pd.testing.assert_frame_equal(again.rankings("worst"), results.rankings("worst"))
    results.report(tmp_path / "page.html")
    assert "mixed_1" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_measure_is_taken_by_any_of_its_names(results):
    figure = results.plot_trade_off("AWRF@3", P @ 2)
    assert figure.axes[0].get_xlabel().startswith(results.measures[2])
    assert results.better(results.measures[2]) == results.better(nDCG @ 3) == "higher"
    with pytest.raises(NotFoundError, match="measure 'nDCG@4'"):
        results.plot_trade_off("nDCG@4", P @ 2)


def test_letters_name_the_systems_that_one_is_significantly_better_than(results):
    """P@2 of best is 1; of mixed 1/2, 0, 1 in turn (7, 7, 6): 9.5 / 20; of worst
    1/2 every fifth time: 2 / 20.
    """
    lines = results.to_latex(digits=3).splitlines()
    assert r"a & My best & \textbf{1.000}\textsuperscript{bc}" in lines[7]
    assert r"b & mixed\_1 & \underline{0.475}\textsuperscript{c}" in lines[8]
    assert lines[9].startswith("c & worst & 0.100 &")
    assert "n = 20 queries" in lines[2] and "Holm's correction over the 3 pairs" in lines[2]
    assert r"P@2 $\uparrow$" in lines[5] and lines[4] == r"\toprule"


def test_daggers_mark_better_and_worse_than_a_baseline(results):
    lines = results.to_markdown(baseline="mixed_1", test="wilcoxon", correction="none").splitlines()
    assert lines[2].startswith("| My best | **1.0000**<sup>†</sup> |")
    assert lines[3].startswith(r"| mixed\_1 | <ins>0.4750</ins> |")
    assert lines[4].startswith("| worst | 0.1000<sup>‡</sup> |")
    assert "Wilcoxon signed-rank test of the pseudomedian, two-sided, not corrected" in lines[-1]
    with pytest.raises(NotFoundError, match="'mixed'"):
        results.to_latex("mixed")
    with pytest.raises(NotFoundError, match="'z'"):
        results.to_latex(test="z")
    with pytest.raises(ParameterError, match="digits"):
        results.to_latex(digits=0)


def test_tables_are_returned_or_written(results, tmp_path):
    tables = {"csv": results.to_csv, "tex": results.to_latex, "md": results.to_markdown}
    for suffix, table in tables.items():
        path = tmp_path / f"table.{suffix}"
        assert table(path=path) is None
        assert path.read_text(encoding="utf-8") == table()
    assert results.to_csv(str(tmp_path / "more.csv")) is None
    assert (tmp_path / "more.csv").read_bytes() == (tmp_path / "table.csv").read_bytes()
    with pytest.raises(ParameterError, match="'table.tex'"):
        results.to_latex("table.tex")


def test_marks_agree_with_the_tests_of_compare():
    rng = np.random.default_rng(4)
    orders = [tuple(rng.permutation(6)) for _ in QIDS]
    runs = RUNS | {"random": ranked(*orders), "again": ranked(*orders[::-1])}
    compared = fairtk.compare(QRELS, runs, "nDCG@3", baseline="random", correction="bonferroni")
    assert compared.baseline == "random" and compared.table["run"].tolist() == list(runs)
    rows = compared.to_markdown().splitlines()[2 : 2 + len(runs)]
    for line, row in zip(rows, compared.table.itertuples(), strict=True):
        sign = "" if not row.p_corrected < 0.05 else "†" if row.difference > 0 else "‡"
        assert line.rstrip(" |").endswith(f"<sup>{sign}</sup>" if sign else line.rstrip(" |")[-1])
        assert ("<sup>" in line) == bool(sign)
    assert "Bonferroni's correction over the 4 systems" in compared.to_markdown()
    assert "Superscript letters" in compared.to_latex(pairs=True)
    assert compared.to_latex("random", pairs=True) == compared.to_latex(pairs=True)


def test_the_caption_says_how_many_tests_were_corrected_for():
    """MIXED twice: that pair has no difference, so Holm counts two of three pairs."""
    runs = {"best": BEST, "mixed": MIXED, "again": MIXED}
    table = fairtk.evaluate(QRELS, runs, "P@2")
    holm = "Holm's correction over the"
    assert f"{holm} 2 pairs of systems of a measure that can be tested, p" in table.to_latex()
    assert f"{holm} one system of a measure that can be tested, p" in table.to_latex("mixed")
    # of the first two documents best and worst differ alike for each query, so P@1 has no spread
    apart = RUNS | {"worst": ranked((2, 3, 4, 5))}
    table = fairtk.evaluate(QRELS, apart, [P @ 1, P @ 2])
    with pytest.warns(UndefinedWarning):
        text = table.to_latex()
    assert f"{holm} 2 pairs of systems of a measure that can be tested, p" in text
    table = fairtk.evaluate(QRELS, apart | {"mixed_1": BEST}, [P @ 1, nDCG @ 4])
    with pytest.warns(UndefinedWarning):
        assert "No test was possible." in table.to_latex()


def test_a_measure_of_all_queries_together_has_its_mean_and_no_test():
    askers = pd.DataFrame({"docno": QIDS, "group": ["early"] * 10 + ["late"] * 10})
    by_query = fairtk.ByGroup(P @ 2, Groups.from_frame(askers, name="askers"), by="query")
    results = fairtk.evaluate(QRELS, RUNS, [by_query, P @ 2])
    name = results.measures[0]
    reason = "cannot be tested over queries, because it compares groups of queries"
    with pytest.warns(UndefinedWarning, match=reason):
        own = results.compare("worst", margin=0.1)
    with pytest.warns(UndefinedWarning, match=reason):
        compared = fairtk.compare(QRELS, RUNS, [by_query, P @ 2], baseline="worst").table
    for table in (own, compared):
        table = table[table["measure"] == name]
        # the first ten: 4 of 10 have 1/2 and 3 have 1, 5 / 10; then 4.5 / 10. Worst: 1 / 10 twice
        assert table["mean"].tolist() == pytest.approx([0, 0.05, 0])
        assert table["n"].tolist() == [20] * 3
        assert table[["difference", "low", "p", "p_corrected", "effect"]].isna().all(axis=None)
    own = own[own["measure"] == name]
    assert own["undefined"].tolist() == [0] * 3
    assert own[["p_not_worse", "p_equivalent"]].isna().all(axis=None)
    text = results.to_markdown()
    assert "3 pairs of systems of a measure that can be tested (none for ByGroup(" in text
    assert text.count("n = 20 queries") == 1 and "queries (0 for" not in text


def test_one_system_has_nothing_to_be_better_than():
    text = fairtk.evaluate(QRELS, {"one": MIXED}, "P@2").to_latex()
    assert r"one & 0.4750 \\" in text and "Means over 20 queries." in text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.00004, 4, "<0.0001"),
        (0.00006, 4, "0.0001"),
        (-0.004, 2, ">-0.01"),
        (0.0, 4, "0.0000"),
        (-0.0, 2, "0.00"),
        (float("nan"), 4, "undefined"),
        (0.12345, 3, "0.123"),
    ],
)
def test_what_rounds_to_zero_says_so(value, digits, text):
    assert rounded_text(value, digits) == text


@pytest.mark.parametrize("measure", ["EE_R@2", "nDCG@2 * EE_R@2", "E(EE_R@1)"])
def test_an_undefined_value_has_its_reason(measure):
    """Query 2 has no useful document; a measure made of others says so in their words."""
    run = pd.DataFrame(
        [("1", "x", 2.0), ("1", "y", 1.0), ("2", "x", 2.0)], columns=["qid", "docno", "score"]
    )
    qrels = pd.DataFrame({"qid": ["1", "2"], "docno": ["x", "x"], "label": [1, 0]})
    topics = pd.DataFrame({"qid": ["1", "2"], "query": ["a", "b"]})
    with pytest.warns(UndefinedWarning):
        of_files = fairtk.evaluate(qrels, {"system": run}, [measure, "nDCG@2"])
    with pytest.warns(UndefinedWarning):
        of_pipelines = fairtk.Experiment({"system": run}, topics, qrels, [measure, "nDCG@2"])
    for results in (of_files, of_pipelines):
        [lost] = results.undefined.to_dict("records")
        assert lost["qid"] == "2" and lost["reason"] == "no useful document in the labels"
        assert lost["measure"] == results.measures[0] and lost["system"] == "system"
