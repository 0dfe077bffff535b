"""Groups: memberships, crossing, policies for what is missing, equality."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_frames import small_groups

from fairtk.errors import ColumnError, DuplicateError, InputError, ParameterError
from fairtk.groups import UNKNOWN, Groups
from fairtk.groups.groups import rows_of

GENDER = pd.DataFrame(
    {
        "docno": ["d1", "d2", "d2", "d3", "d4"],
        "group": ["f", "f", "m", "m", None],
        "weight": [1, 3, 1, 2, 1],
    }
)
REGION = pd.DataFrame({"docno": ["d2", "d1", "d1", "d9"], "group": ["x", "x", "y", "y"]})
GENDERS = Groups.from_frame(GENDER, name="gender")
REGIONS = Groups.from_frame(REGION, name="region")


def dense(groups):
    return pd.DataFrame(groups.matrix.toarray(), index=groups.docnos, columns=list(groups.levels))


def test_memberships_by_hand():
    assert GENDERS.name == "gender"
    assert list(GENDERS.levels) == [UNKNOWN, "f", "m"]  # the unknown level comes first
    assert GENDERS.docnos.tolist() == ["d1", "d2", "d3", "d4"]
    want = [[0, 1, 0], [0, 0.75, 0.25], [0, 0, 1], [1, 0, 0]]
    assert dense(GENDERS).to_numpy().tolist() == want
    assert len(GENDERS) == 4
    assert "gender" in repr(GENDERS)
    assert GENDERS.key.startswith("gender#")
    assert len(GENDERS.key) == len("gender#") + 8


def test_documents_of_several_groups_are_split():
    equal = Groups.from_frame(GENDER, split="equal")
    assert dense(equal).loc["d2"].tolist() == [0, 0.5, 0.5]
    whole = Groups.from_frame(GENDER, split="equal", normalize=False)
    assert dense(whole).loc["d2"].tolist() == [0, 1, 1]  # as TREC has gender
    raw = Groups.from_frame(GENDER, normalize=False)
    assert dense(raw).loc["d2"].tolist() == [0, 3, 1]


def test_levels_can_be_given():
    groups = Groups.from_frame(GENDER, levels=["m", "f", "nb", UNKNOWN])
    assert list(groups.levels) == ["m", "f", "nb", UNKNOWN]
    assert dense(groups).loc["d2"].tolist() == [0.25, 0.75, 0, 0]
    assert groups.space.unknown == (3,)
    other = Groups.from_frame(REGION, unknown=None)
    assert other.space.unknown == (-1,)


def test_a_weight_of_0_is_no_membership():
    frame = pd.DataFrame({"docno": ["a", "a"], "group": ["x", "y"], "weight": [0, 2]})
    groups = Groups.from_frame(frame, split="equal")
    assert dense(groups).loc["a"].tolist() == [0, 1]


def test_input_is_not_changed_and_may_be_empty():
    before = GENDER.copy()
    Groups.from_frame(GENDER)
    pd.testing.assert_frame_equal(GENDER, before)
    empty = Groups.from_frame(GENDER.iloc[:0])
    assert len(empty) == 0
    assert empty.matrix.shape == (0, 1)
    assert empty.memberships(["d1"]).size.tolist() == [0]
    assert GENDERS.memberships([]).start.tolist() == [0]
    crossed = GENDERS * REGIONS
    assert crossed.memberships([]).start.tolist() == [0]
    assert crossed.memberships(["zz"]).start.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("frame", "options", "error", "message"),
    [
        (GENDER[["docno"]], {}, ColumnError, "'gender'.*missing column 'group'"),
        (pd.concat([GENDER, GENDER[2:3]]), {}, DuplicateError, "duplicate .*docno 'd2', group 'm'"),
        (GENDER.assign(weight=-1), {}, InputError, "weight .* got -1 .docno 'd1', group 'f'"),
        (GENDER.assign(weight=[0, 1, 1, 1, 1]), {}, InputError, "sum to 0 .docno 'd1'"),
        (
            GENDER,
            {"levels": [UNKNOWN, "f"]},
            InputError,
            "unknown level 'm' .docno 'd2'.*'f'",
        ),
        (GENDER, {"levels": ["m", "m"]}, DuplicateError, "duplicate level 'm'"),
        (GENDER, {"levels": "m"}, ParameterError, "levels must be a list"),
        (GENDER, {"unknown": None}, InputError, "group is missing .*docno 'd4'"),
        (GENDER, {"split": "half"}, ParameterError, "split must be one of 'count', 'equal'"),
        (GENDER.assign(docno=None), {}, InputError, "docno is missing"),
        (GENDER.assign(docno=1.0), {}, InputError, "docno .*astype"),
        (GENDER.iloc[:0], {"unknown": None}, InputError, "no levels; pass"),
    ],
)
def test_bad_frames_are_named(frame, options, error, message):
    with pytest.raises(error, match=message) as caught:
        Groups.from_frame(frame, name="gender", **options)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


def test_crossing_multiplies_weights_that_are_no_shares():
    parts = [
        Groups.from_frame(
            pd.DataFrame({"docno": ["d"], "group": [name], "weight": [weight]}),
            name=name,
            normalize=False,
        )
        for name, weight in (("a", 0.5), ("b", 0.25))
    ]
    memberships = (parts[0] * parts[1]).memberships(["d"])
    assert memberships.weight.tolist() == [0.125]  # .5 * .25, each attribute with one level


def test_crossing_needs_other_names_and_common_documents():
    with pytest.raises(InputError, match="'gender'"):
        GENDERS * GENDERS
    assert (GENDERS * Groups.from_frame(GENDER, name="second")).space.shape == (3, 3)
    far, three, none = (small_groups(docnos, "x" * len(docnos)) for docnos in ("7", "978", ""))
    for other, example in ((far, "docno '7'"), (three, "docno '7'"), (none, "no documents")):
        message = f"(docno 'd1' in 'gender', {example} in {other.name!r})"
        with pytest.raises(InputError, match=re.escape(message)):
            GENDERS * other
    with pytest.raises(TypeError):
        GENDERS * 2


def test_too_many_cells_are_refused():
    many = [
        Groups.from_frame(pd.DataFrame({"docno": ["a"], "group": ["x"]}), name=f"a{i}",
                          levels=[*map(str, range(999)), "x"], unknown=None)
        for i in range(7)
    ]  # fmt: skip
    crossed = many[0]
    with pytest.raises(InputError, match=r"gives 1.0e\+21 groups"):
        for one in many[1:]:
            crossed = crossed * one


memberships = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(1, 3)),
    min_size=1,
    max_size=15,
    unique_by=lambda t: t[:2],
)


def made(entries, name, numeric):
    frame = pd.DataFrame(entries, columns=["docno", "group", "weight"])
    frame["docno"] = [str(d * 7) if numeric else f"d{d}" for d in frame["docno"]]
    frame["group"] = [UNKNOWN if g == 0 else f"{name}{g}" for g in frame["group"]]
    return Groups.from_frame(frame, name=name)


@given(st.lists(memberships, min_size=2, max_size=4), st.booleans(), st.integers(0, 3))
def test_crossing_is_the_dense_product(parts, numeric, mixed):
    singles = [made(entries, "abcd"[i], numeric) for i, entries in enumerate(parts)]
    common = set(singles[0].docnos)
    crossed = singles[0]
    for one in singles[1:]:
        common &= set(one.docnos)
        try:
            crossed = crossed * one
        except InputError:
            assert not common
            return
    assert set(crossed.docnos) == common
    docnos = [*singles[0].docnos, "zz"]
    memberships = crossed.memberships(docnos)
    owner = np.repeat(np.arange(len(docnos)), memberships.size)
    got = np.zeros((len(docnos), crossed.space.size))
    np.add.at(got, (owner, memberships.level), memberships.weight)
    for place, docno in enumerate(docnos):
        want = np.ones(1)
        for one in singles:
            want = np.outer(want, one.memberships([docno]).dense()[0]).ravel()
        assert got[place] == pytest.approx(want)
        assert (memberships.size[place] > 0) == (docno in common)
    if len(crossed):
        assert dense(crossed).to_numpy().sum(axis=1) == pytest.approx(np.ones(len(crossed)))


@given(memberships, st.randoms(), st.booleans())
def test_order_of_rows_means_nothing(entries, random, numeric):
    shuffled = list(entries)
    random.shuffle(shuffled)
    one, two = made(entries, "a", numeric), made(shuffled, "a", numeric)
    assert one == two
    assert one.key == two.key
    assert hash(one) == hash(two)


def test_equality_is_by_content():
    assert Groups.from_frame(GENDER, name="sex") != GENDERS
    assert Groups.from_frame(GENDER, name="gender", split="equal") != GENDERS
    assert Groups.from_frame(GENDER[:-1], name="gender") != GENDERS
    assert Groups.from_frame(GENDER, name="gender", levels=["m", "f", UNKNOWN]) != GENDERS
    moved = GENDER.assign(docno=["d1", "d3", "d3", "d2", "d4"])
    assert Groups.from_frame(moved, name="gender") != GENDERS
    assert GENDERS != "gender"
    same = GENDER.assign(weight=[5, 6, 2, 1, 1])
    assert Groups.from_frame(same, name="gender") == GENDERS


def test_page_ids_are_numbers_inside_and_strings_outside():
    frame = pd.DataFrame({"docno": [30, 7, 100], "group": ["a", "b", "c"]})
    groups = Groups.from_frame(frame)
    text = Groups.from_frame(frame.astype(str))
    assert groups == text
    [documents] = text.documents
    assert documents.dtype == "int64"
    assert groups.docnos.tolist() == ["7", "30", "100"]
    docnos = ["30", "07", "x", "+7", "7 ", "1_00", "100", "٣٠", "-7", "", "9" * 30]
    want = [1, -1, -1, -1, -1, -1, 2, -1, -1, -1, -1]
    assert rows_of(documents, np.array(docnos, dtype=object)).tolist() == want
    plain = np.array(["7", "07", "+7"], dtype=object)
    assert rows_of(documents, plain).tolist() == [0, -1, -1]
    leading = Groups.from_frame(pd.DataFrame({"docno": ["07", "7"], "group": ["a", "b"]}))
    [documents] = leading.documents
    other = np.array(["7", "07", "8"], dtype=object)
    assert rows_of(documents, other).tolist() == [1, 0, -1] and documents.dtype == object


def cells(groups, docnos, missing):
    memberships = groups.memberships(docnos, missing)
    owner = np.repeat(np.arange(len(docnos)), memberships.size)
    got = np.zeros((len(docnos), groups.space.size))
    np.add.at(got, (owner, memberships.level), memberships.weight)
    return got.tolist(), memberships


def test_policies_for_what_is_missing():
    half = pd.DataFrame({"docno": ["d5", "d5"], "group": ["f", UNKNOWN]})
    groups = Groups.from_frame(pd.concat([GENDER.drop(columns="weight"), half]), name="gender")
    docnos = ["d1", "d4", "no", "d5"]  # known, unknown, without a row, half known
    got, memberships = cells(groups, docnos, "drop")
    assert got == [[0, 1, 0], [1, 0, 0], [0, 0, 0], [0.5, 0.5, 0]]
    assert memberships.size.tolist() == [1, 1, 0, 2]
    got, memberships = cells(groups, docnos, "unknown")
    assert got == [[0, 1, 0], [1, 0, 0], [1, 0, 0], [0.5, 0.5, 0]]
    got, memberships = cells(groups, docnos, "uniform")
    assert got == [[0, 1, 0], [0, 0.5, 0.5], [0, 0.5, 0.5], [0, 0.75, 0.25]]
    got, memberships = cells(groups, docnos, "bounds")
    assert got == [[0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0.5, 0]]
    shares = groups.unknown_shares(np.array(docnos, dtype=object))
    assert shares.tolist() == [0, 1, 1, 0.5]
    with pytest.raises(ParameterError, match="unlabeled"):
        groups.memberships(docnos, "ignore")


def test_policies_of_crossed_attributes():
    crossed = GENDERS * REGIONS
    got, memberships = cells(crossed, ["d1", "d3"], "drop")  # d3 has no region
    assert memberships.size.tolist() == [2, 0]
    got, _ = cells(crossed, ["d3"], "uniform")
    assert got == [[0, 0, 0, 0, 0.5, 0.5]]
    with pytest.raises(InputError, match="'region'.*'d3'"):
        crossed.memberships(["d1", "d3"], "unknown")
    with pytest.raises(ParameterError):
        crossed.memberships(["d1"], "bounds")


def test_the_unknown_level_joins_given_levels_first():
    groups = Groups.from_frame(GENDER, "gender", levels=["m", "f"])
    assert list(groups.levels) == [UNKNOWN, "m", "f"]


def test_coverage_has_at_least_one_rank():
    run = pd.DataFrame({"qid": "q", "docno": ["d1", "x"], "score": [2.0, 1.0]})
    assert GENDERS.coverage(run, 1)["retrieved"].tolist() == [1]
    with pytest.raises(ParameterError, match="cutoff.*got 0"):
        GENDERS.coverage(run, 0)
