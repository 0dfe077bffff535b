"""Browsing models fitted from credit, and what order alone changes: by hand and by simulation."""

import ir_measures
import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from ir_measures import nDCG

from fairtk import AWRF, EE_D, EE_L, EE_R, EU, FairSampler, Groups, OracleSampler, Target
from fairtk.credit import fit_browsing, order_audit
from fairtk.errors import DataWarning, InputError, ParameterError
from fairtk.exposure import Fitted
from fairtk.statistics.intervals import EQUAL_VALUES

MIDDLE_LOST = (1.0, 0.8, 0.5, 0.6, 0.9)


def candidates(rng, n_queries=40, n=10):
    return pd.DataFrame(
        {
            "qid": np.repeat([f"q{i}" for i in range(n_queries)], n),
            "docno": [f"d{i}" for i in range(n_queries * n)],
            "score": rng.normal(size=n_queries * n),
        }
    )


def simulated(seed, weight, noise=0.3, sampler=None, n_queries=40):
    """Return the fit of a reader who gives a document credit w_i r_d, and noise."""
    rng = np.random.default_rng(seed)
    run = candidates(rng, n_queries)
    sampler = sampler or FairSampler(alpha=1, n_samples=20, cutoff=len(weight), seed=seed)
    credit = sampler(run)
    # good documents have good scores, and so good places
    worth = dict(zip(run["docno"], rng.gamma(1, 1, len(run)) * np.exp(run["score"]), strict=True))
    credit["credit"] = np.array(weight)[credit["rank"]] * credit["docno"].map(worth)
    credit["credit"] += noise * rng.normal(size=len(credit))
    return fit_browsing(credit, run, sampler)


def by_name(frame):
    return frame.set_index(frame.columns[0])


def test_weights_without_noise_of_all_orders_are_exact():
    # two documents, worth 3 and 1, both orders once: rank 0: 3, 1; rank 1: 1/2 of 1, 3
    run = pd.DataFrame({"qid": "q", "docno": ["a", "b"], "score": [1.0, 1.0]})
    rows = [("q", 0, "a", 0, 3.0), ("q", 0, "b", 1, 0.5), ("q", 1, "b", 0, 1.0)]
    credit = pd.DataFrame(
        [*rows, ("q", 1, "a", 1, 1.5)], columns=["qid", "sample", "docno", "rank", "credit"]
    )
    fit = fit_browsing(credit, run, FairSampler(alpha=1, n_samples=2))
    assert fit.weight == pytest.approx((1.0, 0.5))
    assert np.isnan(fit.standard_error[1])  # one query has no spread
    assert fit.tests["p"].isna().all()


def test_one_ranking_of_each_query_is_enough():
    # One order of two documents per query. Credit at rank 0: 3 + 1; at rank 1: .5 + 1.5, half of
    # it. Pairs of a document and a rank: 2 x 2 in each of 2 queries, 8; at each rank 4.
    run = pd.DataFrame({"qid": ["q", "q", "r", "r"], "docno": list("abcd"), "score": 1.0})
    rows = [("q", 0, "a", 0, 3.0), ("q", 0, "b", 1, 0.5), ("r", 0, "d", 0, 1.0)]
    credit = pd.DataFrame(
        [*rows, ("r", 0, "c", 1, 1.5)], columns=["qid", "sample", "docno", "rank", "credit"]
    )
    fit = fit_browsing(credit, run, FairSampler(alpha=1, n_samples=1))
    assert fit.weight == pytest.approx((1.0, 0.5))
    assert fit.counts["pairs"] == 8 and fit.table["documents"].tolist() == [4, 4]


def test_a_reader_is_measured_not_its_documents():
    """Credit falls with the rank as good documents stand first; the weights do not."""
    fit = simulated(3, MIDDLE_LOST, n_queries=200)
    assert fit.weight == pytest.approx(MIDDLE_LOST, abs=0.12)
    tests = by_name(fit.tests)
    assert (tests["p"] < 1e-3).all()  # neither MU, nor DCG, and the middle is lost
    assert fit.counts["queries"] == 200 and fit.counts["rankings"] == 4000


def test_a_reader_with_a_discount_passes_its_test():
    discount = 1 / np.log2(np.arange(2, 7))
    tests = by_name(simulated(5, discount).tests)["p"]
    assert tests.filter(like="DCG").item() > 0.05 and tests.filter(like="MU").item() < 0.01


@pytest.mark.nightly
def test_intervals_cover_simulated_weights_and_flat_readers_pass():
    hits, flat = [], []
    for seed in range(500):
        table = simulated(seed, MIDDLE_LOST).table[1:]
        true = np.array(MIDDLE_LOST[1:])
        hits.append((table["low"] <= true) & (true <= table["high"]))
        flat.append(by_name(simulated(seed, (1.0,) * 5).tests)["p"].iloc[0] < 0.05)
    assert 0.93 <= np.mean(hits) <= 0.97
    assert np.mean(flat) <= 0.07  # 5 %, and two standard errors


