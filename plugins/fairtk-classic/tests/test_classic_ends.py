"""Samples are counted one by one; over all rankings, no value is worse than a missing query's."""

from itertools import combinations, permutations

import numpy as np
import pandas as pd
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
    rKL,
    rND,
    rRD,
)
from fairtk_classic.parameters import COMBINATIONS
from frames import groups, target, value
from ir_measures import iter_calc

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MEMBERS = {"a": "f", "b": "m", "c": {"f": 0.5, "m": 0.5}, "d": "m"}
LABELS = {"a": 1, "b": 2, "c": 0, "d": 1}
TOY = groups(MEMBERS, levels=["f", "m"])
WHOLE = groups({"a": "f", "b": "m", "c": "m", "d": "m"}, levels=["f", "m"], name="whole")
TARGET = target({"f": 0.3, "m": 0.7}, TOY)
COMBINED = (ERBE, ERBP, ERBR, EXP, EXPU, EXPRU)
PER_RANKING = (ABR, ERBP, ERBR, EXP, EXPU, EXPRU)


def test_sizes_of_groups_are_those_of_each_ranking():
    # attention 1, 1/2, 1/4. a d b: abc (1 + 1/4) / 2 = 5/8, def 1/2: 4/5.
    # c a f: abc (1 + 1/2) / 2 = 3/4, def 1/4: 1/3. (4/5 + 1/3) / 2 = 17/30
    members = {d: "abc" if d in "abc" else "def" for d in "abcdef"}
    measure = ABR(groups=groups(members, levels=["abc", "def"]))
    samples = [["a", "d", "b"], ["c", "a", "f"]]
    assert value(measure, samples) == pytest.approx(17 / 30)
    # averaged first: 11/8 of attention for 2 documents of abc, 3/8 for 1 of def
    assert value(measure(amortize=True), samples) == pytest.approx((3 / 8) / (11 / 16))


@pytest.mark.parametrize("measure", PER_RANKING, ids=repr)
@pytest.mark.parametrize("population", ["ranked", "judged+ranked", "judged", "collection"])
def test_samples_that_are_not_averaged_first_are_measured_one_by_one(measure, population):
    made = measure(groups=TOY, population=population, amortize=False, empty="skip", cutoff=3)
    samples = [["a", "b", "c"], ["d", "a", "b"], ["c", "d", "a"]]
    labels = {"a": 1, "b": 2}  # c and d count where they are shown
    alone = [value(made, [s], labels) for s in samples]
    assert value(made, samples, labels) == pytest.approx(np.mean(alone), nan_ok=True)


@pytest.mark.parametrize("measure", PER_RANKING, ids=repr)
def test_repeated_samples_change_nothing(measure):
    made = measure(groups=TOY, population="ranked", amortize=True)
    samples = [["a", "b"], ["d", "c", "a"]]
    assert value(made, samples * 3, LABELS) == pytest.approx(
        value(made, samples, LABELS), nan_ok=True
    )


def made(measure, **options):
    """The measure with groups, and a target where it takes one."""
    for name, setting in (("groups", TOY), ("target", TARGET), ("protected", "f"), ("group", "f")):
        if name in measure.SUPPORTED_PARAMS:
            options.setdefault(name, setting)
    return measure(**options)


EVERY = [
    *(made(m, combine=how) for m in COMBINED for how in COMBINATIONS),
    *(made(m, combine=how, population="ranked") for m in (ERBP, EXP) for how in COMBINATIONS),
    *(made(ARP, combine=how) for how in COMBINATIONS),
    *(made(m) for m in (ABR, logDP, logEUR, Skew, MinSkew, MaxSkew, NDKL, FAIR_prefix)),
    made(GFR, max_label=2),
    *(made(m, step=2) for m in (rND, rKL)),
    made(rRD, step=2, groups=WHOLE, target=target({"f": 0.3, "m": 0.7}, WHOLE)),
    IAA(),
]


@pytest.mark.parametrize("cutoff", [None, 2])
def test_nothing_is_worse_than_a_missing_query(cutoff):
    docs = [*MEMBERS, "x"]
    sizes = range(1, len(docs) + 1)
    every = [r for size in sizes for some in combinations(docs, size) for r in permutations(some)]
    measures = [m(cutoff=cutoff) if cutoff and "cutoff" in m.SUPPORTED_PARAMS else m for m in EVERY]
    rows = [(f"q{i}", d, -float(k)) for i, r in enumerate(every) for k, d in enumerate(r)]
    run = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    rows = [(f"q{i}", d, g) for i in range(len(every) + 1) for d, g in LABELS.items()]
    qrels = pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])
    missing, found = {}, {}
    for metric in iter_calc(measures, qrels, run):
        if metric.query_id == f"q{len(every)}":
            missing[metric.measure] = metric.value
        else:
            found.setdefault(metric.measure, []).append(metric.value)
    for measure in measures:
        got = np.array(found[measure])
        got = got[~np.isnan(got)]
        assert len(got) or measure.NAME == "ARP", measure  # max/min of two documents: 1/0
        if len(got) and not np.isnan(missing[measure]):
            worse = got - missing[measure] if measure.better == "higher" else missing[measure] - got
            assert worse.min() >= -1e-9, (measure, missing[measure], got.min(), got.max())
