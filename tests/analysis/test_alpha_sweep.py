"""Trade-offs over alpha: exact curves, who is dominated, areas, equal utility."""

import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from ir_measures import calc_aggregate
from small_frames import small_groups

import fairtk
from fairtk import EE_D, EE_R, FairSampler
from fairtk.analysis.alpha_sweep import dominated, price
from fairtk.cli.group import cli
from fairtk.errors import DataWarning, InputError, NotFoundError, ParameterError

DOCS = [f"d{i}" for i in range(8)]


def run(seed, n=12):
    generator = np.random.default_rng(seed)
    rows = [(f"q{q}", d, float(generator.normal() + useful(q, d))) for q in range(n) for d in DOCS]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def useful(query, docno):
    return int((query + int(docno[1:])) % 3 == 0)


QRELS = pd.DataFrame(
    [(f"q{q}", d, useful(q, d)) for q in range(12) for d in DOCS],
    columns=["qid", "docno", "label"],
)


def test_points_that_are_dominated():
    # lower x and higher y are better: (2, 1) loses to (1, 1); (3, 3) has the best y
    x, y = np.array([1.0, 2.0, 3.0, 1.0, np.nan]), np.array([1.0, 1.0, 3.0, 1.0, 9.0])
    assert dominated(x, y, [True, False]).tolist() == [False, True, False, False, False]
    assert dominated(x, y, [False, False]).tolist() == [True, True, False, True, False]


def test_a_gap_of_rounding_is_equality():
    # x differs by 1e-9, which is none: the first is as good there and better in y; a gap of 2e-9
    # is one, and makes both points ends of the curve
    y, lower = np.array([1.0, 0.0]), [True, False]
    assert dominated(np.array([1e-9, 0.0]), y, lower).tolist() == [False, True]
    assert dominated(np.array([2e-9, 0.0]), y, lower).tolist() == [False, False]
    # likewise in y: the first is better in x, and by 1e-9 no worse in y
    x = np.array([0.0, 1.0])
    assert dominated(x, np.array([0.0, 1e-9]), lower).tolist() == [False, True]
    assert dominated(x, np.array([0.0, 2e-9]), lower).tolist() == [False, False]
    # equal in both: neither is better
    assert dominated(np.array([0.0, 1e-9]), np.array([1e-9, 0.0]), lower).tolist() == [False] * 2


def test_the_price_of_a_level_by_hand():
    x, y = np.array([[0.0, 1.0, 2.0]]), np.array([[0.0, 2.0, 1.0]])
    # y is 1 half way to the first peak, where x is 1/2; it never is 3; 2 at the peak
    assert price(x, y, 1.0, [True, False]) == pytest.approx([0.5])
    assert np.isnan(price(x, y, 3.0, [True, False])).all()
    assert price(x, y, 2.0, [True, False]) == pytest.approx([1.0])
    # where higher is better in x: the last place at which y is still 1
    assert price(x, y, 1.0, [False, False]) == pytest.approx([2.0])
    # where lower is better in y: at most 1 up to x = 1/2
    assert price(x, y, 1.0, [True, True]) == pytest.approx([0.0])


def test_the_curve_is_exact():
    outcome = fairtk.frontier(QRELS, {"one": run(1)}, alphas=[0, 2], resamples=20)
    curve = outcome.curve
    assert curve["alpha"].tolist() == [0, 2, np.inf]
    # uniform: every document is read with 5/8, so EE-D is 8 (5/8)^2 of 5
    assert curve["x"].iloc[0] == pytest.approx(8 * (5 / 8) ** 2 / 5, abs=1e-9)
    assert curve["x"].iloc[-1] == pytest.approx(1.0)
    drawn = FairSampler(alpha=2, n_samples=3000, cutoff=5).transform(run(1))
    sampled = calc_aggregate([EE_D @ 5, EE_R @ 5], QRELS, drawn)
    assert curve["x"].iloc[1] == pytest.approx(sampled[EE_D @ 5], abs=2e-3)
    assert curve["y"].iloc[1] == pytest.approx(sampled[EE_R @ 5], abs=5e-3)
    assert ((curve["y_low"] <= curve["y"]) & (curve["y"] <= curve["y_high"])).all()
    # a single ranking has EE_D 1 for every query
    assert np.isnan(curve["x_low"].iloc[-1]) and curve["note"].iloc[-1].startswith(
        "no interval of x"
    )
    assert (outcome.n, len(outcome.equal)) == (12, 0)


