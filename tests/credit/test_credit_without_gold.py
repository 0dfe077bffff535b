"""Credit with the answer to the whole list in place of gold answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fairtk import Generator
from fairtk.credit import Subsets, from_answers
from fairtk.errors import InputError, ParameterError
from fairtk.plugins import registry
from fairtk.utilities import get

RUN = pd.DataFrame(
    {
        "qid": ["q1"] * 3 + ["q2"] * 2,
        "query": ["first"] * 3 + ["second"] * 2,
        "docno": ["A", "B", "C", "D", "E"],
        "text": ["[b]", "[c]", "[d]", "[e]", "[f]"],
        "score": [3.0, 2.0, 1.0, 5.0, 4.0],
    }
)


def letters(prompts):
    """Answer with the letters of the passages, in their order."""
    return [" ".join(c for c in "bcdef" if f"[{c}]" in prompt) for prompt in prompts]


def numbers(prompts):
    """Answer with the number of passages."""
    return [str(1 + sum(f"[{c}]" in prompt for c in "bcdef")) for prompt in prompts]


def answers_of(kind, frame=RUN, reader=letters):
    return (Subsets(kind) >> Generator(reader, prompt="rag", cutoff=8))(frame)


def credits(frame):
    return frame["credit"].tolist()


def test_leave_one_out_by_hand():
    """q1: "c d" to "b c d" has F1 2 x 1 x 2/3 / (5/3) = .8; q2: "f" to "e f" 2 x 1 x 1/2 / 1.5."""
    credit = from_answers(answers_of("one-out"), "f1", "answer")
    assert credits(credit) == pytest.approx([0.2, 0.2, 0.2, 1 / 3, 1 / 3])
    assert credits(from_answers(answers_of("one-out"), "em", "answer")) == [1.0] * 5


def test_shapley_values_by_hand():
    """q2: none 0, "e" or "f" 2/3, both 1: each (2/3 + 1/3) / 2; of q1, 1/3 each by symmetry."""
    credit = from_answers(answers_of("all"), "f1", gold="answer")
    assert credits(credit) == pytest.approx([1 / 3] * 3 + [1 / 2] * 2)


def test_each_sample_has_its_own_answer():
    """Sample 0 has b, c, sample 1 has b, d: "c" to "b c" has F1 2/3, so 1/3 in both samples."""
    frame = RUN.iloc[[0, 1, 0, 2]].assign(sample=[0, 0, 1, 1])
    credit = from_answers(answers_of("one-out", frame), "f1", "answer")
    assert credit["sample"].tolist() == [0, 0, 1, 1]
    assert credits(credit) == pytest.approx([1 / 3] * 4)


@pytest.mark.parametrize("name", registry.utilities.names())
@pytest.mark.parametrize("kind", ["one-out", "all", "sampled"])
def test_it_is_the_credit_with_this_gold_answer(name, kind):
    """With each registered utility, also an error, and each kind of subsets."""
    reader = numbers if not get(name).higher_is_better else letters
    answers = answers_of(kind, RUN, reader)
    full = answers[answers["subset"] == answers.groupby("qid")["subset"].transform("max")]
    gold = full.groupby("qid")["qanswer"].first().to_dict()
    pd.testing.assert_frame_equal(
        from_answers(answers, name, gold="answer"), from_answers(answers, name, gold)
    )


def test_several_answers_by_hand():
    """Full list x, x, y: 2 of 6 pairs of different answers are equal. No document: x, z, z.

    Of their 9 pairs with x, x, y, 2 are equal: 1/3 - 2/9 = 1/9.
    """
    subsets = Subsets("one-out", cutoff=1)(RUN[RUN["qid"] == "q1"])
    texts = [["x", "x", "y"] if mask else ["x", "z", "z"] for mask in subsets["subset"]]
    credit = from_answers(subsets.assign(qanswer=texts), "em", gold="answer")
    assert credits(credit) == pytest.approx([1 / 9])


def test_chance_gives_no_credit_to_several_answers():
    """Answers that do not depend on documents have a mean credit near 0; one answer does not."""
    run = pd.concat([RUN[RUN["qid"] == "q1"].assign(qid=f"q{i}") for i in range(400)])
    subsets = Subsets("one-out", cutoff=1)(run)
    drawn = np.random.default_rng(3).integers(0, 2, (len(subsets), 4)).astype(str)
    several = from_answers(subsets.assign(qanswer=drawn.tolist()), "em", "answer")
    one = from_answers(subsets.assign(qanswer=drawn[:, 0]), "em", "answer")
    assert abs(several["credit"].mean()) < 0.05 < 0.4 < one["credit"].mean()


def test_an_empty_answer_has_undefined_credit():
    answers = answers_of("all", RUN, lambda prompts: ["" if "[e]" in p else "x" for p in prompts])
    credit = from_answers(answers, "f1", "answer")
    assert credit[credit["qid"] == "q1"]["credit"].tolist() == [0.0] * 3
    assert credit[credit["qid"] == "q2"]["credit"].isna().all()


def test_refusals():
    answers = answers_of("one-out")
    with pytest.raises(ParameterError, match="gold.*'answers'"):
        from_answers(answers, "f1", "answers")
    with pytest.raises(InputError, match="'q2'.*gold='answer'"):
        from_answers(answers, "f1", {"q1": "b"})
    partial = answers[answers["subset"] != 7]
    with pytest.raises(InputError, match="'q1'"):
        from_answers(partial, "f1", "answer")
    with pytest.raises(InputError, match="mae.*'q1'"):
        from_answers(answers, "mae", "answer")
