"""EE_D of sampled policies is the unbiased estimate wherever the study has it."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
import rag_world
from fairtk_papers.fair_rag import plot_trade_off, save_model_sections
from fairtk_papers.fair_rag.tables import TOO_EVEN, fairness_intervals, uniform_end

from fairtk.experiment import open_results

pytest.importorskip("torch")

MODEL = {"task": "LaMP-4", "retriever": "BM25", "generator": "tiny"}


@pytest.fixture(scope="module")
def study(tmp_path_factory, finished_rag):
    folder = tmp_path_factory.mktemp("unbiased")
    shutil.copytree(finished_rag, folder, dirs_exist_ok=True)
    results = rag_world.study(folder, n_samples=2).run(keep_rankings=True)
    results.save(folder)
    return results, open_results(save_model_sections(results, folder)[0])


def test_two_samples_by_hand(study):
    """The estimate from two rankings of five documents is the share of documents in both.

    A document in both rankings has exposure 1, one in a single ranking 1/2. With m documents in
    both, the plain value is (m + 2 (5 - m) / 4) / 5 = 1/2 + m / 10. It is too large by
    (1 - EE_D) / 2 on average, so the unbiased estimate is 2 plain - 1 = m / 5.
    """
    results, saved = study
    values = results.values[results.values["measure"] == "EE_D"]
    values = values.set_index(["alpha", "qid"])["value"]
    n_checked = 0
    for system, alpha in results.settings.systems.items():
        run = saved.rankings(system)
        if "sample" not in run or run["sample"].isna().all():
            assert (values[alpha] == 1).all()  # a fixed ranking: exact
            continue
        for qid, rows in run.groupby("qid"):
            first, second = (set(rows.loc[rows["sample"] == s, "docno"]) for s in (0, 1))
            assert values[alpha, qid] == pytest.approx(len(first & second) / 5)
            n_checked += 1
    assert n_checked == 3 * values.index.get_level_values("qid").nunique()


def test_each_table_has_it(study):
    results, _ = study
    values = results.values[results.values["measure"] == "EE_D"]
    means = values.groupby("alpha")["value"].mean()
    by_policy = results.means.set_index("policy")["EE_D"]
    assert by_policy["alpha 0"] == pytest.approx(means[0.0])
    assert results.means_with_intervals()["EE_D"].iloc[0].startswith(f"{means[0.0]:.3f}")
    tables = results.tables()
    assert tables["uniform_end"]["EE_D"].iloc[0] == pytest.approx(means[0.0])
    points = values[values["alpha"].isin([0.0, 8.0])]["value"].to_numpy()
    fifths = np.floor(np.round(points * 5, 6)).astype(int)  # 5 is in no interval
    counts = np.bincount(fifths, minlength=6)[:5].tolist()
    assert tables["fairness_intervals"]["points"].tolist() == counts
    line = plot_trade_off(results.values, "EE_D", "EE_R").axes[0].get_lines()[0]
    assert line.get_xdata()[0] == pytest.approx(means[0.0])


def frame(points):
    rows = [
        {**MODEL, "alpha": alpha, "qid": qid, "measure": measure, "value": value}
        for alpha, qid, disparity, utility in points
        for measure, value in (("EE_D", disparity), ("normalized EU", utility))
    ]
    return pd.DataFrame(rows)


def sizes(**documents):
    rows = [("LaMP-4", "tiny", qid, n, 1) for qid, n in documents.items()]
    return pd.DataFrame(rows, columns=["task", "generator", "qid", "documents", "useful"])


def test_an_estimate_below_0_is_in_the_first_interval():
    points = [(0, "a", -0.05, 0.8), (0, "b", 0.1, 0.4), ("deterministic", "a", 1.0, 0.5),
              ("deterministic", "b", 1.0, 0.5)]  # fmt: skip
    table = fairness_intervals(frame(points), sizes(a=100, b=100), cutoff=5)
    assert table["points"].tolist() == [2, 0, 0, 0, 0]
    assert table["value"].iloc[0] == pytest.approx(0.6 - 0.5)  # (0.8 + 0.4) / 2
    assert table["note"].iloc[0] != TOO_EVEN


def test_an_estimate_below_the_most_even_exposure_is_named():
    # 10 candidates, 5 ranks: no policy is below .5, but an estimate can be
    points = [(0, "a", 0.35, 0.8), (0, "b", 0.5, 0.4), ("deterministic", "a", 1.0, 0.5),
              ("deterministic", "b", 1.0, 0.5)]  # fmt: skip
    table = fairness_intervals(frame(points), sizes(a=10, b=10), cutoff=5)
    assert table["points"].tolist() == [0, 1, 1, 0, 0]
    assert table["note"].iloc[0].startswith("unreachable") and TOO_EVEN in table["note"].iloc[1]


def test_one_sample_is_undefined(finished_rag, tmp_path):
    shutil.copytree(finished_rag, tmp_path, dirs_exist_ok=True)
    results = rag_world.study(tmp_path, n_samples=1, limit=2).run()
    values = results.values[results.values["measure"] == "EE_D"]
    is_fixed = values["alpha"] == "deterministic"
    assert values["value"][~is_fixed].isna().all() and (values["value"][is_fixed] == 1).all()
    assert any("`n_samples=2`" in note for note in results.notes)
    assert results.tables()["fairness_intervals"]["points"].sum() == 0
    assert np.isnan(uniform_end(results.values, results.sizes, cutoff=5)["EE_D"].iloc[0])
