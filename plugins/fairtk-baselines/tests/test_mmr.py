import numpy as np
import pandas as pd
import pytest
from fairtk_baselines.mmr import MMR
from hypothesis import assume, given
from hypothesis import strategies as st
from pyterrier_dr import MmrScorer

from fairtk.errors import ColumnError, InputError, ParameterError
from fairtk.testing import TransformerContract, toy_run, toy_samples


def run(scores, vectors, qid="1"):
    """Documents a, b, c, ... with these scores and vectors."""
    names = [chr(ord("a") + i) for i in range(len(scores))]
    frame = pd.DataFrame({"qid": qid, "query": "x", "docno": names, "score": map(float, scores)})
    frame["doc_vec"] = [np.array(v, dtype=np.float32) for v in vectors]
    return frame


def order(mmr, inp):
    return "".join(mmr.transform(inp)["docno"])


class TestTexts(TransformerContract):
    def make(self):
        return MMR()

    def others(self):
        return [
            MMR(0.3),
            MMR(normalize="none"),
            MMR(vectors="text"),
            MMR(vectors="doc_vec"),
            MMR(cutoff=2),
        ]


class TestVectors(TransformerContract):
    def make(self):
        return MMR(0.4, vectors="doc_vec")

    def other_values(self):
        return {"normalize": "none", "vectors": "auto"}

    def inp(self):
        rng = np.random.default_rng(8)
        frame = toy_run()
        frame["doc_vec"] = list(rng.normal(size=(len(frame), 3)).astype(np.float32))
        return frame


# By hand -------------------------------------------------------------------------------------


def test_by_hand():
    # relevance 1, 0.8, 0.4, 0 (min-max of 11, 9, 5, 1); vectors at 0, 0, 90 and 180 degrees.
    # lambda 0.5: first a. Then b .5(.8) - .5(1) = -.1, c .5(.4) - 0 = .2, d 0 - .5(-1) = .5: d.
    # Then b .4 - .5 max(1, -1) = -.1, c .2 - .5 max(0, 0) = .2: c, then b
    inp = run([11, 9, 5, 1], [(1, 0), (2, 0), (0, 1), (-1, 0)])
    assert order(MMR(0.5), inp) == "adcb"
    # lambda 0.9: b .72 - .1 = .62, c .36, d 0 + .1: b; c .36 - .1(0), d 0 - .1(-1): c
    assert order(MMR(0.9), inp) == "abcd"
    # scores as they are, lambda 0.5: b 4.5 - .5 = 4, c 2.5, d .5 + .5
    assert order(MMR(0.5, normalize="none"), inp) == "abcd"


def test_similarity_of_texts_by_hand():
    # n = 3; "cat" and "ox" are in two texts: idf = ln(4/3) + 1 = 1.287682; "dog" in one:
    # ln(4/2) + 1 = 1.693147. a = cat dog: (1.287682, 1.693147), length 2.127177; b = cat ox:
    # (1.287682, 1.287682), length 1.821057. Both have cat:
    # sim(a, b) = 1.287682^2 / (2.127177 * 1.821057) = 1.658125 / 3.873711 = 0.428045;
    # sim(a, c) = 0. With relevance 1, x, 0: b beats c where .5 x - .5 * 0.428045 > 0
    for score, wanted in ((0.4290, "abc"), (0.4270, "acb")):
        inp = run([1, score, 0], [(1,)] * 3).drop(columns="doc_vec")
        inp["text"] = ["cat dog", "cat ox", "ox"]
        assert order(MMR(0.5), inp) == wanted


def test_vectors_come_before_texts_unless_asked():
    inp = run([10, 9, 0], [(1, 0), (0, 1), (0, 1)]).assign(text=["cat", "cat", "dog"])
    assert order(MMR(0.5), inp) == order(MMR(0.5, vectors="doc_vec"), inp) == "abc"
    assert order(MMR(0.5, vectors="text"), inp) == "acb"


def test_equal_scores_are_ordered_by_novelty():
    # after a (the first of the input): sim b .995, c 0
    inp = run([1, 1, 1], [(1, 0), (1, 0.1), (0, 1)]).assign(rank=range(3))
    assert order(MMR(0.5), inp) == "acb"


def test_copies_of_a_document_keep_their_order():
    rng = np.random.default_rng(0)
    vector = rng.normal(size=64)
    inp = run(np.arange(26)[::-1], [vector] * 26)
    for weight in (0, 0.5, 0.9):
        assert order(MMR(weight), inp) == "abcdefghijklmnopqrstuvwxyz"


