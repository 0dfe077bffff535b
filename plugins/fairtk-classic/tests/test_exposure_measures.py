"""logDP, logEUR, logRUR, EXP, EXPU, EXPRU, ABR and the ER measures by hand."""

from math import log, log2, sqrt

import numpy as np
import pytest
from fairtk_classic import (
    ABR,
    ERBE,
    ERBP,
    ERBR,
    EXP,
    EXPRU,
    EXPU,
    logDP,
    logEUR,
    logRUR,
)
from fairtk_classic.exposures import combine
from fairtk_classic.parameters import COMBINATIONS
from frames import groups, spelled, value

from fairtk.errors import ParameterError, UndefinedWarning

THIRD = 1 / log2(3)  # DCG attention of the second rank; the first has 1, the third 1/2
D = 1e-6


def of(measure, letters, labels=None, levels=("p", "x"), **options):
    """The value for a ranking of letters; `labels` in rank order, all 1 by default."""
    members, ranking = spelled(letters)
    made = measure(groups=groups(members, levels=list(levels)), **options)
    labels = [1] * len(ranking) if labels is None else labels
    return value(made, ranking, dict(zip(ranking, labels, strict=True)))


def test_log_dp_by_hand():
    # p x x: 1 for p, THIRD + 1/2 for x
    total = log(1 + D) - log(THIRD + 0.5 + D)
    assert of(logDP, "pxx", protected="p") == pytest.approx(total)
    assert of(logDP, "pxx", protected="x") == pytest.approx(-total)
    # means: 1 and (THIRD + 1/2) / 2
    mean = log(1 + D) - log((THIRD + 0.5) / 2 + D)
    assert of(logDP, "pxx", protected="p", per="document") == pytest.approx(mean)
    # x p p, attention 1, 1/2, 1/4: 3/4 for p, 1 for x: below 0, against p
    found = of(logDP, "xpp", protected="p", browsing="RBP(p=0.5)")
    assert found == pytest.approx(log(0.75 + D) - log(1 + D))
    found = of(logDP, "xpp", protected="p", browsing="RBP(p=0.5)", absolute=True)
    assert found == pytest.approx(log(1 + D) - log(0.75 + D))


def test_log_dp_of_a_group_without_exposure_is_large_and_finite():
    assert of(logDP, "xx", protected="p") == pytest.approx(log(D) - log(1 + THIRD + D))
    assert of(logDP, "pxx", cutoff=1, protected="x") == pytest.approx(log(D) - log(1 + D))


def test_log_eur_by_hand():
    # p x x with labels 1, 2, 0: exposure 1 and THIRD + 1/2, mean labels 1 and 1
    found = of(logEUR, "pxx", [1, 2, 0], protected="p")
    assert found == pytest.approx(log(1 + D) - log(THIRD + 0.5 + D))
    # mean exposure: x has half of it
    found = of(logEUR, "pxx", [1, 2, 0], protected="p", per="document")
    assert found == pytest.approx(log(1 + D) - log((THIRD + 0.5) / 2 + D))
    # labels 2, 1, 1: p has mean label 2
    found = of(logEUR, "pxx", [2, 1, 1], protected="p")
    assert found == pytest.approx(log(0.5 + D) - log(THIRD + 0.5 + D))


def test_log_rur_by_hand():
    # p x x with labels 1, 2, 0: clicks 1 and 2 THIRD + 0; mean labels 1 and 1
    found = of(logRUR, "pxx", [1, 2, 0], protected="p")
    assert found == pytest.approx(log(1 + D) - log(2 * THIRD + D))


def test_samples_are_averaged_before_logs_are_taken():
    made = groups({"a": "p", "b": "x"})
    samples = [["a", "b"], ["b", "a"]]  # both groups: (1 + THIRD) / 2
    measure = logDP(groups=made, protected="p")
    assert value(measure, samples) == pytest.approx(0)
    assert value(measure(amortize=False), samples) == pytest.approx(0)  # 1 of each sign
    away = measure(absolute=True)
    assert value(away, samples) == pytest.approx(0)
    assert value(away(amortize=False), samples) == pytest.approx(log(1 + D) - log(THIRD + D))


def test_log_ratios_undefined():
    for measure in (logEUR, logRUR):
        with pytest.warns(UndefinedWarning):
            assert np.isnan(of(measure, "pxx", [0, 1, 1], protected="p"))
    with pytest.warns(UndefinedWarning):
        assert np.isnan(of(logDP, "xx", protected="p", per="document"))
    with pytest.warns(match="no document with|less than half"):
        assert np.isnan(of(logDP, "..", protected="p"))  # 0 - 0 in logs, not a flattering 0


def test_exp_by_hand():
    # p x x: mean attention 1 and (THIRD + 1/2) / 2 = .5655
    other = (THIRD + 0.5) / 2
    assert of(EXP, "pxx") == pytest.approx(other)
    assert of(EXP, "pxx", combine="max/min") == pytest.approx(1 / other)
    assert of(EXP, "pxx", combine="max-min") == pytest.approx(1 - other)
    assert of(EXP, "pxx", combine="max-deviation") == pytest.approx((1 - other) / 2)
    assert of(EXP, "pxx", combine="mean-deviation") == pytest.approx((1 - other) / 2)
    assert of(EXP, "pxx", combine="l2") == pytest.approx(sqrt(1 + other**2))
    assert of(EXP, "pxx", combine="variance") == pytest.approx((1 - other) ** 2 / 4)