def test_two_retrievers_and_a_sampled_run():
    worse = run(1).assign(score=-run(1)["score"])
    sampled = FairSampler(alpha=0, n_samples=50, cutoff=5).transform(run(2))
    runs = {"good": run(1), "bad": worse, "even": sampled}
    outcome = fairtk.frontier(QRELS, runs, alphas=[0, 1, 4], resamples=100)
    behind = set(outcome.curve.loc[outcome.curve["dominated"], "system"])
    assert "bad" in behind  # of "good" the uniform policy may be, by an estimate that is below it
    # at alpha 0 all three are the uniform policy, "even" by an estimate; elsewhere the reversed run
    # loses
    bad = outcome.curve[outcome.curve["system"] == "bad"]
    assert bad["dominated"].tolist()[1:] == [True, True, True]
    assert (outcome.curve["system"] == "even").sum() == 1
    # the reversed run is never better than the uniform policy, the other one never worse
    assert "good and bad reach no common value of EE_R@5" in outcome.summary
    areas = outcome.areas.set_index("system")
    assert list(areas.index) == ["good", "bad"]
    assert areas.loc["good", "area"] > areas.loc["bad", "area"]
    assert (areas["low"] <= areas["area"]).all() and (areas["area"] <= areas["high"]).all()
    (pair,) = outcome.area_differences.to_dict("records")
    assert (pair["one"], pair["other"]) == ("good", "bad")
    difference = areas.loc["bad", "area"] - areas.loc["good", "area"]
    assert pair["difference"] == pytest.approx(difference)
    assert pair["low"] <= difference <= pair["high"] < 0
    assert f"area of bad minus area of good: {difference:+.4f} [" in outcome.summary


def test_areas_and_their_differences_are_of_the_same_draws():
    """By hand for two queries: each resample is (2, 0), (1, 1) or (0, 2) of them."""
    runs = {"one": run(1), "two": run(3)}
    qrels = QRELS[QRELS["qid"].isin(["q0", "q1"])]
    outcome = fairtk.frontier(qrels, runs, alphas=[0, 2], resamples=100)
    gaps = []
    for qids in (["q0"], ["q1"], ["q0", "q1"]):
        own = fairtk.frontier(
            qrels[qrels["qid"].isin(qids)], runs, alphas=[0, 2], resamples=2
        ).areas["area"]
        gaps.append(own[1] - own[0])
    pair = outcome.area_differences.iloc[0]
    assert pair["difference"] == pytest.approx(gaps[2])
    # a quarter of the draws has one query twice
    assert sorted([pair["low"], pair["high"]]) == pytest.approx([min(gaps), max(gaps)])


def test_equal_utility():
    # scores that follow usefulness well, and less so
    runs = {"one": run(1), "two": run(1).assign(score=lambda r: r["score"] + 0.0)}
    outcome = fairtk.frontier(QRELS, runs, alphas=[0, 1, 2, 4], resamples=10)
    assert len(outcome.equal) == 3
    # the same run: the same price in every resample
    assert outcome.equal["difference"].to_numpy() == pytest.approx(0.0)
    assert outcome.equal["low"].isna().all() and outcome.equal["note"].str.contains("equal").all()
    sweep = fairtk.frontier(QRELS, runs, alphas=[0, 4], resamples=10, levels=[2.0])
    assert np.isnan(sweep.equal["x_one"]).all()


def test_awrf_and_ndcg_have_their_own_exposure():
    groups = small_groups(DOCS, ["m", "n"] * 4, "g")
    outcome = fairtk.frontier(
        QRELS, [run(1)], "AWRF@5", "E(nDCG@5)", alphas=[0, 3], groups=[groups],
        target="uniform", resamples=10,
    )  # fmt: skip
    assert outcome.measures == ["AWRF(groups='g',target='uniform')@5", "E(nDCG@5)"]
    assert outcome.curve["x"].iloc[0] == pytest.approx(1.0)  # even exposure of four and four
    assert outcome.curve["y"].is_monotonic_increasing


def answers(alpha, n=60):
    drawn = FairSampler(alpha=alpha, n_samples=n, cutoff=2, seed=7).transform(run(1))
    first = drawn.sort_values("rank").groupby(["qid", "sample"])["docno"].first()
    answers_of_keys = {
        key: "yes" if useful(int(key[0][1:]), docno) else "no" for key, docno in first.items()
    }
    keys = zip(drawn["qid"], drawn["sample"], strict=True)
    return drawn.assign(qanswer=[answers_of_keys[key] for key in keys])


