"""DetGreedy, DetCons, DetRelaxed and DetConstSort: manual values, rules, and FairRankTune's."""

import doctest
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fairtk_baselines import DetCons, DetConstSort, DetGreedy, DetRelaxed
from hypothesis import given
from hypothesis import strategies as st

from fairtk.errors import ColumnError, DataWarning, InputError, ParameterError
from fairtk.groups import Groups, Target
from fairtk.testing import TransformerContract, toy_groups, toy_run, toy_samples

TOYS = Groups.from_frame(toy_groups(), name="place", unknown=None)
LEVELS = ["a", "b", "c", "d"]
EVERY = [DetGreedy, DetCons, DetRelaxed, DetConstSort]
SHARES = {"house": 0.4, "sea": 0.3, "land": 0.3}


def people(docnos):
    """Return groups of documents whose names start with their level; x is unknown."""
    levels = [d[0] if d[0] in LEVELS else "@UNKNOWN" for d in docnos]
    frame = pd.DataFrame({"docno": docnos, "group": levels})
    return Groups.from_frame(frame, name="people", levels=["@UNKNOWN", *LEVELS])


def run_of(docnos, qid="q"):
    rows = [(qid, docno, -float(place)) for place, docno in enumerate(docnos)]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def order(kind, text, p, **settings):
    """Return the new order of documents: "a1 b1 a2"."""
    docnos = text.split()
    return " ".join(kind(people(docnos), p, **settings)(run_of(docnos))["docno"])


class TestGreedyContract(TransformerContract):
    def make(self):
        return DetGreedy(TOYS, SHARES, cutoff=4)

    def other_values(self):
        target = Target.population(SHARES, TOYS)
        return {"groups": Groups.from_frame(toy_groups()[1:]), "p": target}


class TestConsContract(TestGreedyContract):
    def make(self):
        return DetCons(TOYS, SHARES, cutoff=4)


class TestRelaxedContract(TestGreedyContract):
    def make(self):
        return DetRelaxed(TOYS, SHARES, cutoff=4)


class TestConstSortContract(TestGreedyContract):
    def make(self):
        return DetConstSort(TOYS, SHARES, cutoff=4)


# --- computed manually


def test_greedy_by_hand():
    # p = 1/2 each. k = 1: floor 0, ceil 1 for both: a1 by score. k = 2: floor 1: b is below its
    # minimum: b1. k = 3: floor 1, ceil 2: a2. k = 4: floor 2: b2
    half = {"a": 0.5, "b": 0.5}
    for kind in EVERY[:3]:
        assert order(kind, "a1 a2 a3 b1 b2", half) == "a1 b1 a2 b2 a3"


def test_the_three_rules_by_hand():
    # p = .5, .3, .2. k = 1: no minimum, ceil 1 for all.
    # Greedy: the highest score, c1. Cons: 1/.5 = 2, 1/.3 = 3.3, 1/.2 = 5: a1.
    # k = 2: floors 1, 0, 0. Greedy: a is below its minimum: a1. Cons: below the maximum are b
    # (3.3) and c (5), as a has 1 = ceil(1.0): b1
    # k = 3: floors 1, 0, 0, ceilings 2, 1, 1. Greedy: c is at its maximum; of a and b, b1 has the
    # higher score. Cons: a has 2/.5 = 4, c 5: a2
    text, p = "c1 b1 a1 b2 a2 c2", {"a": 0.5, "b": 0.3, "c": 0.2}
    assert order(DetGreedy, text, p, cutoff=3).startswith("c1 a1 b1")
    assert order(DetCons, text, p, cutoff=3).startswith("a1 b1 a2")
    # p = .35, .33, .32: 1/.35 = 2.86 and 1/.33 = 3.03 and 1/.32 = 3.1: Cons a1.
    # Relaxed rounds up: 3, 4, 4: a1. With p = .34, .335, .325 all are 3 to 4: 2.94, 2.99, 3.08
    p = {"a": 0.34, "b": 0.335, "c": 0.325}
    assert order(DetCons, "c1 b1 a1", p) == "a1 b1 c1"
    # Relaxed: k = 1: a and b have 3, c 4: b1 by score. k = 2: a 3, c 4: a1
    assert order(DetRelaxed, "c1 b1 a1", p) == "b1 a1 c1"


