"""Clusters of queries: hand-computed values, simulations, and equality with independent queries."""

import inspect
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk import statistics
from fairtk.errors import InputError, ParameterError
from fairtk.statistics import (
    bootstrap_counts,
    equivalence_test,
    mean_intervals,
    no_interval,
    non_inferiority_test,
    paired_test,
    two_level_mean,
)
from fairtk.statistics.clusters import cluster_codes
from fairtk.statistics.tests import sign_flip_means

# cluster a: 1, 3; b: 2; c: -1, 0, 1
DIFFERENCES = np.array([1.0, -1.0, 2.0, 0.0, 3.0, 1.0])
CLUSTERS = ["a", "c", "b", "c", "a", "c"]
ZEROS = np.zeros(6)


def test_t_by_hand():
    # mean 1; deviations by cluster: a 0 + 2, b 1, c -2 - 1 + 0; squares 4 + 1 + 9 = 14
    # variance 3 / 2 * 14 / 6^2 = 7 / 12; t^2 = 12 / 7; with 2 degrees of freedom,
    # p = 1 - sqrt(t^2 / (t^2 + 2)) = 1 - sqrt(12 / 26)
    test = paired_test(DIFFERENCES, ZEROS, clusters=CLUSTERS)
    assert test.difference == 1
    assert test.p == pytest.approx(1 - math.sqrt(12 / 26), rel=1e-12)
    # the 97.5 % quantile of t with 2 degrees of freedom: .95 sqrt(2 / (1 - .95^2))
    half = 0.95 * math.sqrt(2 / (1 - 0.95**2)) * math.sqrt(7 / 12)
    assert (test.low, test.high) == pytest.approx((1 - half, 1 + half), rel=1e-12)
    (low,), (high,) = mean_intervals(DIFFERENCES[None], clusters=CLUSTERS)
    assert (low, high) == pytest.approx((test.low, test.high), rel=1e-12)
    levels = two_level_mean(DIFFERENCES, ZEROS, clusters=CLUSTERS)
    assert levels.error == levels.error_queries == pytest.approx(math.sqrt(7 / 12))
    assert (levels.low, levels.high) == pytest.approx((test.low, test.high))


def test_randomization_by_hand():
    # sums and sizes: a 4 of 2, b 2 of 1, c 0 of 3. Means of the two sets of each sign vector:
    # all | none; a | bc: 2 | 2/4; ab | c: 2 | 0; ac | b: 4/5 | 2. At 0, the first and the third
    # count: p = 2 / 4
    low, high = sign_flip_means(DIFFERENCES, 1, 1, cluster_codes(CLUSTERS, 6))
    pairs = sorted(zip(low.tolist(), high.tolist(), strict=True))
    assert pairs == [(-math.inf, math.inf), (0, 2), (0.5, 2), (0.8, 2)]
    assert paired_test(DIFFERENCES, ZEROS, "randomization", clusters=CLUSTERS).p == 0.5


@given(
    values=st.lists(st.integers(-9, 9), min_size=3, max_size=9),
    labels=st.lists(st.integers(0, 4), min_size=9, max_size=9),
    shift=st.integers(-40, 40).map(lambda n: n / 4 + 0.1),
)
def test_a_sign_vector_of_clusters_counts_between_its_two_means(values, labels, shift):
    d, codes = np.array(values, dtype=float), cluster_codes(labels[: len(values)], len(values))
    signs = np.array(list(itertools.product([1, -1], repeat=int(codes.max()) + 1)))[:, codes]
    far = np.abs((signs * (d - shift)).sum(axis=1)) >= abs((d - shift).sum()) - 1e-9
    low, high = sign_flip_means(d, 1, 1, codes)
    assert ((low <= shift) & (shift <= high)).mean() == far.mean()


def near(first, second):
    return first == pytest.approx(second, rel=1e-12, abs=1e-12, nan_ok=True)


@given(
    st.lists(
        st.tuples(st.floats(-5, 5), st.floats(0, 1)) | st.just((math.nan, 0.5)),
        min_size=2,
        max_size=24,
    ),
    st.randoms(use_true_random=False),
)
def test_clusters_of_one_query_are_independent_queries(pairs, random):
    x, y = np.array(pairs).T
    n = len(x)
    labels = [f"u{i}" for i in range(n)]
    random.shuffle(labels)
    for test in ("t", "randomization"):
        options = {"resamples": 99}
        alone, clustered = (
            paired_test(x, y, test, clusters=clusters, **options) for clusters in (None, labels)
        )
        for name in ("n", "difference", "estimate", "low", "high", "p", "effect", "n_zeros"):
            assert near(getattr(clustered, name), getattr(alone, name)), name
        assert bool(clustered.note) == bool(alone.note)
    for margin_test in (non_inferiority_test, equivalence_test):
        alone, clustered = (margin_test(x, y, 0.3, clusters=c) for c in (None, labels))
        assert near((clustered.low, clustered.high, clustered.p), (alone.low, alone.high, alone.p))
    alone, clustered = (mean_intervals([x, y], clusters=c) for c in (None, labels))
    assert near(np.array(clustered), np.array(alone))
    alone, clustered = (two_level_mean(x, y, clusters=c) for c in (None, labels))
    assert near(
        (clustered.error, clustered.error_queries, clustered.low, clustered.high),
        (alone.error, alone.error_queries, alone.low, alone.high),
    )
    drawn = bootstrap_counts(n, 20, 1)
    assert np.array_equal(bootstrap_counts(n, 20, 1, clusters=np.arange(n)), drawn)


