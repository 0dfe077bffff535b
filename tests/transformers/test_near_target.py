"""Re-ranking by relevance and exposure: by hand, against a plain loop, and inside FAIR-QR."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_fair_qr import GROUPS, HALF, fair_qr, topics

from fairtk import Target
from fairtk.errors import ParameterError
from fairtk.groups.divergences import js_divergence
from fairtk.groups.rows import SparseRows
from fairtk.measures import AWRF
from fairtk.transformers.fair_qr import ordering as near_target
from fairtk.transformers.fair_qr.ordering import exposure_order


def closeness(exposure, target):
    """Return 1 - JSD by the room that AWRF uses; None: no exposure."""
    if not exposure.any():
        return None
    n = len(exposure)
    zero, cells = np.zeros(n, dtype=np.int64), np.arange(n)
    rows = [SparseRows.collect(zero, cells, values, 1, n) for values in (exposure, target)]
    return 1.0 - js_divergence(*rows)[0]


def plainly(relevance, member, target, attention, weight, floor):
    """Return the same order by looking at every document at every rank."""
    left, chosen, gained = list(range(len(relevance))), [], 0.0
    exposure = np.zeros(member.shape[1])
    attention = attention[: len(relevance)]
    least = floor * sum(a * r for a, r in zip(attention, relevance, strict=False))
    for rank, now in enumerate(attention):
        near = {d: closeness(exposure + now * member[d], target) for d in left}
        most = max((v for v in near.values() if v is not None), default=1.0)
        values = {}
        for d in left:
            later = [relevance[o] for o in left if o != d]
            gain = gained + now * relevance[d]
            if gain + sum(a * r for a, r in zip(attention[rank + 1 :], later, strict=False)) >= (
                least - 1e-12
            ):
                values[d] = gain * (most if near[d] is None else near[d]) ** weight
        best = min(d for d in values if values[d] >= max(values.values()) - 1e-12)
        left.remove(best)
        chosen.append(best)
        gained += now * relevance[best]
        exposure = exposure + now * member[best]
    return [*chosen, *left]


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, groups = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    member = (rng.random((n, groups)) < 0.4).astype(float)
    if draw(st.booleans()):
        member *= rng.random((n, groups))
    relevance = np.sort(rng.integers(0, 5, n) / 4.0)[::-1]
    depth = draw(st.integers(1, 6))
    attention = 1.0 / np.log2(np.maximum(np.arange(1, depth + 1), 2))
    target = rng.dirichlet(np.ones(groups))
    weight = draw(st.sampled_from([0.0, 0.5, 1.0, 4.0]))
    return relevance, member, target, attention, weight, draw(st.sampled_from([0, 0.5, 0.9, 1]))


@given(cases(), st.sampled_from([0, 2000]))
def test_the_order_is_that_of_a_plain_loop_and_keeps_the_floor(case, many):
    relevance, _, _, attention, _, floor = case
    with mock.patch.object(near_target, "_MANY", many):  # 0: the best are found by bounds
        order = exposure_order(*case)
    assert order.tolist() == plainly(*case)
    top = attention[: len(order)]
    relevance_sum = top @ relevance[order][: len(top)]
    assert relevance_sum >= floor * (top @ relevance[: len(top)]) - 1e-9


def test_groups_without_documents_keep_their_share_of_the_target():
    attention = np.array([1.0, 1.0])
    member = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    quarters = np.array([0.25, 0.25])  # the other half belongs to a group without documents
    # The entropy of the target (1/4, 1/4, 1/2) is 1.0397. Closeness after rank 2, 1 - JSD:
    # of documents 0 and 1, (1, 0, 0): 1 - (H(5/8, 1/8, 1/4) - (0 + 1.0397) / 2)
    #   = 1 - (.9003 - .5199) = .6196;
    # of documents 0 and 2, (1/2, 1/2, 0): 1 - (H(3/8, 3/8, 1/4) - (.6931 + 1.0397) / 2)
    #   = 1 - (1.0822 - .8664) = .7842.
    # 1.8 x .6196 = 1.1153 is more than 1.4 x .7842 = 1.0979, and less than 1.45 x .7842 = 1.1371.
    for last, order in ((0.4, [0, 1, 2]), (0.45, [0, 2, 1])):
        relevance = np.array([1.0, 0.8, last])
        assert exposure_order(relevance, member, quarters, attention, 1.0, 0.0).tolist() == order


def test_fair_qr_comes_near_the_target_and_keeps_the_rest_of_the_pool():
    system = fair_qr(rerank="exposure", depth=4, max_iterations=0, weight=30, floor=0.0)
    out = system(topics())
    # four men come first by relevance; of the ranks that are measured, two are women's now
    for _, own in out.groupby("qid"):
        kinds = ["f" if int(docno[1]) > 3 else "m" for docno in own["docno"]]
        assert sorted(kinds[:4]) == ["f", "f", "m", "m"] and len(own) == 6
        assert own["rank"].tolist() == list(range(6))
        assert own["score"].tolist() == [0.0, -1.0, -2.0, -3.0, -4.0, -5.0]
    trace = system.trace.set_index("qid")
    run = pd.DataFrame({"query_id": out["qid"], "doc_id": out["docno"], "score": out["score"]})
    qrels = pd.DataFrame({"query_id": ["1", "2"], "doc_id": ["s0", "c0"], "relevance": [1, 1]})
    for value in (AWRF(groups=GROUPS, target=HALF) @ 4).iter_calc(qrels, run):
        assert trace.loc[value.query_id, "AWRF_reranked"] == pytest.approx(value.value, abs=1e-9)
        assert value.value > trace.loc[value.query_id, "AWRF"]


def test_what_the_first_list_lacks_is_the_least_relevant():
    class FirstFour:  # the original words find men alone
        def __init__(self, inner):
            self.inner = inner

        def transform(self, inp):
            found = self.inner.transform(inp)
            few = found["query"].isin(["ships", "chess"]) & (found["rank"] > 3)
            return found[~few].reset_index(drop=True)

    system = fair_qr(depth=3, rerank="exposure", floor=0.0)
    system.retriever = FirstFour(system.retriever)
    out = system(topics(("1", "ships")))
    # the refined query, "ships woman", finds women, of ships and of chess
    assert out["docno"].iloc[0] == "s0" and set(out["docno"].iloc[:3]) & {"s4", "s5", "c4", "c5"}
    assert set(out["docno"].iloc[3:]) > {"s1", "s2", "s3"} - set(out["docno"].iloc[:3])


def test_without_a_target_or_a_group_the_order_of_relevance_stays():
    plain = fair_qr(max_iterations=0, k=6)(topics())["docno"].tolist()
    bare = Target.from_frame(
        pd.DataFrame({"qid": ["9", "9"], "group": ["f", "m"], "weight": [0.5, 0.5]}), GROUPS
    )
    with pytest.warns(match="no target"):
        out = fair_qr(rerank="exposure", target=bare)(topics())
    assert out["docno"].tolist() == plain


@pytest.mark.parametrize(
    "options",
    [
        {"rerank": "exposures"},
        {"rerank": 0},
        {"weight": -1},
        {"weight": math.nan},
        {"floor": 1.1},
    ],
)
def test_settings_out_of_range(options):
    with pytest.raises(ParameterError, match=rf"\b{[*options][-1]}\b"):
        fair_qr(**options)


def test_defaults_follow_how_the_pool_is_ordered():
    assert fair_qr() == fair_qr(rerank="relevance", pool="last", k=3)
    by_exposure = fair_qr(rerank="exposure")
    assert by_exposure == fair_qr(rerank="exposure", pool="union", k=200)
    assert by_exposure != fair_qr(rerank="exposure", weight=2.0)
