"""Subsets of rankings, answers to them, and the credit that these give; citations in answers."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk import FairSampler, Generator
from fairtk.credit import Citations, Subsets, from_answers
from fairtk.errors import ColumnError, DataWarning, InputError, ParameterError
from fairtk.testing import TransformerContract
from fairtk.testing.toys import toy_run
from fairtk.utilities import Utility

GOLD = {"q1": "b c", "q2": "e"}


def run():
    return pd.DataFrame(
        {
            "qid": ["q1"] * 3 + ["q2"] * 2,
            "query": ["first"] * 3 + ["second"] * 2,
            "docno": ["A", "B", "C", "D", "E"],
            "text": ["[b]", "[c]", "[d]", "[e]", "[f]"],
            "score": [3.0, 2.0, 1.0, 5.0, 4.0],
        }
    )


def reader(prompts):
    """Answer with the letters of the passages, in their order."""
    return [" ".join(c for c in "bcdef" if f"[{c}]" in prompt) for prompt in prompts]


class Worth(Utility):
    """The sum of what letters are worth, whatever the gold answer."""

    name = "worth"
    bounds = (-10.0, 10.0)
    VALUES = {"b": 2.0, "c": -1.0, "d": 0.5, "e": 3.0, "f": 0.0}

    def score(self, prediction, gold):
        letters = prediction.split() if prediction != "<empty>" else []
        return self.of([self.VALUES[letter] for letter in letters])

    def of(self, values):
        return math.fsum(values)


def credit_of(kind, utility="f1", frame=None, **options):
    frame = run() if frame is None else frame
    answers = (Subsets(kind, **options) >> Generator(reader, cutoff=8))(frame)
    return from_answers(answers, utility, GOLD)


def test_shapley_values_need_all_subsets():
    answers = (Subsets("one-out") >> Generator(reader, cutoff=8))(run())
    with pytest.raises(InputError, match="all subsets of 3 documents for shapley.*'q1'"):
        from_answers(answers, "f1", GOLD, method="shapley")
    assert from_answers(answers, "f1", GOLD).equals(credit_of("one-out"))


class TestSubsetsContract(TransformerContract):
    def make(self):
        return Subsets("one-out")

    def others(self):
        return [
            Subsets("all"),
            Subsets("all", cutoff=2),
            Subsets("sampled", n_orders=2),
            Subsets("sampled", n_orders=2, seed=7),
        ]


class TestCitationsContract(TransformerContract):
    def make(self):
        return Citations()

    def others(self):
        return [Citations("words"), Citations(cutoff=1)]

    def inp(self):
        return toy_run().assign(qanswer="It is so [1].")


def test_one_out_by_hand():
    out = Subsets("one-out")(run())
    lists = out.groupby(["qid", "sample"])["docno"].agg(list).tolist()
    assert lists == [
        *(["A", "B", "C"], ["B", "C"], ["A", "C"], ["A", "B"]),
        *(["D", "E"], ["E"], ["D"]),
    ]
    assert out.drop_duplicates(["qid", "sample"])["subset"].tolist() == [7, 6, 5, 3, 3, 2, 1]
    assert (out["source_sample"] == 0).all() and out["subset"].dtype == np.int64
    assert out["rank"].tolist() == [0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0]


def test_all_by_hand_with_the_empty_set():
    out = Subsets("all", cutoff=2)(run())
    q1 = out[out["qid"] == "q1"]
    assert q1["docno"].tolist() == ["@NONE", "A", "B", "A", "B"]  # C is below the cutoff
    assert q1["subset"].tolist() == [0, 1, 2, 3, 3]
    prompts = Generator(reader).build_prompts(out)
    bare = Generator(reader).build_prompts(run()[["qid", "query"]].drop_duplicates())
    assert [prompts.prompts[prompts.prompt_of_row[i]] for i in (0, 5)] == list(bare.prompts)


def test_credit_by_hand():
    # F1 with "b c" for q1: bcd .8, bc 1, bd .5, cd .5, b 2/3, c 2/3, d 0, none 0
    one_out = credit_of("one-out").set_index("docno")["credit"]
    assert one_out["A"] == pytest.approx(0.8 - 0.5) and one_out["C"] == pytest.approx(0.8 - 1)
    # phi_C = (0 - 0) / 3 + (.5 - 2/3 + .5 - 2/3) / 6 + (.8 - 1) / 3
    every = credit_of("all").set_index("docno")["credit"]
    assert every["C"] == pytest.approx((0.5 - 2 / 3) / 3 - 0.2 / 3)
    assert every[["A", "B", "C"]].sum() == pytest.approx(0.8)


@pytest.mark.parametrize("kind", ["one-out", "all", "sampled"])
def test_an_additive_reader_gives_each_document_its_worth(kind):
    credit = credit_of(kind, Worth()).set_index("docno")["credit"]
    assert credit.tolist() == pytest.approx([2.0, -1.0, 0.5, 3.0, 0.0])


def test_all_subsets_give_one_out_too():
    answers = (Subsets("all") >> Generator(reader, cutoff=8))(run())
    both = from_answers(answers, "f1", GOLD, method="one-out")
    pd.testing.assert_frame_equal(both, credit_of("one-out"))


def test_an_error_is_turned_around():
    frame = run().assign(text=["4", "1", "5", "2", "3"])
    answers = Subsets("one-out")(frame)
    answers["qanswer"] = answers.groupby(["qid", "sample"])["text"].transform("max")
    credit = from_answers(answers, "mae", {"q1": "5", "q2": "3"}).set_index("docno")["credit"]
    # without C the best answer is 4, one off: C takes an error of 1 away
    assert credit.tolist() == pytest.approx([0, 0, 1, 0, 1])


def test_samples_stay_apart_and_prompts_are_shared():
    asked = []

    def count(prompts):
        asked.extend(prompts)
        return reader(prompts)

    sampled = FairSampler(alpha=0, n_samples=6, cutoff=2)(run())
    answers = (Subsets("all") >> Generator(count, cutoff=8))(sampled)
    credit = from_answers(answers, Worth(), GOLD)
    assert credit.groupby("qid")["sample"].nunique().tolist() == [6, 6]
    places = sampled.sort_values(["qid", "sample", "rank"])
    assert credit["docno"].tolist() == places["docno"].tolist()
    # q1: none, 3 singles, 6 ordered pairs at most; q2: none, 2 singles, 2 pairs
    assert len(asked) == len(set(asked)) <= 15


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_sampled_orders_agree_with_all_of_them(k, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"qid": "q", "docno": [f"d{i}" for i in range(k)], "score": -np.arange(k)})
    frame["score"] = frame["score"].astype(float)
    worth = {mask: f"{value:.6f}" for mask, value in enumerate(rng.normal(size=1 << k))}

    def credit(kind, **options):
        answers = Subsets(kind, **options)(frame)
        answers["qanswer"] = answers["subset"].map(worth)
        return from_answers(answers, "mae", {"q": "100"})

    exact = credit("all")["credit"].to_numpy()
    sampled = credit("sampled", n_orders=4, seed=seed)
    whole, none = float(worth[(1 << k) - 1]), float(worth[0])
    assert exact.sum() == pytest.approx(whole - none)  # efficiency, of any orders
    assert sampled["credit"].sum() == pytest.approx(whole - none)
    if k <= 2:  # an order and its reverse are all there are
        assert sampled["credit"].to_numpy() == pytest.approx(exact)
        assert sampled["standard_error"].to_numpy() == pytest.approx(np.zeros(k))


def test_orders_depend_on_seed_qid_and_sample_alone():
    whole = Subsets("sampled", n_orders=4)(run())
    alone = Subsets("sampled", n_orders=4)(run()[3:])
    part = whole[whole["qid"] == "q2"].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, alone)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Subsets("sampled", n_orders=3), ParameterError, "even"),
        (lambda: Subsets("all")(longer(9)), InputError, "at most 8 documents, got 9 for qid 'q'"),
        (lambda: Subsets("all")(Subsets("all")(run())), ColumnError, "got subsets"),
        (lambda: Citations("length"), ParameterError, "weight"),
        (lambda: Citations()(Subsets()(run()).assign(qanswer="")), ColumnError, "got subsets"),
        (
            lambda: Citations()(run().assign(qanswer=list("xyxxx"))),
            InputError,
            "one 'qanswer' per ranking, got two for qid 'q1', docno 'B'",
        ),
    ],
)
def test_wrong_settings_and_frames(call, error, message):
    with pytest.raises(error, match=message):
        call()


def longer(n):
    return pd.DataFrame({"qid": "q", "docno": [f"d{i}" for i in range(n)], "score": -1.0})


def test_leaving_one_out_takes_long_rankings():
    """The utilities of all 2^40 sets fit in no memory, and 41 of them are needed."""
    answers = Subsets("one-out")(longer(40))
    whole = answers["subset"] == (1 << 40) - 1
    answers["qanswer"] = np.where(whole | (answers["subset"] == (1 << 40) - 2), "yes", "no")
    credit = from_answers(answers, "em", {"q": "yes"})
    # the answer stays right without the first document alone
    assert credit["credit"].tolist() == [0.0] + [1.0] * 39


class Strict(Worth):
    """A utility that has no value for an empty answer."""

    def score(self, prediction, gold):
        if prediction == "<empty>":
            raise ValueError("nothing to count")
        return 1.0


def test_wrong_answers_are_named():
    answers = (Subsets("all") >> Generator(reader, cutoff=8))(run())
    with pytest.raises(InputError, match="qid 'q1'.*''"):
        from_answers(answers, Strict(), GOLD)
    with pytest.raises(InputError, match="qid 'q2'"):
        from_answers(answers, "f1", {"q1": "a"})
    with pytest.raises(InputError, match="qid 'q1'.*sample 0"):
        from_answers(answers[~((answers["qid"] == "q1") & (answers["subset"] == 2))], "f1", GOLD)
    broken = answers.assign(qanswer=answers["qanswer"].where(answers["subset"] != 2))
    with pytest.raises(InputError, match="got none.*qid 'q1'.*sample 2"):
        from_answers(broken, "f1", GOLD)
    with pytest.raises(InputError):
        gold = pd.DataFrame({"qid": ["q1", "q1"], "gold_answer": ["a", "b"]})
        from_answers(answers, "f1", gold)
    with pytest.raises(ColumnError, match="source_sample"):
        from_answers(answers.drop(columns="source_sample"), "f1", GOLD)


def test_citations_of_a_pipeline():
    said = {"first": "All a [1]. And b [2][3]!", "second": "No idea."}
    answers = run().assign(qanswer=lambda f: f["query"].map(said))
    with pytest.warns(DataWarning, match="1 of 2.*'q2'"):
        credit = Citations()(answers)
    assert credit["docno"].tolist() == ["A", "B", "C", "D", "E"]
    assert credit["credit"][:3].tolist() == [1, 0.5, 0.5] and credit["credit"][3:].isna().all()
    with pytest.warns(DataWarning) as record:
        short = Citations(cutoff=1)(answers)
    assert "answers cite numbers beyond the prompt, which are ignored (1, for 1 of 2" in " ".join(
        str(w.message) for w in record
    )
    assert short["docno"].tolist() == ["A", "D"]


def one_answer(text):
    frame = {"qid": "q7", "docno": list("abc"), "score": [3.0, 2.0, 1.0], "qanswer": text}
    return pd.DataFrame(frame)


@pytest.mark.parametrize(
    ("answer", "credit", "said"),
    [
        ("So [1] and [9].", [1, 0, 0], "numbers beyond the prompt.*'q7'"),
        ("So [9].", None, "numbers beyond the prompt.*'q7'"),
        ("So [0].", None, "have no citations.*'q7'"),
        ("So [1–1000000000].", [1, 0, 0], "numbers beyond the prompt.*'q7'"),
        ("So [2-9].", [0, 0.5, 0.5], "numbers beyond the prompt.*'q7'"),
        ("", None, "1 of 1 query .*'q7'"),
        ("Twice [1][1] and [1, 1].", [1, 0, 0], ""),
    ],
)
def test_what_answers_may_cite(answer, credit, said):
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        values = Citations()(one_answer(answer))["credit"].tolist()
    assert values == pytest.approx([math.nan] * 3 if credit is None else credit, nan_ok=True)
    messages = [str(w.message) for w in record]
    assert any(re.search(said, message) for message in messages) if said else not messages


def test_no_answer_is_refused():
    with pytest.raises(InputError, match="'qanswer'.*got none.*qid 'q7'"):
        Citations()(one_answer(None))
