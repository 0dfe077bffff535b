"""Queries are measured in blocks, whose size changes no value and no remark."""

import warnings
from dataclasses import asdict

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fairtk
from fairtk.experiment import values

QIDS = [f"q{i}" for i in range(6)]
DOCNOS = [f"d{i}" for i in range(7)]
GROUPS = fairtk.Groups.from_frame(
    pd.DataFrame({"docno": ["d0", "d1", "d2", "d4"], "group": ["f", "m", "f", "m"]}), "of blocks"
)
MEASURES = [
    fairtk.EE_D @ 3,
    fairtk.EE_R @ 3,
    fairtk.EE_L(browsing="RBP(p=0.8)", normalize=False),
    fairtk.AWRF(groups=GROUPS, target="uniform") @ 3,
    fairtk.measures.parse("E(nDCG@3)"),
    fairtk.measures.parse("E(P@2)"),
    fairtk.measures.parse("EE_R@3 * E(P@2)"),
]


@st.composite
def worlds(draw):
    """Return labels, and two runs with other queries, lengths and numbers of samples."""
    labels = [
        (qid, docno, draw(st.integers(-1, 2)))
        for qid in QIDS
        for docno in draw(st.lists(st.sampled_from(DOCNOS), unique=True, min_size=1))
    ]
    runs = {}
    for name in ("one", "other"):
        rows = []
        for qid in draw(st.lists(st.sampled_from(QIDS), unique=True, min_size=1)):
            for sample in range(draw(st.integers(1, 2))):
                order = draw(st.permutations(DOCNOS))[: draw(st.integers(1, 5))]
                rows += [(qid, sample, d, float(-i), i) for i, d in enumerate(order)]
        runs[name] = pd.DataFrame(rows, columns=["qid", "sample", "docno", "score", "rank"])
    return pd.DataFrame(labels, columns=["qid", "docno", "label"]), runs


def measured(labels, runs, size):
    topics = pd.DataFrame({"qid": QIDS, "query": QIDS})
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", fairtk.errors.FairtkWarning)
        patch.setattr(values, "_BLOCK", size)
        results = fairtk.Experiment(runs, topics, labels, MEASURES)
    return results, [asdict(remark) for remark in results.remarks]


def short_rankings_of_other_documents():
    """Return labels and runs that together have three documents of q3, and each alone two."""
    labels = [(qid, docno, 1) for qid in QIDS for docno in ("d0", "d1", "d2")]
    labels = [row for row in labels if row[0] != "q3" or row[1] == "d0"]
    one = [(qid, docno, -float(i)) for qid in QIDS for i, docno in enumerate(("d0", "d1"))]
    other = [(qid, "d2", 0.0) for qid in QIDS]
    columns = ["qid", "docno", "score"]
    runs = {"one": one, "other": other}
    return (
        pd.DataFrame(labels, columns=["qid", "docno", "label"]),
        {name: pd.DataFrame(rows, columns=columns) for name, rows in runs.items()},
    )


@settings(max_examples=5)
@example(short_rankings_of_other_documents())
@given(worlds())
def test_blocks_of_any_size_are_the_whole(world):
    assert all(map(values._by_query, MEASURES))  # otherwise there is one block
    whole, remarks = measured(*world, len(QIDS))
    for size in (1, 4):
        results, again = measured(*world, size)
        pd.testing.assert_frame_equal(results.per_query, whole.per_query, check_exact=True)
        pd.testing.assert_frame_equal(results.means, whole.means, check_exact=True)
        pd.testing.assert_frame_equal(results.undefined, whole.undefined)
        assert again == remarks
