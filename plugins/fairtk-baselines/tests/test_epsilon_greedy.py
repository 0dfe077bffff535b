"""EpsilonGreedy: values computed manually, and with the draws of FairRankTune."""

import numpy as np
import pandas as pd
import pytest
from fairtk_baselines import EpsilonGreedy
from fairtk_baselines.epsilon_greedy import swapped

from fairtk.errors import ColumnError, ParameterError
from fairtk.testing import TransformerContract, toy_run, toy_samples


class TestContract(TransformerContract):
    def make(self):
        return EpsilonGreedy(0.5)


def test_swaps_by_hand():
    # rank 0 swaps with 2: 2 1 0 3; rank 1 stays; rank 2 swaps with 3: 2 1 3 0; the last is ignored
    swaps = np.array([True, False, True, True])
    assert swapped(swaps, np.array([2, 2, 3, 9])).tolist() == [2, 1, 3, 0]


def test_ends():
    run = toy_run()
    assert EpsilonGreedy(0)(run)["docno"].tolist() == run["docno"].tolist()
    one = run.groupby("qid").head(1)
    assert EpsilonGreedy(1)(one)["docno"].tolist() == one["docno"].tolist()


def test_shares_of_many_queries():
    # two documents: swapped with probability epsilon; 4,000 queries, standard error .007
    qids = np.repeat([f"q{i}" for i in range(4000)], 2)
    run = pd.DataFrame({"qid": qids, "docno": ["a", "b"] * 4000, "score": [1.0, 0.0] * 4000})
    first = EpsilonGreedy(0.3)(run).groupby("qid")["docno"].first()
    assert (first == "b").mean() == pytest.approx(0.3, abs=0.03)
    # three documents, epsilon 1: the first is b or c with 1/2 each
    qids = np.repeat([f"q{i}" for i in range(4000)], 3)
    run = pd.DataFrame({"qid": qids, "docno": [*"abc"] * 4000, "score": [2.0, 1.0, 0.0] * 4000})
    first = EpsilonGreedy(1)(run).groupby("qid")["docno"].first()
    assert (first == "b").mean() == pytest.approx(0.5, abs=0.03) and "a" not in set(first)


def fairranktune_draws(n, epsilon, seed):
    """Return the swaps that FairRankTune 0.0.7 draws."""
    rng = np.random.RandomState(seed)  # noqa: NPY002 - its generator
    swaps, partner = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64)
    for i in range(n):
        if rng.rand() <= epsilon and i < n - 1:
            swaps[i], partner[i] = True, rng.randint(i + 1, n)
    return swaps, partner


def test_an_order_of_fairranktune():
    """The order of FairRankTune 0.0.7's EPSILONGREEDY of 12 documents, epsilon .4, seed 3."""
    assert swapped(*fairranktune_draws(12, 0.4, 3)).tolist() == [
        0,
        1,
        3,
        2,
        4,
        7,
        5,
        6,
        11,
        9,
        8,
        10,
    ]


@pytest.mark.parametrize("seed", range(10))
def test_fairranktune_itself(seed):
    ranker = pytest.importorskip("FairRankTune.Rankers.EpsilonGreedy_Fengetal")
    docs = pd.DataFrame(range(30))
    state = np.random.get_state()  # noqa: NPY002 - it seeds numpy's global state
    theirs = ranker.EPSILONGREEDY(docs, dict.fromkeys(range(30), "a"), docs, 0.4, seed)[0]
    np.random.set_state(state)  # noqa: NPY002
    assert swapped(*fairranktune_draws(30, 0.4, seed)).tolist() == theirs[0].tolist()


def test_what_is_refused():
    for wrong in ({"epsilon": 1.1}, {"epsilon": None}, {"seed": -1}):
        with pytest.raises(ParameterError, match=[*wrong][0]):
            EpsilonGreedy(**wrong)
    with pytest.raises(ColumnError, match="sample"):
        EpsilonGreedy()(toy_samples())
    with pytest.raises(ColumnError, match="'score'"):
        EpsilonGreedy()(toy_run().drop(columns="score"))