def test_combinations_by_hand():
    # 1, 2, 6: mean 3, deviations 2, 1, 3
    values, every = np.array([[1.0, 2.0, 6.0]]), np.ones((1, 3), dtype=bool)
    wanted = {
        "min/max": 1 / 6,
        "max/min": 6,
        "max-min": 5,
        "max-deviation": 3,
        "mean-deviation": 2,
        "l2": sqrt(41),
        "variance": 14 / 3,
    }
    assert set(wanted) == set(COMBINATIONS)
    for how, number in wanted.items():
        assert combine(values, every, how) == pytest.approx([number])
    # without the last: 1 and 2
    some = np.array([[True, True, False]])
    assert combine(values, some, "max-min") == pytest.approx([1])
    assert combine(values, some, "variance") == pytest.approx([0.25])
    assert np.isnan(combine(values, np.array([[True, False, False]]), "max-min"))


def test_population_by_hand():
    # shown: p x; also labeled: another x (y); also in the collection: another p (z)
    made = groups({"a": "p", "b": "x", "y": "x", "z": "p"})
    labels = {"a": 1, "b": 0, "y": 1}
    ask = EXP(groups=made, browsing="RBP(p=0.5)")  # attention 1 and 1/2
    assert value(ask(population="ranked"), ["a", "b"], labels) == pytest.approx(0.5)
    # labeled or shown: x has 2 documents: mean 1/4
    assert value(ask, ["a", "b"], labels) == pytest.approx(0.25)
    assert value(ask(population="judged"), ["a", "b"], labels) == pytest.approx(0.25)
    # collection: p has 2, too: 1/2 and 1/4
    assert value(ask(population="collection"), ["a", "b"], labels) == pytest.approx(0.5)


def test_expu_and_expru_by_hand():
    # p x x with labels 1, 2, 1: exposure 1 and THIRD + 1/2; labels 1 and 3
    assert of(EXPU, "pxx", [1, 2, 1]) == pytest.approx((THIRD + 0.5) / 3)
    # clicks 1 and 2 THIRD + 1/2
    assert of(EXPRU, "pxx", [1, 2, 1]) == pytest.approx((2 * THIRD + 0.5) / 3)
    assert of(EXPU, "pxx", [1, 2, 1], combine="max-min") == pytest.approx(1 - (THIRD + 0.5) / 3)


def test_groups_without_documents_are_no_even_groups():
    for measure in (EXP, ABR, ERBP):
        with pytest.warns(UndefinedWarning, match="'y'.*'skip'"):
            assert np.isnan(of(measure, "pxx", levels="pxy"))
        assert 0 < of(measure, "pxx", levels="pxy", empty="skip") < 1
        with pytest.warns(UndefinedWarning):
            assert np.isnan(of(measure, "pp", empty="skip"))
    for measure in (EXPU, EXPRU, ERBR):
        with pytest.warns(UndefinedWarning, match="'x'"):
            assert np.isnan(of(measure, "pxx", [1, 0, 0]))
    # raw exposure: a group that is not shown has 0, the worst
    assert of(ERBE, "pxx", levels="pxy") == 0


def test_a_group_that_is_labeled_but_not_shown_gets_nothing():
    assert of(EXP, "ppx", cutoff=2) == 0
    with pytest.warns(UndefinedWarning):
        assert np.isnan(of(EXP, "ppx", cutoff=2, combine="max/min"))


def test_abr_by_hand():
    # p x x, attention 1, 1/2, 1/4: means 1 and 3/8
    assert of(ABR, "pxx") == pytest.approx(3 / 8)
    # p x p: means (1 + 1/4) / 2 = 5/8 and 1/2: 4/5
    assert of(ABR, "pxp") == pytest.approx(4 / 5)
    # a document without a group keeps its rank: p . x: 1 and 1/4
    assert of(ABR, "p.x") == pytest.approx(1 / 4)


def test_er_measures_by_hand():
    # p x x with gamma 1/2: (1/2)(1) = 1/2 for p, (1/2)(1/2 + 1/4) = 3/8 for x
    assert of(ERBE, "pxx", gamma=0.5) == pytest.approx(3 / 4)
    assert of(ERBE, "pxx", gamma=0.5, combine="max-min") == pytest.approx(1 / 8)
    assert of(ERBE, "pxx", gamma=0.5, combine="l2") == pytest.approx(5 / 8)  # 4/8, 3/8
    # over 1 and 2 documents: 1/2 and 3/16
    assert of(ERBP, "pxx", gamma=0.5) == pytest.approx(3 / 8)
    assert of(ERBP, "pxx", gamma=0.5, combine="max-min") == pytest.approx(5 / 16)
    # relevant: p, second x (labels 1, 0, 3): over 1 and 1
    assert of(ERBR, "pxx", [1, 0, 3], gamma=0.5) == pytest.approx(3 / 4)
    # gamma 0.8 by default: 0.2 x 1 and 0.2 x (0.8 + 0.64)
    assert of(ERBE, "pxx") == pytest.approx(1 / 1.44)


def test_documents_of_several_groups_count_in_part():
    # a is half p, half x; attention 1, 1/2: p 1/2, x 1/2 + 1/2
    made = groups({"a": {"p": 0.5, "x": 0.5}, "b": "x"})
    assert value(ERBE(groups=made, gamma=0.5), ["a", "b"]) == pytest.approx(0.5)


def test_unlabeled_documents_spread_evenly():
    # p . x with attention 1, 1/2, 1/4; the second is half p, half x: 5/4 and 1/2
    assert of(ERBE, "p.x", gamma=0.5, unlabeled="uniform") == pytest.approx(0.4)


def test_machine_user_needs_a_cutoff():
    with pytest.raises(ParameterError):
        of(EXP, "px", browsing="MU")
    assert of(EXP, "pxpx", browsing="MU", cutoff=4) == pytest.approx(1)