def test_the_oracle_is_a_policy_too():
    rng = np.random.default_rng(1)
    run = candidates(rng, 30, 4)
    labels = run[["qid", "docno"]].assign(label=1)
    sampler = OracleSampler(labels, n_samples=10, cutoff=3)
    fit = simulated(1, (1.0, 0.5, 0.25), sampler=OracleSampler(_all_useful(), 10, 3))
    assert fit.weight == pytest.approx((1, 0.5, 0.25), abs=0.2)
    first = sampler(run)
    first = first[first["rank"] < 2].assign(credit=1.0)
    assert fit_browsing(first, run, sampler).weight == (1.0, pytest.approx(1.0, abs=1e-9))


def _all_useful():
    return pd.DataFrame(
        {
            "qid": np.repeat([f"q{i}" for i in range(40)], 10),
            "docno": [f"d{i}" for i in range(400)],
            "label": 1,
        }
    )


def test_unlikely_pairs_are_left_out_and_counted():
    fit = simulated(2, (1.0, 1.0), sampler=FairSampler(alpha=0, n_samples=5, cutoff=2))
    assert fit.counts["unlikely"] == 0 and fit.counts["pairs"] == 800
    labels = _all_useful()
    labels["label"] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0] * 40
    fit = simulated(2, (1.0, 1.0), sampler=OracleSampler(labels, 20, 2))
    # eight of ten documents never stand at the two ranks
    assert fit.counts["unlikely"] == 40 * 8 * 2
    assert fit.table["documents"].tolist() == [80, 80]


def test_it_is_a_browsing_model_of_every_ee():
    fit = simulated(3, MIDDLE_LOST)
    again = ir_measures.parse_measure(repr(EE_D(browsing=fit) @ 5))
    assert again == EE_D(browsing=fit) @ 5 == EE_D(browsing=Fitted(fit.weight)) @ 5
    assert fit == Fitted(fit.weight) and hash(fit) == hash(Fitted(fit.weight))
    run = candidates(np.random.default_rng(0), 3, 8)
    qrels = run.assign(label=[1, 0, 2, 0] * 6)[["qid", "docno", "label"]]
    measures = [m(browsing=fit) @ 5 for m in (EE_D, EE_R, EE_L)]
    for frame in (run, FairSampler(alpha=0, n_samples=200)(run)):
        values = ir_measures.calc_aggregate(measures, qrels, frame)
        assert all(0 <= value <= 1 for value in values.values())


def test_where_weights_rise_the_best_documents_belong_where_is_read_most():
    # three places, weights 1, 0, 2: the useful document belongs last, the others share 1 and 0
    qrels = pd.DataFrame({"qid": "q", "docno": list("abc"), "label": [1, 0, 0]})
    measure = EE_R(browsing=Fitted((1.0, 0.0, 2.0)), normalize=False, bounds="exact")

    def value(order, **options):
        run = pd.DataFrame({"qid": "q", "docno": list(order), "score": [3.0, 2.0, 1.0]})
        return measure(**options).calc_aggregate(qrels, run)

    assert value("bca") == 2 * 2 + (1 + 0) / 2
    assert value("bca", normalize=True) == 1
    assert value("bac", normalize=True) == 0  # the useful one where nobody looks
    assert 0 < value("abc", normalize=True) < 1


def test_the_figure(tmp_path):
    simulated(3, MIDDLE_LOST).plot(tmp_path / "browsing.svg")
    text = (tmp_path / "browsing.svg").read_text()
    assert text.count("<path") > 10


def small():
    run = candidates(np.random.default_rng(1), 4, 4)
    sampler = FairSampler(alpha=1, n_samples=4, cutoff=2)
    return sampler(run).assign(credit=1.0), run, sampler


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda c, r, s: (c, r[1:], s),
            InputError,
            r"docno 'd0' of qid 'q0' is missing from the candidates",
        ),
        (lambda c, r, s: (c, r, s, 0), ParameterError, "least"),
        (
            lambda c, r, s: (c, r, pt.Transformer.identity()),
            ParameterError,
            "FairSampler or an OracleSampler",
        ),
        (lambda c, r, s: (c[c["rank"] < 1], r, s), InputError, "two or more ranks, got 1"),
        (
            lambda c, r, s: (c.assign(credit=np.nan), r, s),
            InputError,
            "undefined for all 16 rankings",
        ),
        (lambda c, r, s: (c.assign(credit=0.0), r, s), InputError, "no credit at rank 0"),
        (
            lambda c, r, s: (c, r, OracleSampler(_few(r), 4, 2)),
            InputError,
            "docno 'd3' of qid 'q0' at rank 0",
        ),
        (lambda c, r, s: (c, r, s, 0.99), InputError, "use a smaller alpha"),
        (lambda c, r, s: (c, r, FairSampler(alpha=1, cutoff=1)), InputError, "at rank 1 .16 such"),
    ],
)
def test_wrong_input(change, error, message):
    with pytest.raises(error, match=message):
        fit_browsing(*change(*small()))


