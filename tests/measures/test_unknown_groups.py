"""Documents of unknown group: left out if the target gives the unknown level no share.

The contracts run over all registered measures that compare with a target, those of installed
plugins, too: a document of unknown group is then like a document without a row.
"""

from functools import cache

import numpy as np
import pandas as pd
import pyterrier as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_frames import qrels_of, run_of, small_groups, value

import fairtk
from fairtk import AWRF, FairQR, GroupEE_D, GroupEE_L, GroupEE_R, Groups, Target
from fairtk.groups import UNKNOWN
from fairtk.llm import KeywordRefiner
from fairtk.plugins import registry

pytestmark = pytest.mark.filterwarnings("ignore::fairtk.errors.FairtkWarning")

DOCS = [f"d{i}" for i in range(12)]
NAMED = {"gender": ["female", "male", "NB"], "place": ["x", "y"]}


def group_rows(attribute, seed, split):
    """Return the rows of an attribute: unknown, split, whole and missing documents."""
    rng, rows = np.random.default_rng(seed), []
    for docno in DOCS[:-1]:
        kind, level = rng.integers(4), str(rng.choice(NAMED[attribute]))
        if kind == 0:
            rows.append((docno, UNKNOWN, 1.0))
        elif kind == 1 and split:
            rows += [(docno, UNKNOWN, 0.25), (docno, level, 0.75)]
        else:
            rows.append((docno, level, 1.0))
    return pd.DataFrame(rows, columns=["docno", "group", "weight"])


def attribute(name, seed, unknown_rows, split):
    rows = group_rows(name, seed, split)
    rows = rows if unknown_rows else rows[rows["group"] != UNKNOWN]
    return Groups.from_frame(rows, name, levels=[UNKNOWN, *NAMED[name]], normalize=False)


def groups_of(crossed, seed, unknown_rows=True, split=True):
    gender = attribute("gender", seed, unknown_rows, split)
    return gender * attribute("place", seed + 100, unknown_rows, split) if crossed else gender


def targets_without_unknown(groups):
    """Return targets of several constructors that give the unknown level no share."""
    shares = {name: {n: i for i, n in enumerate(NAMED[name])} for name in groups.space.names}
    documents = [d for d in DOCS if groups.unknown_shares(np.array([d], dtype=object))[0] == 0]
    labels = pd.DataFrame({"docno": documents, "label": 1})
    labels = pd.concat([labels.assign(qid=qid) for qid in ("q", "r")])
    return [
        Target.uniform(groups),
        Target.population(shares if groups.space.crossed else shares["gender"], groups),
        Target.from_qrels(labels, groups),
    ]


REQUIRED = {"protected": "female", "group": "female"}


@cache
def comparing_measures():
    """Return each registered measure with groups and a target, in all ways to treat unknowns."""
    measures = []
    for name in registry.measures.names():
        measure = registry.measures.get(name)
        supported = measure.SUPPORTED_PARAMS
        if not {"cutoff", "groups", "target"} <= supported.keys():  # CreditAWRF has no cutoff
            continue
        given_values = {k: v for k, v in REQUIRED.items() if k in supported}
        policies = getattr(supported.get("unlabeled"), "choices", None)
        for policy in policies if isinstance(policies, tuple) else [None]:
            extra = {} if policy is None else {"unlabeled": policy}
            measures.append((name, {**given_values, **extra}))
        if "useful_only" in supported:
            measures.append((name, {"useful_only": False}))
        if "amortize" in supported:
            measures.append((name, {**given_values, "amortize": False}))
    return measures


SAMPLES = [DOCS[::-1], [*DOCS[6:], *DOCS[:6]], DOCS]
RUN = pd.concat([run_of(SAMPLES), run_of([DOCS, DOCS[::2], DOCS[::3]], "r")])
LABELS = pd.concat([qrels_of({d: i % 2 for i, d in enumerate(DOCS)}, q) for q in ("q", "r")])


def test_the_contract_has_measures():
    assert {"AWRF", "nDCG_AWRF", "GroupEE_D", "GroupEE_R", "GroupEE_L"} <= {
        n for n, _ in comparing_measures()
    }


@pytest.mark.parametrize("crossed", [False, True], ids=["one", "crossed"])
@pytest.mark.parametrize(
    ("name", "options"), comparing_measures(), ids=lambda v: v if isinstance(v, str) else str(v)
)
def test_without_a_share_unknown_is_like_no_row(name, options, crossed):
    measure = registry.measures.get(name)
    if crossed and options.get("unlabeled") in ("best", "worst"):
        pytest.skip("bounds need one attribute")
    if crossed and REQUIRED.keys() & options.keys():
        options = {k: "female*x" if v == "female" else v for k, v in options.items()}
    # other rules label the unknown part of a document
    split = options.get("unlabeled") in ("drop", "unknown", "group")
    if name == "rRD" and not split:
        pytest.skip("rRD refuses documents that are labeled in part")
    groups, without = (groups_of(crossed, 1, rows, split) for rows in (True, False))
    for target in targets_without_unknown(groups):
        both = [measure(groups=g, target=target, **options) @ 8 for g in (groups, without)]
        scores = [cut.calc(LABELS, RUN).per_query for cut in both]
        values = [[entry.value for entry in entries] for entries in scores]
        assert values[0] == pytest.approx(values[1], nan_ok=True), target


