"""PerSample: a transformer that groups by qid, applied to every sample on its own."""

from __future__ import annotations

import pandas as pd
import pyterrier as pt
import pytest

from fairtk.errors import ColumnError, InputError, ParameterError
from fairtk.transformers.samplers import FairSampler, PerSample

RUN = pd.DataFrame(
    {
        # qids that a careless joint name would mix up with those of other samples
        "qid": ["1"] * 4 + ["1:1"] * 3 + ["11"] * 2,
        "query": ["x"] * 4 + ["y"] * 3 + ["z"] * 2,
        "docno": ["a", "b", "c", "d", "a", "b", "e", "a", "f"],
        "score": [3.0, 2.0, 1.0, 1.0, 5.0, 5.0, 4.0, 1.0, 0.0],
    }
)
SAMPLED = FairSampler(alpha=1, n_samples=12, cutoff=3)(RUN)
BOTH = pytest.mark.parametrize("joint", [False, True])


class Reverse(pt.Transformer):
    """Turns every ranking round, keeps its best two, and says how many rows it saw per qid."""

    def __init__(self):
        self.calls = 0

    def transform(self, inp):
        pt.validate.columns(inp, includes=["qid", "docno", "score"])
        self.calls += 1
        assert "sample" not in inp.columns
        assert not inp.duplicated(["qid", "docno"]).any()
        result = inp.assign(score=-inp["score"])
        result["seen"] = result.groupby("qid")["docno"].transform("count")
        result = result.sort_values(["qid", "score", "docno"], ascending=[True, False, True])
        result["rank"] = result.groupby("qid").cumcount()
        return result[result["rank"] < 2]


def one_by_one(transformer, sampled):
    """The definition: the transformer on each sample alone."""
    parts = []
    for qid in sampled["qid"].unique():
        for number in sorted(sampled["sample"].unique()):
            one = sampled[(sampled["qid"] == qid) & (sampled["sample"] == number)]
            if len(one):
                parts.append(transformer(one.drop(columns="sample")).assign(sample=number))
    return pd.concat(parts, ignore_index=True)


@BOTH
def test_a_reranker_sees_one_sample_at_a_time(joint):
    reranker = Reverse()
    result = PerSample(reranker, joint=joint)(SAMPLED)
    assert reranker.calls == (1 if joint else 12)
    pd.testing.assert_frame_equal(result, one_by_one(Reverse(), SAMPLED))
    assert (result["seen"] <= 3).all()
    assert len(result) == 12 * 6


@BOTH
def test_queries_may_have_different_samples(joint):
    some = SAMPLED[(SAMPLED["qid"] != "1") | (SAMPLED["sample"] == 7)]
    result = PerSample(Reverse(), joint=joint)(some)
    pd.testing.assert_frame_equal(result, one_by_one(Reverse(), some))


@BOTH
def test_a_reader_that_returns_one_row_per_query(joint):
    reader = pt.apply.by_query(
        lambda rows: pd.DataFrame(
            {"qid": rows["qid"].iloc[:1], "qanswer": [" ".join(rows["docno"])]}
        ),
        add_ranks=False,
    )
    result = PerSample(reader, joint=joint)(SAMPLED)
    # every row of a ranking has the answer that was made from it, and its document
    read = SAMPLED.groupby(["qid", "sample"])["docno"].transform(" ".join)
    expected = SAMPLED.assign(qanswer=read).reset_index(drop=True)
    pd.testing.assert_frame_equal(result[expected.columns], expected)
    again = PerSample(reader, joint=joint)(result.assign(qanswer="earlier"))
    pd.testing.assert_frame_equal(again[expected.columns], expected)


@BOTH
def test_a_reader_with_two_answers_for_a_ranking(joint):
    twice = pt.apply.generic(lambda inp: inp[["qid"]].assign(qanswer="x"))
    with pytest.raises(InputError):
        PerSample(twice, joint=joint)(SAMPLED)


@BOTH
def test_a_transformer_that_drops_everything(joint):
    nothing = pt.apply.generic(lambda inp: inp.head(0).assign(extra=1.0))
    result = PerSample(nothing, joint=joint)(SAMPLED)
    assert len(result) == 0
    assert set(result.columns) == {*SAMPLED.columns, "extra"}


def test_by_default_the_transformer_sees_true_qids():
    bonus = {"1": 1.0, "1:1": 2.0, "11": 3.0}
    lookup = pt.apply.generic(lambda inp: inp.assign(score=inp["qid"].map(bonus)))
    result = PerSample(lookup)(SAMPLED)
    assert result["score"].tolist() == [bonus[q] for q in result["qid"]]


@BOTH
def test_numeric_qids_stay_numeric(joint):
    numeric = SAMPLED.assign(qid=SAMPLED["qid"].str.replace(":", "0").astype(int))
    result = PerSample(Reverse(), joint=joint)(numeric)
    assert result["qid"].dtype.kind == "i"
    assert result["qid"].unique().tolist() == [1, 101, 11]


@BOTH
def test_a_run_without_samples_goes_straight_through(joint):
    result = PerSample(Reverse(), joint=joint)(RUN)
    pd.testing.assert_frame_equal(result, Reverse()(RUN))


def test_errors():
    with pytest.raises(ParameterError, match="PerSample"):
        PerSample(lambda inp: inp)
    with pytest.raises(ColumnError, match="sample must be .*got 0.5"):
        PerSample(Reverse())(SAMPLED.assign(sample=0.5))
    mixed = pd.concat([SAMPLED, RUN])
    with pytest.raises(InputError, match="sample is missing.*qid '1'"):
        PerSample(Reverse())(mixed)
    with pytest.raises(ColumnError, match="PerSample"):
        PerSample(Reverse())(SAMPLED.drop(columns="qid"))


@BOTH
def test_what_the_transformer_returns_is_checked(joint):
    without_qid = pt.apply.generic(lambda inp: inp.drop(columns="qid"))
    with pytest.raises(ColumnError, match="'qid'"):
        PerSample(without_qid, joint=joint)(SAMPLED)
    other_qid = pt.apply.generic(lambda inp: inp.assign(qid="new"))
    with pytest.raises(InputError, match="qid 'new'"):
        PerSample(other_qid, joint=joint)(SAMPLED)
    with pytest.raises(InputError, match="column 'sample'"):
        PerSample(FairSampler(n_samples=2), joint=joint)(SAMPLED)
