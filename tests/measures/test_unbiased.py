"""EE_D and EE_L without what sampling adds: means over pairs of different samples."""

import ir_measures
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_frames import qrels_of, run_of, small_groups, value

from fairtk import EE_D, EE_L, EE_R, GroupEE_D, GroupEE_L, Target
from fairtk.errors import InputError, ParameterError

LABELS = {"a": 1, "b": 0, "c": 2, "d": 0, "e": 0}
QRELS = qrels_of(LABELS)


def test_by_hand():
    # k=2: exposures (1, 1, 0, ...), (1, 0, 1, ...), (0, 1, 1, ...): each two share one document,
    # so that EE-D is 1 of 2; the mean exposure 2/3 has the square 4/3 = (2 * 1 + 2) / 3
    run = run_of([["a", "b"], ["a", "c"], ["b", "c"]])
    assert value(EE_D @ 2, QRELS, run) == pytest.approx(2 / 3)
    assert value(EE_D(estimator="unbiased") @ 2, QRELS, run) == pytest.approx(1 / 2)
    # two rankings with nothing in common: less than the floor k/n = 2/5 of any policy, by chance
    apart = run_of([["a", "b"], ["c", "d"]])
    assert value(EE_D(estimator="unbiased") @ 2, QRELS, apart) == pytest.approx(0)
    assert value(EE_D(estimator="unbiased", bounds="exact") @ 2, QRELS, apart) < 0


@given(
    seed=st.integers(0, 9999),
    n_samples=st.integers(2, 6),
    browsing=st.sampled_from(["MU", "RBP(p=0.7)", "DCG", "TREC", "GERR(p=0.9, u=0.6)"]),
    grouped=st.booleans(),
)
def test_it_is_the_mean_over_pairs_of_samples(seed, n_samples, browsing, grouped):
    """For a policy of two rankings EE-D is ||(x + y) / 2||^2; <x, y> is what the pair alone says.

    By polarization <x, y> = 2 ||(x + y) / 2||^2 - (||x||^2 + ||y||^2) / 2, each a plain EE-D.
    """
    generator = np.random.default_rng(seed)
    rankings = [list(generator.permutation(list(LABELS))[:3]) for _ in range(n_samples)]
    disparity, loss = (m(browsing=browsing, normalize=False) @ 3 for m in (EE_D, EE_L))
    if grouped:
        groups = small_groups("abcde", "xxyyz")
        options = {"browsing": browsing, "groups": groups}
        disparity = GroupEE_D(**options) @ 3
        loss = GroupEE_L(**options, target=Target.uniform(groups)) @ 3
    plain, unbiased = disparity, disparity(estimator="unbiased")
    alone = [value(plain, QRELS, run_of([ranking])) for ranking in rankings]
    pairs = [
        2 * value(plain, QRELS, run_of([rankings[i], rankings[j]])) - (alone[i] + alone[j]) / 2
        for i in range(n_samples)
        for j in range(i)
    ]
    run = run_of(rankings)
    assert value(unbiased, QRELS, run) == pytest.approx(np.mean(pairs), abs=1e-12)
    removed = value(plain, QRELS, run) - value(unbiased, QRELS, run)
    losses = [value(loss(estimator=e), QRELS, run) for e in ("plain", "unbiased")]
    assert losses[0] - losses[1] == pytest.approx(removed, abs=1e-12)


def test_one_sample_is_an_error_and_no_sample_is_a_policy():
    run = pd.concat([run_of([["a", "b"], ["b", "c"]]), run_of([["a", "b"]], "r")])
    qrels = pd.concat([QRELS, QRELS.assign(query_id="r")])
    with pytest.raises(InputError, match="qid 'r'.*'plain'"):
        value(EE_D(estimator="unbiased") @ 2, qrels, run)
    fixed = run_of([["a", "b"]]).drop(columns="sample")
    assert value(EE_D(estimator="unbiased") @ 2, QRELS, fixed) == 1.0
    assert value(EE_L(estimator="unbiased") @ 2, QRELS, fixed) == value(EE_L @ 2, QRELS, fixed)


def test_a_query_that_the_run_lacks_gets_the_worst_value():
    qrels = pd.concat([QRELS, QRELS.assign(query_id="r")])
    run = run_of([["a", "b"], ["c", "d"]])
    assert value(EE_D(estimator="unbiased") @ 2, qrels, run) == pytest.approx((0 + 1) / 2)


def test_strings_and_what_does_not_go_together():
    measure = EE_D(estimator="unbiased") @ 5
    assert ir_measures.parse_measure(repr(measure)) == measure
    with pytest.raises(ParameterError, match="EE_R.*'estimator'"):
        EE_R(estimator="unbiased")
    with pytest.raises(ParameterError, match="estimator"):
        EE_D(estimator="jackknife")
