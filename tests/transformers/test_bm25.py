"""BM25 inside each query's candidates: the published numbers, and what they must not depend on."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairtk import BM25Scorer
from fairtk.errors import InputError, ParameterError
from fairtk.transformers import scorers as bm25

# small collections have equal scores
pytestmark = pytest.mark.filterwarnings("ignore:.*all scores of:fairtk.errors.DataWarning")


def frame(cases):
    """Return R from (qid, query, texts)."""
    rows = [
        (qid, query, f"d{i:03}", text)
        for qid, query, texts in cases
        for i, text in enumerate(texts)
    ]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "text"])


def scores(out, qid):
    return out[out["qid"] == qid].sort_values("docno")["score"].to_numpy()


@pytest.fixture(scope="module")
def published(golden_cases):
    run = frame((str(c["id"]), c["query"], c["corpus"]) for c in golden_cases)
    return BM25Scorer()(run)


@pytest.fixture(scope="module")
def golden_cases(request):
    return request.getfixturevalue("golden")("bm25_profile")["cases"]


def test_scores_agree_with_the_published_code_in_one_call(published, golden_cases):
    assert len(golden_cases) == 52
    for case in golden_cases:
        found = scores(published, str(case["id"]))
        if "error" in case:
            # the published code divides by zero; here nothing matches, so all scores are 0
            assert found.tolist() == [0.0] * len(case["corpus"]), case["tag"]
        else:
            np.testing.assert_allclose(found, case["scores"], rtol=0, atol=1e-9)


WORDS = st.lists(st.sampled_from(["a", "b", "c", "A", "d.", "é"]), max_size=6).map(" ".join)
RUNS = st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=6)), min_size=1, max_size=5)


def simple_bm25(query, texts, k1=1.5, b=0.75, epsilon=0.25):
    """The formula, word by word."""
    docs = [t.split() for t in texts]
    mean_length = sum(map(len, docs)) / len(docs)
    df = {w: sum(w in d for d in docs) for d in docs for w in d}
    raw = {w: math.log(len(docs) - n + 0.5) - math.log(n + 0.5) for w, n in df.items()}
    mean = sum(raw.values()) / max(len(raw), 1)
    total = [0.0] * len(docs)
    for word in query.split():
        for i, doc in enumerate(docs):
            tf = doc.count(word)
            if tf:
                idf = raw[word] if raw[word] >= 0 else epsilon * mean
                norm = tf + k1 * (1 - b + b * len(doc) / mean_length)
                total[i] += idf * tf * (k1 + 1) / norm
    return total


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "k1": st.sampled_from([0, 1.2, 3]),
        "b": st.sampled_from([0, 0.5, 1]),
        "epsilon": st.sampled_from([0, 0.5, 1]),
    },
)


@given(RUNS, SETTINGS, st.randoms(use_true_random=False))
def test_any_run(cases, options, random):
    run = frame((f"q{i}", query, texts) for i, (query, texts) in enumerate(cases))
    scorer = BM25Scorer(**options)
    out = scorer(run)
    for i, (query, texts) in enumerate(cases):
        expected = simple_bm25(query, texts, **options)
        np.testing.assert_allclose(scores(out, f"q{i}"), expected, atol=1e-12)
    # the order of rows carries no meaning
    order = random.sample(range(len(run)), len(run))
    again = scorer(run.iloc[order]).sort_values(["qid", "rank"])
    columns = ["qid", "docno", "score", "rank"]
    expected = out.sort_values(["qid", "rank"])[columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(again[columns].reset_index(drop=True), expected, check_exact=True)
    # nor do the other queries, to the last bit
    for qid, part in run.groupby("qid"):
        alone = scorer(part)
        expected = out.loc[out["qid"] == qid, columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(alone[columns], expected, check_exact=True)


def test_blocks_of_queries_change_nothing(monkeypatch, published, golden_cases):
    run = frame((str(c["id"]), c["query"], c["corpus"]) for c in golden_cases)
    for size in (1, 500, 5000):
        monkeypatch.setattr(bm25, "_BLOCK_CHARACTERS", size)
        pd.testing.assert_frame_equal(BM25Scorer()(run), published, check_exact=True)


def test_ranks_and_ties():
    run = frame([("q2", "a", ["x", "a", "y"]), ("q1", "a", ["z", "w"])])
    out = BM25Scorer()(run.assign(score=7.0, rank=[2, 0, 1, 1, 0], title="kept"))
    assert out["qid"].tolist() == ["q2", "q2", "q2", "q1", "q1"]  # order of first appearance
    assert out["rank"].tolist() == [0, 1, 2, 0, 1]
    # ties by docno, descending
    assert out["docno"].tolist() == ["d001", "d002", "d000", "d001", "d000"]
    assert list(out.columns) == ["qid", "query", "docno", "text", "score", "rank", "title"]
    assert out["title"].eq("kept").all()


def test_tokenize():
    run = frame([("q", "Tea", ["tea cup", "coffee", "pot", "pan", "jar"])])
    assert scores(BM25Scorer()(run), "q").tolist() == [0.0] * 5
    lower = BM25Scorer(tokenize=lambda text: text.lower().split())
    assert scores(lower(run), "q")[0] > 0
    assert repr(BM25Scorer()) == "BM25Scorer(k1=1.5, b=0.75, epsilon=0.25, tokenize='whitespace')"


@pytest.mark.parametrize("bad", [None, float("nan"), 3])
def test_missing_texts_are_named(bad):
    run = frame([("q1", "a", ["a"]), ("q2", "a", ["a", "b"])]).astype(object)
    run.loc[2, "text"] = bad
    with pytest.raises(InputError, match="qid 'q2'.*docno 'd001'"):
        BM25Scorer()(run)


def test_bad_queries_are_named():
    run = frame([("q1", "a", ["a", "b"])])
    with pytest.raises(InputError, match="qid 'q1'.*'c'"):
        BM25Scorer()(run.assign(query=["a", "c"]))
    with pytest.raises(InputError, match="qid 'q1'.*docno 'd001'"):
        BM25Scorer()(run.assign(query=["a", None]))


@pytest.mark.parametrize(
    "setting",
    [
        {"k1": float("nan")},
        {"b": 1.5},
        {"epsilon": -0.1},
        {"tokenize": "stem"},
    ],
)
def test_bad_settings(setting):
    with pytest.raises(ParameterError, match=rf"\b{[*setting][-1]}\b"):
        BM25Scorer(**setting)
