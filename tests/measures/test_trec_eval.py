"""Labels that trec_eval cannot hold never reach it."""

import itertools
import re
import subprocess
import sys

import ir_measures
import pandas as pd
import pytest
from ir_measures import AP, NumRet, P, nDCG

from fairtk import E
from fairtk.errors import InputError
from fairtk.measures.foreign import LARGEST_LABEL, SafeTrecEval, safe_labels

RUN = {"q": {"a": 2.0, "b": 1.0}, "r": {"b": 1.0}}


def frame(labels):
    rows = [(q, d, label) for q, docs in labels.items() for d, label in docs.items()]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])


@pytest.mark.parametrize("form", [dict, frame], ids=["dict", "frame"])
@pytest.mark.parametrize("measure", [nDCG @ 5, AP, P(rel=3) @ 1, E(P(rel=2) @ 1)], ids=repr)
@pytest.mark.parametrize("large", [LARGEST_LABEL + 1, 2**31, 2**53, 2**62])
def test_labels_that_trec_eval_cannot_hold_are_refused(form, measure, large):
    labels = {"q": {"a": 1, "b": large}, "r": {"b": 0}}
    name = re.escape(repr(getattr(measure, "inner", measure)))
    with pytest.raises(InputError, match=rf"{name}.*({large} .*'q', docno 'b'|'b' is {large})"):
        ir_measures.calc_aggregate([measure], form(labels), RUN)


def test_a_query_whose_labels_are_all_negative():
    # stops the process in pytrec_eval itself, so it is asked in another one
    code = (
        "import fairtk, ir_measures; from ir_measures import *\n"
        "labels = {'q': {'a': -1, 'b': -2}, 'r': {'b': 1}}\n"
        "run = {'q': {'a': 2.0, 'b': 1.0}, 'r': {'b': 1.0}}\n"
        "for _ in range(200): got = ir_measures.calc_aggregate([nDCG, AP, P@1], labels, run)\n"
        "print(sorted(got.values()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[0.5, 0.5, 0.5]\n"), done.stderr


def test_retrieved_documents_are_counted_beside_measures_of_judged_ones():
    # ir_measures counts them where the first measure of a set counts, in an order that differs
    # from process to process
    measures = [nDCG(judged_only=True) @ 3, P(judged_only=True) @ 1, NumRet, NumRet(rel=1)]
    labels = {"q": {"a": 1}, "r": {"b": -1}}
    run = {"q": {"a": 1.0, "x": 2.0}, "r": {"b": 1.0, "y": 2.0, "z": 0.0}}
    for asked in itertools.permutations(measures):
        got = SafeTrecEval().calc_aggregate(asked, labels, run)
        assert [got[m] for m in measures] == [0.5, 0.5, 5, 1]  # nothing is relevant for r


def test_negative_labels_beside_others_stay_negative():
    labels = {"q": {"a": -2, "b": LARGEST_LABEL}, "r": {}, "s": {"a": -2, "b": -1}}
    assert safe_labels([nDCG], labels) == {**labels, "s": {"a": 0, "b": 0}}
    # trec_eval leaves a document with a negative label out of the judged ones
    measure, judged = P(judged_only=True) @ 1, {"q": {"a": -2, "b": 1}}
    assert ir_measures.calc_aggregate([measure], judged, RUN) == {measure: 1.0}


def test_rows_of_labels_keep_their_iteration():
    rows = [ir_measures.Qrel("q", "a", 1, "x"), ir_measures.Qrel("q", "b", 0, "x")]
    run = [ir_measures.ScoredDoc("q", d, s) for d, s in (("b", 2.0), ("a", 1.0))]
    assert ir_measures.calc_aggregate([AP], rows, run) == {AP: 0.5}  # a at the second rank
