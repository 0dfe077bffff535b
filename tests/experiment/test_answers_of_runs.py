"""Answers and gold answers that do not fit the run or the labels."""

import pandas as pd
import pytest

import fairtk
from fairtk.errors import DataWarning, DuplicateError, InputError, NotFoundError
from fairtk.remarks import OTHER_ANSWERS

EM = ["EU(utility='em')"]
QIDS = ["1", "2", "3", "4"]
RUN = pd.DataFrame({"qid": QIDS, "docno": "a", "score": 1.0})
QRELS = RUN[["qid", "docno"]].assign(label=1)
GOLD = pd.DataFrame({"qid": QIDS, "gold_answer": ["v", "w", "x", "y"]})
LABELED = QRELS.merge(GOLD)
ANSWERS = pd.DataFrame({"qid": QIDS, "qanswer": ["v", "w", "n", "n"]})  # two of four are right
SAMPLED = pd.concat([RUN.assign(sample=sample) for sample in (0, 1)])
OF_SAMPLES = pd.concat([ANSWERS.assign(sample=sample) for sample in range(5)])


def evaluate(answers, run=RUN, **options):
    return fairtk.evaluate(LABELED, {"r": run}, EM, answers=answers, **options)


@pytest.mark.parametrize(
    ("answers", "run", "place"),
    [
        (pd.concat([ANSWERS, ANSWERS[2:3]]), RUN, "'3'"),
        (pd.concat([ANSWERS.assign(sample=0), ANSWERS[:1].assign(sample=0)]), RUN, "'1', sample 0"),
        (pd.concat([OF_SAMPLES, OF_SAMPLES[5:6]]), SAMPLED, "'2', sample 1"),
    ],
)
def test_two_answers_for_a_ranking(answers, run, place):
    with pytest.raises(DuplicateError, match=f"answers of r: .*qid {place}"):
        evaluate(answers, run)


def test_answers_of_other_rankings_are_named():
    others = pd.DataFrame({"qid": ["8", "9"], "qanswer": "x"})
    with pytest.warns(DataWarning, match="2 of 6 answers .qid '8'; qid '9'") as caught:
        results = evaluate(pd.concat([ANSWERS, others]))
    assert [one.kind for one in results.remarks] == [OTHER_ANSWERS] and len(caught) == 1
    assert results.means.iloc[0, 0] == 0.5
    # 4 queries with 3 samples that the run does not have: 12 of 20
    with pytest.warns(DataWarning, match="12 of 20 answers .qid '1', sample 2;"):
        assert evaluate(OF_SAMPLES, SAMPLED).means.iloc[0, 0] == 0.5


@pytest.mark.parametrize(
    ("answers", "run", "expected"),
    [
        (ANSWERS.assign(qid=["5", "6", "7", "8"]), RUN, "'1'.*'5'"),
        (OF_SAMPLES, SAMPLED.assign(sample=7), "'1', sample 7;.*'1', sample 0"),
        (ANSWERS.assign(sample=1), RUN, "qid '1', sample 1; 4 such rows"),
        (OF_SAMPLES, RUN, "qid '1', sample 1; 16 such rows"),
        (ANSWERS[:3], RUN, "1 rankings .* .qid '4'"),
        (OF_SAMPLES[:5], SAMPLED, "3 rankings .* .qid '2', sample 1;"),
        (ANSWERS, SAMPLED, "'sample'"),
    ],
)
def test_answers_that_do_not_fit_are_refused(answers, run, expected):
    with pytest.raises(InputError, match=expected):
        evaluate(answers, run)


def test_a_run_without_samples_has_sample_0():
    assert evaluate(ANSWERS.assign(sample=0)).means.iloc[0, 0] == 0.5


def test_answers_by_run():
    runs = {"a": RUN, "b": RUN, "c": RUN.merge(ANSWERS)}
    right = ANSWERS.assign(qanswer=GOLD["gold_answer"])
    results = fairtk.evaluate(LABELED, runs, EM, answers={"b": right, "a": ANSWERS})
    assert results.means.iloc[:, 0].tolist() == [0.5, 1.0, 0.5]
    with pytest.raises(NotFoundError, match="'d'"):
        fairtk.evaluate(LABELED, runs, EM, answers={"d": ANSWERS})
    with pytest.raises(InputError, match="b: "):  # no answers
        fairtk.evaluate(LABELED, runs, EM, answers={"a": ANSWERS})


def test_checked_labels_have_the_gold_answers_of_the_qrels():
    people = QRELS[:2]  # without gold answers: the right answers are those of queries 1 and 2
    answered = RUN.merge(ANSWERS)
    results = [
        fairtk.evaluate(LABELED, {"r": answered}, EM, checked=people),
        fairtk.evaluate(LABELED, {"r": answered}, EM).with_checked(people),
        fairtk.Experiment({"r": answered}, None, LABELED, EM).with_checked(people),
    ]
    for one in results:
        row = one.corrected.iloc[0]
        assert row["mean"] == 0.5 and row["mean_checked"] == 1.0 and row["checked"] == 2


def test_gold_answers_of_checked_labels_come_first():
    people = QRELS[:2].assign(gold_answer=["v", "other"])  # one of two is right
    results = fairtk.evaluate(LABELED, {"r": RUN.merge(ANSWERS)}, EM, checked=people)
    assert results.corrected["mean_checked"].tolist() == [0.5]
