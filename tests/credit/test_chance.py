"""Statistics that chance alone moves away from their boundary: by chance, and coverage."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fairtk import EU
from fairtk.cli.group import cli
from fairtk.credit import providers, query_gain
from fairtk.credit.amortized import SUMMARY, expansion, noise_interval
from fairtk.io import write_qrels, write_run

NAMES = [f"p{i}" for i in range(8)]
OWNERS = pd.DataFrame({"docno": NAMES, "group": NAMES})
EQUAL = {"amortized": 0.0, "gini": 0.0, "top": 1 / 8, "minimum": 1 / 8}


def alike(n, seed):
    """Return labels and a run in which each provider has one document per query."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"qid": np.repeat([f"q{i}" for i in range(n)], 8), "docno": NAMES * n})
    label = (rng.random(8 * n) < 0.5).astype(int)
    return frame.assign(label=label), frame.assign(score=rng.random(8 * n))


def summaries(n, n_draws, resamples=200):
    tables = [
        providers(*alike(n, seed), OWNERS, cutoff=5, resamples=resamples, seed=seed).summary
        for seed in range(n_draws)
    ]
    return pd.concat(tables).groupby("name"), pd.concat(tables).set_index("name")


def test_providers_that_are_treated_alike():
    """In 24 draws the mean value is that by chance, and the intervals contain the true value."""
    by_name, rows = summaries(30, 24)
    means = by_name[["value", "chance"]].mean()
    for name, truth in EQUAL.items():
        assert means["chance"][name] == pytest.approx(means["value"][name], rel=0.15)
        part = rows.loc[name]
        # 24 intervals with coverage .90: at least 17 with probability .998
        assert ((part["low"] <= truth) & (truth <= part["high"])).sum() >= 17
    assert (means["value"]["amortized"] > 0.1) and (rows.loc["amortized", "low"] == 0).mean() > 0.7


def test_provider_that_gets_all_exposure():
    qrels, run = alike(60, 1)
    run.loc[run["docno"] == "p0", "score"] += 2  # always first
    summary = providers(qrels, run, OWNERS, cutoff=1).summary.set_index("name")
    # p0 has all, merit is near 1/8 each: 7/8 + 7 * 1/8
    assert summary["value"]["amortized"] == pytest.approx(1.75, abs=0.2)
    assert summary["chance"]["amortized"] < 0.3 < summary["low"]["amortized"]


def test_chance_is_printed(tmp_path):
    qrels, run = alike(10, 2)
    write_qrels(qrels, str(tmp_path / "qrels.txt"))
    write_run(run, str(tmp_path / "a.run"))
    OWNERS.to_csv(tmp_path / "owners.tsv", sep="\t", index=False)
    args = ["providers", *(str(tmp_path / name) for name in ("qrels.txt", "a.run"))]
    outcome = CliRunner().invoke(cli, [*args, "--providers", str(tmp_path / "owners.tsv")])
    assert outcome.exit_code == 0, outcome.output
    chance = providers(qrels, run, OWNERS).summary.set_index("name")["chance"]["amortized"]
    line = next(line for line in outcome.stdout.splitlines() if line.startswith("amortized"))
    assert line.split()[2] == f"{chance:.4f}"


def test_chance_of_two_queries_by_hand():
    # cutoff 1: query 1 shows a, query 2 shows b; both merit 1/2. Exchanged, the same provider is
    # shown twice in half of the samples: amortized 1 with shares (1, 0), 0 with (1/2, 1/2)
    qrels = pd.DataFrame({"qid": list("1122"), "docno": list("abab"), "label": 1})
    run = pd.DataFrame({"qid": list("1122"), "docno": list("abba"), "score": [2.0, 1, 2, 1]})
    owners = pd.DataFrame({"docno": list("ab"), "group": list("ab")})
    summary = providers(qrels, run, owners, cutoff=1, resamples=4000).summary.set_index("name")
    assert summary["chance"]["amortized"] == pytest.approx(1 / 2, abs=0.03)
    # the Gini coefficient of (1, 0) is 1/2
    assert summary["chance"]["gini"] == pytest.approx(1 / 4, abs=0.02)
    assert summary["chance"]["top"] == pytest.approx(3 / 4, abs=0.02)
    assert summary["chance"]["minimum"] == pytest.approx(1 / 4, abs=0.02)
    assert list(summary.index) == list(SUMMARY)


def test_noise_interval_by_hand():
    noise = np.arange(101) / 100  # its .95 quantile is .95
    assert noise_interval(0.5, [noise], 0.95, (0.0, 9.0)) == (0.0, pytest.approx(1.45), "")
    assert noise_interval(2.0, [noise], 0.95, (0.0, 2.0)) == (pytest.approx(1.05), 2.0, "")
    low, _, note = noise_interval(0.5, [np.zeros(9)], 0.95, (0.0, 2.0))
    assert np.isnan(low) and "equal values" in note
    # sqrt(10 / 9) * 2.2622 / 1.9600
    assert expansion(10, 0.95) == pytest.approx(1.2166, abs=1e-4)


def gains(n, shift, seed):
    rng = np.random.default_rng(seed)
    qids, group = [f"q{i}" for i in range(n)], np.arange(n) % 3
    answers = pd.DataFrame({"qid": qids, "docno": "d", "score": 1.0, "rank": 0})
    helped = rng.random(n) < 0.5 + shift * (group == 2)
    return query_gain(
        answers[["qid", "docno"]].assign(label=1, gold_answer="yes"),
        answers.assign(qanswer=np.where(helped, "yes", "no")),
        answers.assign(qanswer="no"),
        pd.DataFrame({"qid": qids, "group": group.astype(str)}),
        EU(utility="em"),
        resamples=200,
        seed=seed,
    ).comparison.set_index("name")


def test_equal_gains():
    """In 24 draws the mean difference is that by chance, and the intervals contain 0."""
    rows = [gains(45, 0.0, seed).loc["difference"] for seed in range(24)]
    value, chance = (np.mean([row[name] for row in rows]) for name in ("value", "chance"))
    assert value > 0.1 and chance == pytest.approx(value, rel=0.15)
    assert sum(row["low"] == 0 for row in rows) >= 17


def test_unequal_gains():
    comparison = gains(300, 0.5, 1)
    difference = comparison.loc["difference"]
    assert difference["chance"] < 0.2 < difference["low"] < 0.5 < difference["high"]
    assert np.isnan(comparison["low"]["ratio"]) and comparison["note"]["ratio"]
    assert 0.6 < comparison["chance"]["ratio"] < 1
