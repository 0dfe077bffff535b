"""`fairtk.evaluate` and `fairtk.compare`: the same numbers as ir_measures and scipy."""

import ir_datasets
import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import P, nDCG
from scipy.stats import ttest_rel

import fairtk
from fairtk import EE_D, EE_R, E, plugins
from fairtk.errors import InputError, MissingWarning, NotFoundError, UndefinedWarning
from fairtk.measures import format_measure, parse
from fairtk.plugins import DatasetSpec, hookimpl

GENERATOR = np.random.default_rng(4)
QIDS, DOCNOS = [f"q{i}" for i in range(12)], [f"d{i}" for i in range(8)]


def run(seed, qids=QIDS):
    generator = np.random.default_rng(seed)
    rows = [
        (qid, docno, float(8 - place), place)
        for qid in qids
        for place, docno in enumerate(generator.permutation(DOCNOS))
    ]
    return pd.DataFrame(rows, columns=["qid", "docno", "score", "rank"])


QRELS = pd.DataFrame(
    [(qid, docno, int(GENERATOR.integers(0, 3))) for qid in QIDS for docno in DOCNOS],
    columns=["qid", "docno", "label"],
)
RUNS = {"a": run(1), "b": run(2), "c": run(3)}
NAMES = {"qid": "query_id", "docno": "doc_id", "label": "relevance"}


def values(measure, frame, qrels=QRELS):
    result = ir_measures.iter_calc(
        [measure], qrels.rename(columns=NAMES), frame.rename(columns=NAMES)
    )
    return {m.query_id: m.value for m in result}


def test_evaluate_is_ir_measures():
    result = fairtk.evaluate(QRELS, RUNS, [nDCG @ 5, "E(P@3)"])
    assert result.means.index.tolist() == list(RUNS)
    assert result.means.columns.tolist() == ["nDCG@5", "E(P@3)"]
    assert result.counts["measure"].tolist() == ["nDCG@5", "E(P@3)"] * 3
    assert (result.counts["n"] == 12).all() and (result.counts["undefined"] == 0).all()
    for name, frame in RUNS.items():
        expected = values(nDCG @ 5, frame)
        mine = result.per_query
        mine = mine[(mine["system"] == name) & (mine["measure"] == "nDCG@5")]
        assert dict(zip(mine["qid"], mine["value"], strict=True)) == pytest.approx(expected)


def test_compare_is_scipys_paired_test():
    result = fairtk.compare(QRELS, RUNS, ["nDCG@5", "P@3"], baseline="b")
    assert result.baseline == "b"
    assert result.table["run"].tolist() == ["a", "b", "c"] * 2
    raw = []
    for name in ("a", "c"):
        row = result.table.query("run == @name and measure == 'nDCG@5'").iloc[0]
        mine, base = (np.array([values(nDCG @ 5, RUNS[r])[q] for q in QIDS]) for r in (name, "b"))
        theirs = ttest_rel(mine, base)
        assert row["p"] == pytest.approx(theirs.pvalue) and row["n"] == 12
        assert row["mean"] == pytest.approx(mine.mean())
        assert row["difference"] == pytest.approx((mine - base).mean())
        assert (row["low"], row["high"]) == pytest.approx(tuple(theirs.confidence_interval()))
        raw.append((row["p"], row["p_corrected"]))
    # Holm over the two runs: the smaller times two, and the larger not below that
    (small, first), (large, second) = sorted(raw)
    assert first == pytest.approx(min(1, 2 * small))
    assert second == pytest.approx(max(large, first))
    baseline = result.table.query("run == 'b'")
    assert baseline[["difference", "low", "high", "p", "p_corrected"]].isna().all(axis=None)