def test_sorting_with_constraints_by_hand():
    # p = 1/2 each: last ranks of a1, a2 and b1, b2 are 2 and 4. a1 and b1 enter, then a2 with last
    # rank 4, which may not move above b1, whose last rank is 2; then b2
    half = {"a": 0.5, "b": 0.5}
    assert order(DetConstSort, "a1 a2 b1 b2", half) == "a1 b1 a2 b2"
    # one rank further, b1 may fall to 3; b2 enters at the end: the prefix of 2 has no b
    assert order(DetConstSort, "a1 a2 b1 b2", half, published=True) == "a1 a2 b1 b2"
    # p = 3/4, 1/4: last ranks of a are ceil(4/3) = 2, ceil(8/3) = 3 and 4, and 4 for b1. a1 and a2
    # enter, then b1, which moves above both: a2 falls to 3 and a1 to 2, their last ranks; then a3
    assert order(DetConstSort, "b1 a1 a2 a3", {"a": 0.75, "b": 0.25}) == "b1 a1 a2 a3"


def test_cutoff_leaves_the_rest_in_order():
    half = {"a": 0.5, "b": 0.5}
    for kind in EVERY:
        assert order(kind, "a1 a2 a3 b1 b2", half, cutoff=2) == "a1 b1 a2 a3 b2"


def test_groups_without_candidates_or_shares():
    # c has two of four ranks and no document. k = 1: a1; k = 2: a is at its maximum: b1; k = 3: no
    # group below its maximum has documents: x1 by score. Sorting: a1 and b1 have the last rank 4,
    # a2 8, so it passes b1; x1 has no share and is last
    p = {"a": 0.25, "b": 0.25, "c": 0.5}
    for kind in EVERY:
        expected = "a1 a2 b1 x1" if kind is DetConstSort else "a1 b1 x1 a2"
        with pytest.warns(DataWarning, match="'q'"):
            assert order(kind, "a1 x1 a2 b1", p) == expected
    # b is out of documents after rank 2
    with pytest.warns(DataWarning, match="'q'"):
        assert order(DetGreedy, "a1 a2 a3 a4 b1", {"a": 0.4, "b": 0.6}) == "a1 b1 a2 a3 a4"


def test_a_target_per_query():
    docnos = ["a1", "a2", "b1", "b2"]
    rows = [("q1", "a", 0.5), ("q1", "b", 0.5), ("q2", "b", 1.0)]
    target = Target.from_frame(pd.DataFrame(rows, columns=["qid", "group", "weight"]))
    run = pd.concat([run_of(docnos, qid) for qid in ("q1", "q2", "q3")])
    for kind in EVERY:
        with pytest.warns(DataWarning) as caught:
            out = kind(people(docnos), target)(run)
        assert out["docno"].tolist() == ["a1", "b1", "a2", "b2", "b1", "b2", *docnos[:2], *docnos]
        assert sorted(str(w.message).count("'q3'") for w in caught) == [0, 1]  # no target
        assert out["rank"].tolist() == [0, 1, 2, 3] * 3
        assert out["score"].tolist() == [0, -1, -2, -3] * 3


# --- by their rules


@st.composite
def lists(draw, n_groups=4):
    parts = draw(st.lists(st.integers(1, 6), min_size=2, max_size=n_groups))
    text = draw(st.text(st.sampled_from(LEVELS[: len(parts)]), min_size=1, max_size=30))
    docnos = [f"{level}{i:02}" for i, level in enumerate(text)]
    total = sum(parts)
    return docnos, {level: part / total for level, part in zip(LEVELS, parts, strict=False)}, parts


def shown(docnos, k, level):
    return sum(d[0] == level for d in docnos[:k])


