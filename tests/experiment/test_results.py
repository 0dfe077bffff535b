"""Results: comparisons, tables, figures, saved and loaded."""

import gc
import json

import numpy as np
import pandas as pd
import pytest
from experiment_stages import Retriever
from ir_measures import nDCG

import fairtk
from fairtk import EE_D, EE_R, E, FairSampler
from fairtk.errors import NotFoundError, ParameterError, StoreError
from fairtk.statistics import (
    equivalence_test,
    non_inferiority_test,
    queries_needed,
)


@pytest.fixture(scope="module")
def results(data):
    topics, qrels = data
    systems = {
        "a_b & <i>": Retriever(),
        "fair": Retriever() >> FairSampler(alpha=1, n_samples=5),
        "other": Retriever(seed=3) >> FairSampler(alpha=0, n_samples=3),
    }
    labels = qrels.assign(label=qrels["label"].where(qrels["qid"] != "q2", 0))
    with pytest.warns(fairtk.errors.UndefinedWarning):
        return fairtk.Experiment(
            systems, topics, labels, [EE_D @ 3, EE_R @ 3, E(nDCG @ 3)], baseline=0
        )


def test_margins_are_tests_in_the_direction_of_the_measure(results):
    table = results.compare(margin={"EE_D@3": 0.1, "E(nDCG@3)": 0.2})
    wide = results.per_query.pivot(index=["measure", "qid"], columns="system", values="value")
    for measure, better, margin in (("EE_D@3", "lower", 0.1), ("E(nDCG@3)", "higher", 0.2)):
        own = wide.loc[measure].dropna()
        row = table[(table["measure"] == measure) & (table["system"] == "fair")].iloc[0]
        pair = own["fair"], own["a_b & <i>"]
        assert row["p_not_worse"] == non_inferiority_test(*pair, margin, better=better).p
        assert row["p_equivalent"] == equivalence_test(*pair, margin).p
    assert table[table["measure"] == "EE_R@3"]["p_equivalent"].isna().all()
    with pytest.raises(NotFoundError, match="measure"):
        results.compare(margin={"EE_D@5": 0.1})
    with pytest.raises(ParameterError, match="margin"):
        results.compare(margin=0)


def test_levels_tell_samples_from_queries(results, data):
    table = results.compare(levels=True).set_index(["measure", "system"])
    # EE_R of "fair" has sampling errors, those that precision finds; the baseline is not sampled
    _, qrels = data
    labels = qrels.assign(label=qrels["label"].where(qrels["qid"] != "q2", 0))
    run = results.rankings("fair")
    with pytest.warns(fairtk.errors.UndefinedWarning):
        found = fairtk.precision(labels, run, EE_R @ 3)
    row = table.loc["EE_R@3", "fair"]
    assert row["error_samples"] == pytest.approx(found.means["error"][0])
    half = (row["high_samples"] - row["low_samples"]) / 2
    assert half == pytest.approx(1.959964 * row["error_samples"], rel=1e-5)
    assert row["error_queries"] >= 0
    assert table.loc["EE_R@3", "a_b & <i>"][["error_samples", "low_samples"]].isna().all()
    # three samples are too few to know how EE_D varies
    assert np.isnan(table.loc["EE_D@3", "other"]["error_samples"])


def test_queries_needed_fall_with_the_samples(results):
    plan = results.queries_needed(0.05, (2, 50), power=0.9)
    own = plan[(plan["measure"] == "EE_R@3") & (plan["system"] == "fair")]
    assert own["n_samples"].tolist() == [2, 50]
    few, many = own["queries"]
    assert few >= many >= 2
    assert (own["deviation"] >= own["deviation_queries"]).all()
    for row in own.itertuples():
        assert row.queries == queries_needed(0.05, row.deviation, power=0.9)