def test_by_hand():
    # ranks 1 to 5 weigh 1, 1, 1/log2(3), 1/2, 1/log2(5); rank 3 is unknown, so
    # f has 1 + 1/log2(5) and m 1 + 1/2 of their sum: 1.4307 and 1.5 of 2.9307
    groups = small_groups("abcde", ["f", "m", UNKNOWN, "m", "f"], "gender")
    qrels, run = qrels_of({"a": 1, "c": 1}), run_of(["abcde"])
    f, m = 1 + 1 / np.log2(5), 1.5
    p, q = np.array([f, m]) / (f + m), np.array([0.5, 0.5])
    middle = (p + q) / 2
    expected = 1 - (p @ np.log(p / middle) + q @ np.log(q / middle)) / 2
    for target in (Target.uniform(groups), "uniform"):
        assert value(AWRF(groups=groups, target=target) @ 5, qrels, run) == pytest.approx(expected)
    # a choice: the unknown level has a third of the target
    unknown = 1 / np.log2(3)
    p, q = np.array([f, m, unknown]) / (f + m + unknown), np.full(3, 1 / 3)
    middle = (p + q) / 2
    expected = 1 - (p @ np.log(p / middle) + q @ np.log(q / middle)) / 2
    for target in (Target.uniform(groups, unknown=True), "uniform+unknown"):
        assert value(AWRF(groups=groups, target=target) @ 5, qrels, run) == pytest.approx(expected)


def test_expected_exposure_by_hand():
    # at 2: a (f) has 1, c (unknown) 1; both are useful; the target is 1 for f and 1 for m
    groups = small_groups("abc", ["f", "m", UNKNOWN], "gender")
    qrels, run = qrels_of({"a": 1, "c": 1}), run_of(["acb"])
    without, with_unknown = Target.uniform(groups), Target.uniform(groups, unknown=True)
    ask = {"groups": groups, "target": without}
    assert value(GroupEE_D(**ask) @ 2, qrels, run) == pytest.approx(1)  # 1^2
    assert value(GroupEE_R(**ask) @ 2, qrels, run) == pytest.approx(1)  # 1 x 1
    assert value(GroupEE_L(**ask) @ 2, qrels, run) == pytest.approx(1)  # 0^2 + 1^2
    # (1 - 2/3)^2 twice, and (2/3)^2 for m
    loss = GroupEE_L(groups=groups, target=with_unknown) @ 2
    assert value(loss, qrels, run) == pytest.approx(6 / 9)


def test_a_query_whose_documents_are_all_unknown_is_undefined():
    groups = small_groups("ab", [UNKNOWN, UNKNOWN], "gender", levels=[UNKNOWN, "f", "m"])
    qrels, run = qrels_of({"a": 1}), run_of(["ab"])
    assert np.isnan(value(AWRF(groups=groups, target="uniform"), qrels, run))


def test_each_query_has_its_own_rule():
    # q gives unknown no share, r gives it one half
    groups = small_groups("abu", ["f", "m", UNKNOWN], "gender")
    rows = [("q", "f", 0.5), ("q", "m", 0.5), ("r", "f", 0.5), ("r", UNKNOWN, 0.5)]
    target = Target.from_frame(pd.DataFrame(rows, columns=["qid", "group", "weight"]), groups)
    measure = AWRF(groups=groups, target=target) @ 2
    # q: a alone, (1, 0) against (1/2, 1/2): the divergence is 0.2158
    divergence = (np.log(4 / 3) + (np.log(2 / 3) + np.log(2)) / 2) / 2
    assert value(measure, qrels_of({"a": 1}), run_of(["au"])) == pytest.approx(1 - divergence)
    run = run_of(["au"], "r")  # exactly the target
    assert value(measure, qrels_of({"a": 1}, "r"), run) == pytest.approx(1)


