"""Captions of tables in which no test was possible, and of one query."""

import warnings

import pandas as pd
import pytest
from ir_measures import RR, P

import fairtk

QIDS = [f"q{i}" for i in range(4)]
QRELS = pd.DataFrame([(q, "d0", 1) for q in QIDS], columns=["qid", "docno", "label"])


def run(*docnos):
    rows = [(q, d, -float(i)) for q in QIDS for i, d in enumerate(docnos)]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


FIRST, SECOND = run("d0", "d1"), run("d1", "d0")
CASES = {
    "one query": (QRELS[:1], [FIRST[:2], SECOND[:2]], True),
    "equal systems": (QRELS, [FIRST, FIRST], False),
    "equal differences": (QRELS, [FIRST, SECOND], True),
    "no value": (QRELS.assign(label=0), [FIRST, SECOND], False),
}


@pytest.mark.parametrize("baseline", [None, "run 1"])
@pytest.mark.parametrize(("qrels", "runs", "is_bold"), CASES.values(), ids=CASES)
def test_captions_have_no_test_that_was_not_made(qrels, runs, is_bold, baseline, tmp_path):
    measure = RR @ 2 if qrels["label"].any() else fairtk.EE_R @ 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared = fairtk.compare(qrels, runs, measure, baseline=baseline)
        texts = [compared.to_latex(), compared.to_markdown(), compared.to_latex(pairs=True)]
        compared.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    n = "1 query" if len(qrels) == 1 else "4 queries"
    for text in texts:
        assert f"Means over {n}" in text and "No test was possible." in text
        assert ("is bold" in text) == is_bold == ("textbf" in text or "**" in text)
        for word in ("two-sided", "uperscript", "better", "worse", "<sup>"):
            assert word not in text
    for text in (repr(compared), page):
        assert "o test was possible" in text
        assert "two-sided" not in text and "ignificant" not in text.replace("is-significant", "")


def test_means_that_are_equal_as_shown_are_not_bold():
    """Means 0.5 of two systems that differ in some queries: their test has a value."""
    one = pd.concat([FIRST[:4], SECOND[4:].query("docno == 'd1'")])
    other = pd.concat([FIRST[4:], SECOND[:4].query("docno == 'd1'")])
    text = fairtk.evaluate(QRELS, {"one": one, "other": other}, P @ 1).to_latex()
    assert "Means. Superscript letters" in text and "bold" not in text and "textbf" not in text


def test_one_query_is_singular():
    alone = fairtk.evaluate(QRELS[:1], {"a": FIRST[:2]}, RR @ 2)
    for text in (alone.to_latex(), alone.to_markdown()):
        assert "Means over 1 query." in text
    curve = fairtk.frontier(QRELS[:1], {"a": FIRST[:2]}, alphas=[0], resamples=5)
    assert "1 query\n" in repr(curve) and "1 queries" not in repr(curve)