def test_compare_needs_a_baseline():
    none = fairtk.Experiment({"a": pd.DataFrame({"qid": ["q"]})}, pd.DataFrame({"qid": ["q"]}))
    with pytest.raises(ParameterError):
        none.compare()


def test_tables_are_escaped_and_say_what_is_undefined(results):
    assert r"a\_b \& $<$i$>$" in results.to_latex()
    assert "a_b &amp; &lt;i&gt;" in results._repr_html_()
    assert "<i>" not in results._repr_html_()
    drawn = len(results.systems) * len(results.measures)
    assert results._repr_html_().count("<svg") == drawn
    assert r"a\_b" in results.to_markdown()
    for text in (results.to_latex(), results.to_markdown()):
        assert "undefined: 1" in " ".join(text.replace("\\", "").split())
    for text in (repr(results), results._repr_html_()):
        assert "(11/12)" in text and "n = 12 queries" in text
    table = pd.read_csv(pd.io.common.StringIO(results.to_csv()))
    assert list(table.columns) == ["system", "measure", "mean", "n", "undefined", "failed"]
    np.testing.assert_array_equal(table["mean"].to_numpy(), results.counts["mean"].to_numpy())


def test_trade_off(results):
    pytest.importorskip("matplotlib")
    figure = results.plot_trade_off("EE_D@3", "E(nDCG@3)")
    axes = figure.axes[0]
    assert "EE_D@3 (lower is better)" in axes.get_xlabel()
    assert [label for _, label in axes.artists[0].labels] == results.systems


def test_saved_and_loaded_they_are_compared_alike(results, tmp_path):
    results.save(tmp_path / "out")
    loaded = fairtk.Results.load(tmp_path / "out")
    assert repr(loaded) == repr(results)
    pd.testing.assert_frame_equal(loaded.per_sample, results.per_sample)
    pd.testing.assert_frame_equal(loaded.compare(), results.compare())
    environment = json.loads((tmp_path / "out" / "environment.json").read_text())
    assert environment["packages"]["pandas"] == pd.__version__
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        results.save(tmp_path / "file")


def test_saved_results_need_no_groups_until_they_are_measured_again(tmp_path):
    docs = list("abcd")
    groups = fairtk.Groups.from_frame(
        pd.DataFrame({"docno": docs, "group": ["x", "y"] * 2, "weight": 1.0}), name="side"
    )
    measure = fairtk.AWRF(groups=groups, target=fairtk.Target.uniform(groups)) @ 3
    run = pd.DataFrame({"qid": "q", "docno": docs, "score": [4.0, 3.0, 2.0, 1.0]})
    qrels = run[["qid", "docno"]].assign(label=1)
    results = fairtk.Experiment({"one": run, "two": run[::-1]}, qrels=qrels, measures=[measure])
    results.save(tmp_path)
    means = results.means
    del results, measure, groups  # now the groups are not known
    gc.collect()
    loaded = fairtk.Results.load(tmp_path)
    pd.testing.assert_frame_equal(loaded.means, means)
    assert loaded.better(loaded.measures[0]) == "higher"
    assert loaded.better("AWRF@3") == loaded.better("AWRF(groups='side')@3") == "higher"
    loaded.save(tmp_path / "again")
    config = (tmp_path / "config.json").read_bytes()
    assert (tmp_path / "again" / "config.json").read_bytes() == config
    with pytest.raises(ParameterError, match="'side'"):
        _ = loaded.per_sample


def test_what_to_cite():
    demo = fairtk.demo.load()
    bm25 = fairtk.Candidates(demo.dataset) >> fairtk.BM25Scorer()
    results = fairtk.Experiment(
        {"fair": bm25 >> fairtk.FairSampler(n_samples=2, cutoff=2)},
        demo.topics.head(2),
        demo.qrels,
        ["EE_D@2"],
    )
    for key in ("fairtk", "robertson2009probabilistic", "kim2024fairrag", "diaz2020evaluating"):
        assert f"{{{key}," in results.cite()
