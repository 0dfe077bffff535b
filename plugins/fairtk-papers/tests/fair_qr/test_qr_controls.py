"""The placebo, drift and its warnings, and the paired comparison."""

from __future__ import annotations

import json
import math
import warnings

import pandas as pd
import pytest
import qr_world
from fairtk_papers.fair_qr.report import all_tables
from fairtk_papers.fair_qr.stages import SystemResults
from fairtk_papers.fair_qr.systems import Cell, RandomTerms, middle_words, random_terms
from fairtk_papers.fair_qr.values import drift_warning, overlap, same_answers, share_of_words_kept

from fairtk.errors import DataWarning
from fairtk.llm import Chat, KeywordRefiner, Message

SYSTEMS = ("fair-qr", "fair-qr + exposure re-ranking", "random-terms")


@pytest.fixture(scope="module")
def results(gender, tmp_path_factory):
    folder = tmp_path_factory.mktemp("controls")
    return qr_world.study(gender, folder, KeywordRefiner(terms=1), systems=SYSTEMS).run()


def asked(keywords, query="one two"):
    facts = {"query": query, "keywords": keywords, "group": ["f"], "attribute": "gender"}
    return Chat((Message("user", "x"),), facts)


def answer(model, chat):
    [(_, completion)] = model.outcomes([chat])
    return json.loads(completion.text)


def test_as_many_words_as_the_model_added_by_seed_and_query():
    vocabulary = [f"w{n}" for n in range(50)]
    model = RandomTerms(vocabulary, {"one two": [2, 5]}, seed=1)
    first = answer(model, asked("one two"))
    assert first[:2] == ["one", "two"] and len(first) == 4 and set(first[2:]) <= set(vocabulary)
    second = answer(model, asked(" ".join(first)))
    assert second[:4] == first and len(set(second)) == 9
    assert len(answer(model, asked(" ".join(second)))) == 9 + 3  # as usual, where it was not asked
    again = [answer(RandomTerms(vocabulary, {}, seed), asked("one two")) for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2] and len(again[0]) == 5
    few = RandomTerms(["one", "w"], {})
    assert answer(few, asked("one two")) == ["one", "two", "w"]


def test_words_of_middle_frequency():
    docs = [{"text": f"always often{'' if n % 20 else ' middle'} rare{n} 1999"} for n in range(200)]
    # always: 200 documents, middle: 10 of 2 to 20, rare: 1; and a number
    assert middle_words(docs, None) == ["middle"]
    assert middle_words([{"text": "alone"}], None) == ["alone"]


def test_the_placebo_adds_as_many_words_as_the_model(results):
    traces = results.traces
    counts = {}
    for system in ("fair-qr", "random-terms"):
        rows = traces[(traces["system"] == system) & (traces["iteration"] == 1)]
        counts[system] = rows.set_index("qid")["added"].str.split().str.len().to_dict()
    assert counts["random-terms"] == counts["fair-qr"] and set(counts["fair-qr"].values()) == {1}
    added = set(traces.loc[traces["system"] == "random-terms", "added"]) - {""}
    assert not added & {"woman", "women", "female"} and len(added) > 2


def test_word_counts_of_the_placebo_are_those_of_the_refinements(gender):
    """The first row of a trace is the search before any refinement: it added no words."""
    qid, query = gender.topics[["qid", "query"]].iloc[0]
    rows = [(qid, 0, ""), (qid, 1, "a b"), (qid, 2, "c d e")]
    trace = pd.DataFrame(rows, columns=["qid", "iteration", "added"])
    none = pd.DataFrame(columns=["qid"])
    traces = {
        Cell("gender", "fair-qr"): trace,
        Cell("gender", "fair-qr", "depth", 5): trace,  # a variation
        Cell("geography", "fair-qr"): trace,
        Cell("gender", "fair-qr (no re-ranking)"): trace,
    }
    placebo = Cell("gender", "random-terms")
    assert random_terms(gender, None, traces, placebo, 1).counts == {query: [2, 3]}
    assert random_terms(gender, None, {Cell("gender", "fair-qr"): none}, placebo, 1).counts == {}


