"""Targets: uniform, population, relevance labels, frames, levels that differ."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_frames import small_groups

from fairtk.errors import (
    ColumnError,
    DataWarning,
    DuplicateError,
    InputError,
    NotFoundError,
    ParameterError,
)
from fairtk.groups import UNKNOWN, Groups, Target, background

GENDER = small_groups(["d1", "d2", "d3", "d4", "d4"], ["f", "m", None, "f", "m"], "gender")
REGION = small_groups(["d1", "d2", "d3", "d4"], "xyyx", "region", unknown=None)
QRELS = pd.DataFrame(
    {
        "qid": ["q1", "q1", "q1", "q2", "q2", "q3"],
        "docno": ["d1", "d3", "d2", "d4", "zz", "zz"],
        "label": [1, 2, 0, 1, 1, 1],
    }
)


def dense(target, qids=("q",)):
    return target.for_qids(qids).expanded().dense()


def test_packaged_backgrounds():
    world = background("trec-2022-world-population")
    assert len(world) == 20
    assert world.sum() == pytest.approx(1)
    # shares as the track's notebooks print them
    assert world["Southern Asia"] == pytest.approx(0.2442, abs=5e-5)
    assert world["Eastern Asia"] == pytest.approx(0.2263, abs=5e-5)
    assert world["Oceania"] == pytest.approx(0.0053, abs=5e-5)
    assert world["Antarctica"] == pytest.approx(1.54e-7, abs=5e-10)
    assert "world-pop.csv" in world.attrs["source"]
    gender = background("trec-2022-gender")
    assert gender.to_dict() == pytest.approx({"female": 0.495, "male": 0.495, "NB": 0.01})
    assert len(background("trec-2021-world-population")) == 7
    with pytest.raises(NotFoundError, match="'trec-2022-gender'"):
        background("trec-2022-gendr")


def test_uniform():
    assert dense(Target.uniform(GENDER)).tolist() == [[0, 0.5, 0.5]]
    assert dense(Target.uniform(GENDER, unknown=True)).tolist() == [[1 / 3] * 3]
    crossed = Target.uniform(GENDER * REGION)
    assert dense(crossed, ["a", "b"]).tolist() == [[0, 0, 0.25, 0.25, 0.25, 0.25]] * 2


def test_population():
    target = Target.population(pd.Series({"m": 300, "f": 100}), GENDER)
    assert dense(target).tolist() == [[0, 0.25, 0.75]]
    free = Target.population({"m": 3, "f": 1})
    assert dense(free.for_groups(GENDER)).tolist() == [[0, 0.25, 0.75]]
    both = {"gender": {"f": 1, "m": 3}, "region": {"x": 1, "y": 1}}
    crossed = GENDER * REGION
    want = [[0, 0, 0.125, 0.125, 0.375, 0.375]]
    assert dense(Target.population(both, crossed)).tolist() == want
    joint = pd.Series({("f", "x"): 2, ("m", "y"): 6})
    assert dense(Target.population(joint, crossed)).tolist() == [[0, 0, 0.25, 0, 0, 0.75]]
    joint.index.names = ["gender", "region"]
    turned = Target.population(joint).for_groups(REGION * GENDER)
    assert dense(turned).tolist() == [[0, 0.25, 0, 0, 0, 0.75]]


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"f": -1, "m": 2}, "the share of 'f' must be at least 0, got -1"),
        ({"f": np.nan}, "the share of 'f' must be at least 0, got nan"),
        ({"f": 0.0}, "sum of shares must be above 0"),
        ({}, "sum of shares must be above 0"),
        ({"f": 1, "nb": 1}, "unknown level 'nb' of 'gender' .*'f', 'm'"),
        ([1, 2], "expected a series or dict"),
    ],
)
def test_bad_populations(shares, message):
    with pytest.raises(InputError, match=message):
        Target.population(shares, GENDER)


def test_relevance_labels_by_hand():
    target = Target.from_qrels(QRELS, GENDER)
    # q1: d1 (f) and d3 (unknown), label 0 does not count; q2: d4 (half f, half m), zz has no row
    got = dense(target, ["q2", "q1", "q3", "no"])
    assert got.tolist() == [[0, 0.5, 0.5], [0.5, 0.5, 0], [0, 0, 0], [0, 0, 0]]
    assert target.undefined == {"q3": "none of its 1 relevant documents is in the groups"}
    # background (1/4, 3/4): q1: known half 1/2 f + 1/2 (1/4, 3/4) of 1/2; q2: the same of 1
    averaged = Target.from_qrels(QRELS, GENDER, {"f": 0.25, "m": 0.75})
    want = [[0, 0.375, 0.625], [0.5, 0.3125, 0.1875]]
    assert dense(averaged, ["q2", "q1"]).ravel() == pytest.approx(np.ravel(want))
    named = Target.from_qrels(QRELS, GENDER, {"gender": {"f": 0.25, "m": 0.75}})
    assert named == averaged
    strict = Target.from_qrels(QRELS, GENDER, rel=2)
    assert dense(strict, ["q1"]).tolist() == [[1, 0, 0]]
    assert strict.undefined["q2"] == "it has no relevant document"
    with_unknown = Target.from_qrels(QRELS, GENDER, unlabeled="unknown")
    assert dense(with_unknown, ["q2", "q3"]).tolist() == [[0.5, 0.25, 0.25], [1, 0, 0]]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"background": {"f": 1, "nb": 0}}, InputError),
        ({"background": {"f": 0.5}}, InputError),
        ({"background": {"f": 2, "m": -1}}, InputError),
        ({"background": {UNKNOWN: 1}}, InputError),
        ({"background": {"sex": {"f": 1}}}, InputError),
        ({"background": "world"}, ParameterError),
        ({"unlabeled": "bounds"}, ParameterError),
    ],
)
def test_bad_settings_of_relevance_targets(options, error):
    with pytest.raises(error, match=rf"\b{[*options][-1]}\b"):
        Target.from_qrels(QRELS, GENDER, **options)
    if "background" not in options or not isinstance(options["background"], dict):
        return
    with pytest.raises(InputError):
        Target.from_qrels(QRELS, GENDER * REGION, **options)


def test_bad_labels():
    with pytest.raises(ColumnError, match="from_qrels"):
        Target.from_qrels(QRELS[["qid", "docno"]], GENDER)
    with pytest.raises(ParameterError):
        Target.from_qrels(QRELS, GENDER * REGION, {"f": 1})


def test_work_needed_by_hand():
    qrels = pd.DataFrame({"qid": "q", "docno": ["d1", "d2", "d4"], "label": 1})
    work = {"d1": "Stub", "d2": "FA", "d4": "FA", "d9": "B"}
    # d1 has rank 1 (weight 1); d2 and d4 share ranks 2 and 3: (1 + 1/log2 3) / 2 each
    late = (1 + 1 / np.log2(3)) / 2
    want = np.array([0, 1 + late / 2, late + late / 2]) / (1 + 2 * late)
    target = Target.from_work_needed(qrels, GENDER, work)
    assert dense(target)[0] == pytest.approx(want)
    with pytest.warns(DataWarning, match="1 of 3"):
        fewer = Target.from_work_needed(qrels, GENDER, pd.Series({"d1": "Stub", "d2": "FA"}))
    assert dense(fewer)[0].tolist() == [0, 0.5, 0.5]
    with pytest.raises(InputError, match="'A' of docno 'd2'"):
        Target.from_work_needed(qrels, GENDER, work | {"d2": "A"})
    with pytest.raises(DuplicateError, match="docno 'd1'"):
        Target.from_work_needed(qrels, GENDER, pd.Series(["FA", "C"], index=["d1", "d1"]))


def test_empty_labels_and_queries():
    target = Target.from_qrels(QRELS[:0], GENDER, {"f": 0.5, "m": 0.5})
    assert target.to_frame().columns.tolist() == ["qid", "group", "weight"]
    assert dense(target, ["q"]).tolist() == [[0, 0, 0]]
    assert Target.from_qrels(QRELS, GENDER).for_qids([]).n_rows == 0
    crossed = Target.from_qrels(QRELS[:0], GENDER * REGION)
    assert crossed == Target.from_qrels(QRELS[:0], GENDER * REGION, {"gender": {"f": 1.0}})


def test_frames_there_and_back():
    frame = pd.DataFrame(
        {"qid": ["q1", "q1", "q2"], "group": ["f", "m", "m"], "weight": [0.25, 0.75, 1]}
    )
    target = Target.from_frame(frame, GENDER)
    pd.testing.assert_frame_equal(target.to_frame(), frame, check_dtype=False)
    everywhere = Target.from_frame(frame[:2].drop(columns="qid"), GENDER)
    assert everywhere.to_frame().columns.tolist() == ["group", "weight"]
    assert dense(everywhere, ["a", "b"]).tolist() == [[0, 0.25, 0.75]] * 2
    crossed = pd.DataFrame({"region": ["x", "y"], "gender": ["m", UNKNOWN], "weight": [0.5, 0.5]})
    target = Target.from_frame(crossed, GENDER * REGION)
    assert dense(target).tolist() == [[0, 0.5, 0, 0, 0.5, 0]]
    assert set(target.to_frame().columns) == {"gender", "region", "weight"}
    assert Target.from_frame(target.to_frame(), GENDER * REGION) == target
    assert "gender*region" in repr(target)


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        ({"group": ["f"]}, ColumnError, "missing column 'weight'"),
        ({"weight": [1]}, ColumnError, "missing column 'group'; expected 'group' for 'gender'"),
        ({"group": ["f", "f"], "weight": [0.5, 0.5]}, DuplicateError, "duplicate level .group 'f'"),
        ({"group": ["f", "x"], "weight": [0.5, 0.5]}, InputError, "unknown level 'x'"),
        ({"group": ["f"], "weight": [0.9]}, InputError, "must sum to 1, got 0.9"),
        ({"group": ["f"], "weight": [-1]}, InputError, "weight .* got -1 .group 'f'"),
        ({"group": [None], "weight": [1]}, InputError, "group is missing"),
        ({"qid": ["q"], "group": ["f"], "weight": [2]}, InputError, "weights of qid 'q' must sum"),
    ],
)
def test_bad_frames(frame, error, message):
    with pytest.raises(error, match=message):
        Target.from_frame(pd.DataFrame(frame), GENDER)


def test_levels_are_matched_by_name():
    other = small_groups(["d1"], "f", "gender", levels=["m", "f"], unknown=None)
    target = Target.from_qrels(QRELS, GENDER)
    with pytest.raises(InputError, match="'@UNKNOWN'"):
        target.for_groups(other)
    assert target.for_groups(GENDER) is target
    moved = Target.uniform(GENDER, unknown=False).for_groups(other)
    assert dense(moved).tolist() == [[0.5, 0.5]]
    with pytest.raises(InputError, match="'gender'.*'region'"):
        target.for_groups(REGION)


def test_equality_is_by_content():
    one, two = Target.from_qrels(QRELS, GENDER), Target.from_qrels(QRELS[::-1], GENDER)
    assert one == two
    assert one.key == two.key
    assert one != Target.from_qrels(QRELS, GENDER, {"f": 0.5, "m": 0.5})
    assert one != Target.from_qrels(QRELS.assign(qid="a" + QRELS["qid"]), GENDER, rel=1)
    assert one != Target.uniform(GENDER)
    assert one != "gender"
    assert hash(one) == hash(two)


entries = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 2), st.integers(0, 1)),
    min_size=1,
    max_size=12,
)
SHARES = {"a": {"a1": 0.2, "a2": 0.3, "a3": 0.5}, "b": {"b1": 0.9, "b2": 0.1}}


def made(rows, place, name, count):
    frame = pd.DataFrame({"docno": [f"d{r[0]}" for r in rows], "level": [r[place] for r in rows]})
    frame["group"] = [f"{name}{v}" if v else UNKNOWN for v in frame["level"]]
    levels = [UNKNOWN, *(f"{name}{i}" for i in range(1, count))]
    return Groups.from_frame(frame.drop_duplicates(["docno", "group"]), name=name, levels=levels)


@given(entries, st.sampled_from([(), ("a",), ("b",), ("a", "b")]))
def test_crossed_targets_are_consistent(rows, averaged):
    a, b, c = (made(rows, i + 1, "abc"[i], n) for i, n in enumerate((4, 3, 2)))
    docnos = sorted({f"d{r[0]}" for r in rows})
    qrels = pd.DataFrame({"qid": [f"q{i % 2}" for i in range(len(docnos))], "docno": docnos})
    qrels["label"] = 1
    shares = {name: SHARES[name] for name in averaged}
    crossed = a * b * c
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairtk.groups.target._FEW_LEVELS", 0)
        target = Target.from_qrels(qrels, crossed, shares)
    stored = Target.from_qrels(qrels, crossed, shares)
    qids = ["q1", "no", "q0"]
    rows_of, want = target.for_qids(qids), dense(stored, qids)
    n = crossed.space.size
    row, cell = np.divmod(np.arange(3 * n), n)
    assert rows_of.lookup(row, cell).reshape(3, n) == pytest.approx(want, abs=1e-14)
    assert rows_of.total() == pytest.approx(want.sum(axis=1))
    assert rows_of.square() == pytest.approx((want**2).sum(axis=1))
    assert want.sum(axis=1) == pytest.approx(np.isin(qids, qrels["qid"]).astype(float))
    # attributes that are not averaged, and those alone that are, keep their own targets
    for one in (a, b, c):
        if one.name in averaged and len(averaged) > 1:
            continue  # the cases of known attributes differ then
        if one.name not in averaged and averaged:
            continue  # the background moves mass between documents of different tails
        own = Target.from_qrels(qrels, one, shares.get(one.name))
        assert dense(target.marginal(one.name), qids) == pytest.approx(dense(own, qids))
    if len(averaged) == 1:
        one = {"a": a, "b": b}[averaged[0]]
        own = Target.from_qrels(qrels, one, shares[one.name])
        assert dense(target.marginal(one.name), qids) == pytest.approx(dense(own, qids))


LEVELS = [str(i) for i in range(300)]


def test_targets_of_millions_of_cells_are_not_written_out(monkeypatch):
    monkeypatch.setattr("fairtk.groups.rows.MOST_LEVELS", 1000)
    wide = [
        small_groups(["d1", "d2"], "xy", name, levels=[*LEVELS, "x", "y"], unknown=None)
        for name in ("a", "b")
    ]
    groups = wide[0] * wide[1]
    uniform = Target.uniform(groups)
    assert uniform.for_qids(["q"]).total() == pytest.approx([1])
    assert uniform.for_qids(["q"]).square() == pytest.approx([1 / 302**2])
    with pytest.raises(InputError, match="91204"):
        uniform.to_frame()
    even = dict.fromkeys(LEVELS, 1 / 300)
    averaged = Target.from_qrels(QRELS, groups, {"a": even, "b": even})
    with pytest.raises(InputError):
        averaged.to_frame()
    assert averaged.key != uniform.key
    assert averaged.for_qids(["q1"]).total() == pytest.approx([1])


def test_a_frame_without_rows_is_no_target():
    empty = pd.DataFrame({"group": [], "weight": []})
    with pytest.raises(InputError):
        Target.from_frame(empty)
