"""Differences that are equal for all queries: signs decide, and only the t-test is undefined."""

import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fairtk
from fairtk import PlackettLuceExposure
from fairtk.cli.group import cli
from fairtk.errors import UndefinedWarning
from fairtk.io import write_qrels, write_run
from fairtk.statistics import paired_test
from fairtk.statistics.tests import SAME_AMOUNT, TESTS

QIDS, DOCNOS = [f"q{i}" for i in range(20)], [f"d{i}" for i in range(10)]
RUN = pd.DataFrame(
    [(qid, docno, 10.0 - i) for qid in QIDS for i, docno in enumerate(DOCNOS)],
    columns=["qid", "docno", "score"],
)
QRELS = pd.DataFrame(
    [(qid, docno, int(i < 2)) for qid in QIDS for i, docno in enumerate(DOCNOS)],
    columns=["qid", "docno", "label"],
)
RUNS = {"fixed": RUN, "uniform": PlackettLuceExposure(alpha=0, cutoff=5)(RUN)}
# EE_D@5 of a ranking: 5 documents with exposure 1, 5 / 5 = 1. Uniform: 10 documents with exposure
# 1/2, 10 * 1/4 / 5 = 1/2. So the difference is -1/2 for each of the 20 queries.
# Randomization: 2 of 2^20 sign vectors are as extreme. Wilcoxon: 20 ties with rank 10.5, V = 0,
# variance 20 * 21 * 41 / 24 - (20^3 - 20) / 48 = 551.25, z = (0 - 105 + 0.5) / sqrt(551.25) =
# -4.4508, p = 8.5535e-06.
P_VALUES = {
    "t": math.nan,
    "wilcoxon": 2 * stats.norm.cdf(-104.5 / math.sqrt(551.25)),
    "randomization": 2 / 2**20,
}


def check(row, test):
    assert row["difference"] == pytest.approx(-0.5)
    assert row["p"] == pytest.approx(P_VALUES[test], rel=1e-9, nan_ok=True)
    assert np.isnan([row["low"], row["high"], row["effect"]]).all()


@pytest.mark.parametrize("test", TESTS)
def test_in_comparisons(test):
    named = "the randomization test" if test == "t" else SAME_AMOUNT
    with pytest.warns(UndefinedWarning, match=f"EE_D@5: .* of uniform and fixed .*{named}"):
        comparison = fairtk.compare(QRELS, RUNS, "EE_D@5", test=test)
    check(comparison.table.iloc[1], test)
    with pytest.warns(UndefinedWarning, match="uniform and fixed"):
        table = fairtk.evaluate(QRELS, RUNS, "EE_D@5").compare("fixed", test=test)
    check(table.iloc[1], test)


@pytest.mark.parametrize("test", TESTS)
def test_on_the_command_line_and_pages(test, tmp_path):
    write_qrels(QRELS, str(tmp_path / "qrels.txt"))
    paths = []
    for name, run in (("fixed", RUN), ("other", RUN)):
        # the same number of documents at a useful and at a useless rank
        docs = run.assign(score=-run["score"]) if name == "other" else run
        paths.append(str(tmp_path / f"{name}.run"))
        write_run(docs, paths[-1])
    args = ["compare", str(tmp_path / "qrels.txt"), *paths, "-m", "P@2", "--test", test]
    outcome = CliRunner().invoke(cli, [*args, "--page", str(tmp_path / "page.html")])
    assert outcome.exit_code == 0, outcome.output
    significant = "(p < 0.05): other in P@2." if test != "t" else "no test was possible."
    assert significant in outcome.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "-1.000*" in page if test != "t" else "the randomization test" in page


@pytest.mark.parametrize("test", TESTS)
@given(
    n=st.integers(2, 40),
    amount=st.sampled_from([-0.5, 0.1, 1 / 3, 1e-5]),
    other=st.sampled_from([0.0, 0.3, 100.0]),
    seed=st.integers(0, 9),
)
def test_rounding_errors_are_no_differences(test, n, amount, other, seed):
    """Values of any size: their last bits neither make a standard deviation nor break ties."""
    noise = 1 + np.random.default_rng(seed).integers(-2, 3, (2, n)) * 2.0**-53
    x, y = np.full(n, other + amount) * noise[0], np.full(n, other) * noise[1]
    result = paired_test(x, y, test, resamples=99)
    exact = paired_test(np.full(n, amount), np.zeros(n), test, resamples=99)
    assert result.p == pytest.approx(exact.p, nan_ok=True)
    assert math.isnan(result.p) == (test == "t") and result.note.startswith(SAME_AMOUNT)
    assert np.isnan([result.low, result.high, result.effect]).all()
    if test == "randomization":
        assert result.p == (2 / 2**n if n <= 20 else 1 / 100)
    elif test == "wilcoxon":
        theirs = stats.wilcoxon(np.full(n, amount), correction=True, method="asymptotic")
        assert result.p == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("test", TESTS)
def test_differences_of_0_have_no_test(test):
    result = paired_test([0.1 + 0.2] * 20, [0.3] * 20, test)
    assert np.isnan([result.p, result.low, result.high, result.effect]).all()
    assert result.note == "all differences are 0"


def test_equal_differences_and_zeros():
    # the 15 differences other than 0 are equal, so the Walsh averages are, too
    result = paired_test([0.0] * 5 + [0.5] * 15, [0.0] * 20, "wilcoxon")
    assert result.p < 0.001 and math.isnan(result.low) and "equal" in result.note
    # zeros count in a randomization test: 2^5 * 2 of 2^20 sign vectors, and the interval is bounded
    result = paired_test([0.0] * 5 + [0.5] * 15, [0.0] * 20, "randomization")
    assert result.p == 2**6 / 2**20 and result.low < 0.375 < result.high