def test_paired_rows(results):
    controls = results.controls.set_index(["system", "against", "measure"])["difference"]
    means = results.table.set_index("system")
    for system, other in (("fair-qr", "bm25"), ("fair-qr", "random-terms")):
        for measure in ("nDCG", "AWRF", "nDCG x AWRF"):
            expected = means.loc[system, measure] - means.loc[other, measure]
            assert controls[system, other, measure] == pytest.approx(expected, abs=1e-12)
    assert len(all_tables(results)["controls"].rows) == 5
    rows = results.controls.dropna(subset=["low", "high"])
    assert (rows["low"] <= rows["difference"]).all() and (rows["low"] < rows["high"]).all()
    assert len(rows) and (rows["difference"] <= rows["high"]).all()


def test_drift_by_hand():
    trace = pd.DataFrame(
        [("1", 0, "a b c d", True), ("1", 1, "A b x", True), ("1", 2, "y", False),
         ("2", 0, "a b", True)],
        columns=["qid", "iteration", "query", "kept"],
    )  # fmt: skip
    # "A b" of "a b c d" are a half; the second query was not refined, and does not count
    assert share_of_words_kept(trace) == pytest.approx(0.5)
    assert math.isnan(share_of_words_kept(trace.iloc[:0]))
    first = pd.DataFrame(
        [("1", "a", 0), ("1", "b", 1), ("1", "c", 2), ("2", "a", 0)],
        columns=["qid", "docno", "rank"],
    )
    run = pd.DataFrame([("1", "b", 0), ("1", "c", 1)], columns=["qid", "docno", "rank"])
    # of the first two, b is shared; query 2 has nothing left
    assert overlap(run, first, 2) == pytest.approx((0.5 + 0.0) / 2)
    assert overlap(first, first, 2) == 1.0


def test_drift_of_a_study(results):
    drift = results.drift.set_index("system")
    assert drift.loc["fair-qr", "words kept"] == 1.0 and "bm25" not in drift.index
    row = drift.loc["fair-qr"]
    assert row["lost per gained"] == pytest.approx(row["nDCG lost"] / row["AWRF gained"])
    assert not any(text.startswith("drift") for text in results.warnings)
    paid = results.costs.set_index("system")[["calls", "price", "model seconds"]]
    assert paid.loc["fair-qr", "calls"] > 0  # the placebo goes round as often, and asks no model
    assert paid.loc["random-terms"].tolist() == [0, 0, 0]
    assert len(all_tables(results)["drift"].rows) == 3


def test_a_model_that_answers_the_same_for_all_is_warned_of(gender, tmp_path):
    def model(prompts):
        return ["woman man"] * len(prompts)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        results = qr_world.study(gender, tmp_path, model, systems=("fair-qr",)).run()
    [said] = [text for text in results.warnings if text.startswith("drift")]
    assert "has the answer 'woman man' for all 8 topics" in said
    assert math.isnan(results.drift["words kept"][0])  # its lists were not kept


def test_the_model_beside_the_first_is_watched_too():
    rows = [{"qid": q, "iteration": i, "query": "x"} for q in "abc" for i in (0, 1)]
    records = {q: {"trace": [row for row in rows if row["qid"] == q]} for q in "abc"}
    cells = [Cell("gender", name, model="tiny") for name in ("fair-qr", "random-terms")]
    reasons = same_answers({cell: SystemResults(pd.DataFrame(), records) for cell in cells})
    assert reasons == {("gender", "fair-qr [tiny]"): "has the answer 'x' for all 3 topics"}


def test_below_which_a_warning_comes():
    columns = ["attribute", "system", "words kept", "overlap"]
    rows = [
        ("gender", "fair-qr", 0.49, 0.24),
        ("gender", "mmr", math.nan, 0.1),  # whose query stays
        ("geography", "fair-qr", 0.5, 0.25),
        ("geography", "random-terms", 1.0, 0.2),
    ]
    same = {("geography", "fair-qr"): "has the answer 'x' for all 3 topics"}
    message = drift_warning(pd.DataFrame(rows, columns=columns), same, 20)
    assert "in 3 of 4 systems" in message and "mmr" not in message
    for fact in (
        "fair-qr for gender keeps 49% of the original words, shares 24% of BM25's",
        "fair-qr for geography has the answer 'x' for all 3 topics",
        "random-terms for geography shares 20% of BM25's top 20",
    ):
        assert fact in message
    assert drift_warning(pd.DataFrame(rows[2:3], columns=columns), {}, 20) == ""