def test_utility_from_answers_that_are_there():
    gold = QRELS.assign(gold_answer="yes")
    outcome = fairtk.frontier(
        gold, {"one": run(1)}, "EE_D@2", "EU(utility='accuracy')", alphas=[1, 2, 3],
        answers={"one": {1: answers(1), 3: answers(3)}}, cutoff=2, resamples=20,
    )  # fmt: skip
    assert outcome.curve["alpha"].tolist() == [1, 2, 3]  # no deterministic ranking
    expected = fairtk.off_policy_utility(
        gold, {1: answers(1), 3: answers(3)}, run(1), [2], "accuracy", 2
    )
    assert outcome.curve["y"].iloc[1] == pytest.approx(expected.means["value"].iloc[0])
    assert outcome.curve["y"].is_monotonic_increasing


def test_wrong_input_is_refused():
    gold = QRELS.assign(gold_answer="yes")
    with pytest.raises(InputError, match="'one'"):
        fairtk.frontier(gold, {"one": run(1)}, y="EU(utility='accuracy')")
    with pytest.raises(NotFoundError, match="'P@5'"):
        fairtk.frontier(QRELS, [run(1)], y="P@5")
    with pytest.raises(ParameterError, match="EE_D.*'MU'.*EE_D@5"):
        fairtk.frontier(QRELS, [run(1)], x="EE_D")
    with pytest.raises(ParameterError):
        fairtk.frontier(QRELS, [run(1)], alphas=[])
    with pytest.raises(ParameterError, match="0.*1"):
        fairtk.frontier(QRELS, [run(1)], confidence=95)
    with pytest.raises(InputError, match="alpha"):
        fairtk.frontier(QRELS, [run(1)], alphas=[-1])


def test_the_figure_of_the_command(tmp_path):
    fairtk.io.write_qrels(QRELS, tmp_path / "qrels.txt")
    fairtk.io.write_run(run(1), tmp_path / "one.run")
    files = [str(tmp_path / name) for name in ("qrels.txt", "one.run")]
    picture = tmp_path / "f.svg"
    args = ["frontier", *files, "-a", "0", "-a", "2", "--resamples", "20"]
    result = CliRunner().invoke(cli, [*args, "--plot", str(picture)])
    same = fairtk.frontier(*files, alphas=[0, 2], resamples=20)
    assert f"{same}\n" == result.stdout and "<td>one</td>" in same._repr_html_()
    assert picture.read_bytes().startswith(b"<?xml")
    for wrong in (["--alpha", "a"], ["--answers", "1=x"], ["--answers", "no:1=x"]):
        assert CliRunner().invoke(cli, [*args, *wrong]).exit_code == 2


def test_the_command_reads_answers(tmp_path):
    fairtk.io.write_qrels(QRELS.assign(gold_answer="yes"), tmp_path / "qrels.tsv")
    fairtk.io.write_run(run(1), tmp_path / "one.run")
    fairtk.io.write_run(answers(2), tmp_path / "two.parquet")
    result = CliRunner().invoke(
        cli,
        ["frontier", str(tmp_path / "qrels.tsv"), str(tmp_path / "one.run"), "-x", "EE_D@2", "-y",
         "EU(utility='accuracy')", "--answers", f"2={tmp_path / 'two.parquet'}", "--cutoff", "2",
         "-a", "1.5", "-a", "2", "--resamples", "10", "--format", "csv"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "one,1.5," in result.output


def test_numbers_of_documents_are_compared_as_in_evaluate():
    # with a cutoff of 3, each query has three useful documents or more, so n changes no target
    shorter = run(2).groupby("qid").head(6)
    labels = QRELS.groupby("qid").head(5)
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        fairtk.frontier(labels, {"a": run(1), "b": shorter}, y="EE_R@1", alphas=[0], resamples=5)
    assert not records
    with pytest.warns(DataWarning, match="EE_R@5: systems have different numbers n"):
        fairtk.frontier(labels, {"a": run(1), "b": shorter}, alphas=[0], resamples=5)


def test_a_cutoff_of_zero_is_refused():
    with pytest.raises(ParameterError, match="cutoff"):
        fairtk.frontier(
            QRELS.assign(gold_answer="yes"), {"one": run(1)}, x="EE_D@2",
            y="EU(utility='accuracy')", answers={"one": {2: answers(2)}}, alphas=[2], cutoff=0,
        )  # fmt: skip


def test_a_cutoff_is_for_utility_only():
    with pytest.raises(ParameterError, match="only valid for EU"):
        fairtk.frontier(QRELS, {"one": run(1)}, cutoff=10)
    assert fairtk.frontier(QRELS, {"one": run(1)}, alphas=[0], resamples=5, cutoff=5).n == 12