@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
@pytest.mark.parametrize("kind", EVERY)
@given(lists())
def test_prefixes_have_their_minimum(kind, case):
    docnos, p, parts = case
    if kind is not DetConstSort and len(parts) > 3:
        parts = []  # four groups or more may have no order by the greedy rules
    out = kind(people(docnos), p)(run_of(docnos))["docno"].tolist()
    assert sorted(out) == sorted(docnos)
    for level in p:
        own = [d for d in docnos if d[0] == level]
        assert [d for d in out if d[0] == level] == own  # each group keeps its order
    for k in range(1, len(out) + 1):
        for level, part in zip(p, parts, strict=False):
            needed = k * part // sum(parts)
            if all(shown(docnos, 99, other) >= k * share for other, share in p.items()):
                assert shown(out, k, level) >= needed


# --- FairRankTune 0.0.7 (PyPI): the published pseudocode


def published(docnos, scores, p, k):
    ranker = pytest.importorskip("FairRankTune.Rankers.DetConstSort_Geyiketal")
    frames = pd.DataFrame(docnos), {d: d[0] for d in docnos}, pd.DataFrame(scores)
    return ranker.DETCONSTSORT(*frames, p, k)[0][0].tolist()


def random_list(seed):
    rng = np.random.default_rng(seed)
    parts = rng.multinomial(13, [1 / 3] * 3) + 1
    p = dict(zip("abc", (parts / 16).tolist(), strict=True))
    docnos = [f"{rng.choice(list('abc'))}{i:02}" for i in range(20)]
    return docnos, p


GOLDEN = {
    1: "a00 c02 b07 a01 b11 a04 b12 c03 b13 a05 b19 c06 a08 c09 a10 a14 a15 c16 c17 c18",
    2: "b00 c01 b02 a03 b04 c06 c07 c08 a09 b05 c10 a11 b12 a13 a14 b15 a16 b17 a18 a19",
    3: "a00 c01 c02 b03 b07 b08 c12 a04 c13 b09 c18 a05 a06 a10 a11 a14 b16 a15 b17 b19",
}


@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
@pytest.mark.parametrize("seed", GOLDEN)
def test_values_of_fairranktune(seed):
    """The orders of FairRankTune 0.0.7's DETCONSTSORT for `random_list(seed)`."""
    docnos, p = random_list(seed)
    assert order(DetConstSort, " ".join(docnos), p, published=True) == GOLDEN[seed]


@pytest.mark.filterwarnings("ignore::fairtk.errors.DataWarning")
@pytest.mark.parametrize("seed", range(20))
def test_fairranktune_itself(seed):
    docnos, p = random_list(seed)
    scores = -np.arange(len(docnos), dtype=float)
    for k in (5, 12, 20):
        theirs = published(docnos, scores, p, k)
        ours = order(DetConstSort, " ".join(docnos), p, published=True, cutoff=k).split()
        assert ours[:k] == theirs


README = Path(__file__).parents[1] / "README.md"


@pytest.mark.skipif(not README.exists(), reason="an installation has no README")
def test_the_example_of_the_readme():
    results = doctest.testfile(str(README), module_relative=False)
    assert results.attempted > 5 and results.failed == 0


# --- what is refused


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"p": {"a": 0.5, "b": 0.4}}, ParameterError),
        ({"p": {"a": 1.5, "b": -0.5}}, ParameterError),
        ({"p": {"a": 0.5, "z": 0.5}}, InputError),
        ({"p": 0.5}, ParameterError),
        ({"p": {}}, ParameterError),
        ({"cutoff": 0}, ParameterError),
        ({"groups": "gender"}, ParameterError),
    ],
)
def test_settings_out_of_range(kind, settings, error):
    with pytest.raises(error, match=rf"\b{[*settings][-1]}\b"):
        kind(**{"groups": people(["a1", "b1"]), "p": {"a": 0.5, "b": 0.5}, **settings})


@pytest.mark.parametrize("kind", EVERY)
def test_input_that_is_refused(kind):
    stage = kind(TOYS, SHARES)
    with pytest.raises(ColumnError, match="'score'"):
        stage(toy_run().drop(columns="score"))
    with pytest.raises(ColumnError, match="sample"):
        stage(toy_samples())
