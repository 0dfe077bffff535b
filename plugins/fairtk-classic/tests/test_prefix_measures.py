"""rND, rKL, rRD and FAIR_prefix by hand; their normalizer against all orders."""

from itertools import combinations
from math import log2

import ir_measures
import numpy as np
import pandas as pd
import pytest
from fairtk_classic import FAIR_prefix, rKL, rND, rRD
from frames import groups, qrels, run, spelled, target, value

from fairtk.errors import InputError, ParameterError, UndefinedWarning


def of(measure, letters, **options):
    members, ranking = spelled(letters)
    made = measure(groups=groups(members, levels=["p", "x"]), protected="p", **options)
    return value(made, ranking)


def test_rnd_by_hand():
    # whole: 2 of 6 protected, 1/3. Prefixes of 2, 4, 6 have 1/2, 1/4, 1/3:
    # |1/2 - 1/3| / log2(2) + |1/4 - 1/3| / log2(4) + 0 = 1/6 + 1/24 = 5/24
    # protected first (ppxxxx): 1, 1/2, 1/3: 2/3 + (1/6) / 2 = 3/4; last (xxxxpp): 0, 0: 1/3 + 1/6
    # Z = 3/4; value 5/24 / (3/4) = 5/18
    assert of(rND, "pxxxxp", step=2) == pytest.approx(5 / 18)


def test_rkl_by_hand():
    # prefixes of 2 and 4 have shares 1/2 and 1/4 of a whole of 1/3
    # KL(1/2, 1/3) = .5 log2(1.5) + .5 log2(.75); KL(1/4, 1/3) = .25 log2(.75) + .75 log2(9/8)
    first = 0.5 * log2(1.5) + 0.5 * log2(0.75)
    second = 0.25 * log2(0.75) + 0.75 * log2(9 / 8)
    # protected first: KL(1, 1/3) = log2(3); KL(1/2, 1/3) again at 4
    most = log2(3) / log2(2) + first / log2(4)
    assert of(rKL, "pxxxxp", step=2) == pytest.approx((first + second / 2) / most)


def test_rrd_by_hand():
    # whole: 2 to 4, ratio 1/2. Prefixes of 2 and 4: 1 to 1 and 1 to 3:
    # |1 - 1/2| / log2(2) + |1/3 - 1/2| / log2(4) = 1/2 + 1/12 = 7/12
    # other orders: ppxx: prefix 2 has nobody else: ratio 0: 1/2; then 2 to 2: 1/2 / 2: 3/4
    # pxpx: 1/2 + |2/2 - 1/2| / 2 = 3/4; xxxx: 1/2 + 1/2 / 2 = 3/4. Z = 3/4
    assert of(rRD, "pxxxxp", step=2) == pytest.approx((7 / 12) / (3 / 4))


def test_rnd_with_a_target_by_hand():
    # the whole is the target's 1/4. Prefixes of 2 and 4: |1/2 - 1/4| + |2/4 - 1/4| / 2 = 3/8
    # worst of all rankings of 4: protected only: 3/4 + (3/4) / 2 = 9/8
    members, ranking = spelled("pxxp")
    made = groups(members)
    measure = rND(groups=made, protected="p", step=2, target=target({"p": 0.25, "x": 0.75}, made))
    assert value(measure, ranking) == pytest.approx((3 / 8) / (9 / 8))


def test_default_step_is_ten():
    # one prefix of 10 that is not the whole: 5 of 10 protected, of 5 of 20: |1/2 - 1/4| / log2(10)
    # Z: also 5 in the first 10: value 1; with none there: |0 - 1/4| is as far: 1
    assert of(rND, "pxpxpxpxpx" + "x" * 10) == pytest.approx(1.0)
    assert of(rND, "x" * 10 + "pxpxpxpxpx") == pytest.approx(1.0)
    # 2 of the first 10, of 5 of 20: |1/5 - 1/4| / |1/2 - 1/4| = 1/5
    assert of(rND, "ppxxxxxxxx" + "pppxxxxxxx") == pytest.approx(0.2)


@pytest.mark.parametrize("measure", [rND, rKL, rRD])
@pytest.mark.parametrize(("n", "protected", "step"), [(8, 3, 2), (9, 4, 3), (7, 2, 2), (10, 5, 4)])
def test_the_worst_order_has_one_and_no_order_more(measure, n, protected, step):
    members = {f"d{i}": "p" if i < protected else "x" for i in range(n)}
    frames, labels = [], []
    for number, places in enumerate(combinations(range(n), protected)):
        kinds = {"p": iter(range(protected)), "x": iter(range(protected, n))}
        order = [f"d{next(kinds['p' if i in places else 'x'])}" for i in range(n)]
        frames.append(run([order], f"q{number}"))
        labels.append(qrels({"d0": 1}, f"q{number}"))
    asked = measure(groups=groups(members), protected="p", step=step)
    values = ir_measures.iter_calc([asked], pd.concat(labels), pd.concat(frames))
    found = [m.value for m in values]
    assert max(found) == pytest.approx(1.0)
    assert min(found) >= 0


