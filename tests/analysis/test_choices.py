"""The order of systems under other choices: what flips the winner, and what is left alone."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from small_frames import small_groups

import fairtk
from fairtk.analysis.choices import compared, judgments
from fairtk.cli.group import cli
from fairtk.errors import InputError, NotFoundError, ParameterError


def run(rankings):
    rows = [
        (qid, docno, -float(rank))
        for qid, docnos in rankings.items()
        for rank, docno in enumerate(docnos)
    ]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


QRELS = pd.DataFrame(
    [("q", "a", 1), ("q", "b", 1), ("q", "c", 0)], columns=["qid", "docno", "label"]
)
# early: one useful document at once; late: two, from rank 2 on
RUNS = {"early": run({"q": ["a", "c", "x", "y"]}), "late": run({"q": ["c", "a", "b", "y"]})}


def row(found, choice, setting):
    (only,) = found.table[
        (found.table["choice"] == choice) & (found.table["setting"] == setting)
    ].to_dict("records")
    return only


def test_the_cutoff_flips_the_winner():
    found = fairtk.sensitivity(QRELS, RUNS, "EE_R@1", vary=["cutoff"], cutoffs=[1, 2, 3])
    assert row(found, "original", "")["winner"] == "early"
    # at 2 both show one useful document, at 3 late shows both
    two, three = row(found, "cutoff", "@2"), row(found, "cutoff", "@3")
    assert (two["winner"], two["flips"], two["discordant_pairs"]) == ("", True, 0)
    assert np.isnan(two["tau"])
    assert (three["winner"], three["flips"], three["tau"], three["discordant_pairs"]) == (
        "late", True, -1.0, 1,
    )  # fmt: skip
    assert len(found.flips) == 2 and "@1" not in set(found.table["setting"])  # as it is already
    assert found.summary.startswith("EE_R@1: early wins, but not with cutoff @2 (a tie)")


def test_a_cutoff_given_twice_stands_once():
    once, twice = (
        fairtk.sensitivity(QRELS, RUNS, "EE_R@1", vary=["cutoff"], cutoffs=cutoffs)
        for cutoffs in ([3, 2], [3, 2, 3])
    )
    pd.testing.assert_frame_equal(once.table, twice.table)


def test_settings_that_change_nothing_keep_the_order():
    found = fairtk.sensitivity(QRELS, RUNS, ["EE_R@3"], vary=["bounds", "browsing"])
    assert set(found.table["choice"]) == {"original", "bounds", "browsing"}
    exact = row(found, "bounds", "exact")
    assert (exact["tau"], exact["flips"]) == (1.0, False)
    # late: 1/log2(3) + 1/log2(4) = 1.13 of the useful; early: 1
    assert row(found, "browsing", "DCG")["winner"] == "late"


def test_labels_that_are_missing():
    # x is shown above b: if x were useful, early would win at 3 as well
    found = fairtk.sensitivity(QRELS, RUNS, "P@3", vary=["judgments"])
    assert row(found, "original", "")["winner"] == "late"
    useful = row(found, "judgments", "unjudged useful")
    assert (useful["winner"], useful["flips"]) == ("", True)  # x and a; a and b


def test_labels_by_score_by_hand():
    # scaled scores of early: a 1, c 2/3, x 1/3, y 0; of late: c 1, a 2/3, b 1/3, y 0
    # means: a 5/6, c 5/6, x 1/6, b 1/6, y 0; the median of the useful a and b is 1/2
    (_, useful), (_, by_score) = judgments(QRELS, RUNS)
    labels = by_score.set_index("docno")["label"].to_dict()
    assert labels == {"a": 1, "b": 1, "c": 0, "x": 0, "y": 0}
    assert useful.set_index("docno")["label"].to_dict() == {**labels, "x": 1, "y": 1}
    # of a query whose only retrieved useful document is b (1/6), x is useful as well
    only = QRELS.assign(label=[0, 1, 0])
    _, (_, by_score) = judgments(only, RUNS)
    assert by_score.set_index("docno")["label"].to_dict() == {
        "a": 0,
        "b": 1,
        "c": 0,
        "x": 1,
        "y": 0,
    }


def test_samples_and_gold_answers_keep_their_columns():
    sampled = pd.concat([RUNS["early"].assign(sample=i) for i in range(2)])
    gold = QRELS.assign(gold_answer="g")
    (_, useful), _ = judgments(gold, {"s": sampled})
    assert useful["gold_answer"].tolist() == ["g"] * 5
    found = fairtk.sensitivity(
        QRELS, {"s": sampled, "late": RUNS["late"]}, "E(P@3)", vary=["judgments"]
    )
    assert row(found, "original", "")["winner"] == "late"


def test_groups_targets_and_policies():
    groups = small_groups("abcy", "mmnn", "g")
    found = fairtk.sensitivity(
        QRELS, RUNS, "AWRF@2", groups=[groups], target="uniform", cutoffs=[1]
    )
    assert set(found.table["choice"]) == {
        "original", "browsing", "patience", "cutoff", "target", "unlabeled", "base", "judgments",
    }  # fmt: skip
    assert row(found, "target", "relevance")["note"] == ""
    assert set(found.table["measure"]) == {"AWRF@2"}
    impossible = row(found, "unlabeled", "unknown")
    assert "requires an unknown level" in impossible["note"] and not impossible["flips"]
    assert np.isnan(impossible["tau"])
    assert found.means["mean"].dropna().between(0, 1 + 1e-9).all()


def test_kendalls_tau_and_pairs_by_hand():
    base = np.array([0.3, 0.2, 0.1])
    # one of three pairs is in the other order: (2 - 1) / 3
    assert compared(base, np.array([0.2, 0.3, 0.1]), False) == (pytest.approx(1 / 3), 1, 1)
    assert compared(base, np.array([0.1, 0.2, 0.3]), True) == (pytest.approx(-1), 3, 0)
    assert compared(base, base, True)[2] == 2
    # a tie counts for neither side: tau-b 2 / sqrt(3 * 2)
    tau, discordant_pairs, winner = compared(base, np.array([0.2, 0.2, 0.1]), False)
    assert (tau, discordant_pairs, winner) == (pytest.approx(2 / 6**0.5), 0, -1)
    assert compared(base, np.array([0.2, 0.2, np.nan]), False)[2] == -1


def test_wrong_arguments_are_refused():
    with pytest.raises(InputError):
        fairtk.sensitivity(QRELS, [RUNS["early"]], "EE_R@1")
    with pytest.raises(NotFoundError, match="'browsing'"):
        fairtk.sensitivity(QRELS, RUNS, "EE_R@1", vary=["browsin"])
    with pytest.raises(ParameterError, match=r"must be integers of at least 1, got \[0\]"):
        fairtk.sensitivity(QRELS, RUNS, "EE_R@1", cutoffs=[0])
    with pytest.raises(InputError):
        fairtk.sensitivity(QRELS, RUNS, "AWRF@5")


def test_the_heat_map_of_the_command(tmp_path):
    fairtk.io.write_qrels(QRELS, tmp_path / "qrels.txt")
    for name, frame in RUNS.items():
        fairtk.io.write_run(frame, tmp_path / f"{name}.run")
    files = [str(tmp_path / name) for name in ("qrels.txt", "early.run", "late.run")]
    picture = tmp_path / "heat.svg"
    args = ["sensitivity", *files, "-m", "EE_R@1", "--vary", "cutoff", "--plot", str(picture)]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 0, result.stdout
    same = fairtk.sensitivity(files[0], files[1:], ["EE_R@1"], vary=["cutoff"])
    assert result.stdout.startswith(str(same).split("\n\n")[0])
    assert "<td>late (flips)</td>" in same._repr_html_()
    assert picture.read_bytes().startswith(b"<?xml")
    assert CliRunner().invoke(cli, [*args, "-k", "a"]).exit_code == 2
