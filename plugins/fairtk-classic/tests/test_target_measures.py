"""NDKL, Skew, MinSkew and MaxSkew by hand."""

from math import log, log2

import numpy as np
import pandas as pd
import pytest
from fairtk_classic import NDKL, MaxSkew, MinSkew, Skew
from frames import groups, qrels, run, spelled, target, value

from fairtk import Groups, Target
from fairtk.errors import DataWarning, ParameterError, UndefinedWarning

LN2 = log(2)


def of(measure, letters, weights, **options):
    members, ranking = spelled(letters)
    made = groups(members, levels=sorted(weights))
    return value(measure(groups=made, target=target(weights, made), **options), ranking)


HALF = {"a": 0.5, "b": 0.5}


def test_ndkl_by_hand():
    # a b with target 1/2, 1/2: KL(1, 0 || p) = ln 2 at i = 1, 0 at i = 2
    # discounts 1 / log2(2) = 1 and 1 / log2(3); value ln 2 / (1 + 1 / log2(3))
    assert of(NDKL, "ab", HALF) == pytest.approx(LN2 / (1 + 1 / log2(3)))
    assert of(NDKL, "ab", HALF, base=2) == pytest.approx(1 / (1 + 1 / log2(3)))
    # a a: KL is ln 2 in both prefixes
    assert of(NDKL, "aa", HALF) == pytest.approx(LN2)
    # b a a with 3/4, 1/4: i=1: ln 4; i=2: .5 ln(2/3) + .5 ln 2; i=3: 2/3 ln(8/9) + 1/3 ln(4/3)
    terms = [log(4), 0.5 * log(2 / 3) + 0.5 * LN2, 2 / 3 * log(8 / 9) + log(4 / 3) / 3]
    weights = [1, 1 / log2(3), 1 / 2]
    wanted = sum(t * w for t, w in zip(terms, weights, strict=True)) / sum(weights)
    assert of(NDKL, "baa", {"a": 0.75, "b": 0.25}) == pytest.approx(wanted)


def test_skews_by_hand():
    # a a a b with 1/2, 1/2: shares 3/4, 1/4: ln(3/2) and ln(1/2)
    assert of(Skew, "aaab", HALF, group="a") == pytest.approx(log(1.5))
    assert of(Skew, "aaab", HALF, group="b") == pytest.approx(log(0.5))
    assert of(MinSkew, "aaab", HALF) == pytest.approx(log(0.5))
    assert of(MaxSkew, "aaab", HALF) == pytest.approx(log(1.5))
    # the first 2 are a: shares 1, 0; smoothed by .1: b has ln(.1)
    assert of(MaxSkew, "aabb", HALF, cutoff=2) == pytest.approx(LN2)
    assert of(MinSkew, "aabb", HALF, cutoff=2, smoothing=0.1) == pytest.approx(log(0.1))
    # .9 x 1 / .5 + .1 = 1.9
    assert of(MaxSkew, "aabb", HALF, cutoff=2, smoothing=0.1) == pytest.approx(log(1.9))


def test_unknown_groups():
    # a . b: without the second, the value of a b
    assert of(NDKL, "a.b", HALF) == pytest.approx(of(NDKL, "ab", HALF))
    # as a group: shares a 1/3, unknown 1/3, b 1/3 of targets 1/3 each
    frame = pd.DataFrame({"docno": ["d1", "d2", "d3"], "group": ["a", "@UNKNOWN", "b"]})
    made = Groups.from_frame(frame, name="toy")
    ranking = ["d1", "d2", "d3"]
    even = Target.uniform(made)
    thirds = Target.uniform(made, unknown=True)
    measure = Skew(groups=made, target=thirds, group="@UNKNOWN", unlabeled="group")
    assert value(measure, ranking) == pytest.approx(0)
    # dropped, the target of a is 1/2 and its share is 1/2
    assert value(Skew(groups=made, target=even, group="a"), ranking) == pytest.approx(0)
    with pytest.raises(ParameterError, match="'a'.*'b'.*'@UNKNOWN'"):
        Skew(groups=made, target=even, group="@UNKNOWN")
    # spread evenly: d2 is half a, half b
    asked = Skew(groups=made, target=even, group="a", unlabeled="uniform", cutoff=2)
    assert value(asked, ranking) == pytest.approx(log(0.75 / 0.5))


def test_documents_of_several_groups_count_in_part():
    made = groups({"x": {"a": 0.5, "b": 0.5}, "y": "a"})
    asked = Skew(groups=made, target=target(HALF, made), group="a")
    assert value(asked, ["x", "y"]) == pytest.approx(log(0.75 / 0.5))


def test_undefined():
    with pytest.warns(UndefinedWarning, match="'q'.*smoothing=0.01"):
        assert np.isnan(of(MinSkew, "aa", HALF))
    with pytest.warns(UndefinedWarning):
        assert np.isnan(of(Skew, "aa", HALF, group="b"))
    for measure in (NDKL, MaxSkew):
        with pytest.warns(UndefinedWarning):
            assert np.isnan(of(measure, "ab", {"a": 1.0, "b": 0.0}))
    for measure in (NDKL, MaxSkew, MinSkew):
        with (
            pytest.warns(UndefinedWarning),
            pytest.warns(DataWarning, match="known group for 1 of 1 query .'q'"),
        ):
            assert np.isnan(of(measure, "..", HALF))


@pytest.mark.filterwarnings("ignore::fairtk.errors.MissingWarning")
def test_no_target_is_undefined_and_the_missing_query_is_worst():
    import ir_measures

    members, ranking = spelled("ab")
    made = groups(members)
    frame = pd.DataFrame(
        {"qid": ["q", "q", "r", "r"], "group": list("abab"), "weight": [0.5, 0.5, 0.1, 0.9]}
    )
    labels = pd.concat([qrels({"d001": 1}, qid) for qid in ("q", "r", "s")])
    for measure, worst in ((NDKL, log(10)), (MaxSkew, log(10)), (MinSkew(smoothing=0.2), log(0.2))):
        asked = measure(groups=made, target=Target.from_frame(frame, made), **measure.params)
        with pytest.warns(UndefinedWarning, match="'s'"):
            found = list(ir_measures.iter_calc([asked], labels, run([ranking])))
        values = {m.query_id: m.value for m in found}
        assert values["r"] == pytest.approx(worst)
        assert np.isnan(values["s"])


def test_parameters():
    made = groups({"a": "a", "b": "b"})
    with pytest.raises(ParameterError):
        value(NDKL(groups=made), ["a"])
    with pytest.raises(ParameterError, match="'a'.*'b'"):
        value(Skew(groups=made, target=target(HALF, made)), ["a"])
    with pytest.raises(ParameterError, match="smoothing"):
        MinSkew(smoothing=1.0)
    with pytest.raises(ParameterError, match="base"):
        NDKL(base=1)