def test_all_and_common_queries():
    runs = RUNS | {"c": run(3, QIDS[:9])}
    with pytest.warns(MissingWarning, match="3 of 12"):
        every = fairtk.compare(QRELS, runs, "P@3", correction=None).table
    compared = fairtk.compare(QRELS, runs, "P@3", queries="common", correction=None)
    common = compared.table
    assert every["n"].tolist() == [12] * 3 and common["n"].tolist() == [9] * 3
    assert compared.means["P@3"].tolist() == pytest.approx(common["mean"].tolist())
    result = [values(P @ 3, runs["c"]).get(qid, 0.0) for qid in QIDS]
    assert every["mean"][2] == pytest.approx(np.mean(result))
    assert common["mean"][2] == pytest.approx(np.mean(result[:9]))
    assert (common["p"].dropna() == common["p_corrected"].dropna()).all()


def test_undefined_queries_are_left_out_of_both_sides():
    qrels = QRELS.assign(label=QRELS["label"].where(QRELS["qid"] != "q3", 0))
    with pytest.warns(UndefinedWarning, match="EE_R@3"):
        table = fairtk.compare(qrels, RUNS, EE_R @ 3).table
    assert table["n"].tolist() == [11] * 3
    mine = {name: values(EE_R @ 3, frame, QRELS) for name, frame in RUNS.items()}
    qids = [qid for qid in QIDS if qid != "q3"]
    assert table["mean"][0] == pytest.approx(np.mean([mine["a"][qid] for qid in qids]))
    assert table["difference"][1] == pytest.approx(table["mean"][1] - table["mean"][0])


@pytest.mark.parametrize("test", ["t", "wilcoxon", "randomization"])
def test_equal_runs_have_nothing_to_test(test):
    with pytest.warns(UndefinedWarning, match="nDCG@5"):
        table = fairtk.compare(
            QRELS, {"a": RUNS["a"], "twin": RUNS["a"]}, "nDCG@5", test=test
        ).table
    assert table["difference"][1] == 0 and table[["p", "p_corrected"]].isna().all(axis=None)


def test_the_measures_names_are_read_back():
    measures = [E(nDCG @ 5), E(P @ 3) * EE_R @ 5, EE_R(browsing="RBP(p=0.8)") @ 5]
    result = fairtk.evaluate(QRELS, RUNS["a"], measures).measures
    assert [parse(text) for text in result] == measures
    assert format_measure(E(nDCG @ 5)) == "E(nDCG@5)"


def test_a_dataset_gives_the_labels():
    class Lab:
        @hookimpl
        def fairtk_datasets(self):
            return [DatasetSpec("toy/labels", f"{__name__}:toy_dataset", "labels")]

    lab = Lab()
    plugins.register(lab, "fairtk-lab")
    try:
        result = fairtk.evaluate("toy/labels", RUNS["a"], "nDCG@5")
        assert result.means["nDCG@5"].tolist() == [
            pytest.approx(np.mean(list(values(nDCG @ 5, RUNS["a"]).values())))
        ]
        with pytest.raises(InputError, match="'toy/labels'"):
            fairtk.evaluate("toy/label", RUNS["a"], "nDCG@5")
    finally:
        plugins.unregister(lab)


def toy_dataset(name):
    from ir_datasets.formats import BaseQrels, TrecQrel

    class Labels(BaseQrels):
        def qrels_iter(self):
            for row in QRELS.itertuples():
                yield TrecQrel(row.qid, row.docno, row.label, "0")

        def qrels_cls(self):
            return TrecQrel

    return ir_datasets.Dataset(Labels())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"baseline": "z"}, "'z'.*a, b, c"),
        ({"correction": "holms"}, "'holms'.*'holm'"),
        ({"queries": "some"}, "'some'.*all, common"),
    ],
)
def test_unknown_settings(options, message):
    with pytest.raises(NotFoundError, match=message):
        fairtk.compare(QRELS, RUNS, "P@3", **options)


def test_nothing_to_compare_or_measure():
    with pytest.raises(InputError):
        fairtk.evaluate(QRELS, [], "P@3")
    runs = {"a": run(1, QIDS[:6]), "b": run(2, QIDS[6:])}
    with pytest.raises(InputError):
        fairtk.compare(QRELS, runs, "P@3", queries="common")
    with pytest.raises(InputError, match="answers"):
        fairtk.evaluate(QRELS, RUNS, "P@3", answers=[pd.DataFrame()])