@pytest.mark.parametrize("test", ["t", "randomization"])
def test_the_order_of_queries_and_the_names_of_clusters_do_not_matter(test):
    generator = np.random.default_rng(5)
    x, y = generator.random((2, 200))
    labels = generator.integers(0, 40, 200)
    expected = paired_test(x, y, test, resamples=199, clusters=labels)
    order = generator.permutation(200)
    names = generator.permutation(40)[labels].astype(str)
    actual = paired_test(x[order], y[order], test, resamples=199, clusters=names[order])
    assert actual == expected


def test_the_bootstrap_draws_clusters():
    counts = bootstrap_counts(6, 400, 3, clusters=CLUSTERS)
    assert counts.shape == (401, 6) and (counts[0] == 1).all()
    assert (counts[:, 0] == counts[:, 4]).all()  # a
    assert (counts[:, [1]] == counts[:, [3, 5]]).all()  # c
    assert (counts[:, [0, 1, 2]].sum(axis=1) == 3).all()  # three clusters are drawn
    assert counts[:, 2].min() == 0 and counts[:, 2].max() == 3


@pytest.mark.parametrize(
    ("clusters", "error"),
    [
        (["a", "b"], "6"),  # too few
        (["a", None, "b", "a", "b", "c"], "1"),  # missing: its index
        ([1.0, 2.0, math.nan, 1.0, 2.0, 3.0], "2"),
        ([["a"], ["b"], ["a"], ["b"], ["a"], ["b"]], r"\(6, 1\)"),
    ],
)
def test_invalid_clusters_are_refused(clusters, error):
    calls = {
        "paired_test": (DIFFERENCES, ZEROS),
        "mean_intervals": ([DIFFERENCES],),
        "no_interval": (DIFFERENCES,),
        "two_level_mean": (DIFFERENCES, ZEROS),
        "equivalence_test": (DIFFERENCES, ZEROS, 1),
        "non_inferiority_test": (DIFFERENCES, ZEROS, 1),
        "bootstrap_counts": (6, 9, 1),
        "curve_values": ([[0, 1]] * 6, [[0, 1]] * 6),
    }
    exports = {name: getattr(statistics, name) for name in statistics.__all__}
    with_clusters = {
        name for name, one in exports.items() if "clusters" in inspect.signature(one).parameters
    }
    assert with_clusters == calls.keys()
    for name, arguments in calls.items():
        with pytest.raises(InputError, match=f"clusters.*{error}"):
            exports[name](*arguments, clusters=clusters)


def test_wilcoxon_is_refused():
    with pytest.raises(ParameterError, match="wilcoxon"):
        paired_test(DIFFERENCES, ZEROS, "wilcoxon", clusters=CLUSTERS)


def test_one_cluster_has_no_test_and_no_interval():
    for test in ("t", "randomization"):
        result = paired_test(DIFFERENCES, ZEROS, test, clusters=["a"] * 6)
        assert math.isnan(result.p) and "cluster" in result.note
    assert np.isnan(mean_intervals([DIFFERENCES], clusters=["a"] * 6)).all()
    assert "cluster" in no_interval(DIFFERENCES, ["a"] * 6)
    assert math.isnan(two_level_mean(DIFFERENCES, ZEROS, clusters=["a"] * 6).error)


def test_one_value_is_too_few_and_two_equal_ones_are_equal():
    assert no_interval([1.0, 1.0]) == no_interval([1.0] * 5) != no_interval([1.0, math.nan])


def test_equal_means_of_clusters_have_no_interval():
    d, clusters = np.array([1.0, 3.0, 2.0, 0.0, 4.0]), [1, 1, 2, 3, 3]
    test = paired_test(d, np.zeros(5), clusters=clusters)
    assert math.isnan(test.p) and math.isnan(test.low) and "clusters" in test.note
    assert "clusters" in no_interval(d, clusters)
    # the means of both sets of each sign vector but the identity are 2: p = 1 / 4
    assert paired_test(d, np.zeros(5), "randomization", clusters=clusters).p == 0.25


def simulated(repetitions, n_clusters, correlation, seed):
    """Return values (repetitions, queries) with mean 0, and clusters of 1 to 9 queries."""
    generator = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_clusters), generator.integers(1, 10, n_clusters))
    of_cluster = generator.normal(size=(repetitions, n_clusters))[:, codes]
    of_query = generator.normal(size=(repetitions, len(codes)))
    return math.sqrt(correlation) * of_cluster + math.sqrt(1 - correlation) * of_query, codes


@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("n_clusters", [30, 100])
def test_intervals_of_means_cover(n_clusters, correlation):
    values, codes = simulated(3000, n_clusters, correlation, n_clusters)
    low, high = mean_intervals(values, clusters=codes)
    assert 0.93 <= ((low <= 0) & (high >= 0)).mean() <= 0.97
    low, high = mean_intervals(values)
    if correlation == 0.5:  # as if queries were independent
        assert ((low <= 0) & (high >= 0)).mean() < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("n_clusters", [30, 100])
def test_randomization_intervals_cover(n_clusters, correlation):
    values, codes = simulated(1000, n_clusters, correlation, 7)
    zeros = np.zeros(len(codes))
    options = {"resamples": 999, "clusters": codes}
    tests = [
        paired_test(row, zeros, "randomization", seed=seed, **options)
        for seed, row in enumerate(values)
    ]
    assert 0.93 <= np.mean([test.low <= 0 <= test.high for test in tests]) <= 0.97
