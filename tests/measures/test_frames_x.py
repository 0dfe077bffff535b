"""Frames X in measures: exact values, refusals that name the measure, and both experiments."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import RR, nDCG
from small_frames import small_groups, values

import fairtk
from fairtk import (
    AWRF,
    EE_D,
    EE_L,
    EE_R,
    ByGroup,
    E,
    FairSampler,
    GroupEE_L,
    PlackettLuceExposure,
    Target,
    nDCG_AWRF,
    nDCG_TREC,
)
from fairtk.errors import ColumnError, InputError
from fairtk.transformers import DeterministicExposure, OracleExposure

N = 12
RNG = np.random.default_rng(5)
RUN = pd.DataFrame(
    {
        "qid": np.repeat(["q1", "q2", "q3"], N),
        "query": "text",
        "docno": [f"d{i}" for i in range(N)] * 3,
        "score": RNG.normal(size=3 * N),
    }
)
QRELS = RUN[["qid", "docno"]].assign(label=(RNG.random(3 * N) < 0.3).astype(int))
TOPICS = RUN[["qid", "query"]].drop_duplicates()
SAMPLED = FairSampler(alpha=2, n_samples=5_000)(RUN)
GROUPS = small_groups([f"d{i}" for i in range(N)], "abc" * 4, "thirds")
TARGET = Target.uniform(GROUPS)
PAIR = {"groups": GROUPS, "target": TARGET}


def value(measure, run, qrels=QRELS):
    return ir_measures.calc_aggregate([measure], qrels, run)[measure]


def exact(browsing="MU", cutoff=5, alpha=2):
    return PlackettLuceExposure(alpha, cutoff, browsing)(RUN)


@pytest.mark.parametrize(
    ("measure", "browsing"),
    [
        (EE_D @ 5, "MU"),
        (EE_R @ 5, "MU"),
        (EE_L(bounds="exact") @ 5, "MU"),
        (EE_L(browsing="RBP(p=0.8)") @ 5, "RBP(p=0.8)"),
        (GroupEE_L(**PAIR) @ 5, "TREC"),
        (AWRF(**PAIR) @ 5, "TREC"),
        (AWRF(**PAIR, browsing="DCG") @ 5, "DCG"),
        (ByGroup(EE_R @ 5, GROUPS, "difference"), "MU"),
        (E(nDCG @ 5), "DCG"),
        (nDCG_TREC @ 5, "TREC"),
        (nDCG_AWRF(**PAIR) @ 5, "TREC"),
        (E(nDCG @ 5) * (EE_R(browsing="DCG") @ 5), "DCG"),
    ],
    ids=str,
)
def test_what_samples_come_close_to(measure, browsing):
    found = value(measure, exact(browsing))
    # bias of EE_D: (1 - D) / N < 1e-3; noise of means of 5,000: below .01
    assert found == pytest.approx(value(measure, SAMPLED), abs=0.01, rel=0.01)


def test_a_fixed_ranking_is_measured_alike_in_both_forms():
    fixed, dcg = DeterministicExposure(cutoff=5)(RUN), DeterministicExposure(5, "DCG")(RUN)
    for measure, frame in ((EE_D @ 5, fixed), (EE_L @ 5, fixed), (E(nDCG @ 5), dcg)):
        assert value(measure, frame) == pytest.approx(value(measure, RUN), abs=1e-12)
    oracle = OracleExposure(QRELS, cutoff=5)(RUN)
    assert value(EE_R @ 5, oracle) == pytest.approx(1)
    assert value(EE_L @ 5, oracle) == pytest.approx(0, abs=1e-12)


def test_a_query_that_the_frame_lacks_gets_the_worst_value():
    frame = exact()
    frame = frame[frame["qid"] != "q2"]
    for measure, worst in ((EE_D @ 5, 1.0), (EE_R @ 5, 0.0)):
        found = values(measure, QRELS, frame)
        assert found["q2"] == worst and found["q1"] != worst
    dcg = exact("DCG")
    assert values(E(nDCG @ 5), QRELS, dcg[dcg["qid"] != "q2"])["q2"] == 0


def test_the_least_frame():
    frame = exact()[["qid", "docno", "exposure", "browsing", "cutoff"]]
    shuffled = frame.sample(frac=1, random_state=1)
    assert value(EE_D @ 5, shuffled) == pytest.approx(value(EE_D @ 5, exact()), abs=1e-15)


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        (EE_D @ 4, r"EE_D@4 requires exposure with browsing='MU' and cutoff=4.*cutoff=5"),
        (EE_R(browsing="DCG") @ 5, "requires exposure with browsing='DCG'"),
        (
            EE_R(browsing="GERR(p=0.5, u=0.5)") @ 5,
            "exact exposure .* is not supported with browsing",
        ),
        (AWRF(**PAIR) @ 5, "browsing='TREC'"),
        (AWRF(**PAIR, amortize=False, browsing="MU") @ 5, "requires rankings"),
        (E(nDCG @ 5), r"E\(nDCG@5\) requires exposure with browsing='DCG'"),
        (nDCG @ 5, "^nDCG@5 requires rankings, got exact exposure"),
        (E(RR @ 5), "requires rankings"),
        (RR @ 5 * AWRF(**PAIR, browsing="MU") @ 5, "requires rankings"),
    ],
    ids=str,
)
def test_refused_at_every_door(measure, message):
    with pytest.raises(InputError, match=message):
        value(measure, exact())
    pipeline = pt.Transformer.from_df(RUN) >> PlackettLuceExposure(2)
    with pytest.raises(InputError, match=message):
        pt.Experiment([pipeline], TOPICS, QRELS, [measure])
    with pytest.raises(InputError, match=message.removeprefix("^")):
        fairtk.Experiment({"exact": pipeline}, TOPICS, QRELS, [measure])


def test_broken_frames():
    frame = exact()
    for broken, error, message in (
        (
            frame.drop(columns="cutoff"),
            ColumnError,
            "missing column 'cutoff'.*'exposure'",
        ),
        (frame.assign(sample=0), InputError, "mutually exclusive"),
        (frame.assign(exposure=-1.0), InputError, "at least 0, got -1"),
        (frame.assign(exposure=np.nan), InputError, "nan"),
        (exact(alpha=[1, 2]), InputError, r"one 'alpha', got 1, 2"),
        (pd.concat([frame, exact("DCG")]), InputError, "one 'browsing', got 'MU', 'DCG'"),
    ):
        with pytest.raises(error, match=message):
            value(EE_D @ 5, broken)


def test_both_experiments(tmp_path):
    systems = {
        f"alpha {alpha}": pt.Transformer.from_df(RUN) >> PlackettLuceExposure(alpha)
        for alpha in (0, 2, 8)
    }
    measures = [EE_D @ 5, EE_R @ 5, EE_L @ 5]
    theirs = pt.Experiment(list(systems.values()), TOPICS, QRELS, measures, names=list(systems))
    named = {n: PlackettLuceExposure(a) for n, a in zip(systems, (0, 2, 8), strict=True)}
    results = fairtk.Experiment(
        {name: fairtk.identified(pt.Transformer.from_df(RUN), "run") >> one
         for name, one in named.items()},
        TOPICS, QRELS, measures, save_dir=tmp_path / "kept",
    )  # fmt: skip
    for measure in measures:
        label = str(measure)
        assert results.means[label].tolist() == pytest.approx(theirs[label].tolist(), abs=1e-12)
    # alpha 0: each of 12 documents has 5/12, so EE_D = 12 (5/12)^2 / 5 = 5/12
    assert results.means["EE_D@5"].iloc[0] == pytest.approx(5 / 12)
    assert results.per_sample.empty