def test_margins_levels_and_plans_are_those_of_experiments():
    """The same columns, words and numbers, whichever door is taken."""
    sampled = {
        name: fairtk.FairSampler(alpha=2, n_samples=6, cutoff=5)(frame.drop(columns="rank"))
        for name, frame in RUNS.items()
    }
    measures = [EE_R @ 5, E(nDCG @ 5)]
    margin = {"EE_R@5": 0.1}
    result = fairtk.compare(QRELS, sampled, measures, margin=margin, levels=True)
    topics = pd.DataFrame({"qid": QIDS, "query": "x"})
    systems = [fairtk.identified(Given(frame), name) for name, frame in sampled.items()]
    results = fairtk.Experiment(systems, topics, QRELS, measures, names=list(sampled), baseline="a")
    wanted = results.compare(margin=margin, levels=True).rename(columns={"system": "run"})
    pd.testing.assert_frame_equal(result.table, wanted.drop(columns=["undefined", "failed"]))
    assert result.table["p_not_worse"].notna().sum() == 2  # one measure, two runs
    plan = results.queries_needed(0.05, (5, 50)).rename(columns={"system": "run"})
    pd.testing.assert_frame_equal(result.queries_needed(0.05, (5, 50)), plan)
    with pytest.raises(NotFoundError, match="measure"):
        fairtk.compare(QRELS, sampled, measures, margin={"EE_R@3": 0.1})


@pytest.mark.parametrize("apart", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_errors_of_samples_are_those_of_one_seed_and_of_others(apart):
    """Differences over 40 pairs of seeds vary as much as `error_samples` says, within a fifth.

    Runs of one seed vary together: taken to be independent, their error was half as large again.
    """
    candidates = RUNS["a"].drop(columns="rank")
    candidates = candidates[candidates["qid"].isin(QIDS[:6])]
    qrels = QRELS[QRELS["qid"].isin(QIDS[:6])]
    measures = [EE_D(estimator="unbiased") @ 3, EE_R @ 3]
    tables = []
    for seed in range(40):
        runs = {
            name: fairtk.FairSampler(alpha, n_samples=8, cutoff=3, seed=2 * seed + more)(candidates)
            for name, alpha, more in (("one", 1, 0), ("two", 2, apart))
        }
        table = fairtk.compare(qrels, runs, measures, levels=True).table
        tables.append(table[table["run"] == "two"].set_index("measure"))
    spread = np.std([table["difference"] for table in tables], axis=0, ddof=1)
    errors = np.sqrt(np.mean([table["error_samples"] ** 2 for table in tables], axis=0))
    assert errors == pytest.approx(spread, rel=0.2)
    plan = fairtk.compare(qrels, runs, measures).queries_needed(0.05, (8, 800))
    assert (plan["deviation"] >= plan["deviation_queries"]).all()


@pytest.mark.parametrize("apart", [0, 1])
def test_one_sample_varies_ten_times_as_much_as_ten(apart):
    """It was planned as two samples, without what runs of one seed share."""
    candidates = RUNS["a"].drop(columns="rank")
    runs = {
        name: fairtk.FairSampler(alpha, n_samples=8, cutoff=3, seed=seed)(candidates)
        for name, alpha, seed in (("one", 1, 1), ("two", 2, 1 + apart))
    }
    compared = fairtk.compare(QRELS, runs, [EE_R @ 3, E(nDCG @ 3), EE_D @ 3])
    plan = compared.queries_needed(0.05, (1, 10)).set_index(["measure", "n_samples"])
    for measure in ("EE_R@3", "E(nDCG@3)"):
        rows = plan.loc[measure]
        of_samples = rows["deviation"] ** 2 - rows["deviation_queries"] ** 2
        assert of_samples[1] == pytest.approx(10 * of_samples[10])
    # EE_D is a mean over pairs of samples
    assert np.isnan(plan.loc[("EE_D@3", 1), "queries"]) and plan.loc[("EE_D@3", 10), "queries"] > 1


class Given(pt.Transformer):
    """Gives the rows of a run."""

    def __init__(self, frame):
        self.frame = frame

    def transform(self, inp):
        return inp[["qid", "query"]].merge(self.frame, on="qid")