def _few(run):
    return run.assign(label=[1, 0, 0, 0] * 4)[["qid", "docno", "label"]]


def test_rankings_without_credit_are_left_out_and_steep_policies_are_said():
    credit, run, sampler = small()
    credit.loc[0, "credit"] = np.nan
    fit = fit_browsing(credit, run, sampler)
    assert fit.counts["undefined"] == 1
    steep = FairSampler(alpha=3, n_samples=50, cutoff=2)
    with pytest.warns(DataWarning, match=r"alpha is above 2 for 4 of 4 queries \(up to 3\)"):
        fit_browsing(steep(run).assign(credit=1.0), run, steep)


# audits ---------------------------------------------------------------------------------------

RUN = candidates(np.random.default_rng(4), 12, 6).assign(query="x", text="t")
QRELS = RUN.assign(label=[1, 1, 0, 0, 1, 0] * 12, gold_answer="d")[
    ["qid", "docno", "label", "gold_answer"]
]
GROUPS = Groups.from_frame(
    pd.DataFrame({"docno": RUN["docno"], "group": ["x", "y"] * 36}), name="side"
)


class ByName(pt.Transformer):
    """A reranker that looks at documents alone: those of x first."""

    def transform(self, inp):
        inp = inp.sort_values(
            ["qid", "docno"],
            key=lambda c: (
                c.str[1:].astype(int) % 2 * 1000 + c.str[1:].astype(int) if c.name == "docno" else c
            ),
        )
        rank = inp.groupby("qid").cumcount()
        return inp.assign(rank=rank, score=-rank.astype(float))


class FirstAnswer(pt.Transformer):
    """A reader who answers with its first document."""

    def transform(self, inp):
        first = inp.sort_values("rank").groupby("qid")["docno"].first()
        return inp.assign(qanswer=inp["qid"].map(first))


@pytest.mark.parametrize("n", [5, 7, 20])  # the mean of 7 equal values has a rounding error
def test_a_reranker_that_looks_at_documents_alone(n):
    target = Target.uniform(GROUPS, unknown=False)
    audit = order_audit(
        ByName(), RUN, n, qrels=QRELS, measure=nDCG @ 3, groups=GROUPS, target=target, cutoff=3
    )
    table = by_name(audit.table)
    assert table.loc["utility share", "value"] == 0 or np.isnan(table.loc["utility share", "value"])
    assert table.loc["kendall tau", "value"] == 1
    assert np.isnan(table.loc["kendall tau", ["low", "high"]].astype(float)).all()
    assert table.loc["kendall tau", "note"] == EQUAL_VALUES
    assert table.loc["AWRF out - in", "high"] < 0  # x alone is shown in the first three
    x_first = audit.preferences.iloc[0]
    assert (x_first["group"], x_first["other"], x_first["value"]) == ("x", "y", 1.0)


def test_a_reranker_that_keeps_order_is_all_order():
    audit = order_audit(
        pt.Transformer.identity(), RUN, 30, qrels=QRELS, measure=nDCG @ 3, groups=GROUPS
    )
    table = by_name(audit.table)
    assert table.loc["utility share", "value"] > 0.9
    assert abs(table.loc["kendall tau", "value"]) < 0.05
    assert audit.preferences["low"].item() < 0.5 < audit.preferences["high"].item()


def test_a_reader_by_its_answers():
    gold = RUN.groupby("qid")["docno"].first()
    qrels = QRELS.assign(gold_answer=QRELS["qid"].map(gold))
    audit = order_audit(FirstAnswer(), RUN, 10, qrels=qrels, measure=EU(utility="em"))
    table = by_name(audit.table)
    assert table.loc["utility share", "value"] > 0.8
    assert 0.05 < table.loc["equal answers", "value"] < 0.35  # one of six each


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n": 1}, ParameterError, "n must"),
        ({"measure": nDCG @ 3}, ParameterError, "qrels are required"),
        ({"measure": EE_D @ 3, "qrels": QRELS}, ParameterError, "measure of one ranking"),
        ({"target": Target.uniform(GROUPS)}, ParameterError, "groups are required"),
        ({"transformer": pt.apply.generic(lambda f: f[f["qid"] != "q3"])}, InputError, "qid 'q3'"),
    ],
)
def test_wrong_audits(options, error, message):
    options = {"transformer": ByName(), "run": RUN, "n": 3, **options}
    with pytest.raises(error, match=message):
        order_audit(**options)


def test_in_and_out_agree_with_awrf():
    target = Target.uniform(GROUPS, unknown=False)
    audit = order_audit(ByName(), RUN, 3, groups=GROUPS, target=target, cutoff=3)
    out = ByName()(RUN)
    value = (AWRF(groups=GROUPS, target=target) @ 3).calc_aggregate(QRELS, out)
    assert by_name(audit.table).loc["AWRF out", "value"] == pytest.approx(value)