@pytest.mark.parametrize("measure", [rND, rKL, rRD])
def test_prefixes_like_the_whole_have_zero(measure):
    assert of(measure, "pxxxpxxxpxxx", step=4) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("measure", [rND, rKL, rRD])
def test_documents_without_a_group_are_left_out(measure):
    assert of(measure, "p.xxx.xp", step=2) == pytest.approx(of(measure, "pxxxxp", step=2))


@pytest.mark.parametrize("measure", [rND, rKL, rRD])
def test_undefined(measure):
    with pytest.warns(UndefinedWarning, match="'q'.*step=10"):
        assert np.isnan(of(measure, "pxx"))
    with pytest.warns(UndefinedWarning):
        assert np.isnan(of(measure, "xxxxxx", step=2))  # 0 / 0, not a flattering 0
    with pytest.warns(UndefinedWarning):
        assert np.isnan(of(measure, "pxx", step=3))
    with pytest.warns(match="no document with|less than half"):
        assert np.isnan(of(measure, "...", step=2))


def test_one_group_alone_has_a_value_against_a_target():
    members, ranking = spelled("xxxx")
    made = groups({**members, "elsewhere": "p"})
    for measure in (rND, rKL, rRD):
        asked = measure(
            groups=made, protected="p", step=2, target=target({"p": 0.25, "x": 0.75}, made)
        )
        assert 0 < value(asked, ranking) <= 1


def test_rrd_is_for_a_minority():
    with pytest.warns(UndefinedWarning):
        assert np.isnan(of(rRD, "pppxxp", step=2))


def test_rrd_counts_documents():
    made = groups({"a": {"p": 0.5, "x": 0.5}, "b": "x", "c": "x"})
    with pytest.raises(InputError, match="docno 'a'.*'p'"):
        value(rRD(groups=made, protected="p", step=2), ["a", "b", "c"])


def test_rnd_of_documents_in_part():
    # prefix of 2: (1/2 + 0) / 2 = 1/4; whole: (1/2 + 0 + 0 + 1) / 4 = 3/8: |1/4 - 3/8| = 1/8
    # worst: shares 1, 1/2 first: |3/4 - 3/8| = 3/8; last: 0: 3/8. (prefix 4 is the whole)
    made = groups({"a": {"p": 0.5, "x": 0.5}, "b": "x", "c": "x", "d": "p"})
    measure = rND(groups=made, protected="p", step=2)
    assert value(measure, ["a", "b", "c", "d"]) == pytest.approx(1 / 3)


def test_fair_by_hand():
    # p = 1/2, ranking p x x. F(1; 1, .5) = 1; F(1; 2, .5) = 3/4; F(1; 3, .5) = 1/8 + 3/8 = 1/2
    assert of(FAIR_prefix, "pxx", p=0.5) == pytest.approx((1 + 0.75 + 0.5) / 3)
    # x x p: F(0; 1) = 1/2, F(0; 2) = 1/4, F(1; 3) = 1/2
    assert of(FAIR_prefix, "xxp", p=0.5) == pytest.approx((0.5 + 0.25 + 0.5) / 3)
    # the catalog has 1 of 3 protected: F(0; 1, 1/3) = 2/3, F(0; 2) = 4/9, F(1; 3) = 8/27 + 12/27
    assert of(FAIR_prefix, "xxp") == pytest.approx((2 / 3 + 4 / 9 + 20 / 27) / 3)


def test_fair_with_a_target_is_fair_with_its_share():
    members, ranking = spelled("xpxxp")
    made = groups(members)
    wanted = target({"p": 0.3, "x": 0.7}, made)
    assert value(FAIR_prefix(groups=made, protected="p", target=wanted), ranking) == pytest.approx(
        value(FAIR_prefix(groups=made, protected="p", p=0.3), ranking)
    )


def test_fair_undefined():
    with pytest.warns(UndefinedWarning, match="'p'"):
        assert np.isnan(of(FAIR_prefix, "xxx"))  # the catalog has no protected document
    made = groups({"a": "p", "b": "x"})
    with pytest.raises(ParameterError):
        FAIR_prefix(groups=made, p=0.5, target=target({"p": 0.5, "x": 0.5}, made))


@pytest.mark.parametrize("measure", [rND, rKL, rRD, FAIR_prefix])
def test_the_level_is_named(measure):
    made = groups({"a": "p", "b": "x"})
    with pytest.raises(ParameterError, match="'z'.*'p'.*'x'"):
        measure(groups=made, protected="z")
    with pytest.raises(ParameterError, match="'p'.*'x'"):
        value(measure(groups=made), ["a", "b"])
    with pytest.raises(ParameterError):
        value(measure(), ["a", "b"])


def test_step():
    with pytest.raises(ParameterError, match="step"):
        rND(step=1)
