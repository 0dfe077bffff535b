"""What must not matter, and what must be best: properties of all measures."""

import math
import warnings

import pytest
from fairtk_classic import (
    ABR,
    ARP,
    ERBE,
    ERBP,
    ERBR,
    EXP,
    EXPRU,
    EXPU,
    GFR,
    IAA,
    NDKL,
    FAIR_prefix,
    MaxSkew,
    MinSkew,
    Skew,
    logDP,
    logEUR,
    logRUR,
    rKL,
    rND,
    rRD,
)
from frames import groups, target, value
from hypothesis import given
from hypothesis import strategies as st

BINARY = [
    rND(step=2),
    rKL(step=3),
    rRD(step=2),
    FAIR_prefix(),
    FAIR_prefix(p=0.3),
    logDP(),
    logDP(per="document"),
    logEUR(),
    logRUR(amortize=False),
]
MANY = [
    ABR(empty="skip"),
    ARP(empty="skip"),
    ARP(empty="skip", combine="variance"),
    ERBE(),
    ERBP(empty="skip"),
    ERBR(empty="skip", combine="max-min"),
    EXP(empty="skip"),
    EXP(empty="skip", combine="l2", population="collection"),
    EXPU(empty="skip"),
    EXPRU(empty="skip", combine="mean-deviation"),
]
TARGETED = [
    NDKL(),
    Skew(smoothing=0.1),
    MinSkew(smoothing=0.1),
    MaxSkew(),
    GFR(max_label=2),
    rND(step=2),
    rKL(step=2),
    FAIR_prefix(),
]
ALL = [(m, False) for m in BINARY + MANY] + [(m, True) for m in TARGETED]
LEVELS = "abc"
RANGES = {
    "Skew": (math.log(0.1), math.log(5)),
    "MinSkew": (math.log(0.1), 0),
    "MaxSkew": (0, math.log(5)),
    "NDKL": (0, math.log(5)),
    "logDP": (-math.inf, math.inf),
    "logEUR": (-math.inf, math.inf),
    "logRUR": (-math.inf, math.inf),
    "EXPRU": (0, math.inf),
    "ERBR": (0, math.inf),
}


@st.composite
def cases(draw):
    """Groups and labels of up to 9 documents, and one or two rankings of them."""
    n = draw(st.integers(2, 9))
    letters = draw(st.text(LEVELS, min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    docnos = [f"d{i}" for i in range(n)]
    samples = draw(st.lists(st.permutations(docnos), min_size=1, max_size=2))
    members = dict(zip(docnos, letters, strict=True))
    return members, dict(zip(docnos, labels, strict=True)), [list(s) for s in samples]


def ask(measure, targeted, members, labels, samples, renamed=None):
    """The value with levels renamed."""
    renamed = renamed or {level: level for level in LEVELS}
    made = groups({d: renamed[x] for d, x in members.items()}, levels=sorted(renamed.values()))
    options = {"groups": made, **{k: v for k, v in measure.params.items() if k != "groups"}}
    if targeted:
        weights = {"a": 0.5, "b": 0.3, "c": 0.2}
        options["target"] = target({renamed[x]: w for x, w in weights.items()}, made)
    for name in ("protected", "group"):
        if name in measure.SUPPORTED_PARAMS:
            options[name] = renamed["b"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value(type(measure)(**options), samples, labels)


def same(one, two):
    return (math.isnan(one) and math.isnan(two)) or one == pytest.approx(two, abs=1e-9)


@pytest.mark.parametrize(("measure", "targeted"), ALL, ids=repr)
@given(case=cases())
def test_names_of_groups_do_not_matter_and_values_are_in_range(measure, targeted, case):
    renamed = {"a": "z", "b": "x", "c": "y"}
    found = ask(measure, targeted, *case)
    assert same(found, ask(measure, targeted, *case, renamed=renamed))
    low, high = RANGES.get(measure.NAME, (0, 1.5 if measure.params.get("combine") == "l2" else 1))
    assert math.isnan(found) or low - 1e-9 <= found <= high + 1e-9


@pytest.mark.parametrize(("measure", "targeted"), ALL, ids=repr)
@given(case=cases())
def test_documents_of_one_group_are_alike(measure, targeted, case):
    # documents with the same group and label take turns
    members, labels, samples = case
    turned = {}
    for kind in set(zip(members.values(), labels.values(), strict=True)):
        alike = [d for d in members if (members[d], labels[d]) == kind]
        turned |= dict(zip(alike, alike[1:] + alike[:1], strict=True))
    if "amortize" in measure.SUPPORTED_PARAMS or len(samples) == 1:
        samples_turned = [[turned[d] for d in ranking] for ranking in samples]
    else:  # the mean over samples: each ranking may take turns on its own
        samples_turned = [[turned[d] for d in samples[0]], *samples[1:]]
    assert same(
        ask(measure, targeted, members, labels, samples),
        ask(measure, targeted, members, labels, samples_turned),
    )


@given(case=cases())
def test_protected_and_others_mirror_each_other(case):
    members, labels, samples = case
    two = {d: "p" if x == "a" else "x" for d, x in members.items()}
    made = groups(two, levels=["p", "x"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for measure, sign in ((rND(step=2), 1), (rKL(step=2), 1), (logDP(), -1), (logEUR(), -1)):
            one, other = (
                value(measure(groups=made, protected=p, **measure.params), samples, labels)
                for p in ("p", "x")
            )
            assert same(one, sign * other)


@given(case=cases(), moved=st.integers(0, 7))
def test_a_protected_document_that_moves_up_never_lowers(case, moved):
    members, labels, samples = case
    ranking = samples[0]
    at = moved % (len(ranking) - 1) + 1
    if members[ranking[at]] != "b" or members[ranking[at - 1]] == "b":
        return
    better = [*ranking[: at - 1], ranking[at], ranking[at - 1], *ranking[at + 1 :]]
    for measure in (logDP(), FAIR_prefix(p=0.3)):
        before = ask(measure, False, members, labels, [ranking])
        assert ask(measure, False, members, labels, [better]) >= before - 1e-9


# Parity where the definitions speak of it ---------------------------------------------------------

# both groups hold both ranks equally often
SWAPPED = [["d1", "d2"], ["d2", "d1"]]
PARITY = [
    (EXP(), 1.0),
    (EXP(combine="max/min"), 1.0),
    (EXP(combine="max-min"), 0.0),
    (EXP(combine="variance"), 0.0),
    (EXPU(), 1.0),
    (EXPRU(), 1.0),
    (ABR(amortize=True), 1.0),
    (ERBE(amortize=True), 1.0),
    (ERBP(amortize=True, combine="max-deviation"), 0.0),
    (ERBR(amortize=True, combine="mean-deviation"), 0.0),
]


@pytest.mark.parametrize(("measure", "best"), PARITY, ids=repr)
def test_equal_groups_have_the_best_value(measure, best):
    made = groups({"d1": "a", "d2": "b"})
    asked = type(measure)(groups=made, **measure.params)
    assert value(asked, SWAPPED, {"d1": 1, "d2": 1}) == pytest.approx(best, abs=1e-12)


@given(labels=st.lists(st.integers(1, 5), min_size=2, max_size=5))
def test_attention_in_proportion_to_relevance_has_no_inequity(labels):
    # every document comes first as often as its label says, and only the first rank counts
    docnos = [f"d{i}" for i in range(len(labels))]
    samples = [[d] for d, label in zip(docnos, labels, strict=True) for _ in range(label)]
    found = value(IAA, samples, dict(zip(docnos, labels, strict=True)))
    assert found == pytest.approx(0, abs=1e-12)