def test_depth_leaves_the_rest_in_order():
    inp = run([11, 9, 5, 1], [(1, 0), (2, 0), (0, 1), (-1, 0)])
    assert order(MMR(0.5, cutoff=2), inp) == "adbc"
    assert order(MMR(0.5, cutoff=99), inp) == "adcb"


def test_output():
    out = MMR().transform(toy_run().assign(extra="kept"))
    assert list(out.columns) == [*toy_run().columns, "extra"]
    for _, query in out.groupby("qid", sort=False):
        assert query["rank"].tolist() == list(range(len(query)))
        assert query["score"].tolist() == [-float(i) for i in range(len(query))]


# Against other computations ------------------------------------------------------------------


@st.composite
def candidates(draw, least=1, low=-1.0):
    number = draw(st.integers(least, 7))
    value = st.integers(round(100 * low), 100).map(lambda x: x / 100)
    vectors = draw(st.lists(st.tuples(value, value, value), min_size=number, max_size=number))
    scores = draw(
        st.lists(st.integers(0, 40), min_size=number, max_size=number, unique=True).map(
            lambda s: sorted(s, reverse=True)
        )
    )
    return run(scores, vectors).assign(rank=range(number))


@given(candidates())
def test_lambda_1_is_the_input_order(inp):
    assert order(MMR(1), inp) == "".join(inp["docno"])
    ties = inp.assign(score=1.0)
    assert order(MMR(1), ties) == "".join(inp["docno"])


def literally(relevance, similarity, weight):
    """The formula, one document after the other."""
    chosen, left = [], list(range(len(relevance)))
    while left:
        values = []
        for d in left:
            nearest = max((similarity[d][s] for s in chosen), default=0)
            values.append(weight * relevance[d] - (1 - weight) * nearest)
        if not chosen:
            values = [relevance[d] for d in left]
        if sum(v >= max(values) - 1e-9 for v in values) > 1:
            return None  # a tie: rounding decides
        chosen.append(left.pop(int(np.argmax(values))))
    return chosen


@given(candidates(), st.floats(0, 0.99))
def test_the_formula_as_it_stands(inp, weight):
    vectors = np.stack(inp["doc_vec"]).astype(float)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(length > 0, length, 1)
    relevance = inp["score"].to_numpy()
    spread = max(relevance.max() - relevance.min(), 1)
    wanted = literally((relevance - relevance.min()) / spread, vectors @ vectors.T, weight)
    assume(wanted is not None)
    assert order(MMR(weight), inp) == "".join(inp["docno"].iloc[wanted])


@given(candidates(least=2, low=0.01), st.floats(0.01, 0.99))
def test_pyterrier_dr_agrees_where_it_is_defined(inp, weight):
    # similarities of at least 0, scores that differ, rows in their order, no zero vectors
    vectors = np.stack(inp["doc_vec"]).astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    relevance = inp["score"].to_numpy()
    relevance = (relevance - relevance.min()) / (relevance.max() - relevance.min())
    assume(literally(relevance, vectors @ vectors.T, weight) is not None)
    theirs = MmrScorer(Lambda=weight, norm_rel=True)(inp)
    assert order(MMR(weight), inp) == "".join(theirs["docno"])


# Errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"lambda_": -0.1},
        {"normalize": "minmax"},
        {"vectors": "dense"},
        {"cutoff": 0},
    ],
)
def test_settings_out_of_range(arguments):
    with pytest.raises(ParameterError, match=rf"\b{[*arguments][-1]}\b"):
        MMR(**arguments)


def test_equal_numbers_print_alike():
    assert MMR(1) == MMR(1.0) and repr(MMR(1)) == repr(MMR(1.0))


def test_inputs_that_cannot_be_used():
    inp = run([2, 1], [(1, 0), (0, 1)])
    with pytest.raises(ColumnError, match="'doc_vec'.*'text'"):
        MMR().transform(inp.drop(columns="doc_vec"))
    with pytest.raises(ColumnError, match="'text'"):
        MMR(vectors="text").transform(inp)
    with pytest.raises(ColumnError, match="sample"):
        MMR().transform(toy_samples())
    inp["doc_vec"] = [np.ones(2), np.array([1.0])]
    with pytest.raises(InputError, match=r"got 1 numbers \(qid .*docno 'b'\)"):
        MMR().transform(inp)
    with pytest.raises(InputError):
        MMR().transform(inp.assign(rank=[1, 0]))
    with pytest.raises(InputError, match="docno 'd3'"):
        MMR().transform(toy_run().astype({"text": object}).assign(text=None))