def test_crossed_levels_with_one_unknown_attribute():
    # a is f and x, b is f of unknown place, c is unknown and y: only a counts
    gender = small_groups("abc", ["f", "f", UNKNOWN], "gender", levels=[UNKNOWN, "f", "m"])
    place = small_groups("abc", ["x", UNKNOWN, "y"], "place")
    both = gender * place
    target = Target.population({("f", "x"): 1}, both)
    qrels, run = qrels_of({"a": 1}), run_of(["cba"])
    assert value(AWRF(groups=both, target=target), qrels, run) == pytest.approx(1)
    # with a share for any unknown level, unknown levels are groups, as in TREC Fair Ranking 2022
    target = Target.population({("f", "x"): 1, ("f", UNKNOWN): 1}, both)
    weight = np.array([1 / np.log2(3), 1, 1]) / (2 + 1 / np.log2(3))  # a, b, c
    p, q = weight, np.array([0.5, 0.5, 0])
    middle = (p + q) / 2
    expected = 1 - (p @ np.log(p / middle) + q[:2] @ np.log(q[:2] / middle[:2])) / 2
    assert value(AWRF(groups=both, target=target), qrels, run) == pytest.approx(expected)


@pytest.mark.parametrize("crossed", [False, True], ids=["one", "crossed"])
def test_explanations_leave_them_out(crossed):
    groups, without = groups_of(crossed, 1), groups_of(crossed, 1, unknown_rows=False)
    names = list(groups.space.names) if crossed else ["group"]
    for measure in (AWRF, AWRF(amortize=False), GroupEE_L):
        costs = []
        for attributes in (groups, without):
            full = measure(groups=attributes, target=Target.uniform(groups)) @ 8
            explanation = fairtk.explain(LABELS, RUN, full)
            value_of_run = full.calc_aggregate(LABELS, RUN)
            assert explanation.total == pytest.approx(
                value_of_run if measure is GroupEE_L else 1 - value_of_run
            )
            by_group = explanation.by_group.query("cost > 1e-12")
            costs.append(by_group.set_index(names)["cost"].to_dict())
        assert costs[0] == pytest.approx(costs[1])


@pytest.mark.parametrize("rerank", [True, "exposure"])
def test_query_refinement_leaves_them_out(rerank):
    run = pd.DataFrame({"qid": "q", "docno": DOCS, "score": -np.arange(12.0), "rank": range(12)})
    topics = pd.DataFrame({"qid": ["q"], "query": ["tide mill"]})
    retriever = pt.apply.generic(lambda queries: queries.merge(run, on="qid"))
    outputs, traces = [], []
    for unknown_rows in (True, False):
        groups = groups_of(False, 1, unknown_rows)
        options = {"depth": 8, "max_iterations": 1, "rerank": rerank}
        target = Target.uniform(groups)
        system = FairQR(retriever, groups, target, KeywordRefiner(), **options)
        outputs.append(system(topics)["docno"].tolist())
        traces.append(system.trace.filter(regex="share|AWRF|divergence"))
    assert outputs[0] == outputs[1]
    pd.testing.assert_frame_equal(*traces)
    assert (traces[0][f"share:{UNKNOWN}"] == 0).all()


MEASURES_WITH_BOUNDS = [
    name
    for name, options in comparing_measures()
    if options.get("unlabeled") == "worst" and not REQUIRED.keys() & options.keys()
]
LEVELS = [UNKNOWN, "f", "m", "n"]


@st.composite
def worlds(draw):
    """Return groups with unknown documents, and a target without a share for them."""
    rows = []
    for docno in DOCS[:8]:
        weights = draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=4, max_size=4))
        rows += [(docno, level, w) for level, w in zip(LEVELS, weights, strict=True) if w]
    frame = pd.DataFrame(rows, columns=["docno", "group", "weight"])
    groups = Groups.from_frame(frame, levels=LEVELS, normalize=draw(st.booleans()))
    shares = draw(st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any))
    kind = draw(st.sampled_from(["uniform", "population", "relevance"]))
    target = Target.uniform(groups)
    if kind == "relevance":
        labels = pd.DataFrame({"qid": "q", "docno": draw(st.permutations(DOCS[:8]))[:4]})
        target = Target.from_qrels(labels.assign(label=1), groups, unlabeled="uniform")
    elif kind == "population":
        target = Target.population(dict(zip(LEVELS[1:], shares, strict=True)), groups)
    samples = [draw(st.permutations(DOCS[:8]))[:5] for _ in range(draw(st.integers(1, 3)))]
    return groups, target, run_of(samples)


@pytest.mark.parametrize("name", MEASURES_WITH_BOUNDS)
@given(amortize=st.booleans(), world=worlds())
def test_the_default_is_between_worst_and_best(name, amortize, world):
    groups, target, run = world
    labels = qrels_of({d: i % 2 for i, d in enumerate(DOCS)})
    measure = registry.measures.get(name)(groups=groups, target=target, amortize=amortize) @ 4
    policies = measure.SUPPORTED_PARAMS["unlabeled"].choices
    values = {policy: value(measure(unlabeled=policy), labels, run) for policy in policies}
    for policy in set(policies) - {"best", "worst"}:
        if not np.isnan(values[policy]):
            assert values["worst"] - 1e-9 <= values[policy] <= values["best"] + 1e-9, policy
