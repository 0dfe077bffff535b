"""The parts of the LaMP study: labels by word overlap, sampling error, reasons for flat queries."""

import lamp_folder
import numpy as np
import pandas as pd
import pytest


def test_words_leave_stop_words_and_single_letters_out():
    assert lamp_folder.words("It's THE king's plan: a 3-day B-side!") == {
        "kings",
        "plan",
        "3",
        "day",
        "side",
    }


def test_labels_need_two_shared_words_or_all_of_one():
    run = pd.DataFrame(
        {
            "qid": ["1", "1", "1", "2", "2"],
            "docno": ["a", "b", "c", "d", "e"],
            "question": ["q"] * 5,
            "text": ["red boat", "red red", "the boat", "a moon", "sun"],
            "title": ["old", "car", "Red!", "", ""],
        }
    )
    answers = pd.DataFrame({"qid": ["1", "2"], "gold_answer": ["The red boat sails", "Moon"]})
    labels = lamp_folder.overlap_labels(run, answers, 4, ["text", "title"], 2)
    # b repeats one word, c has the second in its title, d has all there is
    assert labels["label"].tolist() == [1, 0, 1, 1, 0]
    assert labels["gold_answer"].tolist() == ["The red boat sails"] * 3 + ["Moon"] * 2


def test_the_target_of_task_1_is_the_title_of_the_right_reference():
    question = (
        'For an author who has written the paper with the title "X", which reference is related? '
        'Just answer with [1] or [2] without explanation. [1]: "Deep boats" [2]: "Shallow water"'
    )
    assert lamp_folder.target_words(1, question, "[2]") == {"shallow", "water"}
    assert lamp_folder.target_words(1, question, "[1]") == {"deep", "boats"}


def test_the_jackknife_is_leaving_one_ranking_out():
    """Two documents of three are read; three rankings: {a, b}, {a, b}, {a, c}."""
    rows = [(0, "a", 0), (0, "b", 1), (1, "b", 0), (1, "a", 1), (2, "a", 0), (2, "c", 1)]
    frame = pd.DataFrame(rows, columns=["sample", "docno", "rank"]).assign(qid="q")
    left_out = lamp_folder.jackknife(frame, cutoff=2)
    # without 0 or 1: e = (1, 1/2, 1/2), squared norm 1.5, by 2; without 2: e = (1, 1, 0), 2 by 2
    assert left_out.loc["q"].tolist() == pytest.approx([0.75, 0.75, 1.0])
    # sqrt((n - 1) * population variance) = sqrt(2 * (2 * (1/12)^2 + (1/6)^2) / 3) = 1/6
    assert lamp_folder.standard_error(left_out)["q"] == pytest.approx(1 / 6)


def test_the_jackknife_agrees_with_the_measure():
    import ir_measures

    from fairtk import EE_D, FairSampler

    rng = np.random.default_rng(3)
    run = pd.DataFrame({"qid": np.repeat(["1", "2"], [9, 3]), "docno": [*"abcdefghi", *"xyz"]})
    run = FairSampler(alpha=3, n_samples=8, cutoff=4)(run.assign(score=rng.normal(size=12)))
    names = {"qid": "query_id", "docno": "doc_id"}
    qrels = run[["qid", "docno"]].drop_duplicates().assign(relevance=0).rename(columns=names)
    left_out = lamp_folder.jackknife(run, cutoff=4)
    for sample in range(8):
        rest = run[run["sample"] != sample].rename(columns=names)
        for value in ir_measures.iter_calc([EE_D @ 4], qrels, rest):
            assert left_out.loc[value.query_id, sample] == pytest.approx(value.value, abs=1e-12)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ([3, 2, 1], "not more than the 5"),
        ([0] * 8, "all 8 scores are equal"),
        ([2] * 6 + [1], "6 of 7 candidates share the best score"),
        ([7, 6, 5, 4, 3, 2, 1], "within sampling error"),
    ],
)
def test_why_flat(scores, reason):
    assert reason in lamp_folder.why_flat(pd.Series(scores, dtype=float), 5)
