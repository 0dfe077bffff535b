"""Curves of clusters: two equal queries in each cluster are no more certain than one."""

import numpy as np
import pandas as pd
import pytest

import fairtk
from fairtk.errors import InputError
from fairtk.statistics import curve_values

X = np.array([[0.0, 0.5, 1.0], [0.0, 0.4, 1.0], [0.1, 0.5, 0.9]])
Y = np.array([[0.0, 0.4, 1.0], [0.2, 0.3, 0.8], [0.1, 0.6, 0.7]])


def test_a_cluster_of_equal_queries_counts_once():
    alone = curve_values(X, Y, resamples=50)
    twice = curve_values(
        np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0), resamples=50, clusters=[*"aabbcc"]
    )
    for name, value in alone.items():
        ours = twice[name]
        np.testing.assert_allclose(
            [ours.value, ours.low, ours.high], [value.value, value.low, value.high], rtol=1e-12
        )
    assert curve_values(X, Y, resamples=50, clusters=[3, 1, 2]) == alone


def test_a_query_without_points_is_in_no_cluster():
    x = np.vstack([X, np.full((1, 3), np.nan)])
    of_four = curve_values(x, np.vstack([Y, Y[:1]]), resamples=50, clusters=[*"abcd"])
    assert of_four == curve_values(X, Y, resamples=50)


def test_one_cluster_has_no_interval():
    [*values] = curve_values(X, Y, resamples=50, clusters=[*"aaa"]).values()
    assert all(np.isnan(value.low) and value.note for value in values)
    with pytest.raises(InputError, match="clusters"):
        curve_values(X, Y, clusters=[1, 2])


def test_by_hand():
    """Two clusters, whose areas under their curves are 0.2 (one query) and 0.6 (two queries).

    A curve of height h has the area h. A sample draws two clusters: both have the mean height
    (0.2 + 2 * 0.6) / 3 = 7 / 15; twice the first 0.2; twice the second 0.6.
    """
    x = np.tile([0.0, 1.0], (3, 1))
    y = np.array([[0.2, 0.2], [0.6, 0.6], [0.6, 0.6]])
    area = curve_values(x, y, resamples=200, clusters=["a", "b", "b"])["area of means"]
    np.testing.assert_allclose([area.value, area.low, area.high], [7 / 15, 0.2, 0.6])


def test_frontier_of_clusters():
    docnos, qids = [f"d{i}" for i in range(6)], ["q1", "q2", "q3"]
    random = np.random.default_rng(0)
    run = pd.DataFrame(
        [(q, d, float(s)) for q in qids for d, s in zip(docnos, random.random(6), strict=True)],
        columns=["qid", "docno", "score"],
    )
    other = run.assign(score=run["score"].to_numpy()[::-1])
    qrels = run[["qid", "docno"]].assign(label=(random.random(18) < 0.5).astype(int))

    def twice(frame):
        return pd.concat([frame, frame.assign(qid=frame["qid"] + "b")], ignore_index=True)

    options = {"alphas": [1, 4], "resamples": 50}
    alone = fairtk.frontier(qrels, {"a": run, "b": other}, **options)
    clusters = {q + end: q for q in qids for end in ("", "b")}
    runs = {"a": twice(run), "b": twice(other)}
    both = fairtk.frontier(twice(qrels), runs, cluster=clusters, **options)
    independent = fairtk.frontier(twice(qrels), runs, **options)
    for name in ("curve", "areas", "area_differences", "equal"):
        pd.testing.assert_frame_equal(getattr(both, name), getattr(alone, name))
    wide, narrow = (f.curve["x_high"] - f.curve["x_low"] for f in (both, independent))
    assert (wide > narrow).any()
